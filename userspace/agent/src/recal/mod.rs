// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Recalibration while scheduling: keeps the clocks in the costs of CPUs up to date.
//!
//! # Problem
//! CPUs get hot, are capped, and go offline and online. Their present speed has to follow from work
//! that runs anyway, at almost no cost.
//!
//! # Approach
//! [`bias_policy::recal`] decides what readings mean. This module takes the readings and passes
//! them on. A step every [`EVERY`] uses three sources:
//!
//! * The kernel side adds up cycles and time per CPU while tasks run. Their ratio is the clock of
//!   the CPUs that count.
//! * A spot check measures idle CPUs with too few counted cycles ([`spot`]). It runs the
//!   calibration's execute loop for a moment on a thread of the lowest priority, for a few CPUs at
//!   a time. It runs only while a task runs on some CPU, because on an idle machine the table
//!   decides nothing. A CPU that seems to have changed is checked again every [`AGAIN`] until the
//!   change is certain.
//! * sysfs shows limits of the clock and counts of thermal throttling. They are read every two
//!   seconds, and soon after the kernel announces that a part got hot ([`thermal`]). Where they
//!   change, the CPU needs less evidence.
//!
//! The owner of the costs publishes the result ([`crate::costs`]). Each change of an entry is
//! logged with old value, new value and cause. `scx_bias status` shows the last [`KEPT`] of them.
//! Nothing is stored: the next start spot-checks the stored table as usual.
//!
//! **Siblings.** A thread of a core is slower while its siblings run. A check beside a busy sibling
//! takes 1.6 times as long as expected. Two of them agree, and the CPU would count as throttled. A
//! sibling is busy with a task, or with a check of its own. So one check at a time is under way on
//! a core. When it ends, its result counts if it is not slower than expected: siblings only
//! lengthen a check. A slower one counts if no sibling ran for more than [`QUIET_NS`] since the
//! check was requested. Such a check lasts at least 40 ms, so the sibling lengthens it by at most
//! 2 %.
//!
//! **Late CPUs.** The kernel side treats a CPU without an entry as a fast one with the best costs.
//! Where that is wrong, it attracts tasks. A periodic check compares the online CPUs with the
//! table. A missing CPU is measured as by a spot check, but ahead of other tasks, because it may
//! never idle. The result makes its entry ([`bias_policy::recal::Recal::join`]), and from then on
//! it is followed like any other CPU. If the table has no reference of a calibrated CPU, one CPU of
//! each class is measured as well.
//!
//! # Invariants
//! Without readings nothing changes, and the status says so. The watching thread never waits for a
//! measurement. Each step begins at most [`SPOTS`] checks. On hardware a check takes some hundred
//! microseconds, or 40 ms and more where a CPU seems to have changed. No result that counts
//! contains more of a sibling's work than [`QUIET_NS`].
//!
//! # Limits
//! With opted-in cgroups, an idle CPU may be busy for the default scheduler. Its check then takes
//! too long and is dropped. Tasks of other scheduling classes are not seen on a sibling. A CPU
//! whose siblings always run a little keeps its speed until its cycles show another one. CPUs that
//! come online later are measured whatever their siblings do. Until the next start, such a CPU
//! stays in the last-level cache that the kernel side uses for unknown CPUs, and limits of its
//! clock are not read.

mod report;
pub mod spot;
#[cfg(test)]
mod tests;
pub mod thermal;

pub use report::{CpuRecal, Follows, RecalReport, line};

use crate::boot_time;
use crate::calibrate::settle::AGREES;
use crate::costs::Live;
use crate::cpulist;
use crate::store::{CapacityFile, FileCpu};
use crate::topology::Topology;
use bias_policy::costs::Costs;
use bias_policy::recal::{Cause, Change, Evidence, Newcomer, Recal, Reference, Sample, Trigger, Want};
use bias_policy::samples::median;
use bias_policy::table::{CapacityTable, Class};
use report::by_wall_clock;
use spot::Spots;
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use thermal::{ClockLimits, ThermalEvent};
use tracing::{debug, info, warn};

/// Time between readings.
pub const EVERY: Duration = Duration::from_millis(500);
/// Changes kept for the status.
pub const KEPT: usize = 128;
/// Time between collections of spot checks while an idle CPU seems to have changed.
const AGAIN: Duration = Duration::from_millis(100);
/// Most such repetitions in a row, and steps until more are allowed. Checks that never agree, as on
/// a busy host of virtual CPUs, must not be repeated for ever.
const MAX_RETRIES: u32 = 6;
const RETRY_REFILL_STEPS: u64 = 10;
/// Most spot checks begun in a step, and how many of them may be routine checks of unsuspected
/// CPUs.
const SPOTS: usize = 4;
const RARE_SPOTS: usize = 2;
/// Steps between readings of limits and throttling.
const LIMIT_STEPS: u64 = 4;
/// Shortest counted time that gives a reading [ns].
const MIN_COUNTED_NS: u64 = 200_000;
/// A CPU that ran this share of an interval, or more, was busy: schedutil gives it its maximum
/// clock. One that ran less than the second share was idle [permille].
const BUSY_PERMILLE: u64 = 800;
const IDLE_PERMILLE: u64 = 200;
/// Most changes at a time that are logged in lines of their own.
const LOGGED: usize = 8;
/// Run time of siblings that does not spoil a check [ns].
const QUIET_NS: u64 = 500_000;
/// Late CPUs measured at a time.
const AT_A_TIME: usize = 4;

/// Readings of the kernel side about a CPU. Sums are since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuReading {
    /// The kernel's CPU number.
    pub cpu: u32,
    /// Cycles of the counted intervals.
    pub cycles: u64,
    /// Duration of the counted intervals [ns].
    pub counted_ns: u64,
    /// Time that tasks ran [ns].
    pub ran_ns: u64,
    /// True if a task other than the reader runs now.
    pub busy: bool,
    /// True if the CPU counts.
    pub counted: bool,
    /// How often the CPU came online.
    pub onlined: u32,
}

impl CpuReading {
    /// Return the share of `elapsed_ns` that tasks ran [permille].
    fn ran_permille(&self, elapsed_ns: u64) -> u64 {
        self.ran_ns / (elapsed_ns / 1000).max(1)
    }
}

/// A check that has not ended.
#[derive(Debug)]
struct Check {
    core: u32,
    /// Run time of the core's other CPUs when the check began [ns].
    siblings_ran_ns: u64,
}

/// Keeps the clocks in the costs of one run up to date.
pub struct Recalibrator {
    recal: Recal,
    references: Vec<Reference>,
    spots: Box<dyn Spots>,
    /// The spot checks under way, by CPU.
    checks: BTreeMap<u32, Check>,
    /// The last readings.
    readings: Vec<CpuReading>,
    limits: ClockLimits,
    /// True if the next step must read the limits.
    limits_due: bool,
    /// The sysfs that lists the online CPUs.
    sysfs: PathBuf,
    /// Online CPUs that are not in the table and not measured yet.
    late: Vec<u32>,
    /// The reason why no announcements of the kernel arrive; None if they do.
    no_events: Option<String>,
    on: bool,
    started: Instant,
    /// Time of the start since boot [ms].
    started_ms: u64,
    before: Option<(Instant, Vec<CpuReading>)>,
    /// Length of the last interval [ns] and its readings.
    last: (u64, Vec<CpuReading>),
    due: Instant,
    /// Time of the next collection of spot checks before `due`.
    again: Option<Instant>,
    /// Repetitions that are still allowed.
    retries: u32,
    steps: u64,
    spot_checks: u64,
    /// Time of the last spot check of each CPU [ms since 1970].
    asked_ms: BTreeMap<u32, u64>,
    changes: VecDeque<Change>,
    changed: u64,
}

impl Recalibrator {
    /// Start to follow the CPUs of `table`, with the entries' references. Unless `on`, follow
    /// nothing and only detect CPUs that come online late.
    #[must_use]
    pub fn start(table: &CapacityTable, references: Vec<Reference>, on: bool) -> Self {
        let cpus: Vec<u32> = table.cpus.iter().map(|entry| entry.cpu).collect();
        let limits = if on { ClockLimits::open(Path::new("/sys"), &cpus) } else { ClockLimits::default() };
        let spots = Box::new(spot::Threads::default());
        Self { sysfs: "/sys".into(), ..Self::with(table, references, on, spots, limits) }
    }

    fn with(
        table: &CapacityTable,
        references: Vec<Reference>,
        on: bool,
        spots: Box<dyn Spots>,
        limits: ClockLimits,
    ) -> Self {
        Self {
            recal: Recal::new(table, &references),
            references,
            spots,
            checks: BTreeMap::new(),
            readings: Vec::new(),
            limits,
            limits_due: false,
            sysfs: PathBuf::new(),
            late: Vec::new(),
            no_events: None,
            on,
            started: Instant::now(),
            started_ms: boot_time::now_ms(),
            before: None,
            last: (1, Vec::new()),
            due: Instant::now(),
            again: None,
            retries: MAX_RETRIES,
            steps: 0,
            spot_checks: 0,
            asked_ms: BTreeMap::new(),
            changes: VecDeque::new(),
            changed: 0,
        }
    }

    /// Return true if recalibration is on.
    #[must_use]
    pub const fn is_on(&self) -> bool {
        self.on
    }

    /// Record the reason why no announcements of the kernel arrive.
    pub fn note_no_events(&mut self, why: &anyhow::Error) {
        self.no_events = Some(format!("{why:#}"));
    }

    /// Handle an announcement of the kernel. Readings follow soon, after a delay that collects
    /// further announcements.
    pub fn note_thermal(&mut self, events: &ThermalEvent, now: Instant) {
        if let ThermalEvent::Cpus(cpus) = events {
            cpus.iter().for_each(|cpu| self.recal.trigger(*cpu, Trigger::Feedback));
        }
        self.limits_due = true;
        self.due = self.due.min(now + AGAIN);
    }

    /// Call `read` for the state of every CPU if that is due, and update the clocks of `costs`.
    /// Return the time from `now` without anything to do.
    pub fn step(&mut self, now: Instant, read: &dyn Fn() -> Vec<CpuReading>, costs: &mut Costs) -> Duration {
        if !self.on {
            if now >= self.due {
                self.due = now + EVERY * LIMIT_STEPS as u32;
                self.find_late(costs);
            }
            return Duration::MAX;
        }
        if now >= self.due {
            self.due = now + EVERY;
            self.steps += 1;
            if self.steps.is_multiple_of(RETRY_REFILL_STEPS) {
                self.retries = MAX_RETRIES;
            }
            let readings = read();
            self.readings.clone_from(&readings);
            if let Some((at, before)) = self.before.take() {
                let elapsed_ns = u64::try_from(now.duration_since(at).as_nanos()).unwrap_or(u64::MAX).max(1);
                self.check(now, elapsed_ns, &deltas(&before, &readings), costs);
            }
            self.before = Some((now, readings));
        } else if self.again.is_some_and(|at| now >= at) {
            self.check_again(now, read(), costs);
        }
        let due = self.again.map_or(self.due, |at| at.min(self.due));
        due.saturating_duration_since(now)
    }

    /// Update the clocks from the readings since the last step, and request spot checks where these
    /// do not suffice.
    fn check(&mut self, now: Instant, elapsed_ns: u64, deltas: &[(CpuReading, bool)], costs: &mut Costs) {
        for (delta, _) in deltas.iter().filter(|(_, came_online)| *came_online) {
            self.recal.trigger(delta.cpu, Trigger::Hotplug);
        }
        self.last = (elapsed_ns, deltas.iter().map(|(delta, _)| *delta).collect());
        let mut samples: Vec<Sample> =
            self.last.1.iter().filter_map(|delta| cycles(delta, elapsed_ns)).collect();
        if std::mem::take(&mut self.limits_due) || self.steps.is_multiple_of(LIMIT_STEPS) {
            for limit in self.limits.read() {
                if let Some(trigger) = limit.trigger {
                    self.recal.trigger(limit.cpu, trigger);
                }
                samples.extend(
                    limit.share.map(|share| Sample { cpu: limit.cpu, evidence: Evidence::Limit { share } }),
                );
            }
        }
        if self.steps.is_multiple_of(LIMIT_STEPS) {
            self.find_late(costs);
        }
        self.take_in(now, samples, costs);
        self.ask(now, Want::Rare, costs);
    }

    /// Do the same for spot checks alone, so that a CPU that seems to have changed is checked again
    /// soon.
    fn check_again(&mut self, now: Instant, readings: Vec<CpuReading>, costs: &mut Costs) {
        for (last, reading) in self.last.1.iter_mut().zip(&readings) {
            last.busy = reading.busy;
        }
        self.readings = readings;
        self.take_in(now, Vec::new(), costs);
        self.ask(now, Want::Soon, costs);
    }

    /// Process these samples and the results of spot checks.
    fn take_in(&mut self, now: Instant, mut samples: Vec<Sample>, costs: &mut Costs) {
        let found = self.end_checks(costs);
        self.take_in_late(now, &found, costs);
        samples.extend(
            found.into_iter().map(|(cpu, step_ns)| Sample { cpu, evidence: Evidence::Spot { step_ns } }),
        );
        let changes = self.recal.step(self.clock_ms(now), &samples, costs);
        self.log(changes);
    }

    /// Return the time of decisions [ms]. It stands still while the machine sleeps.
    fn clock_ms(&self, now: Instant) -> u64 {
        let since = now.saturating_duration_since(self.started).as_millis();
        self.started_ms.saturating_add(u64::try_from(since).unwrap_or(u64::MAX))
    }

    fn log(&mut self, changes: Vec<Change>) {
        // Changes that only follow from another CPU's change are in the status.
        let (followed, own): (Vec<_>, Vec<_>) =
            changes.iter().partition(|change| change.cause == Cause::Others);
        own.iter().take(LOGGED).for_each(|change| info!("{}", line(change)));
        followed.iter().for_each(|change| debug!("{}", line(change)));
        if own.len() > LOGGED {
            info!("and {} more CPUs; `scx_bias status --json` lists them", own.len() - LOGGED);
        }
        self.changed += changes.len() as u64;
        let at_ms = boot_time::now_ms();
        self.changes.extend(changes.into_iter().map(|change| Change { at_ms, ..change }));
        let surplus = self.changes.len().saturating_sub(KEPT);
        self.changes.drain(..surplus);
    }

    /// Begin spot checks of idle CPUs whose want is at least `least`.
    fn ask(&mut self, now: Instant, least: Want, costs: &Costs) {
        let now_ms = self.clock_ms(now);
        let (elapsed_ns, deltas) = &self.last;
        let runs = |delta: &CpuReading| delta.ran_permille(*elapsed_ns) >= IDLE_PERMILLE;
        self.again = None;
        // The table matters only while something runs.
        if !deltas.iter().any(runs) {
            return;
        }
        let core = |cpu: u32| costs.calibrated().get(cpu).map(|entry| entry.core);
        let is_idle = |cpu: u32| {
            let on_core = deltas.iter().filter(|delta| core(delta.cpu) == core(cpu));
            let mut on_core = on_core.peekable();
            on_core.peek().is_some() && on_core.all(|delta| !delta.busy && !runs(delta))
        };
        let wants =
            deltas.iter().map(|delta| (self.recal.wants_spot(delta.cpu, now_ms, delta.counted), delta.cpu));
        // A check that gave no result counts as well, because the next one may give none either.
        let tried_ms = |cpu| self.recal.seen(cpu).max(self.asked_ms.get(&cpu).copied()).unwrap_or(0);
        let mut wants: Vec<(Want, u64, u32)> = wants
            .filter(|(want, cpu)| *want >= least && is_idle(*cpu))
            .map(|(want, cpu)| (want, now_ms.saturating_sub(tried_ms(cpu)), cpu))
            .collect();
        wants.sort_unstable_by(|a, b| b.cmp(a));
        // A CPU under check does not use up these limits, because its check may last long.
        let (mut left, mut rare_left) = (SPOTS, RARE_SPOTS);
        for (want, _, cpu) in &wants {
            let is_rare = *want <= Want::Rare;
            if left == 0 || (is_rare && rare_left == 0) {
                break;
            }
            if self.begin_check(*cpu, costs) {
                (left, rare_left) = (left - 1, rare_left - usize::from(is_rare));
                self.spot_checks += 1;
                self.asked_ms.insert(*cpu, now_ms);
            }
        }
        if least == Want::Soon && !wants.is_empty() {
            self.retries = self.retries.saturating_sub(1);
        }
        // A check that begins now may raise a suspicion, and a raised one needs another check.
        self.again = (!wants.is_empty() && self.retries > 0).then_some(now + AGAIN);
    }

    /// Return the time that a step of the loop should take on a CPU by the table; None if its
    /// calibration left no reference.
    fn expected_ns(&self, cpu: u32) -> Option<f64> {
        let reference = self.references.iter().find(|reference| reference.cpu == cpu)?.step_ns?;
        Some(reference * 1000.0 / f64::from(self.recal.speed_permille(cpu)?.max(1)))
    }
}

/// Checks under way, and the activity of siblings meanwhile.
impl Recalibrator {
    /// Begin a check of `cpu` unless one is under way on its core. Return true if it has begun.
    fn begin_check(&mut self, cpu: u32, costs: &Costs) -> bool {
        let core = core_of(costs, cpu);
        if self.checks.values().any(|check| check.core == core) {
            return false;
        }
        let (siblings_ran_ns, _) = self.siblings(cpu, costs);
        let begun = self.spots.ask(cpu, self.expected_ns(cpu));
        if begun {
            self.checks.insert(cpu, Check { core, siblings_ran_ns });
        }
        begun
    }

    /// Return the results that count of the checks that ended: CPU and time of a step [ns].
    fn end_checks(&mut self, costs: &Costs) -> Vec<(u32, f64)> {
        let mut results = Vec::new();
        for (cpu, step_ns) in self.spots.collect() {
            let check = self.checks.remove(&cpu);
            let Some(step_ns) = step_ns else { continue };
            let (ran_ns, busy) = self.siblings(cpu, costs);
            let quiet = |check: Check| !busy && ran_ns.saturating_sub(check.siblings_ran_ns) <= QUIET_NS;
            let expected_ns = self.expected_ns(cpu);
            let as_fast = expected_ns.is_some_and(|expected| step_ns <= expected * (1.0 + AGREES));
            if as_fast || check.is_none_or(quiet) {
                results.push((cpu, step_ns));
            }
        }
        results
    }

    /// Return the run time of the siblings of `cpu` [ns] by the last readings, and whether one of
    /// them ran a task then.
    fn siblings(&self, cpu: u32, costs: &Costs) -> (u64, bool) {
        let core = core_of(costs, cpu);
        let others =
            self.readings.iter().filter(|other| other.cpu != cpu && core_of(costs, other.cpu) == core);
        others.fold((0, false), |(ran_ns, busy), other| (ran_ns + other.ran_ns, busy || other.busy))
    }
}

/// CPUs that come online after the table was measured.
impl Recalibrator {
    /// Find online CPUs that are not in the table, log them, and have them measured.
    fn find_late(&mut self, costs: &Costs) {
        let online = cpulist::read(&self.sysfs.join("devices/system/cpu/online")).unwrap_or_default();
        let late: Vec<u32> =
            online.into_iter().filter(|cpu| costs.calibrated().get(*cpu).is_none()).collect();
        let new: Vec<u32> = late.iter().copied().filter(|cpu| !self.late.contains(cpu)).collect();
        if !new.is_empty() {
            let until = if self.on { "until they are measured" } else { "until scx_bias is restarted" };
            warn!(
                "CPU {} came online and is not in the table: counts as fast {until}",
                cpulist::format(&new)
            );
        }
        self.late = late;
        if !self.on || self.late.is_empty() {
            return;
        }
        let missing = self.late.iter().copied().take(AT_A_TIME);
        let wanted: Vec<u32> = missing.chain(self.yardsticks(costs)).collect();
        for cpu in wanted {
            self.spot_checks += u64::from(self.spots.measure(cpu));
        }
    }

    /// Return a calibrated CPU of each class if no CPU has a reference, else none.
    fn yardsticks(&self, costs: &Costs) -> Vec<u32> {
        if self.references.iter().any(|reference| reference.step_ns.is_some()) {
            return Vec::new();
        }
        let first = |class| costs.clocked().cpus.iter().find(|entry| entry.class == class);
        [Class::Fast, Class::Slow].into_iter().filter_map(first).map(|entry| entry.cpu).collect()
    }

    /// Process measurements of CPUs that are not in the table, and of the CPUs to compare them
    /// with.
    fn take_in_late(&mut self, now: Instant, found: &[(u32, f64)], costs: &mut Costs) {
        if self.late.is_empty() {
            return;
        }
        for (cpu, step_ns) in found {
            if let Some(speed_permille) = self.recal.speed_permille(*cpu) {
                // Scaled back to the time when its entry was measured.
                self.know(*cpu, step_ns * f64::from(speed_permille) / 1000.0);
            }
        }
        for (cpu, step_ns) in found {
            if self.late.contains(cpu) {
                self.join(now, *cpu, *step_ns, costs);
            }
        }
    }

    /// Store the reference of a CPU unless it has one.
    fn know(&mut self, cpu: u32, step_ns: f64) {
        match self.references.iter_mut().find(|reference| reference.cpu == cpu) {
            Some(reference) => reference.step_ns = reference.step_ns.or(Some(step_ns)),
            None => self.references.push(Reference { cpu, khz: None, step_ns: Some(step_ns) }),
        }
    }

    fn join(&mut self, now: Instant, cpu: u32, step_ns: f64, costs: &mut Costs) {
        // The CPU may be offline again.
        let place = Topology::read_from(&self.sysfs).ok();
        let Some(place) = place.and_then(|topology| topology.cpus.into_iter().find(|at| at.cpu == cpu))
        else {
            return;
        };
        let new = Newcomer { cpu, core: place.core, llc: place.llc, node: place.node, step_ns };
        let changes = self.recal.join(self.clock_ms(now), new, &self.references, costs);
        let Some(changes) = changes else { return };
        info!("CPU {cpu}, which came online later, is measured: it is in the table now");
        self.late.retain(|other| *other != cpu);
        self.know(cpu, step_ns);
        self.log(changes);
    }
}

impl Recalibrator {
    /// Return the present state, with the costs in force.
    #[must_use]
    pub fn report(&self, live: &Live) -> RecalReport {
        let now_ms = self.clock_ms(Instant::now());
        let costs = &live.costs;
        let cpus = live.table().cpus.iter().map(|entry| {
            let counted = self.readings.iter().any(|reading| reading.cpu == entry.cpu && reading.counted);
            let seen = self.recal.seen(entry.cpu);
            CpuRecal {
                cpu: entry.cpu,
                class: entry.class,
                cost_permille: entry.cost_permille,
                calibrated_permille: costs.calibrated().get(entry.cpu).map(|home| home.cost_permille),
                clock_permille: costs.clock_permille(entry.cpu),
                learned_permille: Some(costs.learned_permille(entry.class)),
                speed_permille: self.recal.speed_permille(entry.cpu).unwrap_or(1000),
                follows: match (counted, seen) {
                    (true, _) => Follows::Cycles,
                    (false, Some(_)) => Follows::SpotChecks,
                    (false, None) => Follows::Nothing,
                },
                seen_ms_ago: seen.map(|seen| now_ms.saturating_sub(seen)),
            }
        });
        RecalReport {
            on: self.on,
            failure: live.failure().map(str::to_owned),
            unmeasured: self.late.clone(),
            cpus: cpus.collect(),
            changed: self.changed,
            spot_checks: self.spot_checks,
            no_events: self.no_events.clone(),
            changes: self.changes.iter().map(by_wall_clock).collect(),
        }
    }
}

/// Return the core of `cpu`. One that is not in the table counts as a core of its own.
fn core_of(costs: &Costs, cpu: u32) -> u32 {
    costs.calibrated().get(cpu).map_or(cpu, |entry| entry.core)
}

/// Return the differences of two readings by CPU, and whether the CPU came online in between.
fn deltas(before: &[CpuReading], now: &[CpuReading]) -> Vec<(CpuReading, bool)> {
    let pairs = now.iter().zip(before).filter(|(now, before)| now.cpu == before.cpu);
    pairs
        .map(|(now, before)| {
            let delta = CpuReading {
                cycles: now.cycles.saturating_sub(before.cycles),
                counted_ns: now.counted_ns.saturating_sub(before.counted_ns),
                ran_ns: now.ran_ns.saturating_sub(before.ran_ns),
                ..*now
            };
            (delta, now.onlined != before.onlined)
        })
        .collect()
}

/// Return the clock of a CPU if enough of the interval was counted. A few short runs of an idle CPU
/// do not suffice; spot checks serve such CPUs.
fn cycles(delta: &CpuReading, elapsed_ns: u64) -> Option<Sample> {
    let ran_permille = delta.ran_permille(elapsed_ns);
    let enough = delta.counted && delta.counted_ns >= MIN_COUNTED_NS && ran_permille >= IDLE_PERMILLE;
    let khz = delta.cycles as f64 * 1e6 / delta.counted_ns as f64;
    let busy = ran_permille >= BUSY_PERMILLE;
    enough.then_some(Sample { cpu: delta.cpu, evidence: Evidence::Cycles { khz, busy } })
}

/// Return the clock and the step time of each CPU when the entries of a capacity file were
/// measured.
#[must_use]
pub fn references(file: &CapacityFile) -> Vec<Reference> {
    let samples = file.samples();
    let step_ns = |cpu| {
        let of_cpu = samples.iter().find(|samples| samples.cpu == cpu)?;
        median(&of_cpu.times[0]).filter(|ns| *ns > 0.0)
    };
    let reference = |entry: &FileCpu| Reference {
        cpu: entry.cpu,
        khz: entry.execute_khz.map(|khz| khz as f64),
        step_ns: step_ns(entry.cpu),
    };
    file.cpus.iter().map(reference).collect()
}
