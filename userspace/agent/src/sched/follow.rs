//! Keeps the opted-in cgroups of a run and what the kernel side follows in step, and decides when to look.
//!
//! Approach. After a hint the next look comes soon, but not at once, for hints come in crowds; otherwise each [`SWEEP`]. Where the kernel side
//! cannot hint, and while a process is watched that is about to leave, each [`POLL`].
//!
//! The watching thread is given the highest nice value, for it has to act in time beside whatever busy threads it is about to switch.

use std::path::Path;
use std::time::{Duration, Instant};

use crossbeam::channel::{Receiver, never};
use nix::libc;
use tracing::{info, warn};

use super::hints::Hints;
use super::load::Loaded;
use crate::failure::Failure;
use crate::optin::system::Linux;
use crate::optin::{OptIn, Report, Request};

/// Between looks when nothing is hinted at.
const SWEEP: Duration = Duration::from_secs(1);
/// Between looks when nothing can be hinted at, or something is about to happen.
const POLL: Duration = Duration::from_millis(100);
/// Between a hint and the look.
const CROWD: Duration = Duration::from_millis(20);
/// Between two looks at least.
const LEAST: Duration = Duration::from_millis(50);

/// How often ending goes on because something was hinted at meanwhile.
const MOST_ENDS: usize = 32;

/// What kernels before 7.2 or so lack, and what comes of that.
const NO_SERVER: &str = "this kernel gives sched_ext no share of a CPU that the default scheduler's threads keep busy (it has no ext \
deadline server): opted-in threads can starve behind them, and after 30 s of that the kernel ends scx_bias. Leave CPUs to them, or \
add --whole-system to schedule everything and limit only bias to these cgroups";

/// Opted-in cgroups, followed.
pub(super) struct Follow<'a> {
    optin: &'a mut OptIn<Linux>,
    hints: Option<Hints>,
    due: Instant,
    last: Instant,
    notes: Vec<String>,
}

impl<'a> Follow<'a> {
    /// Switches what is opted in, and goes on following it.
    pub(super) fn start(optin: &'a mut OptIn<Linux>, loaded: &mut Loaded<'_>) -> Self {
        hurry();
        let mut notes = Vec::new();
        if !matches!(scx_utils::compat::struct_has_field("rq", "ext_server"), Ok(true)) {
            warn!("{NO_SERVER}");
            notes.push(NO_SERVER.to_owned());
        }
        let hints = loaded.hints().map_err(|error| {
            info!("opted-in cgroups are looked at each {} ms, for {error:#}", POLL.as_millis());
        });
        let now = Instant::now();
        let mut this = Self { optin, hints: hints.ok(), due: now, last: now, notes };
        this.look();
        for note in this.optin.report().cgroups.iter().filter_map(|cgroup| cgroup.note()) {
            warn!("{note}");
        }
        this
    }

    /// Rings when there is a hint.
    pub(super) fn bell(&self) -> Receiver<()> {
        self.hints.as_ref().map_or_else(never, |hints| hints.bell().clone())
    }

    /// The bell rang.
    pub(super) fn rang(&mut self) {
        self.hear();
        self.due = self.due.min((Instant::now() + CROWD).max(self.last + LEAST));
    }

    /// How long nothing is to be done.
    pub(super) fn patience(&self) -> Duration {
        self.due.saturating_duration_since(Instant::now())
    }

    /// Looks if it is time to.
    pub(super) fn tick(&mut self) {
        if Instant::now() >= self.due {
            self.look();
        }
    }

    /// Does what is asked.
    ///
    /// # Errors
    /// As [`OptIn::add`] and [`OptIn::remove`].
    pub(super) fn answer(&mut self, request: &Request) -> Result<Report, Failure> {
        match request {
            Request::List => {}
            Request::Add(path) => self.optin.add(path)?,
            Request::Remove(path) => self.optin.remove(path)?,
        }
        self.look();
        Ok(self.report())
    }

    /// What is so now.
    pub(super) fn report(&self) -> Report {
        let mut report = self.optin.report();
        report.notes.splice(0..0, self.notes.iter().cloned());
        report
    }

    /// Gives every thread back what it had.
    pub(super) fn finish(&mut self) {
        self.optin.remove_all();
        self.follow();
        self.hear();
        for _ in 0..MOST_ENDS {
            self.optin.finish();
            if !self.hear() {
                break;
            }
        }
    }

    /// Was there anything to be heard?
    fn hear(&mut self) -> bool {
        let now = Instant::now();
        let hints: Vec<_> = self.hints.iter().flat_map(Hints::hear).collect();
        hints.iter().for_each(|hint| self.optin.heard(*hint, now));
        !hints.is_empty()
    }

    /// Opts in a cgroup that the configuration names, now or when it appears.
    ///
    /// # Errors
    /// As [`OptIn::want`].
    pub(super) fn want(&mut self, path: &Path) -> Result<(), Failure> {
        self.optin.want(path)?;
        self.look();
        Ok(())
    }

    fn look(&mut self) {
        self.optin.welcome();
        self.pass();
        // What was made anew since the last look was found to be gone only now.
        if self.optin.welcome() {
            self.pass();
        }
        self.last = Instant::now();
        self.due = self.last + if self.hints.is_none() || self.optin.is_watching() { POLL } else { SWEEP };
    }

    fn pass(&mut self) {
        // First those that were added or let go: what happens there from now on is hinted at.
        self.follow();
        self.hear();
        self.optin.pass(Instant::now());
        // Some may be gone.
        self.follow();
    }

    fn follow(&mut self) {
        let Some(hints) = &mut self.hints else { return };
        if let Err(error) = hints.follow(self.optin.followed()) {
            warn!(
                "the kernel side cannot follow opted-in cgroups: {error:#}; they are looked at each {} ms",
                POLL.as_millis()
            );
            self.hints = None;
        }
    }
}

/// Puts this thread before others. One that may not be works too, only later when CPUs are busy.
fn hurry() {
    const HIGHEST: libc::c_int = -20;
    // SAFETY: a system call on numbers; 0 is the calling thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, HIGHEST) };
}
