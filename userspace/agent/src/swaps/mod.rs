//! Swaps: the agent's part of putting tasks where they gain most.
//!
//! Problem. On a balanced system, every CPU busy and nothing waiting, a bad start is never corrected by dispatch. The kernel side's own swaps
//! ([`bpf/move.bpf.h`]) see the part of the machine that a tick can search, act on predictions alone and never look back.
//!
//! Approach. Every interval:
//! * A glance at what sits on each CPU, in memory shared with the kernel side ([`watch`]). If no pair promises anything, that is all.
//! * A look at the tasks that sit there ([`scene`]), and a plan ([`bias_policy::swap`]).
//! * Each swap of the plan is asked for; the kernel side checks it once more (`bpf/swap.bpf.h`). Who is refused waits, twice as long each time.
//! * A swap that was carried out is a [`trial`]: what both tasks did before and after, in instructions per time, is compared, and
//!   [`bias_policy::audit`] judges it, delays tasks whose swaps do not pay, and learns. What it learnt of the slow CPUs' costs goes into the next plans and
//!   to the kernel side; what migrations were measured to take is what the planner counts for them.
//!
//! Pace. A glance a fifth as often where tasks keep queueing, for there each dispatch decides anew; half as often where all is well, or where what promises something never
//! gets into a plan. An idle machine is glanced at, too, as a load may begin at any time. What passes must not delay what stays: a queue that one glance sees, a
//! swap that gets lost or is refused once cost one interval, and only what repeats itself costs more.
//!
//! With the kernel side's swaps on, which is the default, there is little left to do here: what they cannot reach (large machines), and what they get wrong.
//! Homogeneous loads: tasks of about equal gain are not swapped here; the kernel side rotates them (`rotate_gap`), which is all that is to be gained.
//!
//! Invariants (tests beside this module). A task that has ended is never swapped, nor is its successor of the same number mistaken for it. Refusals and
//! requests that come to nothing become rare. Where nothing changes, swaps end. At most so many swaps an interval as the planner's limit. Memory is
//! bounded. Whatever the kernel side answers, nothing here panics; if it keeps refusing to answer, swaps are off and `status` says so.
//!
//! Limits. Swaps of the kernel side are not judged. Instructions are taken as work. Weights are not looked at. Tasks confined to CPUs beyond the first 64 are
//! not swapped.

#[cfg(test)]
mod fake;
mod follow;
mod kernel;
#[cfg(test)]
mod luck_tests;
mod machine;
mod report;
mod scene;
#[cfg(test)]
mod tests;
mod trial;
mod urgent;
mod watch;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use bias_policy::audit::{Audit, AuditLimits, BackoffLimits, Backoffs};
use bias_policy::swap::{Limits, Swap, plan};
use bias_policy::table::{CapacityTable, Class};
use tracing::{debug, warn};

pub use kernel::{End, Kernel, Refusal, Request, Seat, Task, Work};
pub use report::{SwapRecord, SwapSummary, SwapsReport, Tally};
pub use urgent::Urgency;

use follow::still;
use machine::Machine;
use report::History;
use scene::Scene;
use trial::{Half, Trial};
use watch::{Sight, sight};

/// Where nothing is to be done ever.
const FOREVER: Duration = Duration::from_secs(3600);
/// Calls to the kernel side may fail so often in a row.
const MOST_FAILURES: u32 = 10;
/// Plans may come to nothing so often in a row before they are made less often.
const FRUITLESS: u32 = 5;
/// Glances may find tasks queueing so often in a row before they are made less often: somebody who passes is displaced, or displaces, for a slice.
const PASSING: u32 = 5;
/// Tasks that are remembered.
const MOST_TASKS: usize = 4096;
/// How long a task waits whose swap was refused or came to nothing, from when it was asked for: the first time less than an interval, so that the next
/// turn asks again.
const REFUSALS: BackoffLimits =
    BackoffLimits { base_ns: 25_000_000, most_ns: 60_000_000_000, forgive_ns: 10_000_000_000 };
/// What a migration can be measured to take [ns]; beyond, the task waited for something else.
const MIGRATION_NS: (u64, u64) = (10_000, 20_000_000);

/// Why no swaps are planned where there is one class.
const EVEN: &str = "all CPUs count as equally fast";

/// What a user can choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwapOptions {
    /// Plan swaps at all.
    pub enabled: bool,
    /// Time between glances where something is to be done.
    pub interval: Duration,
}

impl Default for SwapOptions {
    fn default() -> Self {
        Self { enabled: true, interval: Duration::from_millis(50) }
    }
}

/// The loop.
#[derive(Debug)]
pub struct Swaps {
    interval_ns: u64,
    /// Why no swaps are planned.
    off: Option<String>,
    machine: Machine,
    limits: Limits,
    audit: Audit,
    refusals: Backoffs,
    trials: Vec<Trial>,
    history: History,
    tally: Tally,
    /// Tasks that somebody waits for, by number, and when they were started.
    known: BTreeMap<u32, u64>,
    /// Known tasks whose last swap, of then, is undone: no reason to rest.
    passed: BTreeMap<u32, u64>,
    seats: Vec<Seat>,
    /// Up to here they were gone through for those that have ended.
    swept: u32,
    round: u64,
    fruitless: u32,
    queued: u32,
    failures: u32,
    due_ns: u64,
}

impl Swaps {
    /// Nothing done yet. `counting` is whether some CPU counts what tasks stall on.
    #[must_use]
    pub fn new(table: &CapacityTable, counting: bool, options: &SwapOptions) -> Self {
        let machine = Machine::new(table);
        let off = if !options.enabled {
            Some("switched off by --no-swap")
        } else if !machine.is_uneven() {
            Some(EVEN)
        } else if !counting {
            Some("no CPU has counters, so that tasks cannot be told apart")
        } else {
            None
        };
        Self {
            interval_ns: options.interval.as_nanos().try_into().unwrap_or(u64::MAX),
            off: off.map(str::to_owned),
            machine,
            limits: Limits::default(),
            audit: Audit::new(AuditLimits { most_tasks: MOST_TASKS, ..AuditLimits::default() }),
            refusals: Backoffs::new(REFUSALS, MOST_TASKS),
            trials: Vec::new(),
            history: History::default(),
            tally: Tally::default(),
            known: BTreeMap::new(),
            passed: BTreeMap::new(),
            seats: Vec::new(),
            swept: 0,
            round: 0,
            fruitless: 0,
            queued: 0,
            failures: 0,
            due_ns: 0,
        }
    }

    /// The table has changed: what was learnt of the old one is forgotten, and open trials are given up.
    pub fn set_table(&mut self, table: &CapacityTable) {
        self.machine = Machine::new(table);
        let even = self.off.as_deref() == Some(EVEN);
        if even == self.machine.is_uneven() && (even || self.off.is_none()) {
            self.off = (!even).then(|| EVEN.to_owned());
        }
        self.audit.correction = Default::default();
        // What they would have been measured by is gone.
        self.tally.undone += self.trials.len() as u64;
        self.trials.clear();
    }

    /// Are swaps planned?
    #[must_use]
    pub fn are_planned(&self) -> bool {
        self.off.is_none()
    }

    /// Does what is to be done at `now_ns`, if anything, and tells when to be called again.
    pub fn turn(&mut self, now_ns: u64, kernel: &mut impl Kernel) -> Duration {
        if self.off.is_some() {
            return FOREVER;
        }
        if now_ns < self.due_ns {
            return Duration::from_nanos(self.due_ns - now_ns);
        }
        let pause_ns = match self.step(now_ns, kernel) {
            Ok(pause_ns) => {
                self.failures = 0;
                pause_ns
            }
            Err(error) => {
                self.failures += 1;
                debug!("swaps: {error:#}");
                if self.failures >= MOST_FAILURES {
                    warn!("no swaps are planned any more, for the kernel refuses what they need: {error:#}");
                    self.off = Some(format!("the kernel refuses what they need: {error:#}"));
                }
                self.interval_ns.saturating_mul(5)
            }
        };
        self.due_ns = now_ns.saturating_add(pause_ns);
        Duration::from_nanos(pause_ns)
    }

    /// One turn; the pause until the next [ns].
    fn step(&mut self, now_ns: u64, kernel: &mut impl Kernel) -> Result<u64> {
        self.follow_trials(now_ns, kernel)?;
        self.sweep(kernel)?;
        let mut seats = std::mem::take(&mut self.seats);
        kernel.glance(&mut seats);
        let passing_ns = self.limits.passing_ns;
        let sight = sight(&self.machine, &seats, now_ns, passing_ns, self.limits.min_gain_permille);
        let planned = if sight == Sight::Promising { self.plan(now_ns, &seats, kernel) } else { Ok(0) };
        self.seats = seats;
        self.fruitless = match (sight, planned?) {
            (Sight::Promising, 0) => self.fruitless.saturating_add(1),
            _ => 0,
        };
        self.queued = if sight == Sight::Queued { self.queued.saturating_add(1) } else { 0 };
        let idle = self.trials.is_empty();
        let times: u64 = match sight {
            Sight::Promising if self.fruitless <= FRUITLESS => 1,
            _ if !idle => 1,
            Sight::Queued if self.queued > PASSING => 5,
            Sight::Queued => 1,
            Sight::Promising | Sight::Settled => 2,
        };
        Ok(self.interval_ns.saturating_mul(times))
    }

    /// Plans, and asks for what is planned: how many swaps, refused ones too, whose tasks wait before they are planned again.
    fn plan(&mut self, now_ns: u64, seats: &[Seat], kernel: &impl Kernel) -> Result<usize> {
        let mut reborn = Vec::new();
        let scene = Scene::gather(
            &self.machine,
            seats,
            |pid| {
                let mut task = kernel.look(pid)?;
                if let (Some(start_ns), Some(task)) = (self.known.get(&pid), &task)
                    && *start_ns != task.start_ns
                {
                    reborn.push(pid);
                }
                // A later move, whoever made it, is another matter.
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
        reborn.into_iter().for_each(|pid| self.forget(pid));
        let swaps = plan(&scene.snapshot(&self.machine, now_ns, self.round), &self.limits).swaps;
        self.round = self.round.wrapping_add(1);
        for swap in &swaps {
            let Some(trial) = self.trial(swap, &scene, now_ns) else { continue };
            self.ask(trial, kernel)?;
        }
        Ok(swaps.len())
    }

    /// Before this a task is not to be swapped [ns].
    fn resting_until_ns(&self, task: &Task) -> u64 {
        if self.trials.iter().any(|trial| trial.concerns(task.pid)) {
            return u64::MAX;
        }
        if self.known.get(&task.pid) != Some(&task.start_ns) {
            return 0;
        }
        self.audit.backoffs.until_ns(task.pid).max(self.refusals.until_ns(task.pid))
    }

    fn trial(&self, swap: &Swap, scene: &Scene, now_ns: u64) -> Option<Trial> {
        let (up, down) = (scene.tasks.get(&swap.up.pid)?, scene.tasks.get(&swap.down.pid)?);
        Some(Trial {
            swap: *swap,
            asked_ns: now_ns,
            up: Half::new(up, swap.up.from, Class::Fast),
            down: Half::new(down, swap.down.from, Class::Slow),
            fast_permille: self.machine.calibrated_permille(swap.down.from)?,
            slow_permille: self.machine.calibrated_permille(swap.up.from)?,
        })
    }

    /// Asks for a swap.
    fn ask(&mut self, trial: Trial, kernel: &impl Kernel) -> Result<()> {
        let answer = kernel.ask(&Request { up: trial.up.end, down: trial.down.end })?;
        let pids = (trial.up.end.pid, trial.down.end.pid);
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

    fn remember(&mut self, end: End) {
        if self.known.len() < MOST_TASKS || self.known.contains_key(&end.pid) {
            self.known.insert(end.pid, end.start_ns);
        }
    }

    fn forget(&mut self, pid: u32) {
        self.known.remove(&pid);
        self.passed.remove(&pid);
        self.audit.backoffs.forget(pid);
        self.refusals.forget(pid);
    }

    /// Forgets one of the known tasks if it has ended, another one each turn.
    fn sweep(&mut self, kernel: &impl Kernel) -> Result<()> {
        let next = self.known.range(self.swept..).next().or_else(|| self.known.iter().next());
        let Some((pid, start_ns)) = next.map(|(pid, start_ns)| (*pid, *start_ns)) else { return Ok(()) };
        self.swept = pid.wrapping_add(1);
        let waits = self.audit.backoffs.until_ns(pid) != 0 || self.refusals.until_ns(pid) != 0;
        if !waits || still(&End { pid, start_ns, cpu: 0 }, kernel)?.is_none() {
            self.forget(pid);
        }
        Ok(())
    }

    /// The figures.
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

    /// The figures, and the swaps from number `first` on.
    #[must_use]
    pub fn report(&self, now_ns: u64, first: u64) -> SwapsReport {
        SwapsReport {
            now_ns,
            summary: self.summary(),
            next: self.audit.log.next_number(),
            swaps: self.history.from(first),
        }
    }
}
