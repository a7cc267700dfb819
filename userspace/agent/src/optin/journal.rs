// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Records that must survive a crash: the state of threads before the agent changed it.
//!
//! # Problem
//!
//! A killed scheduler leaves its threads with SCHED_EXT, or with the affinities that it set. No
//! other process knows their previous state.
//!
//! # Approach
//!
//! A record is a text file in a directory of root's under `/run`, with one entry per line. Its
//! first line names the record and the boot. The running agent holds a lock on each record, so that
//! no other process restores its threads. [`Store`] records the opted-in cgroups and the policies
//! of their threads. It only appends entries:
//!
//! ```text
//! scx_bias opted-in 1 BOOT_ID
//! cgroup PATH
//! thread TID START POLICY NICE
//! back TID START
//! ```
//!
//! A thread is recorded before it is switched. An outdated entry does no harm, because the start
//! time identifies the thread. The file is rewritten when most of it is outdated.
//!
//! # Invariants
//!
//! Any bytes make a record or none, never an error. An invalid line is skipped, such as the last
//! one of an agent that was killed while writing. No entry follows a partial one, because a failed
//! append is cut off again.
//!
//! # Limits
//!
//! The file is not synchronised to disk. It has to survive this process, not the machine: after a
//! reboot it means nothing.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use super::reconcile::{Journal, Previous, ThreadRecord, Tid, policy};
use crate::failure::{Exit, Failure};
use crate::safefile::{private, private_directory};

/// Directory of the records.
pub const DIRECTORY: &str = "/run/scx_bias";
const FILE: &str = "opted-in";
/// Most bytes of a record that are read: some two million threads.
const MAX_BYTES: u64 = 64 << 20;
/// Smallest file that is worth rewriting [bytes].
const MIN_BYTES: u64 = 64 << 10;
/// Approximate length of an entry [bytes].
const ENTRY_BYTES: u64 = 32;

/// A record, and the lock on it.
#[derive(Debug)]
pub(crate) struct RecordFile {
    path: PathBuf,
    /// First line.
    head: String,
    /// Held as long as this exists.
    _lock: File,
}

impl RecordFile {
    /// Lock the record `file` of this `boot` in `directory`, and make the directory if there is
    /// none.
    ///
    /// # Errors
    /// Fail with [`Exit::OtherScheduler`] when a running scx_bias holds the lock. Otherwise fail
    /// with a kernel failure that names the problem of the directory.
    pub(crate) fn open(directory: &Path, file: &str, lock: &str, boot: &str) -> Result<Self, Failure> {
        let failed = |error: io::Error| {
            let remedy = if error.kind() == ErrorKind::NotADirectory { "" } else { "; run it as root" };
            let directory = directory.display();
            Failure::kernel(format!("cannot record threads in {directory}: {error}{remedy}"))
        };
        private_directory(directory).map_err(failed)?;
        let mut options = private();
        let lock = options.write(true).create(true).truncate(false).open(directory.join(lock));
        let lock = lock.map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let text = "another scx_bias is starting or running; stop it first";
                return Err(Failure::new(Exit::OtherScheduler, text));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        Ok(Self { path: directory.join(file), head: first_line(file, boot), _lock: lock })
    }

    /// Return the whole lines after the first one, None if there is no record of this boot.
    ///
    /// # Errors
    /// Fail when the file exists but cannot be read.
    pub(crate) fn read(&self) -> io::Result<Option<String>> {
        let file = match private().read(true).open(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut bytes = Vec::new();
        file.take(MAX_BYTES).read_to_end(&mut bytes)?;
        Ok(whole_lines(&bytes, &self.head))
    }

    /// Replace the record by one of these lines. Return the file, to which lines can be appended,
    /// and its length [bytes].
    ///
    /// # Errors
    /// Fail when the file cannot be written. The old one then stays.
    pub(crate) fn replace(&self, lines: &str) -> io::Result<(File, u64)> {
        let text = format!("{}\n{lines}", self.head);
        let new = self.path.with_extension("new");
        // A killed run may have left it, and the lock excludes other users of it.
        let _ = std::fs::remove_file(&new);
        let mut file = private().append(true).create_new(true).open(&new)?;
        file.write_all(text.as_bytes())?;
        std::fs::rename(&new, &self.path)?;
        Ok((file, text.len() as u64))
    }

    /// Remove the record, because there is nothing left to restore.
    ///
    /// # Errors
    /// Fail when the file exists but cannot be removed.
    pub(crate) fn clear(&self) -> io::Result<()> {
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Return the failure for a record at this path, or in this directory.
pub(crate) fn unusable(path: &Path, error: &io::Error) -> Failure {
    Failure::kernel(format!(
        "cannot use {}: {error}; it records the threads to restore after a killed scx_bias",
        path.display()
    ))
}

/// Return the first line of the record `file`.
pub(crate) fn first_line(file: &str, boot: &str) -> String {
    format!("scx_bias {file} 1 {boot}")
}

/// Return the whole lines after the first one, None if that one differs from `head`.
pub(crate) fn whole_lines(bytes: &[u8], head: &str) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let (whole, _) = text.rsplit_once('\n')?;
    let (first, rest) = whole.split_once('\n').unwrap_or((whole, ""));
    (first == head).then(|| rest.to_owned())
}

/// Content of a journal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Remembered {
    /// Paths of the opted-in cgroups.
    pub cgroups: BTreeSet<String>,
    /// Previous state of their threads.
    pub journal: Journal,
}

/// The record of the opted-in cgroups and of their threads.
#[derive(Debug)]
pub struct Store {
    record: RecordFile,
    /// None as long as there is no file of this run.
    file: Option<File>,
    bytes: u64,
}

impl Store {
    /// Return true if there is anything to restore in `directory`.
    ///
    /// # Errors
    /// Fail when this user may not search the directory.
    pub fn exists(directory: &Path) -> io::Result<bool> {
        directory.join(FILE).try_exists()
    }

    /// Lock the record in `directory`, and make the directory if there is none. `boot` is the id of
    /// this boot.
    ///
    /// # Errors
    /// Fail as [`RecordFile::open`] does.
    pub fn open(directory: &Path, boot: &str) -> Result<Self, Failure> {
        Ok(Self { record: RecordFile::open(directory, FILE, "lock", boot)?, file: None, bytes: 0 })
    }

    /// Return the content of the file, None if there is none of this boot.
    ///
    /// # Errors
    /// Fail when the file exists but cannot be read.
    pub fn read(&self) -> io::Result<Option<Remembered>> {
        Ok(self.record.read()?.map(|lines| parse(&lines)))
    }

    /// Rewrite the whole file atomically.
    ///
    /// # Errors
    /// Fail when the file cannot be written. The old one then stays.
    pub fn write(&mut self, remembered: &Remembered) -> io::Result<()> {
        let mut text = String::new();
        for cgroup in &remembered.cgroups {
            // Writing to a String cannot fail, here and below.
            let _ = writeln!(text, "cgroup {cgroup}");
        }
        append(&mut text, &remembered.journal);
        let (file, bytes) = self.record.replace(&text)?;
        (self.file, self.bytes) = (Some(file), bytes);
        Ok(())
    }

    /// Record threads that are about to be switched.
    ///
    /// # Errors
    /// Fail when the records cannot be written. None of them is recorded then.
    pub fn record(&mut self, threads: &Journal) -> io::Result<()> {
        let mut text = String::new();
        append(&mut text, threads);
        self.add(&text)
    }

    /// Record that threads have their previous state again.
    ///
    /// # Errors
    /// Fail as [`Self::record`] does.
    pub fn record_back(&mut self, threads: &[(Tid, u64)]) -> io::Result<()> {
        let mut text = String::new();
        for (tid, start) in threads {
            let _ = writeln!(text, "back {tid} {start}");
        }
        self.add(&text)
    }

    fn add(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        let bytes = self.bytes;
        let file = self.file.as_mut().ok_or(ErrorKind::NotFound)?;
        file.write_all(text.as_bytes()).inspect_err(|_| {
            // If the partial line cannot be cut off either, it spoils the next line, which is then
            // skipped.
            let _ = file.set_len(bytes);
        })?;
        self.bytes += text.len() as u64;
        Ok(())
    }

    /// Return true if most of the file is outdated, given the number of recorded threads.
    #[must_use]
    pub const fn is_bloated(&self, threads: usize) -> bool {
        self.bytes > MIN_BYTES && self.bytes / 4 > threads as u64 * ENTRY_BYTES
    }

    /// Remove the file, because there is nothing left to restore.
    ///
    /// # Errors
    /// Fail when the file exists but cannot be removed.
    pub fn clear(&mut self) -> io::Result<()> {
        (self.file, self.bytes) = (None, 0);
        self.record.clear()
    }
}

fn append(text: &mut String, journal: &Journal) {
    for (tid, ThreadRecord { start, previous: Previous { policy, nice } }) in journal {
        let _ = writeln!(text, "thread {tid} {start} {policy} {nice}");
    }
}

/// Parse the lines of the record after the first one.
fn parse(lines: &str) -> Remembered {
    let mut remembered = Remembered::default();
    for line in lines.split_terminator('\n') {
        let read = match line.split_once(' ') {
            Some(("cgroup", path)) => {
                remembered.cgroups.insert(path.to_owned());
                true
            }
            Some(("thread", rest)) => {
                let thread = thread(rest);
                remembered.journal.extend(thread);
                thread.is_some()
            }
            Some(("back", rest)) => numbers(rest).is_some_and(|[tid, start]| {
                // No entry has pid 0.
                let tid = Tid::try_from(tid).unwrap_or_default();
                let entry = remembered.journal.get(&tid);
                if entry.is_some_and(|entry| i64::try_from(entry.start) == Ok(start)) {
                    remembered.journal.remove(&tid);
                }
                true
            }),
            _ => false,
        };
        if !read {
            tracing::debug!("skipped a line of the journal: {line:?}");
        }
    }
    remembered
}

fn thread(text: &str) -> Option<(Tid, ThreadRecord)> {
    let [tid, start, policy, nice] = numbers(text)?;
    let previous = Previous { policy: u32::try_from(policy).ok()?, nice: i32::try_from(nice).ok()? };
    let valid = policy::is_switched(previous.policy) && (-20..=19).contains(&previous.nice);
    let entry = ThreadRecord { start: u64::try_from(start).ok()?, previous };
    valid.then_some((Tid::try_from(tid).ok().filter(|tid| *tid != 0)?, entry))
}

/// Parse exactly `N` numbers.
fn numbers<const N: usize>(text: &str) -> Option<[i64; N]> {
    let numbers: Option<Vec<i64>> = text.split(' ').map(|word| word.parse().ok()).collect();
    numbers?.try_into().ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::PermissionsExt;

    fn any_journal() -> impl Strategy<Value = Journal> {
        let previous = (prop::sample::select(vec![policy::NORMAL, policy::BATCH, policy::IDLE]), -20..=19);
        let entry = (0u64..1 << 40, previous)
            .prop_map(|(start, (policy, nice))| ThreadRecord { start, previous: Previous { policy, nice } });
        prop::collection::btree_map(1u32..1 << 22, entry, 0..20)
    }

    fn any_remembered() -> impl Strategy<Value = Remembered> {
        let cgroups = prop::collection::btree_set("/[^\n\0]{0,30}", 0..4);
        (cgroups, any_journal()).prop_map(|(cgroups, journal)| Remembered { cgroups, journal })
    }

    /// Return the content of a file with these bytes.
    fn parsed(bytes: &[u8]) -> Option<Remembered> {
        whole_lines(bytes, &first_line(FILE, "boot")).map(|lines| parse(&lines))
    }

    fn store(directory: &Path) -> Store {
        Store::open(&directory.join("run"), "boot").unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_journal_reads_back_as_written(first in any_remembered(), then in any_journal()) {
            let directory = tempfile::tempdir().unwrap();
            let mut store = store(directory.path());
            store.write(&first).unwrap();
            store.record(&then).unwrap();
            let mut expected = first;
            expected.journal.extend(then.clone());
            prop_assert_eq!(store.read().unwrap(), Some(expected.clone()));
            // A record with another start time belongs to another thread.
            let back: Vec<_> = then.iter().map(|(tid, entry)| (*tid, entry.start + u64::from(tid % 2))).collect();
            store.record_back(&back).unwrap();
            expected.journal.retain(|tid, _| tid % 2 == 1 || !then.contains_key(tid));
            prop_assert_eq!(store.read().unwrap(), Some(expected));
            store.clear().unwrap();
            prop_assert_eq!(store.read().unwrap(), None);
        }

        #[test]
        fn a_truncated_file_keeps_its_whole_lines(remembered in any_remembered(), cut in any::<prop::sample::Index>()) {
            let directory = tempfile::tempdir().unwrap();
            let mut store = store(directory.path());
            store.write(&remembered).unwrap();
            let bytes = std::fs::read(&store.record.path).unwrap();
            let part = parsed(&bytes[..cut.index(bytes.len())]).unwrap_or_default();
            prop_assert!(part.cgroups.is_subset(&remembered.cgroups));
            for (tid, entry) in &part.journal {
                prop_assert_eq!(remembered.journal.get(tid), Some(entry));
            }
        }

        #[test]
        fn any_bytes_are_accepted(bytes in prop::collection::vec(any::<u8>(), 0..200), lines in "((thread|back|cgroup) [-0-9 ]{0,40}\n){0,5}") {
            parsed(&bytes);
            let mut with_head = format!("{}\n{lines}", first_line(FILE, "boot")).into_bytes();
            with_head.extend(bytes);
            prop_assert!(parsed(&with_head).is_some());
        }
    }

    #[test]
    fn the_record_is_private_and_has_one_holder() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = store(directory.path());
        store.write(&Remembered::default()).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&store.record.path), mode(store.record.path.parent().unwrap())), (0o600, 0o700));
        let path = directory.path().join("run");
        assert!(Store::exists(&path).unwrap());
        let second = Store::open(&path, "boot").unwrap_err();
        assert_eq!(second.exit, Exit::OtherScheduler);
        drop(store);
        assert!(Store::open(&path, "boot").is_ok());
    }

    #[test]
    fn directories_that_others_can_write_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::create_dir(path("open")).unwrap();
        std::fs::set_permissions(path("open"), std::fs::Permissions::from_mode(0o777)).unwrap();
        std::os::unix::fs::symlink(path("open"), path("link")).unwrap();
        std::fs::write(path("file"), "").unwrap();
        for name in ["open", "link", "file"] {
            let failure = Store::open(&path(name), "boot").unwrap_err();
            assert!(failure.exit == Exit::Kernel && failure.message.contains("remove it"), "{failure}");
        }
        // A link in place of the file is not followed either.
        let mut store = store(directory.path());
        std::os::unix::fs::symlink(path("file"), &store.record.path).unwrap();
        assert!(store.read().is_err());
        store.write(&Remembered::default()).unwrap();
        assert_eq!(std::fs::read(path("file")).unwrap(), b"");
    }

    #[test]
    fn the_journal_of_another_boot_is_ignored() {
        let directory = tempfile::tempdir().unwrap();
        let mut first = store(directory.path());
        first.write(&Remembered::default()).unwrap();
        assert!(first.read().unwrap().is_some());
        drop(first);
        assert_eq!(Store::open(&directory.path().join("run"), "later").unwrap().read().unwrap(), None);
    }

    #[test]
    fn invalid_lines_are_skipped() {
        let bytes = format!(
            "{}\nthread 7 1 2 0\nthread 7 1 0 20\nthread 0 1 0 0\nthread 7 -1 0 0\nthread 7 1 0 0 0\nthread 8 1 3 -20\nback 8 2\nback -8 1\n\ncgroup /a b\nthread 9 1 0",
            first_line(FILE, "boot")
        );
        let remembered = parsed(bytes.as_bytes()).unwrap();
        assert_eq!(remembered.journal.into_keys().collect::<Vec<_>>(), [8]);
        assert!(remembered.cgroups.contains("/a b"));
    }

    #[test]
    fn a_file_of_old_records_is_bloated() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = store(directory.path());
        let entry = ThreadRecord { start: 1, previous: Previous { policy: 0, nice: 0 } };
        let threads: Journal = (1..5000).map(|tid| (tid, entry)).collect();
        store.write(&Remembered { journal: threads.clone(), ..Remembered::default() }).unwrap();
        assert!(!store.is_bloated(threads.len()) && store.is_bloated(10));
    }
}
