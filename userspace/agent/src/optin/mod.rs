//! Opted-in cgroups: only their threads run under scx_bias.
//!
//! Problem. With SCX_OPS_SWITCH_PARTIAL the kernel gives a sched_ext scheduler the threads of policy SCHED_EXT. A cgroup has no policy, only
//! its threads have: they have to be switched one by one, those that come later too, and given back what they had when they leave, when the
//! cgroup is not opted in any more, when the scheduler ends, and after it was killed.
//!
//! Approach. A look: who is in the opted-in cgroups (`cgroup.threads`), who else is recorded or was seen leaving, and what policy each has.
//! [`plan::reconcile`] says what that asks for; it is recorded ([`journal`]) and carried out. Looks are repeated until one finds nothing to do,
//! because threads that are forked meanwhile by ones not yet switched have to be switched too. A look is taken when the kernel side hints
//! at something (`bpf/optin.bpf.h`), and each second whatever it hints.
//!
//! What a hint alone can tell is that a thread that is outside with our policy has it from us, though it was never seen inside:
//! forked and moved out between two looks. For a while such threads are treated like those of a cgroup that was let go.
//!
//! Invariants. Those of [`plan`], whatever threads do between any two system calls (tests in `tests.rs`). Before a policy is set, the thread is
//! looked at again: it must be the one that was meant and have the policy that was meant. This process itself is never switched, nor
//! are threads of the kernel.
//!
//! Limits. Between that last look and the system call a few microseconds pass, in which the thread could end, its number be used
//! again, or its nice value change. Hints that were lost are made up for by looks, but for threads of the kind above: they
//! keep SCHED_EXT, and run under scx_bias as anybody's who asks for that policy.

pub mod cgroup;
pub mod chosen;
pub mod journal;
mod look;
pub mod plan;
pub mod quota;
mod report;
mod restore;
pub mod system;
#[cfg(test)]
mod tests;
pub mod waiting;
#[cfg(test)]
mod world;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use tracing::{info, warn};

pub use report::{CgroupReport, Report, Request};
pub use restore::restore;

use crate::failure::Failure;
use cgroup::{Cgroup, Found};
use journal::{Remembered, Store};
use plan::{Action, IDLE_NICE, Id, Journal, Plan, Previous, Tid, policy, reconcile};
use system::{Attr, System};
use waiting::Waiting;

/// Looks in a row. Each finds those that were forked during the one before: soon none.
const LOOKS: usize = 16;
/// How often ending tries to give everything back, and the pause between.
const ATTEMPTS: usize = 20;
const PAUSE: Duration = Duration::from_millis(10);
/// How long a process that was seen leaving is watched. The hint comes before the move.
const WATCHED: Duration = Duration::from_secs(2);
/// What the kernel side says should be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hint {
    /// Something inside.
    Inside,
    /// A process leaves.
    Left(Id),
    /// A process was born outside with our policy, of another one outside.
    Born {
        /// It.
        process: Id,
        /// The other.
        maker: Id,
    },
}

/// The opted-in cgroups and their threads. Dropping it gives every thread back what it had.
pub struct OptIn<S: System> {
    system: S,
    store: Store,
    journal: Journal,
    inside: Vec<Cgroup>,
    /// Let go, but not yet found without threads of ours.
    released: Vec<Cgroup>,
    /// The last pass left nothing to do.
    quiet: bool,
    /// Processes that were seen leaving, when they started, and until when they are watched.
    leaving: BTreeMap<Tid, (u64, Instant)>,
    /// Chosen cgroups that are not there.
    waiting: Waiting,
    /// What goes wrong.
    trouble: Option<String>,
    /// All was given back, or it was tried.
    over: bool,
}

impl<S: System> OptIn<S> {
    /// Gives back what a scx_bias that was killed has left, then opts the cgroups in. Nothing is switched before [`Self::pass`].
    ///
    /// # Errors
    /// When a path is no cgroup, or nothing can be recorded.
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
                journal::FOLDER
            ))
        };
        let Some(remembered) = self.store.read().map_err(unusable)? else { return Ok(()) };
        self.store.write(&remembered).map_err(unusable)?;
        let resolve = |path: &String| self.system.resolve(Path::new(path)).ok();
        self.released = remembered.cgroups.iter().filter_map(resolve).collect();
        self.journal = remembered.journal;
        let before = self.journal.len();
        if self.give_back() {
            self.released.clear();
            self.save().map_err(unusable)?;
            info!(
                "a scx_bias that did not end well had opted in cgroups; {before} threads were recorded, all have what they had before"
            );
        }
        Ok(())
    }

    fn opt_in(&mut self, cgroup: Cgroup) -> Result<(), Failure> {
        if !chosen::admits(&self.inside, &cgroup)? {
            return Ok(());
        }
        self.inside.push(cgroup);
        self.save().map_err(|error| {
            let refused = self.inside.pop().map_or_else(String::new, |cgroup| cgroup.path);
            Failure::runtime(format!(
                "cgroup {refused}: cannot be recorded ({error}); make room in {}",
                journal::FOLDER
            ))
        })
    }

    /// Opts a cgroup in. Its threads are switched by the next [`Self::pass`].
    ///
    /// # Errors
    /// Usage failure when the path names no cgroup; runtime failure when it cannot be recorded.
    pub fn add(&mut self, path: &Path) -> Result<(), Failure> {
        let cgroup = self.system.resolve(path)?;
        self.opt_in(cgroup)
    }

    /// Lets a cgroup go. Its threads are given back what they had by the next [`Self::pass`].
    ///
    /// # Errors
    /// Usage failure when it was not opted in.
    pub fn remove(&mut self, path: &Path) -> Result<(), Failure> {
        let now = self.system.find(path).ok();
        let waited = self.waiting.forget(now.as_ref().map_or(&path.to_string_lossy(), Found::path));
        match chosen::position(&self.inside, path, now) {
            Ok(at) => self.released.push(self.inside.remove(at)),
            Err(failure) if !waited => return Err(failure),
            Err(_) => {}
        }
        self.quiet = false;
        Ok(())
    }

    /// Lets all cgroups go.
    pub fn remove_all(&mut self) {
        self.released.append(&mut self.inside);
        self.quiet = false;
    }

    /// Takes note of a hint. The next pass should come soon.
    pub fn heard(&mut self, hint: Hint, now: Instant) {
        let leaves = match hint {
            Hint::Inside => None,
            Hint::Left(process) => Some(process),
            // Else somebody's who asked for the policy.
            Hint::Born { process, maker } => {
                let leaving = self.leaving.get(&maker.tid);
                leaving.filter(|(start, _)| *start == maker.start).map(|_| process)
            }
        };
        if let Some(process) = leaves {
            self.leaving.insert(process.tid, (process.start, now + WATCHED));
        }
    }

    /// Looks, and does what is to be done. All hints that came before should have been heard.
    pub fn pass(&mut self, now: Instant) {
        let quiet = self.settle();
        if quiet && self.quiet && !self.released.is_empty() {
            // Nobody of ours was in there twice, and who got out in between was hinted at.
            self.released.clear();
            // What is recorded too much does no harm.
            let _ = self.save();
        }
        self.quiet = quiet;
        self.leaving.retain(|_, (_, until)| now < *until);
        if self.store.is_bloated(self.journal.len())
            && let Err(error) = self.save()
        {
            self.complain(format!("the record of threads cannot be written anew: {error}"));
        }
    }

    /// Is anybody watched, or a cgroup just let go, so that the next pass should come soon?
    #[must_use]
    pub fn is_watching(&self) -> bool {
        !self.leaving.is_empty() || !self.released.is_empty()
    }

    /// What the kernel side should follow: the kernel's numbers of cgroups, opted in (true) or just let go.
    #[must_use]
    pub fn followed(&self) -> BTreeMap<u64, bool> {
        let released = self.released.iter().map(|cgroup| (cgroup.id, false));
        released.chain(self.inside.iter().map(|cgroup| (cgroup.id, true))).collect()
    }

    /// Lets all cgroups go, and gives every thread back what it had. False, and said why, if that did not succeed. To be called again for hints
    /// that came meanwhile.
    pub fn finish(&mut self) -> bool {
        self.over = true;
        self.remove_all();
        let done = self.give_back();
        if done {
            // If it stays, it tells of nothing that still is so.
            let _ = self.store.clear();
        }
        done
    }

    fn give_back(&mut self) -> bool {
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

    /// Looks and acts until there is nothing left to do; false if there is, but cannot be done now.
    fn settle(&mut self) -> bool {
        for _ in 0..LOOKS {
            let seen = self.look();
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

    /// Does what is planned; the number of policies that were set.
    fn carry_out(&mut self, plan: Plan) -> usize {
        let entry = |tid: Tid| self.journal.get(&tid).map(|entry| (tid, entry.start));
        let mut back: Vec<_> = plan.forget.iter().filter_map(|tid| entry(*tid)).collect();
        for tid in &plan.forget {
            self.journal.remove(tid);
        }
        let recorded = self.store.record(&plan.record);
        match &recorded {
            Ok(()) => self.journal.extend(plan.record),
            Err(error) => self.complain(format!("threads cannot be recorded, so none are switched: {error}")),
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
                    self.complain(format!("the policy of thread {} cannot be set: {error}", id.tid));
                }
            }
        }
        // What is recorded too much does no harm.
        let _ = self.store.record_back(&back);
        progress
    }

    /// How the thread is scheduled, if it still is the one that was meant.
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
        // The kernel takes no nice value together with SCHED_IDLE.
        if idle && nice != attr.nice && !self.set(id, Attr { nice, ..attr })? {
            return Ok(false);
        }
        self.set(id, Attr { policy: previous.policy, nice, ..attr })
    }

    /// False if the thread is gone.
    fn set(&self, id: Id, attr: Attr) -> io::Result<bool> {
        match self.system.set_attr(id.tid, attr) {
            Err(error) if error.raw_os_error() == Some(nix::libc::ESRCH) => Ok(false),
            result => result.map(|()| true),
        }
    }

    fn save(&mut self) -> io::Result<()> {
        let cgroups = self.inside.iter().chain(&self.released).map(|cgroup| cgroup.path.clone());
        self.store.write(&Remembered { cgroups: cgroups.collect(), journal: self.journal.clone() })
    }

    /// Says what went wrong, once.
    fn complain(&mut self, what: String) {
        if self.trouble.as_ref() != Some(&what) {
            warn!("{what}");
        }
        self.trouble = Some(what);
    }
}

impl<S: System> Drop for OptIn<S> {
    fn drop(&mut self) {
        if !self.over {
            self.finish();
        }
    }
}
