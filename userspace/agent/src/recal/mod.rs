//! Recalibration while scheduling: keeps the kernel side's capacity table true.
//!
//! Problem. CPUs get hot, are capped, come and go. What they do has to be seen from what runs anyway, for next to nothing, and a change must
//! reach the kernel side as a whole.
//!
//! Approach. What is made of readings is decided in [`bias_policy::recal`]; here they are taken, and the table handed over. Each [`EVERY`]
//! * the cycles and the time that the kernel side added up per CPU while tasks ran give the clock of CPUs that are counted;
//! * a few CPUs that idle and of which that does not tell enough are asked by a spot check ([`spot`]): a moment of the calibration's
//!   execute loop on a thread of the lowest priority. Only while something runs somewhere: on an idle machine the table decides nothing. One
//!   that seems to have changed is asked again each [`AGAIN`] until that is certain;
//! * limits of the clock and counts of thermal throttling are read from sysfs ([`hints`]), at once where the kernel announces that something got
//!   hot ([`thermal`]); where they change the CPU has to prove less.
//!
//! A new table is put in force by the kernel side in one step (`bpf/table.bpf.h`). Each change of an entry is logged with old, new and cause,
//! and kept for `scx_bias status`, the last [`KEPT`] of them. Nothing is stored: the next start spot-checks the stored table as ever.
//!
//! Invariants. Without readings nothing changes and the status says so. The watching thread never waits for a measurement. At most
//! [`SPOTS`] checks are made at a time, of some hundred microseconds each on hardware, 40 ms and more where a CPU seems to have changed.
//!
//! CPUs that come online later and are not in the table are measured, and added to it ([`late`]).
//!
//! Limits. With opted-in cgroups an idle CPU may be busy for the
//! default scheduler: its check then takes too long and is dropped.

pub mod hints;
mod late;
mod report;
pub mod spot;
#[cfg(test)]
mod tests;
pub mod thermal;

pub use report::{CpuRecal, Follows, Report, line};

use crate::store::CapacityFile;
use bias_policy::classes::SplitRule;
use bias_policy::recal::{Cause, Change, Evidence, Recal, Reference, Sample, Trigger, Want};
use bias_policy::samples::median;
use bias_policy::table::{CapacityTable, Class};
use hints::Hints;
use late::Late;
use spot::Spots;
use std::collections::VecDeque;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use thermal::News;
use tracing::{debug, info, warn};

/// Between readings.
pub const EVERY: Duration = Duration::from_millis(500);
/// Changes that are kept for the status.
pub const KEPT: usize = 128;
/// Between looks at spot checks while an idle CPU seems to have changed.
const AGAIN: Duration = Duration::from_millis(100);
/// Such looks in a row at most, and turns until there may be more: where checks never agree, as on a busy host of virtual CPUs, they must not go on
/// for ever.
const AGAINS: u32 = 6;
const AGAINS_EVERY: u64 = 10;
/// Spot checks begun in a turn, and how many of them of CPUs that nothing is wrong with.
const SPOTS: usize = 4;
const RARE_SPOTS: usize = 2;
/// Turns between looks at limits and throttling.
const HINTS_EVERY: u64 = 4;
/// A shorter count is no reading [ns].
const LEAST_COUNTED_NS: u64 = 200_000;
/// A CPU that ran so much of an interval was busy, one that ran so little idle [permille].
const BUSY_PERMILLE: u64 = 700;
const IDLE_PERMILLE: u64 = 200;
/// More changes at a time are logged in one line.
const LOGGED: usize = 8;

/// What the kernel side knows of a CPU, since the start where it is a sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reading {
    /// Its number.
    pub cpu: u32,
    /// Cycles of counted stretches.
    pub cycles: u64,
    /// For how long they were counted [ns].
    pub counted_ns: u64,
    /// For how long tasks ran [ns].
    pub ran_ns: u64,
    /// Does one run now, other than who reads?
    pub busy: bool,
    /// Are tasks counted there?
    pub counted: bool,
    /// How often it came online.
    pub onlined: u32,
}

impl Reading {
    /// The share of `elapsed_ns` that tasks ran [permille].
    fn ran_permille(&self, elapsed_ns: u64) -> u64 {
        self.ran_ns / (elapsed_ns / 1000).max(1)
    }
}

/// The kernel side.
pub trait Kernel {
    /// What it knows of every CPU.
    fn readings(&self) -> Vec<Reading>;

    /// Puts a table in force.
    ///
    /// # Errors
    /// Why it cannot; then the old one is in force.
    fn replace(&mut self, table: &CapacityTable) -> anyhow::Result<()>;
}

/// Keeps the table of one run true.
pub struct Recalibrator {
    recal: Recal,
    /// The lowest CPU of each CPU's core, in the order of the table.
    cores: Vec<(u32, u32)>,
    references: Vec<Reference>,
    spots: Box<dyn Spots>,
    hints: Hints,
    /// They should be looked at in the next turn.
    hinted: bool,
    late: Late,
    /// Why the kernel announces nothing; None if it does.
    deaf: Option<String>,
    on: bool,
    started: Instant,
    /// When that was [ms since 1970].
    started_ms: u64,
    before: Option<(Instant, Vec<Reading>)>,
    /// What came in the last interval, and how long that was [ns].
    last: (u64, Vec<Reading>),
    due: Instant,
    /// When to look at spot checks before that.
    again: Option<Instant>,
    /// How many of these looks may still be taken.
    agains: u32,
    turns: u64,
    spot_checks: u64,
    changes: VecDeque<Change>,
    changed: u64,
    failure: Option<String>,
}

impl Recalibrator {
    /// Follows the machine of `table`, whose entries were measured as `references` tell; does nothing unless `on`.
    #[must_use]
    pub fn start(table: &CapacityTable, references: &[Reference], on: bool) -> Self {
        let cpus: Vec<u32> = table.cpus.iter().map(|entry| entry.cpu).collect();
        let hints = if on { Hints::open(Path::new("/sys"), &cpus) } else { Hints::default() };
        let late = Late { sysfs: "/sys".into(), ..Late::default() };
        Self { late, ..Self::with(table, references, on, Box::new(spot::Threads::default()), hints) }
    }

    fn with(
        table: &CapacityTable,
        references: &[Reference],
        on: bool,
        spots: Box<dyn Spots>,
        hints: Hints,
    ) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            recal: Recal::new(table, references, SplitRule::default()),
            cores: table.cpus.iter().map(|entry| (entry.cpu, entry.core)).collect(),
            references: references.to_vec(),
            spots,
            hints,
            hinted: false,
            late: Late::default(),
            deaf: None,
            on,
            started: Instant::now(),
            started_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
            before: None,
            last: (1, Vec::new()),
            due: Instant::now(),
            again: None,
            agains: AGAINS,
            turns: 0,
            spot_checks: 0,
            changes: VecDeque::new(),
            changed: 0,
            failure: None,
        }
    }

    /// The table in force.
    #[must_use]
    pub fn table(&self) -> &CapacityTable {
        self.recal.table()
    }

    /// Is the table followed?
    #[must_use]
    pub const fn is_on(&self) -> bool {
        self.on
    }

    /// The kernel announces nothing, for this reason.
    pub fn hears_nothing(&mut self, why: &anyhow::Error) {
        self.deaf = Some(format!("{why:#}"));
    }

    /// The kernel announced something: it is looked at soon, with what else came in the same moment.
    pub fn heard(&mut self, news: &News, now: Instant) {
        if let News::Cpus(cpus) = news {
            cpus.iter().for_each(|cpu| self.recal.trigger(*cpu, Trigger::Feedback));
        }
        self.hinted = true;
        self.due = self.due.min(now + AGAIN);
    }

    /// Takes readings if it is time to; for how long from `now` it has nothing to do.
    pub fn turn(&mut self, now: Instant, kernel: &mut dyn Kernel) -> Duration {
        if !self.on {
            if now >= self.due {
                self.due = now + EVERY * HINTS_EVERY as u32;
                self.look_for_late();
            }
            return Duration::MAX;
        }
        if now >= self.due {
            self.due = now + EVERY;
            self.turns += 1;
            if self.turns.is_multiple_of(AGAINS_EVERY) {
                self.agains = AGAINS;
            }
            let readings = kernel.readings();
            if let Some((at, before)) = self.before.take() {
                let elapsed_ns = u64::try_from(now.duration_since(at).as_nanos()).unwrap_or(u64::MAX).max(1);
                self.look(now, elapsed_ns, &deltas(&before, &readings), kernel);
            }
            self.before = Some((now, readings));
        } else if self.again.is_some_and(|at| now >= at) {
            self.look_again(now, kernel);
        }
        let due = self.again.map_or(self.due, |at| at.min(self.due));
        due.saturating_duration_since(now)
    }

    /// Makes of what came since the last look a new table, if need be, and asks for what it does not tell.
    fn look(&mut self, now: Instant, elapsed_ns: u64, deltas: &[(Reading, bool)], kernel: &mut dyn Kernel) {
        for (delta, _) in deltas.iter().filter(|(_, came_online)| *came_online) {
            self.recal.trigger(delta.cpu, Trigger::Hotplug);
        }
        self.last = (elapsed_ns, deltas.iter().map(|(delta, _)| *delta).collect());
        let mut samples: Vec<Sample> =
            self.last.1.iter().filter_map(|delta| cycles(delta, elapsed_ns)).collect();
        if std::mem::take(&mut self.hinted) || self.turns.is_multiple_of(HINTS_EVERY) {
            for hint in self.hints.look() {
                if let Some(trigger) = hint.trigger {
                    self.recal.trigger(hint.cpu, trigger);
                }
                samples.extend(
                    hint.share.map(|share| Sample { cpu: hint.cpu, evidence: Evidence::Limit { share } }),
                );
            }
        }
        if self.turns.is_multiple_of(HINTS_EVERY) {
            self.look_for_late();
        }
        self.take_in(now, samples, kernel);
        self.ask(now, Want::Rare);
    }

    /// The same for spot checks alone: a CPU that seems to have changed is asked again at once.
    fn look_again(&mut self, now: Instant, kernel: &mut dyn Kernel) {
        for (last, reading) in self.last.1.iter_mut().zip(kernel.readings()) {
            last.busy = reading.busy;
        }
        self.take_in(now, Vec::new(), kernel);
        self.ask(now, Want::Soon);
    }

    /// Takes in these samples and what spot checks found.
    fn take_in(&mut self, now: Instant, mut samples: Vec<Sample>, kernel: &mut dyn Kernel) {
        let found = self.spots.collect();
        self.take_in_late(now, &found, kernel);
        samples.extend(
            found.into_iter().map(|(cpu, step_ns)| Sample { cpu, evidence: Evidence::Spot { step_ns } }),
        );
        let changes = self.recal.turn(self.clock_ms(now), &samples);
        if !changes.is_empty() {
            self.apply(changes, kernel);
        }
    }

    fn clock_ms(&self, now: Instant) -> u64 {
        let since = now.saturating_duration_since(self.started).as_millis();
        self.started_ms.saturating_add(u64::try_from(since).unwrap_or(u64::MAX))
    }

    fn apply(&mut self, changes: Vec<Change>, kernel: &mut dyn Kernel) {
        match kernel.replace(self.recal.table()) {
            Ok(()) => self.failure = None,
            Err(error) => {
                if self.failure.is_none() {
                    warn!("the kernel side keeps its capacity table: {error:#}");
                }
                self.failure = Some(format!("{error:#}"));
            }
        }
        // What only follows from another's change is in the status.
        let (followed, own): (Vec<_>, Vec<_>) =
            changes.iter().partition(|change| change.cause == Cause::Others);
        own.iter().take(LOGGED).for_each(|change| info!("{}", report::line(change)));
        followed.iter().for_each(|change| debug!("{}", report::line(change)));
        if own.len() > LOGGED {
            info!("and {} more CPUs; `scx_bias status --json` lists them", own.len() - LOGGED);
        }
        self.changed += changes.len() as u64;
        self.changes.extend(changes);
        let surplus = self.changes.len().saturating_sub(KEPT);
        self.changes.drain(..surplus);
    }

    /// Begins spot checks of idle CPUs that are wanted at least so much.
    fn ask(&mut self, now: Instant, least: Want) {
        let now_ms = self.clock_ms(now);
        let (elapsed_ns, deltas) = &self.last;
        let runs = |delta: &Reading| delta.ran_permille(*elapsed_ns) >= IDLE_PERMILLE;
        self.again = None;
        // What a table is for: something runs.
        if !deltas.iter().any(runs) {
            return;
        }
        let core = |cpu: u32| self.cores.iter().find(|(other, _)| *other == cpu).map(|(_, core)| *core);
        let is_idle = |cpu: u32| {
            let on_core = deltas.iter().filter(|delta| core(delta.cpu) == core(cpu));
            let mut on_core = on_core.peekable();
            on_core.peek().is_some() && on_core.all(|delta| !delta.busy && !runs(delta))
        };
        let wants =
            deltas.iter().map(|delta| (self.recal.wants_spot(delta.cpu, now_ms, delta.counted), delta.cpu));
        let mut wants: Vec<(Want, u64, u32)> = wants
            .filter(|(want, cpu)| *want >= least && is_idle(*cpu))
            .map(|(want, cpu)| (want, now_ms.saturating_sub(self.recal.seen(cpu).unwrap_or(0)), cpu))
            .collect();
        wants.sort_unstable_by(|a, b| b.cmp(a));
        let urgent = wants.iter().filter(|(want, ..)| *want > Want::Rare).count();
        for (_, _, cpu) in wants.iter().take(SPOTS.min(urgent + RARE_SPOTS)) {
            self.spot_checks += u64::from(self.spots.ask(*cpu, self.expected_ns(*cpu)));
        }
        if least == Want::Soon && !wants.is_empty() {
            self.agains = self.agains.saturating_sub(1);
        }
        // What is asked now may raise a suspicion, and one that is raised is followed up.
        self.again = (!wants.is_empty() && self.agains > 0).then_some(now + AGAIN);
    }

    /// What a step of the loop should take on a CPU by the table; None if its calibration did not tell.
    fn expected_ns(&self, cpu: u32) -> Option<f64> {
        let reference = self.references.iter().find(|reference| reference.cpu == cpu)?.step_ns?;
        Some(reference * 1000.0 / f64::from(self.recal.speed_permille(cpu)?.max(1)))
    }
}

/// What came since, CPU by CPU, and whether it came online meanwhile.
fn deltas(before: &[Reading], now: &[Reading]) -> Vec<(Reading, bool)> {
    let pairs = now.iter().zip(before).filter(|(now, before)| now.cpu == before.cpu);
    pairs
        .map(|(now, before)| {
            let delta = Reading {
                cycles: now.cycles.saturating_sub(before.cycles),
                counted_ns: now.counted_ns.saturating_sub(before.counted_ns),
                ran_ns: now.ran_ns.saturating_sub(before.ran_ns),
                ..*now
            };
            (delta, now.onlined != before.onlined)
        })
        .collect()
}

/// The clock of a CPU, if enough of it was counted. What an idle one does in a few short runs is no measure: spot checks are for these.
fn cycles(delta: &Reading, elapsed_ns: u64) -> Option<Sample> {
    let ran_permille = delta.ran_permille(elapsed_ns);
    let enough = delta.counted && delta.counted_ns >= LEAST_COUNTED_NS && ran_permille >= IDLE_PERMILLE;
    let khz = delta.cycles as f64 * 1e6 / delta.counted_ns as f64;
    let busy = ran_permille >= BUSY_PERMILLE;
    enough.then_some(Sample { cpu: delta.cpu, evidence: Evidence::Cycles { khz, busy } })
}

/// What CPUs did when the entries of a capacity file were measured.
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
