// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The last times that the kernel ended the scheduler, for `status` and `check` after a restart.
//!
//! # Approach
//! A file in the run directory, private to root, has a line of JSON for each of the last [`KEPT`]
//! times. Each write replaces the whole file. The directory is emptied at boot, so every entry is
//! of this boot.
//!
//! # Invariants
//! Any bytes give a list: invalid lines are skipped. A reason contains names of tasks, so control
//! characters are removed from it.

use std::io::{ErrorKind, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::boot_time;
use crate::figures::duration;
use crate::safefile;

/// Most ejections that are kept.
pub const KEPT: usize = 5;
const FILE: &str = "ejections";

/// An end of the scheduler by the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ejection {
    /// Time by the present wall clock [ms since 1970].
    pub at_ms: u64,
    /// Reason, in the kernel's words.
    pub reason: String,
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct StoredEnd {
    /// Time since boot [ms], which steps of the wall clock do not change.
    boot_ms: u64,
    reason: String,
}

/// Append an ejection at the present time to those in `directory`, which is created if it is
/// missing.
///
/// # Errors
/// The error of the write. The file is then unchanged.
pub fn remember(directory: &Path, reason: &str) -> std::io::Result<()> {
    safefile::private_directory(directory)?;
    let mut all = read(directory);
    all.push(StoredEnd { boot_ms: boot_time::now_ms(), reason: reason.replace(char::is_control, "?") });
    let mut text = String::new();
    for line in all.iter().skip(all.len().saturating_sub(KEPT)) {
        text += &serde_json::to_string(line)?;
        text.push('\n');
    }
    let (path, new) = (directory.join(FILE), directory.join("ejections.new"));
    match std::fs::remove_file(&new) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    safefile::private().write(true).create_new(true).open(&new)?.write_all(text.as_bytes())?;
    std::fs::rename(new, path)
}

/// Return the last ejections in `directory`, newest last; none if there is no file that this user
/// may read.
#[must_use]
pub fn last(directory: &Path) -> Vec<Ejection> {
    let all = read(directory);
    let surplus = all.len().saturating_sub(KEPT);
    let ejection =
        |line: StoredEnd| Ejection { at_ms: boot_time::to_wall_ms(line.boot_ms), reason: line.reason };
    all.into_iter().skip(surplus).map(ejection).collect()
}

fn read(directory: &Path) -> Vec<StoredEnd> {
    let text = safefile::read_own_text(&directory.join(FILE), "record of ejections").unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Return a line for each ejection, newest last.
#[must_use]
pub fn lines(ejections: &[Ejection], now_ms: u64) -> Vec<String> {
    let ago = |at_ms| duration(now_ms.saturating_sub(at_ms) / 1000);
    let line = |ejection: &Ejection| format!("{} ago: {}", ago(ejection.at_ms), ejection.reason);
    ejections.iter().map(line).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::PermissionsExt;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn the_last_ejections_are_kept_in_order(reasons in prop::collection::vec("\\PC{0,40}", 0..9)) {
            let directory = tempfile::tempdir().unwrap();
            let run = directory.path().join("run");
            reasons.iter().for_each(|reason| remember(&run, reason).unwrap());
            let kept: Vec<String> = last(&run).into_iter().map(|ejection| ejection.reason).collect();
            prop_assert_eq!(&kept[..], &reasons[reasons.len().saturating_sub(KEPT)..]);
        }

        #[test]
        fn any_text_gives_a_list(text in "(\\PC|\n){0,200}") {
            let directory = tempfile::tempdir().unwrap();
            std::fs::write(directory.path().join(FILE), text).unwrap();
            prop_assert!(last(directory.path()).len() <= KEPT);
        }
    }

    #[test]
    fn the_file_is_private_and_follows_no_link() {
        let directory = tempfile::tempdir().unwrap();
        let run = directory.path().join("run");
        std::fs::write(directory.path().join("other"), "").unwrap();
        std::fs::create_dir(&run).unwrap();
        std::os::unix::fs::symlink(directory.path().join("other"), run.join("ejections.new")).unwrap();
        remember(&run, "runnable task stall\x1b[2J\n").unwrap();
        assert_eq!(run.join(FILE).metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read(directory.path().join("other")).unwrap(), b"");
        let written = last(&run);
        assert_eq!(written[0].reason, "runnable task stall?[2J?");
        assert!(boot_time::wall_ms() - written[0].at_ms < 3_600_000);
        std::fs::set_permissions(&run, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(remember(&run, "x").is_err(), "others can write there");
    }

    #[test]
    fn each_ejection_is_listed_with_its_age() {
        let ejections = [Ejection { at_ms: 1000, reason: "runnable task stall".to_owned() }];
        assert_eq!(lines(&ejections, 66_000), ["1 min 5 s ago: runnable task stall"]);
        // The clock was set back.
        assert_eq!(lines(&ejections, 0), ["0 s ago: runnable task stall"]);
    }
}
