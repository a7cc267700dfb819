// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Sweeps over the threads of the machine, which set affinities.
//!
//! The access to the machine is a trait, so that tests can simulate one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;

use nix::libc;
use tracing::{info, warn};

use super::homes::{CpuSets, Cpus, Decision, Phase, RememberedHomes, SeenAffinity};
use crate::affinity;
use crate::cpulist;
use crate::failure::Failure;
use crate::optin::cgroup::Cgroup;
use crate::optin::journal::RecordFile;
use crate::optin::reconcile::{Id, Tid};
use crate::optin::selection::LastProblem;
use crate::optin::system::{Linux, System};
use crate::recal::spot::SPOT_THREAD;

/// A machine.
pub(super) trait AffinityCalls {
    /// Return the CPUs that are online, None if that cannot be read.
    fn online(&self) -> Option<Cpus>;
    /// Return the CPUs that can come online.
    fn possible(&self) -> Option<Cpus>;
    /// Return all threads but those of the agent that check a CPU: they limit themselves to it.
    fn all_threads(&self) -> BTreeSet<Tid>;
    /// Return the threads in these cgroups and below.
    fn inside(&self, cgroups: &[Cgroup]) -> BTreeSet<Tid>;
    /// Return the online CPUs of a thread's affinity, None if the thread is gone.
    fn affinity(&self, tid: Tid) -> Option<Cpus>;
    /// Return the identity of a thread, None if it is gone or if the kernel pins it.
    fn movable(&self, tid: Tid) -> Option<Id>;
    /// Return the first thread of the process or, for a first thread, that of the parent process.
    fn maker(&self, tid: Tid) -> Option<Id>;
    /// Set the affinity of a thread.
    ///
    /// # Errors
    /// The kernel's: ESRCH if the thread is gone, EINVAL if its cpuset has none of these CPUs.
    fn set_affinity(&self, tid: Tid, cpus: &[u32]) -> io::Result<()>;
    /// Return the mask of unbound workqueues, None if the kernel shows none.
    fn workqueues(&self) -> Option<String>;
    /// Set the mask of unbound workqueues.
    ///
    /// # Errors
    /// The kernel's.
    fn set_workqueues(&self, mask: &str) -> io::Result<()>;
}

const CPUS: &str = "/sys/devices/system/cpu";
const WORKQUEUES: &str = "/sys/devices/virtual/workqueue/cpumask";

/// Return the CPUs in a file of the kernel's CPU list format, None if there are none.
fn list(file: &str) -> Option<Cpus> {
    let cpus = cpulist::parse(&fs::read_to_string(format!("{CPUS}/{file}")).ok()?)?;
    (!cpus.is_empty()).then_some(cpus)
}

/// Return the mask with one CPU in the kernel's format of bit masks.
fn mask_of(cpu: u32) -> String {
    let words = std::iter::repeat_n(",00000000", cpu as usize / 32);
    std::iter::once(format!("{:x}", 1u32 << (cpu % 32)).as_str()).chain(words).collect()
}

impl AffinityCalls for Linux {
    fn online(&self) -> Option<Cpus> {
        list("online")
    }

    fn possible(&self) -> Option<Cpus> {
        list("possible")
    }

    fn all_threads(&self) -> BTreeSet<Tid> {
        let Ok(entries) = fs::read_dir("/proc") else { return BTreeSet::new() };
        let processes = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<Tid>().ok());
        let mut threads: BTreeSet<Tid> = processes.flat_map(|process| self.process(process)).collect();
        let is_check = |tid: &Tid| self.name(*tid).is_some_and(|name| name == SPOT_THREAD);
        for check in self.own().into_iter().filter(is_check) {
            threads.remove(&check);
        }
        threads
    }

    fn inside(&self, cgroups: &[Cgroup]) -> BTreeSet<Tid> {
        cgroups.iter().filter_map(|cgroup| self.threads(cgroup)).flatten().collect()
    }

    fn affinity(&self, tid: Tid) -> Option<Cpus> {
        affinity::allowed_to_thread(i32::try_from(tid).ok()?).ok()
    }

    fn movable(&self, tid: Tid) -> Option<Id> {
        let stat = self.stat(tid).filter(|stat| !stat.dead && !stat.pinned)?;
        Some(Id { tid, start: stat.start })
    }

    fn maker(&self, tid: Tid) -> Option<Id> {
        let lineage = self.lineage(tid)?;
        let maker = if lineage.process == tid { lineage.parent } else { lineage.process };
        Some(Id { tid: maker, start: self.stat(maker)?.start })
    }

    fn set_affinity(&self, tid: Tid, cpus: &[u32]) -> io::Result<()> {
        let tid = i32::try_from(tid).map_err(|_| io::ErrorKind::InvalidInput)?;
        affinity::restrict_thread(tid, cpus).map_err(io::Error::from)
    }

    fn workqueues(&self) -> Option<String> {
        Some(fs::read_to_string(WORKQUEUES).ok()?.trim().to_owned())
    }

    fn set_workqueues(&self, mask: &str) -> io::Result<()> {
        fs::write(WORKQUEUES, mask)
    }
}

/// Most sweeps in a row. Each finds the threads that were forked during the previous one.
const MAX_SWEEPS: usize = 16;

/// Threads that a sweep examines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whom {
    All,
    Inside,
}

/// Affinities of the machine's threads, and their record. Dropping it restores them.
pub(super) struct Confinement<S: AffinityCalls> {
    system: S,
    file: RecordFile,
    pub(super) record: RememberedHomes,
    /// Start time, affinity and place of each thread after the last sweep that decided about it.
    settled: BTreeMap<Tid, (u64, Cpus, bool)>,
    /// True if the housekeeping CPU is online and in use.
    pub(super) confines: bool,
    /// CPUs that were online at the last sweep.
    online: Option<Cpus>,
    /// True before the first sweep.
    is_new: bool,
    pub(super) trouble: LastProblem,
    over: bool,
}

impl<S: AffinityCalls> Confinement<S> {
    /// Start with the housekeeping CPU `cpu`. The next [`Self::keep`] confines the threads.
    pub(super) fn new(system: S, file: RecordFile, cpu: u32) -> Self {
        let record = RememberedHomes { cpu, workqueues: system.workqueues(), homes: BTreeMap::new() };
        let mut this = Self::resume(system, file, record);
        (this.is_new, this.confines) = (true, false);
        this
    }

    /// Resume from the record of a killed scx_bias.
    pub(super) fn resume(system: S, file: RecordFile, record: RememberedHomes) -> Self {
        Self {
            system,
            file,
            record,
            settled: BTreeMap::new(),
            confines: true,
            online: None,
            is_new: false,
            trouble: LastProblem::default(),
            over: false,
        }
    }

    /// Give every thread its home, and remove the record.
    ///
    /// # Errors
    /// Fail with a runtime failure when some thread cannot get its home. The record then stays.
    pub(super) fn release(&mut self) -> Result<(), Failure> {
        self.over = true;
        self.trouble.0 = None;
        if self.restore_all() {
            // A surplus record only repeats the restoration.
            let _ = self.file.clear();
            return Ok(());
        }
        Err(Failure::runtime(format!(
            "could not restore the affinities of all threads ({}); retry with `scx_bias cgroup restore`",
            self.trouble.reason()
        )))
    }

    /// Give every thread its home unless that was tried, and log a failure.
    pub(super) fn finish(&mut self) {
        if !self.over
            && let Err(failure) = self.release()
        {
            warn!("{failure}");
        }
    }

    /// Sweep over threads, and correct the affinities of those that are not where they belong.
    pub(super) fn keep(&mut self, whom: Whom, cgroups: &[Cgroup]) {
        let Some(sets) = self.sets() else { return };
        // Affinities follow a change of the CPUs slightly before or after the list of online ones.
        let last = self.online.replace(sets.online.clone());
        if last.is_some_and(|last| last != sets.online) {
            return;
        }
        if !sets.can_confine() {
            if self.confines {
                warn!(
                    "the housekeeping CPU {} is offline: all threads may use all CPUs until it is back",
                    self.record.cpu
                );
                self.restore_all();
                self.confines = false;
            }
            return;
        }
        if !self.confines {
            self.confine_workqueues();
            if !self.is_new {
                info!("the housekeeping CPU {} is online again", self.record.cpu);
            }
            self.confines = true;
        }
        for _ in 0..MAX_SWEEPS {
            let phase = if self.is_new { Phase::Start } else { Phase::Keep };
            if self.sweep(whom, cgroups, phase, &mut BTreeSet::new()) == 0 && !self.is_new {
                break;
            }
            self.is_new = false;
        }
    }

    fn restore_all(&mut self) -> bool {
        if let Some(mask) = self.record.workqueues.clone()
            && let Err(error) = self.system.set_workqueues(&mask)
        {
            self.trouble.report(format!("workqueues keep the housekeeping CPU: {error}"));
        }
        let mut done = BTreeSet::new();
        let is_restored = |count| count == 0;
        (0..MAX_SWEEPS).any(|_| is_restored(self.sweep(Whom::All, &[], Phase::Release, &mut done)))
            && self.trouble.0.is_none()
    }

    fn confine_workqueues(&mut self) {
        if self.record.workqueues.is_some()
            && let Err(error) =
                self.save().and_then(|()| self.system.set_workqueues(&mask_of(self.record.cpu)))
        {
            self.trouble.report(format!("workqueues keep their CPUs: {error}"));
        }
    }

    /// Decide about threads, record homes and set affinities. Return the number of affinities set,
    /// without those of threads in `done`, and add the others to it.
    fn sweep(&mut self, whom: Whom, cgroups: &[Cgroup], phase: Phase, done: &mut BTreeSet<Id>) -> usize {
        let Some(sets) = self.sets() else { return 0 };
        let inside = self.system.inside(cgroups);
        let all = if whom == Whom::All { self.system.all_threads() } else { BTreeSet::new() };
        let mut seen: Vec<_> =
            all.union(&inside).filter_map(|tid| self.look(*tid, inside.contains(tid), phase)).collect();
        // A CPU that changed meanwhile looks like a change of affinities.
        if self.system.online().as_ref() != Some(&sets.online) {
            return 0;
        }
        // Handle makers before the threads that they made.
        seen.sort_by_key(|thread| (thread.id.start, thread.id.tid));
        let before = self.record.homes.clone();
        let mut changes = Vec::new();
        for thread in seen {
            let Decision { set, record } = sets.decide(&thread, &self.record.homes, phase);
            match record {
                Some(home) => drop(self.record.homes.insert(thread.id.tid, home)),
                None => drop(self.record.homes.remove(&thread.id.tid)),
            }
            let affinity = set.as_ref().map_or(thread.affinity, |cpus| sets.visible(cpus));
            self.settled.insert(thread.id.tid, (thread.id.start, affinity, thread.inside));
            changes.extend(set.map(|cpus| (thread.id, cpus)));
        }
        if whom == Whom::All && phase != Phase::Release {
            self.settled.retain(|tid, _| all.contains(tid));
            self.record.homes.retain(|tid, _| all.contains(tid));
        }
        if (before != self.record.homes || self.is_new)
            && let Err(error) = self.save()
        {
            self.record.homes = before;
            self.trouble.report(format!("affinities cannot be recorded, so none are set: {error}"));
            return 0;
        }
        changes.retain(|(id, _)| done.insert(*id));
        changes.into_iter().filter(|(id, cpus)| self.set(*id, cpus)).count()
    }

    /// Return the data of a thread, None if it does not matter or has not changed.
    fn look(&self, tid: Tid, inside: bool, phase: Phase) -> Option<SeenAffinity> {
        let affinity = self.system.affinity(tid)?;
        let settled = self.settled.get(&tid);
        let is_settled = settled.is_some_and(|(_, cpus, place)| *cpus == affinity && *place == inside);
        if phase == Phase::Keep && is_settled {
            return None;
        }
        let id = self.system.movable(tid)?;
        // The home of a known thread does not depend on its maker.
        let is_known = settled.is_some_and(|(start, ..)| *start == id.start);
        let maker = if is_known || self.record.homes.is_empty() { None } else { self.system.maker(tid) };
        Some(SeenAffinity { id, affinity, inside, maker })
    }

    /// Set an affinity if the thread still is the same one. Return true if that was done.
    fn set(&mut self, id: Id, cpus: &[u32]) -> bool {
        if self.system.movable(id.tid) != Some(id) {
            return false;
        }
        match self.system.set_affinity(id.tid, cpus).map_err(|error| (error.raw_os_error(), error)) {
            Ok(()) => true,
            // The thread has ended, or its cpuset has none of these CPUs.
            Err((Some(libc::ESRCH | libc::EINVAL), _)) => false,
            Err((_, error)) => {
                self.trouble.report(format!("the affinity of thread {} cannot be set: {error}", id.tid));
                false
            }
        }
    }

    fn sets(&self) -> Option<CpuSets> {
        let (online, possible) = (self.system.online()?, self.system.possible()?);
        Some(CpuSets { cpu: self.record.cpu, online, possible })
    }

    fn save(&self) -> std::io::Result<()> {
        self.file.replace(&self.record.lines()).map(drop)
    }
}

impl<S: AffinityCalls> Drop for Confinement<S> {
    fn drop(&mut self) {
        self.finish();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "confinement_tests.rs"]
mod tests;
