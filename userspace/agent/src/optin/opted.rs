// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The opted-in cgroups and their threads: events, scans, and the changes that they call for.

use super::cgroup::{Cgroup, Found};
use super::chosen::{admits, take_out};
use super::journal::{Remembered, Store};
use super::reconcile::{Action, IDLE_NICE, Id, Journal, PolicyPlan, Previous, Tid, policy, reconcile};
use super::system::{Attr, System};
use super::waiting::Waiting;
use crate::failure::Failure;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// Most scans in a row. Each finds the threads that were forked during the one before, and soon
/// there are none.
const MAX_SCANS: usize = 16;
/// Most attempts to restore all policies at the end, and the pause between them.
const ATTEMPTS: usize = 20;
const PAUSE: Duration = Duration::from_millis(10);
/// Time for which a leaving process is watched. Its event precedes the move.
pub(super) const WATCHED: Duration = Duration::from_secs(2);
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
    pub(super) system: S,
    pub(super) store: Store,
    pub(super) journal: Journal,
    pub(super) inside: Vec<Cgroup>,
    /// Released cgroups in which a scan may still find switched threads.
    pub(super) released: Vec<Cgroup>,
    /// True if the last pass left nothing to do.
    pub(super) quiet: bool,
    /// Processes that were seen leaving, with their start times and the ends of their watches.
    pub(super) leaving: BTreeMap<Tid, (u64, Instant)>,
    /// Selected cgroups that do not exist at present.
    pub(super) waiting: Waiting,
    /// Last problem, None if there is none.
    pub(super) trouble: Option<String>,
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
            inside: Vec::new(),
            released: Vec::new(),
            quiet: false,
            leaving: BTreeMap::new(),
            waiting: Waiting::default(),
            trouble: None,
            over: false,
        };
        this.recover()?;
        for found in found {
            this.take(found)?;
        }
        Ok(this)
    }

    fn recover(&mut self) -> Result<(), Failure> {
        let unusable = |error: io::Error| {
            Failure::kernel(format!(
                "cannot use {}/: {error}; what a scx_bias that was killed has recorded there is needed to give its threads back what they had",
                super::journal::DIRECTORY
            ))
        };
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
                "a scx_bias that did not end well had opted in cgroups; {before} threads were recorded, all have what they had before"
            );
        }
        Ok(())
    }

    fn opt_in(&mut self, cgroup: Cgroup) -> Result<(), Failure> {
        if !admits(&self.inside, &cgroup)? {
            return Ok(());
        }
        self.inside.push(cgroup);
        self.save().map_err(|error| {
            let refused = self.inside.pop().map_or_else(String::new, |cgroup| cgroup.path);
            Failure::runtime(format!(
                "cgroup {refused}: cannot be recorded ({error}); make room in {}",
                super::journal::DIRECTORY
            ))
        })
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
        self.released.extend(take_out(&mut self.inside, &mut self.waiting, path, &self.system)?);
        self.quiet = false;
        Ok(())
    }

    /// Return the opted-in cgroups that exist.
    #[must_use]
    pub fn cgroups(&self) -> &[Cgroup] {
        &self.inside
    }

    /// Release all cgroups.
    pub fn remove_all(&mut self) {
        self.released.append(&mut self.inside);
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
            self.report_trouble(format!("the record of threads cannot be written again: {error}"));
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
        released.chain(self.inside.iter().map(|cgroup| (cgroup.id, true))).collect()
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
            "not all threads could be given back what they had before ({}); `scx_bias cgroup restore` repeats it",
            self.trouble.as_deref().unwrap_or("they change all the time")
        );
        false
    }

    /// Scan and act until there is nothing left to do. Return false if a change is left that cannot
    /// be made now.
    pub(super) fn settle(&mut self) -> bool {
        for _ in 0..MAX_SCANS {
            let seen = self.scan();
            let plan = reconcile(&seen, &self.journal);
            let quiet = plan.actions.is_empty();
            let progress = self.carry_out(plan);
            if quiet {
                self.trouble = None;
                return true;
            }
            if progress == 0 {
                break;
            }
        }
        false
    }

    /// Carry out a plan. Return the number of policies that were set.
    pub(super) fn carry_out(&mut self, plan: PolicyPlan) -> usize {
        let entry = |tid: Tid| self.journal.get(&tid).map(|entry| (tid, entry.start));
        let mut back: Vec<_> = plan.forget.iter().filter_map(|tid| entry(*tid)).collect();
        for tid in &plan.forget {
            self.journal.remove(tid);
        }
        let recorded = self.store.record(&plan.record);
        match &recorded {
            Ok(()) => self.journal.extend(plan.record),
            Err(error) => {
                self.report_trouble(format!("threads cannot be recorded, so none are switched: {error}"))
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
                    self.report_trouble(format!("the policy of thread {} cannot be set: {error}", id.tid));
                }
            }
        }
        // A surplus record does no harm.
        let _ = self.store.record_back(&back);
        progress
    }

    /// Return the thread's attributes if it still is the same thread.
    pub(super) fn still(&self, id: Id) -> Option<Attr> {
        let attr = self.system.attr(id.tid)?;
        self.system.stat(id.tid).filter(|stat| stat.start == id.start && !stat.dead).map(|_| attr)
    }

    pub(super) fn switch(&self, id: Id, previous: Previous) -> io::Result<bool> {
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

    pub(super) fn restore(&self, id: Id, previous: Previous) -> io::Result<bool> {
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
    pub(super) fn set(&self, id: Id, attr: Attr) -> io::Result<bool> {
        match self.system.set_attr(id.tid, attr) {
            Err(error) if error.raw_os_error() == Some(nix::libc::ESRCH) => Ok(false),
            result => result.map(|()| true),
        }
    }

    pub(super) fn save(&mut self) -> io::Result<()> {
        let cgroups = self.inside.iter().chain(&self.released).map(|cgroup| cgroup.path.clone());
        self.store.write(&Remembered { cgroups: cgroups.collect(), journal: self.journal.clone() })
    }

    /// Log a problem unless it is the one that was logged last.
    fn report_trouble(&mut self, what: String) {
        if self.trouble.as_ref() != Some(&what) {
            warn!("{what}");
        }
        self.trouble = Some(what);
    }
}

impl<S: System> OptIn<S> {
    /// Opt in a cgroup of the configuration, at once or when it appears.
    pub(super) fn take(&mut self, found: Found) -> Result<(), Failure> {
        self.waiting.configure(found.path());
        match found {
            Found::Here(cgroup) => self.opt_in(cgroup),
            Found::Later(path) => {
                warn!("the cgroup {path} does not exist yet; it is opted in when it appears");
                self.waiting.add(path);
                Ok(())
            }
        }
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
        let before = self.inside.len();
        for cgroup in self.waiting.arrived(&self.system) {
            let path = cgroup.path.clone();
            match self.opt_in(cgroup) {
                Ok(()) => info!("the cgroup {path} is there: it is opted in"),
                Err(failure) => {
                    self.report_trouble(failure.message);
                    self.waiting.add(path);
                }
            }
        }
        self.inside.len() > before
    }
}

impl<S: System> Drop for OptIn<S> {
    fn drop(&mut self) {
        if !self.over {
            self.finish();
        }
    }
}
