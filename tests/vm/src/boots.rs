// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Count of boots in a test run, and of the schedulers that the guests loaded.
//!
//! Each run of a VM appends a line to a file, so that programs which a test starts count, too.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result};

use crate::build::target_directory;

/// Counts of a test run.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Boots {
    /// All boots.
    pub boots: u64,
    /// Those whose machine failed, and were repeated.
    pub repeated: u64,
    /// Schedulers that guests loaded.
    pub loads: u64,
}

fn path() -> PathBuf {
    target_directory().join("vm/boots")
}

/// Begin to count at zero.
///
/// # Errors
/// The file cannot be removed.
pub fn reset() -> Result<()> {
    match fs::remove_file(path()) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).context("cannot count boots")
        }
        _ => Ok(()),
    }
}

/// Count a boot, which failed or came up and then loaded this many schedulers.
pub(crate) fn count(failed: bool, loads: u64) {
    let file = fs::OpenOptions::new().create(true).append(true).open(path());
    // A missing count is no reason to fail a test.
    let _ = file.and_then(|mut file| file.write_all(format!("{} {loads}\n", u8::from(failed)).as_bytes()));
}

/// Return the counts since [`reset`].
#[must_use]
pub fn counted() -> Boots {
    parse(&fs::read_to_string(path()).unwrap_or_default())
}

fn parse(text: &str) -> Boots {
    let mut all = Boots::default();
    for (repeated, loads) in text.lines().filter_map(|line| line.split_once(' ')) {
        all.boots += 1;
        all.repeated += u64::from(repeated == "1");
        all.loads += loads.parse::<u64>().unwrap_or(0);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_summed() {
        assert_eq!(parse("0 2\n1 0\n0 3\n"), Boots { boots: 3, repeated: 1, loads: 5 });
        assert_eq!(parse(""), Boots::default());
    }
}
