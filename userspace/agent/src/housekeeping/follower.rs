// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Sweeps over the threads of the machine, and their schedule.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use bias_policy::table::CapacityTable;
use nix::libc;
use tracing::{info, warn};

use super::affinity_calls::{AffinityCalls, LinuxAffinity, mask_of};
use super::choice::HousekeepingCpu;
use super::homes::{CpuSets, Cpus, Decision, Phase, SeenAffinity};
use super::homes_file::{HomesFile, RememberedHomes};
use crate::failure::Failure;
use crate::optin::cgroup::Cgroup;
use crate::optin::journal::DIRECTORY;
use crate::optin::reconcile::{Id, Tid};

/// Time between two sweeps over all threads.
const SWEEP: Duration = Duration::from_secs(1);
/// Time between an event of a cgroup and the look at the threads inside.
const BURST_DELAY: Duration = Duration::from_millis(20);
/// Most sweeps in a row. Each finds the threads that were forked during the one before.
const MAX_SWEEPS: usize = 16;

/// Threads that a sweep looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whom {
    All,
    Inside,
}

/// Affinities of the machine's threads, and their record. Dropping it restores them.
pub(super) struct Confinement<S: AffinityCalls> {
    system: S,
    file: HomesFile,
    record: RememberedHomes,
    /// Affinity and place of each thread after the last sweep that decided about it.
    settled: BTreeMap<Tid, (Cpus, bool)>,
    /// True if the housekeeping CPU is online and in use.
    confines: bool,
    /// CPUs that were online at the last sweep.
    online: Option<Cpus>,
    /// True if no sweep has looked at the threads yet.
    is_new: bool,
    /// Last problem, None if there is none.
    trouble: Option<String>,
    over: bool,
}

impl<S: AffinityCalls> Confinement<S> {
    /// Start with the housekeeping CPU `cpu`. The next [`Self::keep`] confines the threads.
    fn new(system: S, file: HomesFile, cpu: u32) -> Self {
        let record = RememberedHomes { cpu, workqueues: system.workqueues(), homes: BTreeMap::new() };
        let mut this = Self::resume(system, file, record);
        (this.is_new, this.confines) = (true, false);
        this
    }

    /// Take over what a killed scx_bias has recorded.
    pub(super) fn resume(system: S, file: HomesFile, record: RememberedHomes) -> Self {
        Self {
            system,
            file,
            record,
            settled: BTreeMap::new(),
            confines: true,
            online: None,
            is_new: false,
            trouble: None,
            over: false,
        }
    }

    /// Give every thread its home, and remove the record.
    ///
    /// # Errors
    /// Fail with a runtime failure when some thread cannot get its home. The record then stays.
    pub(super) fn end(mut self) -> Result<(), Failure> {
        if self.release() {
            return Ok(());
        }
        let why = self.trouble.as_deref().unwrap_or("threads change all the time");
        Err(Failure::runtime(format!(
            "not all affinities are restored ({why}); run `scx_bias cgroup restore`"
        )))
    }

    fn release(&mut self) -> bool {
        self.over = true;
        self.trouble = None;
        let done = self.restore_all();
        if done {
            self.file.clear();
        } else {
            let why = self.trouble.as_deref().unwrap_or("threads change all the time");
            warn!("not all affinities are restored ({why}); `scx_bias cgroup restore` repeats it");
        }
        done
    }

    /// Look at threads, and put those right that are not where they belong.
    fn keep(&mut self, whom: Whom, cgroups: &[Cgroup]) {
        let Some(sets) = self.sets() else { return };
        // Affinities follow a change of the CPUs a moment later than the list of online ones, or
        // earlier.
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
            self.report_trouble(format!("workqueues keep the housekeeping CPU: {error}"));
        }
        let mut done = BTreeSet::new();
        let is_restored = |count| count == 0;
        (0..MAX_SWEEPS).any(|_| is_restored(self.sweep(Whom::All, &[], Phase::Release, &mut done)))
            && self.trouble.is_none()
    }

    fn confine_workqueues(&mut self) {
        if self.record.workqueues.is_some()
            && let Err(error) =
                self.save().and_then(|()| self.system.set_workqueues(&mask_of(self.record.cpu)))
        {
            self.report_trouble(format!("workqueues keep their CPUs: {error}"));
        }
    }

    /// Decide about threads, record homes and set affinities. Return the number of affinities set,
    /// without those of threads in `done`, and add the others to it.
    fn sweep(&mut self, whom: Whom, cgroups: &[Cgroup], phase: Phase, done: &mut BTreeSet<Id>) -> usize {
        let Some(sets) = self.sets() else { return 0 };
        let inside = self.system.inside(cgroups);
        let all = if whom == Whom::All { self.system.threads() } else { BTreeSet::new() };
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
            self.settled.insert(thread.id.tid, (affinity, thread.inside));
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
            self.report_trouble(format!("affinities cannot be recorded, so none are set: {error}"));
            return 0;
        }
        changes.retain(|(id, _)| done.insert(*id));
        changes.into_iter().filter(|(id, cpus)| self.set(*id, cpus)).count()
    }

    /// Return the data of a thread, None if it does not matter or has not changed.
    fn look(&self, tid: Tid, inside: bool, phase: Phase) -> Option<SeenAffinity> {
        let affinity = self.system.affinity(tid)?;
        let is_settled = |(cpus, place): &(Cpus, bool)| *cpus == affinity && *place == inside;
        let is_known = self.settled.get(&tid).is_some_and(is_settled);
        if phase == Phase::Keep && is_known {
            return None;
        }
        let stat = self.system.stat(tid).filter(|stat| !stat.dead && !stat.pinned)?;
        let id = Id { tid, start: stat.start };
        let maker = if is_known || self.record.homes.is_empty() { None } else { self.system.maker(tid) };
        Some(SeenAffinity { id, affinity, inside, maker })
    }

    /// Set an affinity if the thread still is the same one. Return true if that was done.
    fn set(&mut self, id: Id, cpus: &[u32]) -> bool {
        if self.system.stat(id.tid).is_none_or(|stat| stat.start != id.start) {
            return false;
        }
        match self.system.set_affinity(id.tid, cpus).map_err(|error| (error.raw_os_error(), error)) {
            Ok(()) => true,
            // The thread has ended, or its cpuset has none of these CPUs.
            Err((Some(libc::ESRCH | libc::EINVAL), _)) => false,
            Err((_, error)) => {
                self.report_trouble(format!("the affinity of thread {} cannot be set: {error}", id.tid));
                false
            }
        }
    }

    fn sets(&self) -> Option<CpuSets> {
        let (online, possible) = (self.system.online()?, self.system.possible()?);
        Some(CpuSets { cpu: self.record.cpu, online, possible })
    }

    fn save(&self) -> std::io::Result<()> {
        self.file.write(&self.record)
    }

    /// Log a problem unless it is the one that was logged last.
    fn report_trouble(&mut self, what: String) {
        if self.trouble.as_ref() != Some(&what) {
            warn!("{what}");
        }
        self.trouble = Some(what);
    }
}

impl<S: AffinityCalls> Drop for Confinement<S> {
    fn drop(&mut self) {
        if !self.over {
            self.release();
        }
    }
}

/// Housekeeping CPU of a run.
pub(crate) struct Housekeeper {
    confinement: Confinement<LinuxAffinity>,
    swept: Instant,
    /// Time of the next look at the threads inside, None without an event.
    look_inside: Option<Instant>,
}

impl Housekeeper {
    /// Choose the CPU, and confine the threads outside of `cgroups` to it.
    ///
    /// # Errors
    /// Fail with a usage failure if the CPU cannot be used. Fail with a kernel failure if the CPUs
    /// or the record cannot be read.
    pub(crate) fn start(
        choice: HousekeepingCpu,
        table: &CapacityTable,
        cgroups: &[Cgroup],
    ) -> Result<Self, Failure> {
        let system = LinuxAffinity::default();
        let online = system.online().ok_or_else(|| Failure::kernel("cannot read which CPUs are online"))?;
        let cpu = choice.choose(table, &online)?;
        let file = HomesFile::open(Path::new(DIRECTORY), &system.boot())?;
        let mut confinement = Confinement::new(system, file, cpu);
        confinement.keep(Whom::All, cgroups);
        info!("CPU {cpu} does the housekeeping: all threads outside the cgroups run there, and none inside");
        Ok(Self { confinement, swept: Instant::now(), look_inside: None })
    }

    /// Take note of an event of a cgroup: threads may have moved.
    pub(crate) fn notified(&mut self) {
        self.look_inside.get_or_insert_with(|| Instant::now() + BURST_DELAY);
    }

    /// Return the time until [`Self::tick`] has work.
    pub(crate) fn time_left(&self) -> Duration {
        let due = self.swept + SWEEP;
        let due = self.look_inside.map_or(due, |at| at.min(due));
        due.saturating_duration_since(Instant::now())
    }

    /// Look at threads if it is time to.
    pub(crate) fn tick(&mut self, cgroups: &[Cgroup]) {
        let now = Instant::now();
        if now >= self.swept + SWEEP {
            self.confinement.keep(Whom::All, cgroups);
            (self.swept, self.look_inside) = (Instant::now(), None);
        } else if self.look_inside.is_some_and(|at| now >= at) {
            self.confinement.keep(Whom::Inside, cgroups);
            self.look_inside = None;
        }
    }

    /// Return a line about the housekeeping CPU.
    pub(crate) fn note(&self) -> String {
        let Confinement { record, confines, trouble, .. } = &self.confinement;
        let cpu = record.cpu;
        match (confines, trouble) {
            (false, _) => format!("the housekeeping CPU {cpu} is offline: all threads may use all CPUs"),
            (true, None) => format!("CPU {cpu} does the housekeeping: all other threads run there only"),
            (true, Some(trouble)) => format!("CPU {cpu} does the housekeeping, but {trouble}"),
        }
    }

    /// Restore all affinities.
    pub(crate) fn finish(&mut self) {
        self.confinement.release();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "follower_tests.rs"]
mod tests;
