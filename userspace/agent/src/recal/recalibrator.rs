// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The loop that takes readings, asks for spot checks and sets the clocks.

use super::limits::ClockLimits;
use super::spot::Spots;
use super::thermal::ThermalEvent;
use crate::boot_time;
use crate::store::CapacityFile;
use bias_policy::costs::Costs;
use bias_policy::recal::{Cause, Change, Evidence, Recal, Reference, Sample, Trigger, Want};
use bias_policy::samples::median;
use bias_policy::table::{COMPONENTS, CapacityTable};
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tracing::{debug, info};

/// Time between readings.
pub const EVERY: Duration = Duration::from_millis(500);
/// Changes kept for the status.
pub const KEPT: usize = 128;
/// Time between collections of spot checks while an idle CPU seems to have changed.
pub(super) const AGAIN: Duration = Duration::from_millis(100);
/// Most such repetitions in a row, and steps until more are allowed. Checks that never agree, as on
/// a busy host of virtual CPUs, must not be repeated for ever.
const MAX_RETRIES: u32 = 6;
const RETRY_REFILL_STEPS: u64 = 10;
/// Most spot checks begun in a step, and how many of them may be routine checks of unsuspected
/// CPUs.
pub(super) const SPOTS: usize = 4;
const RARE_SPOTS: usize = 2;
/// Steps between readings of limits and throttling.
const LIMIT_STEPS: u64 = 4;
/// A count of a shorter time is no reading [ns].
const MIN_COUNTED_NS: u64 = 200_000;
/// A CPU that ran this share of an interval, or more, was busy: schedutil gives it its maximum
/// clock. One that ran less than the second share was idle [permille].
const BUSY_PERMILLE: u64 = 800;
const IDLE_PERMILLE: u64 = 200;
/// Most changes at a time that are logged in lines of their own.
const LOGGED: usize = 8;

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

/// CPUs that are not in the table.
#[derive(Debug, Default)]
pub(super) struct Late {
    /// The sysfs that lists the online CPUs.
    pub(super) sysfs: PathBuf,
    /// Online CPUs that are not measured yet.
    pub(super) cpus: Vec<u32>,
}

/// A check that has not ended.
#[derive(Debug)]
pub(super) struct Check {
    pub(super) core: u32,
    /// Run time of the core's other CPUs when the check began [ns].
    pub(super) siblings_ran_ns: u64,
}

/// Keeps the clocks in the costs of one run true.
pub struct Recalibrator {
    pub(super) recal: Recal,
    pub(super) references: Vec<Reference>,
    pub(super) spots: Box<dyn Spots>,
    /// The spot checks under way, by CPU.
    pub(super) checks: BTreeMap<u32, Check>,
    /// The last readings.
    pub(super) readings: Vec<CpuReading>,
    pub(super) limits: ClockLimits,
    /// True if the next step must read the limits.
    pub(super) limits_due: bool,
    pub(super) late: Late,
    /// The reason why no announcements of the kernel arrive; None if they do.
    pub(super) no_events: Option<String>,
    pub(super) on: bool,
    pub(super) started: Instant,
    /// Time of the start since boot [ms].
    pub(super) started_ms: u64,
    pub(super) before: Option<(Instant, Vec<CpuReading>)>,
    /// Length of the last interval [ns] and its readings.
    pub(super) last: (u64, Vec<CpuReading>),
    pub(super) due: Instant,
    /// Time of the next collection of spot checks before `due`.
    pub(super) again: Option<Instant>,
    /// Repetitions that are still allowed.
    pub(super) retries: u32,
    pub(super) steps: u64,
    pub(super) spot_checks: u64,
    /// Time of the last spot check of each CPU [ms since 1970].
    pub(super) asked_ms: BTreeMap<u32, u64>,
    pub(super) changes: VecDeque<Change>,
    pub(super) changed: u64,
}

impl Recalibrator {
    /// Start to follow the CPUs of `table`, with the entries' references. Unless `on`, follow
    /// nothing and only look for CPUs that come online late.
    #[must_use]
    pub fn start(table: &CapacityTable, references: Vec<Reference>, on: bool) -> Self {
        let cpus: Vec<u32> = table.cpus.iter().map(|entry| entry.cpu).collect();
        let limits = if on { ClockLimits::open(Path::new("/sys"), &cpus) } else { ClockLimits::default() };
        let late = Late { sysfs: "/sys".into(), ..Late::default() };
        Self { late, ..Self::with(table, references, on, Box::new(super::spot::Threads::default()), limits) }
    }

    pub(super) fn with(
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
            late: Late::default(),
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

    /// Update the clocks from the readings since the last step, and ask for spot checks where they
    /// say too little.
    pub(super) fn check(
        &mut self,
        now: Instant,
        elapsed_ns: u64,
        deltas: &[(CpuReading, bool)],
        costs: &mut Costs,
    ) {
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
    /// at once.
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
    pub(super) fn clock_ms(&self, now: Instant) -> u64 {
        let since = now.saturating_duration_since(self.started).as_millis();
        self.started_ms.saturating_add(u64::try_from(since).unwrap_or(u64::MAX))
    }

    pub(super) fn log(&mut self, changes: Vec<Change>) {
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
    pub(super) fn ask(&mut self, now: Instant, least: Want, costs: &Costs) {
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
        // A CPU under check takes nothing from these, because its check may not end for long.
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
    pub(super) fn expected_ns(&self, cpu: u32) -> Option<f64> {
        let reference = self.references.iter().find(|reference| reference.cpu == cpu)?.step_ns?;
        Some(reference * 1000.0 / f64::from(self.recal.speed_permille(cpu)?.max(1)))
    }
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
/// are no measure; spot checks serve these.
pub(super) fn cycles(delta: &CpuReading, elapsed_ns: u64) -> Option<Sample> {
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
    let reference = |entry: &crate::store::FileCpu| Reference {
        cpu: entry.cpu,
        khz: entry.execute_khz.map(|khz| khz as f64),
        step_ns: step_ns(entry.cpu),
    };
    file.cpus.iter().map(reference).collect()
}

/// Return a change in words.
#[must_use]
pub fn line(change: &Change) -> String {
    let costs = |costs: [u32; COMPONENTS]| {
        costs.map(|cost| format!("{}.{:02}", cost / 1000, cost % 1000 / 10)).join("/")
    };
    let cause = match change.cause {
        Cause::Cycles => "counted cycles",
        Cause::SpotCheck => "a spot check",
        Cause::Limit => "the limit of its clock",
        Cause::Class => "the other CPUs of its class",
        Cause::Others => "another CPU's change",
    };
    let trigger = match change.trigger {
        None => "",
        Some(Trigger::Hotplug) => " after it came online",
        Some(Trigger::FrequencyPolicy) => " after its frequency limits changed",
        Some(Trigger::Thermal) => " after thermal throttling",
        Some(Trigger::Feedback) => " after the hardware announced it",
    };
    format!(
        "CPU {}: {} {} became {} {} (execute/internal/external), by {cause}{trigger}",
        change.cpu,
        change.old.class.name(),
        costs(change.old.cost_permille),
        change.new.class.name(),
        costs(change.new.cost_permille),
    )
}
