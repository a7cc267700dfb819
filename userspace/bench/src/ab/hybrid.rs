// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! A kernel that knows of its unequal cores.
//!
//! # Problem
//! The kernel of the asymmetric VM considers all cores equal, unlike the kernel of a real hybrid.
//! One boot hosts several arms, so the knowledge must come and go with one arm.
//!
//! # Approach
//! The guest's module has a file that switches cpufreq, core priorities and capacities on and off
//! together. [`Hybrid`] writes 1 to that file, and restores the old value when it is dropped.
//!
//! # Limits
//! The kernel rebuilds its scheduling domains at each switch, which waits for grace periods. In the
//! VM the emulation should be suspended meanwhile. The kernel of a real hybrid has the knowledge
//! anyway, and no such file.

use crate::{Error, Result};
use std::path::{Path, PathBuf};

/// The module's switch.
const FILE: &str = "/sys/module/amp_pmu/parameters/hybrid";

/// Guard: the kernel knows of its unequal cores while this exists.
pub struct Hybrid {
    file: PathBuf,
    before: String,
}

impl Hybrid {
    /// Switch the knowledge of this machine's kernel on.
    pub fn on() -> Result<Self> {
        Self::on_in(Path::new(FILE))
    }

    fn on_in(file: &Path) -> Result<Self> {
        let before = std::fs::read_to_string(file).map_err(|_| {
            Error::Kernel(
                "default-hybrid needs the asymmetric VM's module amp_pmu, which is not loaded here; use --vm with --kernel 6.12, and plain default on a real hybrid"
                    .into(),
            )
        })?;
        std::fs::write(file, "1").map_err(|e| {
            Error::Kernel(format!(
                "this kernel does not accept that its cores are unequal ({e}); dmesg names what it lacks, kernel 6.12 of --vm has it all"
            ))
        })?;
        Ok(Hybrid { file: file.to_path_buf(), before: before.trim().to_string() })
    }
}

impl Drop for Hybrid {
    fn drop(&mut self) {
        if let Err(e) = std::fs::write(&self.file, &self.before) {
            eprintln!("bias-bench: {} could not be put back to {}: {e}", self.file.display(), self.before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_told_and_forgets() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("hybrid");
        std::fs::write(&file, "0\n").unwrap();
        let hybrid = Hybrid::on_in(&file).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "1");
        drop(hybrid);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "0");
    }

    #[test]
    fn a_kernel_without_the_module_is_named_with_the_remedy() {
        let dir = tempfile::tempdir().unwrap();
        let error = Hybrid::on_in(&dir.path().join("none")).err().unwrap().to_string();
        assert!(
            error.contains("amp_pmu") && error.contains("--kernel 6.12") && !error.contains('\n'),
            "{error}"
        );
    }
}
