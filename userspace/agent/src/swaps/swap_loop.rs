// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The loop that takes snapshots, asks for swaps and follows them: each is a trial until it is
//! abandoned or judged.

use super::backend::{Side, SwapBackend, SwapRequest, Task, still};
use super::report::{SwapRecord, SwapSummary, SwapsReport, Tally};
use super::trial::{Half, Stage, Trial};
use crate::costs::Live;
use anyhow::Result;
use bias_policy::audit::{Audit, BackoffLimits, Backoffs, Ending, Experiment, MAX_TASKS, Record};
use bias_policy::costs::Costs;
use bias_policy::cpuset::CpuSet;
use bias_policy::sharing::Sharing;
use bias_policy::swap::{Limits, Outlook, Resident, Runner, Snapshot, Swap, Waiting, plan, precheck};
use bias_policy::table::{CapacityTable, Class, CpuCapacity};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use tracing::{debug, info, warn};

/// Smallest change of a learned factor that takes effect [permille].
const MIN_CHANGE_PERMILLE: u32 = 10;
/// Samples before factors are used. Each moves the factors by an eighth of its error.
const MIN_SAMPLES: u64 = 8;
/// Pause while swaps are off.
pub(super) const FOREVER: Duration = Duration::from_secs(3600);
/// Failed calls to the kernel side in a row after which swaps are off.
pub(super) const MAX_FAILURES: u32 = 10;
/// Time that a task must have run on its class of CPUs before it is swapped [ns]. With less, its
/// rate after the swap could not be compared. The time counts recent runs, or the runs until the
/// task was moved away from that class.
const MIN_BEFORE_NS: u64 = 50_000_000;
/// Empty plans in a row after which plans are made less often.
const FRUITLESS: u32 = 5;
/// Snapshots in a row with queueing tasks after which snapshots are taken less often. A
/// short-running task that preempts another, or is preempted, queues for one slice only.
const PASSING: u32 = 5;
/// Backoff of a task whose swap was refused or had no effect, from the time of the request. The
/// first one is shorter than an interval, so that the next step asks again.
const REFUSALS: BackoffLimits =
    BackoffLimits { base_ns: 25_000_000, max_ns: 60_000_000_000, forgive_ns: 10_000_000_000 };
/// Bounds of the measured time of a migration [ns]. Beyond them the task waited for something else.
const MIGRATION_NS: (u64, u64) = (10_000, 20_000_000);
/// Most records that are kept.
const MAX_RECORDS: usize = 1024;
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

/// Resident tasks and what waits, in the planner's form.
#[derive(Debug, Default)]
struct Gathered {
    /// Tasks by pid.
    tasks: BTreeMap<u32, Task>,
    /// Cores that several tasks share.
    sharing: Sharing,
    runners: Vec<Runner>,
    waiting: Vec<Waiting>,
    /// CPUs that run a task, known or not.
    busy: CpuSet,
}

impl Gathered {
    /// Return the snapshot for the planner.
    fn snapshot<'a>(&'a self, table: &'a CapacityTable, now_ns: u64, round: u64) -> Snapshot<'a> {
        Snapshot {
            now_ns,
            round,
            cpus: &table.cpus,
            runners: &self.runners,
            waiting: &self.waiting,
            busy: self.busy,
        }
    }
}

/// State of the loop that plans swaps.
#[derive(Debug)]
pub struct Swaps {
    interval_ns: u64,
    /// The reason why no swaps are planned; None if they are.
    pub(super) off: Option<String>,
    /// Version of the costs that open trials and the audit's factors belong to.
    version: u64,
    limits: Limits,
    pub(super) audit: Audit,
    refusals: Backoffs,
    pub(super) trials: Vec<Trial>,
    history: VecDeque<SwapRecord>,
    pub(super) tally: Tally,
    /// Tasks with a backoff: start time by pid.
    pub(super) known: BTreeMap<u32, u64>,
    /// Known tasks whose last swap another migration undid, with its time. These need no rest.
    passed: BTreeMap<u32, u64>,
    residents: Vec<Resident>,
    /// Pid up to which the sweep has checked the known tasks.
    swept: u32,
    round: u64,
    fruitless: u32,
    queued: u32,
    failures: u32,
    pub(super) due_ns: u64,
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
            Some("no CPU has counters, so tasks cannot be distinguished")
        } else {
            None
        };
        Self {
            interval_ns: options.interval.as_nanos().try_into().unwrap_or(u64::MAX),
            off: off.map(str::to_owned),
            version: live.costs.version(),
            limits: Limits::default(),
            audit: Audit::default(),
            refusals: Backoffs::new(REFUSALS, MAX_TASKS),
            trials: Vec::new(),
            history: VecDeque::new(),
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

    /// Start over if recalibration has changed `costs`: forget the factors learned with the old
    /// ones and abandon open trials.
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
                    warn!("planned swaps disabled: the kernel refuses a required call: {error:#}");
                    self.off = Some(format!("the kernel refuses a required call: {error:#}"));
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
        let gathered = self.gather(residents, kernel, live.table())?;
        let swaps = plan(&gathered.snapshot(live.table(), now_ns, self.round), &self.limits).swaps;
        self.round = self.round.wrapping_add(1);
        for swap in &swaps {
            let Some(trial) = self.trial(swap, &gathered, now_ns, live) else { continue };
            self.ask(trial, kernel)?;
        }
        Ok(swaps.len())
    }

    /// Query every resident task.
    fn gather(
        &mut self,
        residents: &[Resident],
        kernel: &impl SwapBackend,
        table: &CapacityTable,
    ) -> Result<Gathered> {
        let mut gathered = Gathered::default();
        for resident in residents {
            let Some(cpu) = table.get(resident.cpu) else { continue };
            if resident.waiting_since_ns != 0 {
                gathered.waiting.push(Waiting { cpu: resident.cpu, since_ns: resident.waiting_since_ns });
            }
            if resident.pid == 0 {
                continue;
            }
            gathered.busy.insert(resident.cpu);
            if resident.speedup_permille == 0 {
                continue;
            }
            let Some(task) = kernel.query(resident.pid)? else { continue };
            if self.known.get(&task.pid).is_some_and(|start_ns| *start_ns != task.start_ns) {
                self.forget(task.pid);
            }
            // The last tick saw the task here. It may have migrated or slept since.
            if task.cpu == resident.cpu && task.runnable {
                gathered.runners.push(self.runner(&task, cpu));
                gathered.tasks.insert(task.pid, task);
            }
        }
        gathered.sharing = gathered.snapshot(table, 0, 0).sharing();
        Ok(gathered)
    }

    /// Describe a task that runs on `cpu`.
    fn runner(&self, task: &Task, cpu: &CpuCapacity) -> Runner {
        let comparable = task.rate(cpu.class).ran_ns >= MIN_BEFORE_NS;
        // A later migration, by any cause, counts.
        let passed = self.passed.get(&task.pid);
        Runner {
            pid: task.pid,
            cpu: cpu.cpu,
            stack_permille: task.stack_permille,
            stable: task.stable && task.movable && comparable,
            allowed: task.allowed,
            moved_at_ns: task.moved_ns.filter(|moved_ns| passed != Some(moved_ns)),
            backoff_until_ns: self.resting_until_ns(task),
        }
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

    /// Let both tasks back off before they are swapped again.
    fn came_to_nothing(&mut self, trial: &Trial) {
        for side in [trial.up.side, trial.down.side] {
            self.remember(side);
            self.refusals.note(side.pid, false, trial.asked_ns);
        }
    }

    fn follow_trials(&mut self, now_ns: u64, kernel: &impl SwapBackend, live: &mut Live) -> Result<()> {
        let mut result = Ok(());
        for trial in std::mem::take(&mut self.trials) {
            let over = match &result {
                Ok(()) => self.follow(&trial, now_ns, kernel, live),
                Err(_) => Ok(false),
            };
            if !matches!(over, Ok(true)) {
                self.trials.push(trial);
            }
            result = result.and(over.map(drop));
        }
        result
    }

    /// Return true if `trial` is over.
    fn follow(
        &mut self,
        trial: &Trial,
        now_ns: u64,
        kernel: &impl SwapBackend,
        live: &mut Live,
    ) -> Result<bool> {
        let up = still(&trial.up.side, kernel)?;
        let down = still(&trial.down.side, kernel)?;
        let class_of = |cpu| live.table().get(cpu).map(|entry| entry.class);
        match trial.stage(now_ns, up.as_ref(), down.as_ref(), class_of) {
            Stage::Open => return Ok(false),
            Stage::Undone => {
                debug!("swap of {} and {} was not carried out", trial.up.side.pid, trial.down.side.pid);
                self.tally.undone += 1;
                self.came_to_nothing(trial);
            }
            Stage::Over(experiment) => {
                self.conclude(trial, &experiment, now_ns, live);
                for (half, task) in [(&trial.up, &up), (&trial.down, &down)] {
                    self.refusals.note(half.side.pid, true, now_ns);
                    if task.is_some() { self.remember(half.side) } else { self.forget(half.side.pid) }
                }
            }
            Stage::Left(experiment) => {
                self.conclude(trial, &experiment, now_ns, live);
                self.came_to_nothing(trial);
                for task in [&up, &down].into_iter().flatten() {
                    self.thwarted(task);
                }
            }
        }
        Ok(true)
    }

    fn conclude(&mut self, trial: &Trial, experiment: &Experiment, now_ns: u64, live: &mut Live) {
        let record = self.audit.conclude(experiment, now_ns);
        debug!("swap judged: {record:?}");
        self.learn(&record, live);
        if self.history.len() >= MAX_RECORDS {
            self.history.pop_front();
        }
        self.history.push_back(SwapRecord {
            record,
            asked_ns: trial.asked_ns,
            up_name: trial.up.name.clone(),
            down_name: trial.down.name.clone(),
        });
    }

    /// Handle a migration that undid a swap of `task`.
    ///
    /// If the kernel side only moved it because of a short queue, the task need not rest. It backs
    /// off like one whose swap had no effect.
    fn thwarted(&mut self, task: &Task) {
        let mine = task.moved_ns.filter(|_| task.swapped && self.known.contains_key(&task.pid));
        if let Some(moved_ns) = mine {
            self.passed.insert(task.pid, moved_ns);
        }
    }

    /// Learn the time of migrations from this swap, and the costs of slow CPUs from all swaps.
    fn learn(&mut self, record: &Record, live: &mut Live) {
        if record.lost_ns > 0 && matches!(record.ending, Ending::Judged(_)) {
            let each_ns = (record.lost_ns / 2).clamp(MIGRATION_NS.0, MIGRATION_NS.1);
            self.limits.migration_ns = (self.limits.migration_ns * 7 + each_ns) / 8;
        }
        let factors = self.audit.correction.factors_permille();
        let known = live.costs.learned_permille(Class::Slow);
        let differs = factors.iter().zip(known).any(|(new, old)| new.abs_diff(old) >= MIN_CHANGE_PERMILLE);
        if self.audit.correction.samples() >= MIN_SAMPLES && differs {
            info!("updated slow-CPU costs from measured swaps: calibrated costs times {factors:?} permille");
            live.costs.set_learned(factors);
            self.version = live.costs.version();
        }
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
            swaps: self.history.iter().filter(|one| one.record.number >= first).cloned().collect(),
        }
    }
}
