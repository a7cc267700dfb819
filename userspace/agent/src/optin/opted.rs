// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The opted-in cgroups and their threads: events, scans, and the changes that they call for.
//!
//! # Invariants
//!
//! The start time of a thread is read before its cgroup and its maker, and checked again before any
//! change. The data thus belongs to one thread, even if pids are reused. A thread that needs no
//! change costs one system call.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use tracing::{info, warn};

use super::cgroup::{Cgroup, Found};
use super::journal::{self, Remembered, Store};
use super::reconcile::{
    Action, IDLE_NICE, Id, Journal, Maker, Place, PolicyPlan, Previous, SeenThread, Tid, policy, reconcile,
};
use super::selection::{CgroupsReport, LastProblem, Selection, list};
use super::system::{Attr, Lineage, Linux, Stat, System};
use crate::failure::Failure;

/// Most scans in a row. Each finds the threads that were forked during the previous scan, and soon
/// there are none.
const MAX_SCANS: usize = 16;
/// Most attempts to restore all policies at the end, and the pause between them.
const ATTEMPTS: usize = 20;
const PAUSE: Duration = Duration::from_millis(10);
/// Time for which a leaving process is watched. Its event precedes the move.
pub(super) const WATCHED: Duration = Duration::from_secs(2);
/// Most generations that are searched for the previous state of a thread with inherited SCHED_EXT.
const GENERATIONS: usize = 16;

/// Event of the kernel side that calls for a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CgroupEvent {
    /// A thread was moved or forked into an opted-in cgroup.
    Inside,
    /// A process leaves a followed cgroup.
    Left(Id),
    /// A process outside with SCHED_EXT has forked another one outside.
    Forked {
        /// The new process.
        process: Id,
        /// Its parent.
        maker: Id,
    },
}

/// The opted-in cgroups and their threads. Dropping it restores the policies of all threads.
pub struct OptIn<S: System> {
    system: S,
    pub(super) store: Store,
    pub(super) journal: Journal,
    selection: Selection,
    /// Released cgroups in which a scan may still find switched threads.
    released: Vec<Cgroup>,
    /// True if the last pass left nothing to do.
    quiet: bool,
    /// Processes that were seen leaving, with their start times and the ends of their watches.
    leaving: BTreeMap<Tid, (u64, Instant)>,
    trouble: LastProblem,
    /// True if all policies were restored, or the attempt was made.
    pub(super) over: bool,
}

impl<S: System> OptIn<S> {
    /// Restore the policies that a killed scx_bias has changed, then opt the cgroups in. The next
    /// [`Self::pass`] switches their threads.
    ///
    /// # Errors
    /// Fail when a path cannot name a cgroup, or when the record cannot be read or written.
    pub fn start<P: AsRef<Path>>(system: S, store: Store, cgroups: &[P]) -> Result<Self, Failure> {
        let found = cgroups.iter().map(|path| system.find(path.as_ref())).collect::<Result<Vec<_>, _>>()?;
        let mut this = Self {
            system,
            store,
            journal: Journal::new(),
            selection: Selection::default(),
            released: Vec::new(),
            quiet: false,
            leaving: BTreeMap::new(),
            trouble: LastProblem::default(),
            over: false,
        };
        this.recover()?;
        for found in found {
            this.take(found)?;
        }
        Ok(this)
    }

    fn recover(&mut self) -> Result<(), Failure> {
        let unusable = |error| journal::unusable(Path::new(journal::DIRECTORY), &error);
        let Some(remembered) = self.store.read().map_err(unusable)? else { return Ok(()) };
        self.store.write(&remembered).map_err(unusable)?;
        let resolve = |path: &String| self.system.resolve(Path::new(path)).ok();
        self.released = remembered.cgroups.iter().filter_map(resolve).collect();
        self.journal = remembered.journal;
        let before = self.journal.len();
        if self.restore_all() {
            self.released.clear();
            self.save().map_err(unusable)?;
            info!(
                "a previous scx_bias exited uncleanly; restored the policies of the {before} threads it had switched"
            );
        }
        Ok(())
    }

    fn opt_in(&mut self, cgroup: Cgroup) -> Result<(), Failure> {
        if self.selection.add(cgroup)?
            && let Err(error) = self.save()
        {
            // An unrecorded cgroup would not be restored after a crash.
            let refused = self.selection.chosen.pop().map_or_else(String::new, |cgroup| cgroup.path);
            return Err(Failure::runtime(format!(
                "cgroup {refused}: cannot be recorded ({error}); make room in {}",
                journal::DIRECTORY
            )));
        }
        Ok(())
    }

    /// Opt a cgroup in. The next [`Self::pass`] switches its threads.
    ///
    /// # Errors
    /// Fail with a usage failure when the path names no cgroup. Fail with a runtime failure when
    /// the cgroup cannot be recorded.
    pub fn add(&mut self, path: &Path) -> Result<(), Failure> {
        let cgroup = self.system.resolve(path)?;
        self.opt_in(cgroup)
    }

    /// Release a cgroup. The next [`Self::pass`] restores the policies of its threads.
    ///
    /// # Errors
    /// Fail with a usage failure when the cgroup was not opted in.
    pub fn remove(&mut self, path: &Path) -> Result<(), Failure> {
        self.released.extend(self.selection.remove(path, &self.system)?);
        self.quiet = false;
        Ok(())
    }

    /// Return the opted-in cgroups that exist.
    #[must_use]
    pub fn cgroups(&self) -> &[Cgroup] {
        self.selection.cgroups()
    }

    /// Return the state of the opted-in cgroups.
    #[must_use]
    pub fn report(&self) -> CgroupsReport {
        let report = self.selection.report(&self.system, |policy| policy == policy::EXT);
        CgroupsReport { notes: self.trouble.0.iter().cloned().collect(), ..report }
    }

    /// Release all cgroups.
    pub fn remove_all(&mut self) {
        self.released.append(&mut self.selection.chosen);
        self.quiet = false;
    }

    /// Take note of an event. The next pass should follow soon.
    pub fn note_event(&mut self, notify: CgroupEvent, now: Instant) {
        let leaves = match notify {
            CgroupEvent::Inside => None,
            CgroupEvent::Left(process) => Some(process),
            // With any other parent, the process belongs to a user that asked for SCHED_EXT itself.
            CgroupEvent::Forked { process, maker } => {
                let leaving = self.leaving.get(&maker.tid);
                leaving.filter(|(start, _)| *start == maker.start).map(|_| process)
            }
        };
        if let Some(process) = leaves {
            self.leaving.insert(process.tid, (process.start, now + WATCHED));
        }
    }

    /// Scan, and carry out the changes. The caller should report all earlier events first.
    pub fn pass(&mut self, now: Instant) {
        let quiet = self.settle();
        if quiet && self.quiet && !self.released.is_empty() {
            // Two scans found no switched thread there, and events reported those that left in
            // between.
            self.released.clear();
            // A surplus record does no harm.
            let _ = self.save();
        }
        self.quiet = quiet;
        self.leaving.retain(|_, (_, until)| now < *until);
        if self.store.is_bloated(self.journal.len())
            && let Err(error) = self.save()
        {
            self.trouble.report(format!("the record of threads cannot be rewritten: {error}"));
        }
    }

    /// Return true if a process is watched or a cgroup was just released. The next pass should then
    /// follow soon.
    #[must_use]
    pub fn is_watching(&self) -> bool {
        !self.leaving.is_empty() || !self.released.is_empty()
    }

    /// Return the ids of the cgroups that the kernel side should follow: true for opted-in ones,
    /// false for ones just released.
    #[must_use]
    pub fn followed(&self) -> BTreeMap<u64, bool> {
        let released = self.released.iter().map(|cgroup| (cgroup.id, false));
        released.chain(self.selection.chosen.iter().map(|cgroup| (cgroup.id, true))).collect()
    }

    /// Release all cgroups and restore the policies of all threads. If that fails, log the reason
    /// and return false. The caller repeats the call after further events.
    pub fn finish(&mut self) -> bool {
        self.over = true;
        self.remove_all();
        let done = self.restore_all();
        if done {
            // If the file stays, its content no longer applies.
            let _ = self.store.clear();
        }
        done
    }

    fn restore_all(&mut self) -> bool {
        for _ in 0..ATTEMPTS {
            if self.settle() {
                return true;
            }
            std::thread::sleep(PAUSE);
        }
        warn!(
            "could not restore the policies of all threads ({}); retry with `scx_bias cgroup restore`",
            self.trouble.reason()
        );
        false
    }

    /// Scan and act until there is nothing left to do. Return false if a change is left that cannot
    /// be made now.
    fn settle(&mut self) -> bool {
        for _ in 0..MAX_SCANS {
            let seen = self.scan();
            let plan = reconcile(&seen, &self.journal);
            let quiet = plan.actions.is_empty();
            let progress = self.carry_out(plan);
            if quiet {
                self.trouble.0 = None;
                return true;
            }
            if progress == 0 {
                break;
            }
        }
        false
    }

    /// Carry out a plan. Return the number of policies that were set.
    fn carry_out(&mut self, plan: PolicyPlan) -> usize {
        let entry = |tid: Tid| self.journal.get(&tid).map(|entry| (tid, entry.start));
        let mut back: Vec<_> = plan.forget.iter().filter_map(|tid| entry(*tid)).collect();
        for tid in &plan.forget {
            self.journal.remove(tid);
        }
        let recorded = self.store.record(&plan.record);
        match &recorded {
            Ok(()) => self.journal.extend(plan.record),
            Err(error) => {
                self.trouble.report(format!("threads cannot be recorded, so none are switched: {error}"))
            }
        }
        let mut progress = 0;
        for action in plan.actions {
            let result = match action {
                Action::Switch(id, previous) if recorded.is_ok() => self.switch(id, previous),
                Action::Switch(..) => continue,
                Action::Restore(id, previous) => self.restore(id, previous),
            };
            match (action, result) {
                (Action::Restore(id, _), Ok(true)) => {
                    back.extend(self.journal.remove(&id.tid).map(|_| (id.tid, id.start)));
                    progress += 1;
                }
                (_, Ok(done)) => progress += usize::from(done),
                (Action::Switch(id, _) | Action::Restore(id, _), Err(error)) => {
                    self.trouble.report(format!("the policy of thread {} cannot be set: {error}", id.tid));
                }
            }
        }
        // A surplus record does no harm.
        let _ = self.store.record_back(&back);
        progress
    }

    /// Return the thread's attributes if it still is the same thread.
    fn still(&self, id: Id) -> Option<Attr> {
        let attr = self.system.attr(id.tid)?;
        self.system.stat(id.tid).filter(|stat| stat.start == id.start && !stat.dead).map(|_| attr)
    }

    fn switch(&self, id: Id, previous: Previous) -> io::Result<bool> {
        let Some(attr) = self.still(id).filter(|attr| attr.policy == previous.policy) else {
            return Ok(false);
        };
        let idle = attr.policy == policy::IDLE;
        if idle && attr.nice != previous.nice {
            return Ok(false);
        }
        let nice = if idle { IDLE_NICE } else { attr.nice };
        self.set(id, Attr { policy: policy::EXT, nice, ..attr })
    }

    fn restore(&self, id: Id, previous: Previous) -> io::Result<bool> {
        let Some(attr) = self.still(id).filter(|attr| attr.policy == policy::EXT) else { return Ok(false) };
        let idle = previous.policy == policy::IDLE && attr.nice == IDLE_NICE;
        let nice = if idle { previous.nice } else { attr.nice };
        // The kernel accepts no nice value together with SCHED_IDLE.
        if idle && nice != attr.nice && !self.set(id, Attr { nice, ..attr })? {
            return Ok(false);
        }
        self.set(id, Attr { policy: previous.policy, nice, ..attr })
    }

    /// Set the attributes. Return false if the thread is gone.
    fn set(&self, id: Id, attr: Attr) -> io::Result<bool> {
        match self.system.set_attr(id.tid, attr) {
            Err(error) if error.raw_os_error() == Some(nix::libc::ESRCH) => Ok(false),
            result => result.map(|()| true),
        }
    }

    fn save(&mut self) -> io::Result<()> {
        let cgroups = self.selection.chosen.iter().chain(&self.released).map(|cgroup| cgroup.path.clone());
        self.store.write(&Remembered { cgroups: cgroups.collect(), journal: self.journal.clone() })
    }
}

/// Selection of cgroups.
impl<S: System> OptIn<S> {
    /// Opt in a cgroup of the configuration, now or when it appears.
    fn take(&mut self, found: Found) -> Result<(), Failure> {
        self.selection.configure(found).map_or(Ok(()), |cgroup| self.opt_in(cgroup))
    }

    /// Opt in a cgroup of the configuration, which may not exist yet.
    ///
    /// # Errors
    /// Fail as [`Self::add`] does, except when the path names no cgroup yet.
    pub fn opt_in_configured(&mut self, path: &Path) -> Result<(), Failure> {
        let found = self.system.find(path)?;
        self.take(found)
    }

    /// Opt in the cgroups that have appeared. Return true if there are any. The next [`Self::pass`]
    /// switches their threads.
    pub fn opt_in_arrived(&mut self) -> bool {
        let before = self.cgroups().len();
        for cgroup in self.selection.arrived(&self.system) {
            let path = cgroup.path.clone();
            if let Err(failure) = self.opt_in(cgroup) {
                self.trouble.report(failure.message);
                self.selection.wait_for(path);
            }
        }
        self.cgroups().len() > before
    }
}

/// Scans.
impl<S: System> OptIn<S> {
    /// Return all threads that [`reconcile`] needs.
    fn scan(&mut self) -> Vec<SeenThread> {
        let (mut others, _) = list(&self.system, &mut self.released);
        let (inside, some_gone) = self.selection.threads(&self.system);
        if some_gone {
            // A failure is harmless, because recovery skips recorded paths that are not cgroups.
            let _ = self.save();
        }
        let own: BTreeSet<Tid> = self.system.own().into_iter().collect();
        others.extend(self.leaving.keys().flat_map(|process| self.system.process(*process)));
        others.extend(self.journal.keys());
        others.extend(&own);
        let inside: BTreeSet<Tid> = inside.difference(&own).copied().collect();
        let others = others.difference(&inside).map(|tid| self.examine(*tid, false, &own));
        let inside = inside.iter().map(|tid| self.unchanged(*tid).or_else(|| self.examine(*tid, true, &own)));
        others.chain(inside).flatten().collect()
    }

    /// Return a thread that is listed inside if it needs no change. This check is cheap. The agent
    /// verifies the thread's identity before any change.
    fn unchanged(&self, tid: Tid) -> Option<SeenThread> {
        let entry = self.journal.get(&tid)?;
        let Attr { policy, nice, .. } = self.system.attr(tid).filter(|attr| attr.policy == policy::EXT)?;
        Some(SeenThread {
            id: Id { tid, start: entry.start },
            policy,
            nice,
            place: Place::Inside,
            maker: None,
        })
    }

    /// Return the data of a thread, `listed` inside or not. Return None if the thread does not
    /// matter.
    fn examine(&self, tid: Tid, listed: bool, own: &BTreeSet<Tid>) -> Option<SeenThread> {
        let Attr { policy, nice, .. } = self.system.attr(tid)?;
        let entry = self.journal.get(&tid);
        if entry.is_none() && policy != policy::EXT && !(listed && policy::is_switched(policy)) {
            return None;
        }
        let Stat { start, dead, kernel, .. } = self.system.stat(tid)?;
        if dead || kernel {
            return None;
        }
        // The start time was read before and is checked again before any change. The place thus
        // belongs to the same thread, even if its pid is reused.
        let place = self.place_of(tid, own);
        let inherited = policy == policy::EXT && entry.is_none_or(|entry| entry.start != start);
        let maker = if inherited { self.maker(tid) } else { None };
        Some(SeenThread { id: Id { tid, start }, policy, nice, place, maker })
    }

    fn place_of(&self, tid: Tid, own: &BTreeSet<Tid>) -> Place {
        let name = self.system.cgroup_of(tid).unwrap_or_default();
        let within = |cgroups: &[Cgroup]| cgroups.iter().any(|cgroup| cgroup.covers(&name));
        match (within(self.cgroups()), within(&self.released)) {
            (true, _) if !own.contains(&tid) => Place::Inside,
            (true, _) | (_, true) => Place::Released,
            _ if self.is_leaving(tid).unwrap_or(false) => Place::Released,
            _ => Place::Outside,
        }
    }

    fn is_leaving(&self, tid: Tid) -> Option<bool> {
        if self.leaving.is_empty() {
            return None;
        }
        let process = self.system.lineage(tid)?.process;
        let (start, _) = self.leaving.get(&process)?;
        Some(self.system.stat(process)?.start == *start)
    }

    /// Return the maker of a thread with inherited SCHED_EXT: its nearest ancestor with a known
    /// previous state.
    fn maker(&self, mut tid: Tid) -> Option<Maker> {
        let mut maker = None;
        for _ in 0..GENERATIONS {
            let Lineage { process, parent } = self.system.lineage(tid)?;
            tid = if process == tid { parent } else { process };
            let start = self.system.stat(tid)?.start;
            let Attr { policy, nice, .. } = self.system.attr(tid)?;
            maker = Some(Maker { id: Id { tid, start }, policy, nice });
            if policy != policy::EXT || self.journal.get(&tid).is_some_and(|entry| entry.start == start) {
                break;
            }
        }
        maker
    }
}

impl<S: System> Drop for OptIn<S> {
    fn drop(&mut self) {
        if !self.over {
            self.finish();
        }
    }
}

impl OptIn<Linux> {
    /// Opt these cgroups of this machine in, as [`Self::start`] does.
    ///
    /// # Errors
    /// Fail as [`Store::open`] and [`Self::start`] do.
    pub fn on_this_machine<P: AsRef<Path>>(cgroups: &[P]) -> Result<Self, Failure> {
        let system = Linux::default();
        let store = Store::open(Path::new(journal::DIRECTORY), &system.boot())?;
        Self::start(system, store, cgroups)
    }
}

/// Restore the policies on this machine that a killed scx_bias has recorded. Return the number of
/// recorded threads.
///
/// # Errors
/// Fail as [`restore_in`] does.
pub fn restore() -> Result<usize, Failure> {
    let system = Linux::default();
    let boot = system.boot();
    restore_in(system, Path::new(journal::DIRECTORY), &boot)
}

/// Restore the policies that are recorded in `directory`. Do nothing, and create no file, if there
/// is no record.
///
/// # Errors
/// * [`crate::failure::Exit::OtherScheduler`]: a running scx_bias holds the record.
/// * [`crate::failure::Exit::Kernel`]: a capability is missing.
/// * [`crate::failure::Exit::Runtime`]: some policy cannot be restored, and the record stays.
pub(super) fn restore_in<S: System>(system: S, directory: &Path, boot: &str) -> Result<usize, Failure> {
    match Store::exists(directory) {
        Ok(true) => {}
        Ok(false) => return Ok(0),
        Err(error) => {
            return Err(Failure::kernel(format!("cannot search {}: {error}; use sudo", directory.display())));
        }
    }
    let store = Store::open(directory, boot)?;
    let recorded = store.read().ok().flatten().map_or(0, |remembered| remembered.journal.len());
    let mut optin = OptIn::start(system, store, &[] as &[&Path])?;
    if !optin.finish() {
        return Err(Failure::runtime(
            "some threads still have SCHED_EXT; run `scx_bias cgroup restore` again",
        ));
    }
    Ok(recorded)
}
