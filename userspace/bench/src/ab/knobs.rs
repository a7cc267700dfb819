// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Time constants of the default scheduler.
//!
//! # Problem
//! Where a machine's time is stretched, its slices must be stretched too. Otherwise the default
//! scheduler switches fifty times as often per instruction as on hardware, and performs worse.
//!
//! # Approach
//! `/sys/kernel/debug/sched` has EEVDF's slice and the kernel's estimate of a migration's cost.
//! They are multiplied while an arm without its own scheduler is active. Dropping [`Knobs`]
//! restores them.
//!
//! # Limits
//! A kernel without debugfs or without these files keeps its constants. [`Knobs::changed`] shows
//! that.

use crate::{Error, Result};
use std::path::{Path, PathBuf};

/// Files that hold a time.
const FILES: [&str; 2] = ["base_slice_ns", "migration_cost_ns"];

/// Changed constants. Dropping this restores them.
pub struct Knobs {
    original: Vec<(PathBuf, u64)>,
}

impl Knobs {
    /// Multiply this machine's constants by `factor`.
    pub fn stretch(factor: f64) -> Result<Self> {
        Self::stretch_in(Path::new("/sys/kernel/debug/sched"), factor)
    }

    /// Multiply the constants below `directory` by `factor`. A factor of 1 changes nothing.
    pub fn stretch_in(directory: &Path, factor: f64) -> Result<Self> {
        let mut knobs = Knobs { original: Vec::new() };
        if (factor - 1.0).abs() < 1e-9 {
            return Ok(knobs);
        }
        for name in FILES {
            let path = directory.join(name);
            let Some(value) =
                std::fs::read_to_string(&path).ok().and_then(|text| text.trim().parse::<u64>().ok())
            else {
                continue;
            };
            let stretched = (value as f64 * factor).round() as u64;
            let failed = |e| Error::failed(format!("setting {} to {stretched}", path.display()), e);
            std::fs::write(&path, stretched.to_string()).map_err(failed)?;
            knobs.original.push((path, value));
        }
        Ok(knobs)
    }

    /// Return the number of constants that were changed.
    pub fn changed(&self) -> usize {
        self.original.len()
    }
}

impl Drop for Knobs {
    fn drop(&mut self) {
        for (path, value) in &self.original {
            if let Err(e) = std::fs::write(path, value.to_string()) {
                eprintln!("bias-bench: {} could not be put back to {value}: {e}", path.display());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_stretched_and_put_back() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("base_slice_ns");
        std::fs::write(&file, "2800000\n").unwrap();
        let knobs = Knobs::stretch_in(dir.path(), 5.0).unwrap();
        assert_eq!(knobs.changed(), 1, "the other file does not exist");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "14000000");
        drop(knobs);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "2800000");
        assert_eq!(Knobs::stretch_in(dir.path(), 1.0).unwrap().changed(), 0);
    }
}
