//! Planned swaps: the agent's part in placing tasks where they gain most.
//!
//! # Problem
//! On a balanced system, where every CPU is busy and no task waits, dispatch never corrects a bad
//! initial placement. The kernel side's own swaps (`bpf/move.bpf.h`) cover the part of the machine
//! that a tick can search. They act on predictions alone and never check the result.
//!
//! # Approach
//! Every interval:
//!
//! 1. Take a snapshot of each CPU's resident task from memory shared with the kernel side
//!    ([`precheck`]). If no pair promises a gain, stop here.
//! 2. Query these tasks ([`snapshot`]) and make a plan ([`bias_policy::swap`]).
//! 3. Ask for each swap of the plan. The kernel side checks it once more (`bpf/swap.bpf.h`). The
//!    tasks of a refused swap wait, twice as long each time.
//! 4. Follow each swap that was carried out as a [`trial`]: compare instructions per time of both
//!    tasks before and after. [`bias_policy::audit`] judges it, delays tasks whose swaps do not
//!    pay, and learns.
//!
//! The learned factors go into the costs of slow CPUs ([`crate::costs`]). The measured time of
//! migrations goes into the planner's limits.
//!
//! The time until the next snapshot, in intervals:
//!
//! | intervals | state |
//! |---|---|
//! | 1 | a swap looks profitable, or a trial is open, or queueing began only recently |
//! | 2 | placement is good, or promising pairs repeatedly give an empty plan |
//! | 5 | tasks keep queueing on every node, so that each dispatch places them anyway |
//!
//! An idle machine is watched as well, because a load may begin at any time. A queue that one
//! snapshot shows, or a swap that is once lost or refused, costs one interval. Only repetition
//! costs more.
//!
//! With the kernel side's swaps on, which is the default, this module handles only what they cannot
//! reach (large machines) and what they get wrong. Tasks of about equal gain are not swapped here.
//! The kernel side rotates them (`rotate_gap`), which is all that a homogeneous load can gain.
//!
//! # Invariants
//! Tests of this module check these:
//!
//! * A task that has ended is never swapped, and pid reuse does not confuse it with another task.
//! * Refusals and requests without effect become rare. Where nothing changes, swaps end.
//! * An interval has at most as many swaps as the planner's limit. Memory is bounded.
//! * No answer of the kernel side causes a panic. If its calls keep failing, swaps are off and
//!   `status` says so.
//!
//! # Limits
//! Swaps of the kernel side are not judged. Instructions count as work. Weights are ignored. Tasks
//! confined to CPUs beyond the first 64 are not swapped.

mod backend;
#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
mod fault_tests;
mod follow;
mod report;
mod rt_guard;
mod snapshot;
#[cfg(test)]
mod tests;
mod trial;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use bias_policy::audit::{Audit, AuditLimits, BackoffLimits, Backoffs};
use bias_policy::costs::Costs;
use bias_policy::swap::{Limits, Outlook, Resident, Swap, plan, precheck};
use bias_policy::table::Class;
use tracing::{debug, warn};

pub use backend::{RecentWork, Refusal, Side, SwapBackend, SwapRequest, Task};
pub use report::{SwapRecord, SwapSummary, SwapsReport, Tally};
pub use rt_guard::RtGuard;

use crate::costs::Live;
use follow::still;
use report::History;
use snapshot::Gathered;
use trial::{Half, Trial};

/// Smallest change of a learned factor that is taken over [permille].
const MIN_CHANGE_PERMILLE: u32 = 10;
/// Samples before factors are used. Each moves the factors by an eighth of its error.
const MIN_SAMPLES: u64 = 8;
/// Pause while swaps are off.
const FOREVER: Duration = Duration::from_secs(3600);
/// Failed calls to the kernel side in a row after which swaps are off.
const MAX_FAILURES: u32 = 10;
/// Empty plans in a row after which plans are made less often.
const FRUITLESS: u32 = 5;
/// Snapshots in a row with queueing tasks after which snapshots are taken less often. A
/// short-running task that preempts another, or is preempted, queues for one slice only.
const PASSING: u32 = 5;
/// Most tasks that the loop keeps data of.
const MAX_TASKS: usize = 4096;
/// Backoff of a task whose swap was refused or had no effect, from the time of the request. The
/// first one is shorter than an interval, so that the next step asks again.
const REFUSALS: BackoffLimits =
    BackoffLimits { base_ns: 25_000_000, max_ns: 60_000_000_000, forgive_ns: 10_000_000_000 };
/// Bounds of the measured time of a migration [ns]. Beyond them the task waited for something else.
const MIGRATION_NS: (u64, u64) = (10_000, 20_000_000);

/// The reason why no swaps are planned on a machine with one class.
const EVEN: &str = "all CPUs count as equally fast";

/// The user's options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwapOptions {
    /// True to plan swaps.
    pub enabled: bool,
    /// Time between snapshots while a swap looks profitable.
    pub interval: Duration,
}

impl Default for SwapOptions {
    fn default() -> Self {
        Self { enabled: true, interval: Duration::from_millis(50) }
    }
}

/// State of the loop that plans swaps.
#[derive(Debug)]
pub struct Swaps {
    interval_ns: u64,
    /// The reason why no swaps are planned; None if they are.
    off: Option<String>,
    /// Version of the costs that open trials and the audit's factors belong to.
    version: u64,
    limits: Limits,
    audit: Audit,
    refusals: Backoffs,
    trials: Vec<Trial>,
    history: History,
    tally: Tally,
    /// Tasks with a backoff: start time by pid.
    known: BTreeMap<u32, u64>,
    /// Known tasks whose last swap another migration undid, with its time. These need no rest.
    passed: BTreeMap<u32, u64>,
    residents: Vec<Resident>,
    /// Pid up to which the sweep has checked the known tasks.
    swept: u32,
    round: u64,
    fruitless: u32,
    queued: u32,
    failures: u32,
    due_ns: u64,
}

impl Swaps {
    /// Create the loop. `counting` says whether some CPU counts stalls.
    #[must_use]
    pub fn new(live: &Live, counting: bool, options: &SwapOptions) -> Self {
        let off = if !options.enabled {
            Some("switched off by --no-swap")
        } else if live.table().nr_classes() == 1 {
            Some(EVEN)
        } else if !counting {
            Some("no CPU has counters, so that tasks cannot be told apart")
        } else {
            None
        };
        Self {
            interval_ns: options.interval.as_nanos().try_into().unwrap_or(u64::MAX),
            off: off.map(str::to_owned),
            version: live.costs.version(),
            limits: Limits::default(),
            audit: Audit::new(AuditLimits { max_tasks: MAX_TASKS, ..AuditLimits::default() }),
            refusals: Backoffs::new(REFUSALS, MAX_TASKS),
            trials: Vec::new(),
            history: History::default(),
            tally: Tally::default(),
            known: BTreeMap::new(),
            passed: BTreeMap::new(),
            residents: Vec::new(),
            swept: 0,
            round: 0,
            fruitless: 0,
            queued: 0,
            failures: 0,
            due_ns: 0,
        }
    }

    /// Start over if recalibration has changed `costs`: forget the factors learnt with the old ones
    /// and abandon open trials.
    pub fn follow_costs(&mut self, costs: &mut Costs) {
        if self.version == costs.version() {
            return;
        }
        let (even, now_even) = (self.off.as_deref() == Some(EVEN), costs.clocked().nr_classes() == 1);
        if even != now_even && (even || self.off.is_none()) {
            self.off = now_even.then(|| EVEN.to_owned());
        }
        self.audit.correction = Default::default();
        costs.set_learned(self.audit.correction.factors_permille());
        self.version = costs.version();
        // The costs that they would be measured by have changed.
        self.tally.undone += self.trials.len() as u64;
        self.trials.clear();
    }

    /// Return true if swaps are planned.
    #[must_use]
    pub fn are_planned(&self) -> bool {
        self.off.is_none()
    }

    /// Take a step if one is due at `now_ns`, and return the time until the next call.
    pub fn step(&mut self, now_ns: u64, kernel: &impl SwapBackend, live: &mut Live) -> Duration {
        if self.off.is_some() {
            return FOREVER;
        }
        if now_ns < self.due_ns {
            return Duration::from_nanos(self.due_ns - now_ns);
        }
        let pause_ns = match self.take_step(now_ns, kernel, live) {
            Ok(pause_ns) => {
                self.failures = 0;
                pause_ns
            }
            Err(error) => {
                self.failures += 1;
                debug!("swaps: {error:#}");
                if self.failures >= MAX_FAILURES {
                    warn!("no swaps are planned any more, for the kernel refuses what they need: {error:#}");
                    self.off = Some(format!("the kernel refuses what they need: {error:#}"));
                }
                self.interval_ns.saturating_mul(5)
            }
        };
        self.due_ns = now_ns.saturating_add(pause_ns);
        Duration::from_nanos(pause_ns)
    }

    /// Take one step and return the pause until the next one [ns].
    fn take_step(&mut self, now_ns: u64, kernel: &impl SwapBackend, live: &mut Live) -> Result<u64> {
        self.follow_trials(now_ns, kernel, live)?;
        self.sweep(kernel)?;
        let mut residents = std::mem::take(&mut self.residents);
        kernel.residents(&mut residents);
        let outlook = precheck(live.table(), &residents, now_ns, &self.limits);
        let promising = outlook == Outlook::Promising;
        let planned = if promising { self.plan(now_ns, &residents, kernel, live) } else { Ok(0) };
        self.residents = residents;
        self.fruitless = match (outlook, planned?) {
            (Outlook::Promising, 0) => self.fruitless.saturating_add(1),
            _ => 0,
        };
        self.queued = if outlook == Outlook::Queued { self.queued.saturating_add(1) } else { 0 };
        let idle = self.trials.is_empty();
        let times: u64 = match outlook {
            Outlook::Promising if self.fruitless <= FRUITLESS => 1,
            _ if !idle => 1,
            Outlook::Queued if self.queued > PASSING => 5,
            Outlook::Queued => 1,
            Outlook::Promising | Outlook::Settled => 2,
        };
        Ok(self.interval_ns.saturating_mul(times))
    }

    /// Plan swaps and ask for them. Return the number of planned swaps, refused ones included,
    /// whose tasks back off.
    fn plan(
        &mut self,
        now_ns: u64,
        residents: &[Resident],
        kernel: &impl SwapBackend,
        live: &Live,
    ) -> Result<usize> {
        let mut reused_pids = Vec::new();
        let gathered = Gathered::gather(
            live.table(),
            residents,
            |pid| {
                let mut task = kernel.query(pid)?;
                if let (Some(start_ns), Some(task)) = (self.known.get(&pid), &task)
                    && *start_ns != task.start_ns
                {
                    reused_pids.push(pid);
                }
                // A later migration, by any cause, is a different matter.
                if let Some(task) = &mut task
                    && task.moved_ns.is_some()
                    && task.moved_ns.as_ref() == self.passed.get(&pid)
                {
                    task.moved_ns = None;
                }
                Ok(task)
            },
            |task| self.resting_until_ns(task),
        )?;
        reused_pids.into_iter().for_each(|pid| self.forget(pid));
        let swaps = plan(&gathered.snapshot(live.table(), now_ns, self.round), &self.limits).swaps;
        self.round = self.round.wrapping_add(1);
        for swap in &swaps {
            let Some(trial) = self.trial(swap, &gathered, now_ns, live) else { continue };
            self.ask(trial, kernel)?;
        }
        Ok(swaps.len())
    }

    /// Return the time before which a task must not be swapped [ns].
    fn resting_until_ns(&self, task: &Task) -> u64 {
        if self.trials.iter().any(|trial| trial.concerns(task.pid)) {
            return u64::MAX;
        }
        if self.known.get(&task.pid) != Some(&task.start_ns) {
            return 0;
        }
        self.audit.backoffs.until_ns(task.pid).max(self.refusals.until_ns(task.pid))
    }

    fn trial(&self, swap: &Swap, gathered: &Gathered, now_ns: u64, live: &Live) -> Option<Trial> {
        let clocked = live.costs.clocked();
        let (up, down) = (gathered.tasks.get(&swap.up.pid)?, gathered.tasks.get(&swap.down.pid)?);
        Some(Trial {
            swap: *swap,
            asked_ns: now_ns,
            up: Half::new(up, swap.up.from, Class::Fast),
            down: Half::new(down, swap.down.from, Class::Slow),
            fast_permille: gathered.sharing.cost_permille(clocked.get(swap.down.from)?),
            slow_permille: gathered.sharing.cost_permille(clocked.get(swap.up.from)?),
        })
    }

    /// Ask for a swap.
    fn ask(&mut self, trial: Trial, kernel: &impl SwapBackend) -> Result<()> {
        let answer = kernel.ask(&SwapRequest { up: trial.up.side, down: trial.down.side })?;
        let pids = (trial.up.side.pid, trial.down.side.pid);
        match answer {
            Ok(()) => {
                debug!("swap asked for: {} goes up, {} goes down, {:?}", pids.0, pids.1, trial.swap);
                self.tally.asked += 1;
                self.trials.push(trial);
            }
            Err(why) => {
                debug!("swap of {} and {} refused: {why:?}", pids.0, pids.1);
                self.tally.refused += 1;
                self.came_to_nothing(&trial);
            }
        }
        Ok(())
    }

    fn remember(&mut self, side: Side) {
        if self.known.len() < MAX_TASKS || self.known.contains_key(&side.pid) {
            self.known.insert(side.pid, side.start_ns);
        }
    }

    fn forget(&mut self, pid: u32) {
        self.known.remove(&pid);
        self.passed.remove(&pid);
        self.audit.backoffs.forget(pid);
        self.refusals.forget(pid);
    }

    /// Check one known task, in rotation, and forget it if it has ended or needs no more backoff.
    fn sweep(&mut self, kernel: &impl SwapBackend) -> Result<()> {
        let next = self.known.range(self.swept..).next().or_else(|| self.known.iter().next());
        let Some((pid, start_ns)) = next.map(|(pid, start_ns)| (*pid, *start_ns)) else { return Ok(()) };
        self.swept = pid.wrapping_add(1);
        let waits = self.audit.backoffs.until_ns(pid) != 0 || self.refusals.until_ns(pid) != 0;
        if !waits || still(&Side { pid, start_ns, cpu: 0 }, kernel)?.is_none() {
            self.forget(pid);
        }
        Ok(())
    }

    /// Return the figures for the status.
    #[must_use]
    pub fn summary(&self) -> SwapSummary {
        SwapSummary {
            off: self.off.clone(),
            tally: self.tally,
            verdicts: self.audit.summary,
            migration_ns: self.limits.migration_ns,
            factors_permille: self.audit.correction.factors_permille(),
            error_permille: self.audit.correction.error_permille(),
            samples: self.audit.correction.samples(),
        }
    }

    /// Return the figures and the swaps from number `first` on.
    #[must_use]
    pub fn report(&self, now_ns: u64, first: u64) -> SwapsReport {
        SwapsReport {
            now_ns,
            summary: self.summary(),
            next: self.audit.summary.ended(),
            swaps: self.history.from(first),
        }
    }
}
