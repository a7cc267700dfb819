// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Record that survives a crash: the housekeeping CPU and the homes that differ from all CPUs.
//!
//! # Approach
//!
//! A text file in the directory of the other record ([`crate::optin::journal`]), rewritten as a
//! whole, for it has few lines:
//!
//! ```text
//! scx_bias housekeeping 1 BOOT_ID
//! cpu CPU
//! workqueues MASK
//! home TID START CPULIST GIVEN_CPULIST
//! ```
//!
//! # Invariants
//!
//! Any bytes make a record or none, never an error. An invalid line is skipped. The running agent
//! holds a lock, so that no other process restores its threads.

use std::fmt::Write as _;
use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use super::homes::{Home, Homes};
use crate::cpulist;
use crate::failure::{Exit, Failure};
use crate::optin::reconcile::Tid;
use crate::safefile::{private, private_directory};

const FILE: &str = "housekeeping";
const LOCK: &str = "housekeeping.lock";
/// Start of the first line. The boot id follows.
const HEAD: &str = "scx_bias housekeeping 1 ";
/// Most bytes that are read.
const MAX_BYTES: u64 = 16 << 20;

/// Content of the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RememberedHomes {
    /// Housekeeping CPU.
    pub(super) cpu: u32,
    /// Mask of unbound workqueues before the start, None if the kernel has none.
    pub(super) workqueues: Option<String>,
    /// Homes other than all CPUs.
    pub(super) homes: Homes,
}

/// The file and its lock.
#[derive(Debug)]
pub(super) struct HomesFile {
    path: PathBuf,
    boot: String,
    /// Held as long as this exists.
    _lock: File,
}

impl HomesFile {
    /// Return true if `directory` holds a record, or cannot be searched.
    pub(super) fn exists(directory: &Path) -> bool {
        directory.join(FILE).try_exists().unwrap_or(true)
    }

    /// Lock the record in `directory`, which is made if there is none.
    ///
    /// # Errors
    /// Fail with [`Exit::OtherScheduler`] when a running scx_bias holds the lock. Otherwise fail
    /// with a kernel failure that names the problem of the directory.
    pub(super) fn open(directory: &Path, boot: &str) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| {
            let directory = directory.display();
            Failure::kernel(format!("cannot keep affinities in {directory}: {error}; run it as root"))
        };
        private_directory(directory).map_err(failed)?;
        let mut options = private();
        let lock = options.write(true).create(true).truncate(false).open(directory.join(LOCK));
        let lock = lock.map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let text = "another scx_bias with a housekeeping CPU is running; stop it first";
                return Err(Failure::new(Exit::OtherScheduler, text));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        Ok(Self { path: directory.join(FILE), boot: boot.to_owned(), _lock: lock })
    }

    /// Return the record, None if there is none of this boot.
    ///
    /// # Errors
    /// Fail with a kernel failure when the file exists but cannot be read.
    pub(super) fn read(&self) -> Result<Option<RememberedHomes>, Failure> {
        let read = || {
            let mut bytes = Vec::new();
            private().read(true).open(&self.path)?.take(MAX_BYTES).read_to_end(&mut bytes)?;
            Ok::<_, std::io::Error>(bytes)
        };
        match read() {
            Ok(bytes) => Ok(parse(&bytes, &self.boot)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => {
                let path = self.path.display();
                Err(Failure::kernel(format!(
                    "cannot read {path}: {error}; affinities of a killed scx_bias stay"
                )))
            }
        }
    }

    /// Write the record in place of the old one.
    ///
    /// # Errors
    /// Fail when the file cannot be written. The old one then stays.
    pub(super) fn write(&self, record: &RememberedHomes) -> std::io::Result<()> {
        let new = self.path.with_extension("new");
        // A killed run may have left it, and the lock excludes other users of it.
        let _ = std::fs::remove_file(&new);
        let mut file = private().write(true).create_new(true).open(&new)?;
        file.write_all(self.text(record).as_bytes())?;
        std::fs::rename(&new, &self.path)
    }

    /// Remove the record, because there is nothing left to restore.
    pub(super) fn clear(&self) {
        // A surplus record only repeats the restoration.
        let _ = std::fs::remove_file(&self.path);
    }

    fn text(&self, record: &RememberedHomes) -> String {
        let mut text = format!("{HEAD}{}\ncpu {}\n", self.boot, record.cpu);
        if let Some(mask) = &record.workqueues {
            // Writing to a String cannot fail, here and below.
            let _ = writeln!(text, "workqueues {mask}");
        }
        for (tid, Home { start, cpus, given }) in &record.homes {
            let (cpus, given) = (cpulist::format(cpus), cpulist::format(given));
            let _ = writeln!(text, "home {tid} {start} {cpus} {given}");
        }
        text
    }
}

/// Parse the bytes of a file. Return None if they are not of this boot, or name no CPU.
fn parse(bytes: &[u8], boot: &str) -> Option<RememberedHomes> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    if lines.next()?.strip_prefix(HEAD) != Some(boot) {
        return None;
    }
    let cpu = lines.next()?.strip_prefix("cpu ")?.parse().ok().filter(|cpu| *cpu < cpulist::MAX_CPUS)?;
    let mut record = RememberedHomes { cpu, workqueues: None, homes: Homes::new() };
    for line in lines {
        match line.split_once(' ') {
            Some(("workqueues", mask)) => record.workqueues = Some(mask.to_owned()),
            Some(("home", rest)) => record.homes.extend(home(rest)),
            _ => tracing::debug!("skipped a line of the record of affinities: {line:?}"),
        }
    }
    Some(record)
}

fn home(text: &str) -> Option<(Tid, Home)> {
    let mut words = text.split(' ');
    let (tid, start) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let mut cpus = || words.next().and_then(cpulist::parse).filter(|cpus| !cpus.is_empty());
    let home = Home { start, cpus: cpus()?, given: cpus()? };
    (tid != 0).then_some((tid, home))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_record() -> impl Strategy<Value = RememberedHomes> {
        let cpus = || {
            prop::collection::btree_set(0u32..200, 1..9).prop_map(|set| set.into_iter().collect::<Vec<_>>())
        };
        let home =
            (0u64..1 << 40, cpus(), cpus()).prop_map(|(start, cpus, given)| Home { start, cpus, given });
        let homes = prop::collection::btree_map(1u32..1 << 22, home, 0..9);
        (0u32..200, prop::option::of("[0-9a-f,]{1,12}"), homes)
            .prop_map(|(cpu, workqueues, homes)| RememberedHomes { cpu, workqueues, homes })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn what_is_written_is_read(record in any_record(), cut in any::<prop::sample::Index>()) {
            let directory = tempfile::tempdir().unwrap();
            let file = HomesFile::open(&directory.path().join("run"), "boot").unwrap();
            prop_assert_eq!(file.read().unwrap(), None);
            file.write(&record).unwrap();
            prop_assert_eq!(file.read().unwrap(), Some(record.clone()));
            let text = file.text(&record).into_bytes();
            if let Some(part) = parse(&text[..cut.index(text.len())], "boot") {
                prop_assert!(part.homes.iter().all(|(tid, home)| record.homes.get(tid) == Some(home)));
            }
            file.clear();
            prop_assert_eq!(file.read().unwrap(), None);
        }

        #[test]
        fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..200), lines in "((home|cpu) [-0-9, ]{0,40}\n){0,5}") {
            parse(&bytes, "boot");
            let mut with_head = format!("{HEAD}boot\ncpu 1\n{lines}").into_bytes();
            with_head.extend(bytes);
            prop_assert!(parse(&with_head, "boot").is_some());
        }
    }

    #[test]
    fn another_boot_or_another_instance_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run");
        let file = HomesFile::open(&path, "boot").unwrap();
        file.write(&RememberedHomes { cpu: 1, workqueues: None, homes: Homes::new() }).unwrap();
        assert_eq!(HomesFile::open(&path, "boot").unwrap_err().exit, Exit::OtherScheduler);
        drop(file);
        assert!(HomesFile::exists(&path));
        assert_eq!(HomesFile::open(&path, "later").unwrap().read().unwrap(), None);
    }
}
