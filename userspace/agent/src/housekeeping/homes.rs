// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Decide which affinity a thread gets: a pure function of a sweep's findings. Record the homes of
//! threads.
//!
//! # Problem
//!
//! At the end each thread must have the affinity that it would have without scx_bias: its *home*.
//! Threads inherit the affinities that the agent gave to their makers, and change their own.
//!
//! # Approach
//!
//! A thread that still has the affinity from the agent has its recorded home. One with any other
//! affinity has chosen it, and that is its home now. Most homes are all CPUs, and these are not
//! recorded. A thread without a record has all CPUs as home if the agent gives its affinity to such
//! threads. So the record holds exceptions only, and survives any number of forks. It is a record
//! as in [`crate::optin::journal`], rewritten as a whole, because it has few lines:
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
//! Tested in `confinement_tests.rs` for any order of forks, moves and changes.
//!
//! * A thread inside never has the housekeeping CPU.
//! * A thread outside has only the housekeeping CPU, or its home if that excludes it.
//! * After a release every thread has its home.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use crate::cpulist;
use crate::failure::Failure;
use crate::optin::journal::RecordFile;
use crate::optin::reconcile::{Id, Tid};

/// Name of the record.
const FILE: &str = "housekeeping";

/// CPU numbers in ascending order.
pub type Cpus = Vec<u32>;

/// Record of a thread whose home is not all CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    /// Start time [clock ticks since boot].
    pub start: u64,
    /// Affinity without scx_bias.
    pub cpus: Cpus,
    /// Affinity that the agent gave to the thread.
    pub given: Cpus,
}

/// Records by pid.
pub type Homes = BTreeMap<Tid, Home>;

/// A thread as a sweep found it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenAffinity {
    /// Identity.
    pub id: Id,
    /// Online CPUs of its affinity.
    pub affinity: Cpus,
    /// True if the thread is in a selected cgroup.
    pub inside: bool,
    /// First thread of its process or, for a first thread, of the parent process. None if a sweep
    /// has decided about the thread before.
    pub maker: Option<Id>,
}

/// Purpose of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The first sweep: no thread has an affinity from the agent.
    Start,
    /// Keep threads where they belong.
    Keep,
    /// Give every thread its home.
    Release,
}

/// Decision about a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Affinity to set, None to leave it.
    pub set: Option<Cpus>,
    /// Record to keep, None for none.
    pub record: Option<Home>,
}

/// CPUs of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuSets {
    /// Housekeeping CPU.
    pub cpu: u32,
    /// CPUs that are online.
    pub online: Cpus,
    /// CPUs that can come online.
    pub possible: Cpus,
}

impl CpuSets {
    /// Return true if the housekeeping CPU is online, and another one.
    #[must_use]
    pub fn can_confine(&self) -> bool {
        self.online.contains(&self.cpu) && self.online.len() > 1
    }

    /// Decide about a thread. Makers should precede the threads that they made.
    #[must_use]
    pub fn decide(&self, thread: &SeenAffinity, homes: &Homes, phase: Phase) -> Decision {
        if thread.affinity.is_empty() && self.can_confine() {
            // The housekeeping CPU is going offline, and is listed as online for a moment longer.
            return Decision { set: None, record: homes.get(&thread.id.tid).cloned() };
        }
        let (home, is_ours) = self.home(thread, homes, phase == Phase::Start);
        if phase == Phase::Release {
            let record = homes.get(&thread.id.tid).cloned();
            return Decision { set: is_ours.then_some(home), record };
        }
        let given = self.given(&home, thread.inside);
        let differs = self.visible(&given) != thread.affinity;
        let is_plain = self.is_all(&home) || (given == home && !self.is_default(&home));
        let record = Home { start: thread.id.start, cpus: home, given: given.clone() };
        Decision { set: differs.then_some(given), record: (!is_plain).then_some(record) }
    }

    /// Return the home of a thread, and true if its affinity comes from the agent.
    fn home(&self, thread: &SeenAffinity, homes: &Homes, first: bool) -> (Cpus, bool) {
        let of = |id: Id| homes.get(&id.tid).filter(|home| home.start == id.start);
        let gave = |home: &&Home| {
            let given = self.visible(&home.given);
            // The kernel gives other CPUs to a thread whose only one goes offline.
            let driven_off =
                home.given == [self.cpu] && thread.affinity == self.visible(&self.others(&self.possible));
            given == thread.affinity || driven_off
        };
        let recorded = of(thread.id);
        if let Some(home) = recorded.or_else(|| of(thread.maker?)).filter(gave) {
            return (home.cpus.clone(), true);
        }
        if !first && recorded.is_none() && self.is_default(&thread.affinity) {
            return (self.possible.clone(), true);
        }
        let own = if thread.affinity == self.online { &self.possible } else { &thread.affinity };
        (own.clone(), false)
    }

    /// Return the affinity that a thread with this home is given.
    fn given(&self, home: &[u32], inside: bool) -> Cpus {
        if !inside {
            return if home.contains(&self.cpu) { vec![self.cpu] } else { home.to_vec() };
        }
        let rest = self.others(home);
        if self.visible(&rest).is_empty() { self.others(&self.possible) } else { rest }
    }

    /// Return true if a thread whose home is all CPUs may be given this affinity.
    pub(super) fn is_default(&self, cpus: &[u32]) -> bool {
        let cpus = self.visible(cpus);
        cpus == self.visible(&[self.cpu]) || cpus == self.visible(&self.others(&self.possible))
    }

    fn is_all(&self, cpus: &[u32]) -> bool {
        self.visible(cpus) == self.online
    }

    /// Return the CPUs without the housekeeping CPU.
    fn others(&self, cpus: &[u32]) -> Cpus {
        cpus.iter().copied().filter(|cpu| *cpu != self.cpu).collect()
    }

    /// Return the online ones of these CPUs.
    #[must_use]
    pub fn visible(&self, cpus: &[u32]) -> Cpus {
        cpus.iter().copied().filter(|cpu| self.online.contains(cpu)).collect()
    }
}

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

/// Return true if `directory` holds a record, or cannot be searched.
pub(super) fn exist(directory: &Path) -> bool {
    directory.join(FILE).try_exists().unwrap_or(true)
}

/// Lock the record in `directory`, and make the directory if there is none.
///
/// # Errors
/// Fail as [`RecordFile::open`] does.
pub(super) fn open(directory: &Path, boot: &str) -> Result<RecordFile, Failure> {
    RecordFile::open(directory, FILE, "housekeeping.lock", boot)
}

impl RememberedHomes {
    /// Return the lines of the record after the first one.
    pub(super) fn lines(&self) -> String {
        let mut text = format!("cpu {}\n", self.cpu);
        if let Some(mask) = &self.workqueues {
            // Writing to a String cannot fail, here and below.
            let _ = writeln!(text, "workqueues {mask}");
        }
        for (tid, Home { start, cpus, given }) in &self.homes {
            let (cpus, given) = (cpulist::format(cpus), cpulist::format(given));
            let _ = writeln!(text, "home {tid} {start} {cpus} {given}");
        }
        text
    }

    /// Parse these lines. Return None if they name no CPU.
    pub(super) fn parse(lines: &str) -> Option<Self> {
        let mut lines = lines.split_terminator('\n');
        let cpu = lines.next()?.strip_prefix("cpu ")?.parse().ok().filter(|cpu| *cpu < cpulist::MAX_CPUS)?;
        let mut record = Self { cpu, workqueues: None, homes: Homes::new() };
        for line in lines {
            match line.split_once(' ') {
                Some(("workqueues", mask)) => record.workqueues = Some(mask.to_owned()),
                Some(("home", rest)) => record.homes.extend(home(rest)),
                _ => tracing::debug!("skipped a line of the record of affinities: {line:?}"),
            }
        }
        Some(record)
    }
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
    use crate::failure::Exit;
    use crate::optin::journal::{first_line, whole_lines};
    use proptest::prelude::*;

    fn seen(tid: Tid, affinity: &[u32], inside: bool, maker: Option<Tid>) -> SeenAffinity {
        let id = |tid| Id { tid, start: u64::from(tid) };
        SeenAffinity { id: id(tid), affinity: affinity.to_vec(), inside, maker: maker.map(id) }
    }

    #[test]
    fn most_threads_need_no_record() {
        let sets = CpuSets { cpu: 3, online: vec![0, 1, 2, 3], possible: vec![0, 1, 2, 3] };
        let decide = |thread| sets.decide(&thread, &Homes::new(), Phase::Start);
        let outside = decide(seen(1, &[0, 1, 2, 3], false, None));
        assert_eq!(outside, Decision { set: Some(vec![3]), record: None });
        let elsewhere = decide(seen(1, &[1], false, None));
        assert_eq!(elsewhere, Decision { set: None, record: None });
        // Without a record these would count as threads whose home is all CPUs.
        assert!(decide(seen(1, &[3], false, None)).record.is_some());
        assert!(decide(seen(1, &[0, 1, 2], false, None)).record.is_some());
    }

    #[test]
    fn a_cpu_that_is_going_offline_costs_no_thread_its_home() {
        let all = vec![0, 1, 2, 3];
        let sets = CpuSets { cpu: 3, online: all.clone(), possible: all };
        let mut homes = Homes::new();
        let first = sets.decide(&seen(7, &[2, 3], false, None), &homes, Phase::Start);
        homes.insert(7, first.record.unwrap());
        // Asleep, or driven off by the kernel. The CPU is still listed as online.
        for affinity in [&[][..], &[0, 1, 2]] {
            let decision = sets.decide(&seen(7, affinity, false, None), &homes, Phase::Keep);
            assert_eq!(decision.record.as_ref(), homes.get(&7), "{affinity:?}");
        }
    }

    #[test]
    fn threads_get_their_homes_while_the_housekeeping_cpu_is_offline() {
        let all = vec![0, 1, 2, 3];
        let mut sets = CpuSets { cpu: 3, online: all.clone(), possible: all.clone() };
        let mut homes = Homes::new();
        let first = sets.decide(&seen(7, &[0, 3], false, None), &homes, Phase::Start);
        homes.insert(7, first.record.unwrap());
        sets.online = vec![0, 1, 2];
        assert!(!sets.can_confine());
        for (tid, affinity, inside, home) in [
            // Asleep, or driven off by the kernel.
            (7, &[][..], false, vec![0, 3]),
            (7, &[0, 1, 2], false, vec![0, 3]),
            (8, &[], false, all.clone()),
            (8, &[0, 1, 2], true, all),
        ] {
            let decision = sets.decide(&seen(tid, affinity, inside, None), &homes, Phase::Release);
            assert_eq!(decision.set, Some(home), "{tid} {affinity:?}");
        }
    }

    /// Return the content of a file with these bytes.
    fn parsed(bytes: &[u8]) -> Option<RememberedHomes> {
        RememberedHomes::parse(&whole_lines(bytes, &first_line(FILE, "boot"))?)
    }

    fn read(file: &RecordFile) -> Option<RememberedHomes> {
        RememberedHomes::parse(&file.read().unwrap()?)
    }

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
        fn a_record_reads_back_as_written(record in any_record(), cut in any::<prop::sample::Index>()) {
            let directory = tempfile::tempdir().unwrap();
            let file = open(&directory.path().join("run"), "boot").unwrap();
            prop_assert_eq!(file.read().unwrap(), None);
            file.replace(&record.lines()).unwrap();
            prop_assert_eq!(read(&file), Some(record.clone()));
            let text = format!("{}\n{}", first_line(FILE, "boot"), record.lines()).into_bytes();
            if let Some(part) = parsed(&text[..cut.index(text.len())]) {
                prop_assert!(part.homes.iter().all(|(tid, home)| record.homes.get(tid) == Some(home)));
            }
            file.clear().unwrap();
            prop_assert_eq!(read(&file), None);
        }

        #[test]
        fn any_bytes_are_accepted(bytes in prop::collection::vec(any::<u8>(), 0..200), lines in "((home|cpu) [-0-9, ]{0,40}\n){0,5}") {
            parsed(&bytes);
            let mut with_head = format!("{}\ncpu 1\n{lines}", first_line(FILE, "boot")).into_bytes();
            with_head.extend(bytes);
            prop_assert!(parsed(&with_head).is_some());
        }
    }

    #[test]
    fn another_boot_or_another_instance_is_detected() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run");
        let file = open(&path, "boot").unwrap();
        file.replace(&RememberedHomes { cpu: 1, workqueues: None, homes: Homes::new() }.lines()).unwrap();
        assert_eq!(open(&path, "boot").unwrap_err().exit, Exit::OtherScheduler);
        drop(file);
        assert!(exist(&path));
        assert_eq!(read(&open(&path, "later").unwrap()), None);
    }
}
