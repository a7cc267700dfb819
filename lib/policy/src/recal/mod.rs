//! Recalibration: from what CPUs are seen to do to a table that stays true.
//!
//! Problem. The table is measured once. Then a CPU gets hot, a governor or a user caps its clock, a hypervisor takes its time away: its costs are
//! wrong for seconds or for good, and every task is priced by them. Whoever follows each reading instead pays for noise: each change of
//! the table moves tasks.
//!
//! Approach. Only ratios to what the CPU did when its entry was true are used ([`Reference`]), so readings of unlike kinds can stand for each other:
//!
//! | evidence | reading | believed when |
//! |---|---|---|
//! | [`Evidence::Cycles`] | cycles per time counted while tasks ran | downwards only of a CPU that was busy: a governor slows others by choice |
//! | [`Evidence::Spot`] | time of a step of the calibration's execute loop | where no cycles were counted of late |
//! | [`Evidence::Limit`] | share of the clock that a policy leaves | where there is neither |
//!
//! * [`Filter`]: a ratio counts once it was off in the same direction by more than [`TOLERANCE`] several times running; their median is
//!   taken. Whatever changes too often has to be seen longer each time.
//! * [`scaled`]: the clock scales execution and stalls inside the core, which are cycles; stalls outside take the same time at any clock. So
//!   does the asymmetric VM (`tests/ampvm`), whose throttled vCPU keeps internal stalls in cycles and external ones in ns.
//! * A CPU that was not seen for a while, but did as the others of its class when it was, is taken to do as they do: clocks of
//!   a package rise and fall together with the number of busy cores, and idle ones must not look better for it. Downwards two others have to
//!   be seen; one alone may be hot by itself.
//! * [`Recal::join`]: a CPU that comes online later is added by what a spot check of it tells.
//! * [`reclassify`]: fast and slow are told anew, with hysteresis, when speeds have crossed.
//!
//! References. What the calibration counted or timed on the CPU; else the first readings that agree with each other are taken as what the table
//! means. A learned reference rises with the best that is seen: the table then describes each CPU at its best.
//!
//! Invariants (tests). A table that is given out passes [`CapacityTable::check`]: normalised to the best CPU, one CPU fast at least. Without a
//! reading nothing changes; readings within the tolerance of the entry never change it, outliers neither. After a step the entry is the
//! new truth within as many readings as the filter wants. A CPU whose speed returns gets its entry back to the last permille. Changes
//! of a CPU by its own readings are bounded in number a minute whatever is read. Each change of an entry is told with old, new and cause. No input panics.
//!
//! Limits. External stalls are not followed: a memory clock that drops is not seen. A learned reference is wrong if the CPU was throttled then,
//! until it is seen faster. A CPU that shows one speed for less than the filter wants is priced as before.

mod filter;
mod join;
mod reclass;
mod scale;
#[cfg(test)]
mod tests;

pub use filter::{CHANGES_A_MINUTE, Filter, TOLERANCE};
pub use join::Newcomer;
pub use reclass::reclassify;
pub use scale::scaled;

use crate::classes::SplitRule;
use crate::samples::median;
use crate::table::{COMPONENTS, CapacityTable, Class, CpuCapacity};
use serde::{Deserialize, Serialize};

/// A reading is believed to hold for so long [ms].
pub const FRESH_MS: u64 = 2000;
/// A CPU that does at least this share of what the best of its class does, does as its class.
const WITH_CLASS: f64 = 0.92;
/// A CPU follows its class once in so long [ms].
const FOLLOW_MS: u64 = 10_000;
/// A ratio this close to one is one: an entry goes back to what was calibrated.
const HOME: f64 = 0.02;
/// Readings that must agree to be taken as reference.
const LEARN: usize = 3;
/// No entry is scaled further down, or up: a CPU that seems to be faster than that was not measured right.
const SLOWEST: f64 = 1.0 / 64.0;
const FASTEST: f64 = 8.0;

/// A reading of one CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Its number.
    pub cpu: u32,
    /// What was seen.
    pub evidence: Evidence,
}

/// What was seen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Evidence {
    /// Cycles per time counted [kHz]; was the CPU busy for most of the interval?
    Cycles {
        /// Cycles per millisecond.
        khz: f64,
        /// Whether it ran tasks most of the time.
        busy: bool,
    },
    /// Time of a step of the execute loop [ns].
    Spot {
        /// Nanoseconds per step.
        step_ns: f64,
    },
    /// The share of its calibrated clock that a policy leaves it, at most 1.
    Limit {
        /// The share.
        share: f64,
    },
}

/// What a CPU did when its entry was measured; None where that is not known.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Reference {
    /// Its number.
    pub cpu: u32,
    /// Cycles per millisecond of the execute loop.
    pub khz: Option<f64>,
    /// Time of a step of the execute loop [ns].
    pub step_ns: Option<f64>,
}

/// Why an entry changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The cycles counted while tasks ran.
    Cycles,
    /// A spot check.
    SpotCheck,
    /// A limit of its clock.
    Limit,
    /// The other CPUs of its class; it was not seen itself.
    Class,
    /// Another CPU's change: costs are relative to the best.
    Others,
}

/// What made us look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trigger {
    /// It came online.
    Hotplug,
    /// The limits of its clock were changed.
    FrequencyPolicy,
    /// The hardware reported that it was throttled.
    Thermal,
    /// The hardware feedback interface changed what it thinks of it.
    Feedback,
}

/// A CPU's class and costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Queue class.
    pub class: Class,
    /// Cost of execute, internal and external work [permille of the best CPU of each].
    pub cost_permille: [u32; COMPONENTS],
}

/// A change of one CPU's entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// When, by the caller's clock [ms].
    pub at_ms: u64,
    /// The CPU.
    pub cpu: u32,
    /// Its entry before.
    pub old: Entry,
    /// Its entry now.
    pub new: Entry,
    /// Why.
    pub cause: Cause,
    /// What made us look; None if the readings themselves did.
    pub trigger: Option<Trigger>,
}

/// How much a spot check of a CPU would tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Want {
    /// Nothing that is not known.
    Nothing,
    /// Whether it is still as good as its class: its cycles will tell once something runs there, which an untrue entry may prevent.
    Rare,
    /// Whether its entry still holds.
    Routine,
    /// Whether it has changed, of which there is a sign.
    Soon,
}

/// The table and what is known of how true it is.
#[derive(Debug, Clone)]
pub struct Recal {
    table: CapacityTable,
    rule: SplitRule,
    cpus: Vec<CpuState>,
}

/// One speed by which readings of a kind are divided.
#[derive(Debug, Clone, Default)]
struct Gauge {
    /// Speed when the entry was true, in any unit.
    reference: Option<f64>,
    learned: bool,
    learning: Vec<f64>,
}

#[derive(Debug, Clone)]
struct CpuState {
    cpu: u32,
    /// The entry as calibrated.
    home: Entry,
    cycles: Gauge,
    spot: Gauge,
    /// Speed relative to the calibrated, as believed; the table has it.
    speed: f64,
    /// Why it changed in this turn.
    changed: Option<Cause>,
    /// It did as its class when it was last seen.
    with_class: bool,
    /// When it last followed its class [ms].
    followed_ms: Option<u64>,
    trigger: Option<Trigger>,
    seen_ms: Option<u64>,
    cycles_ms: Option<u64>,
    filter: Filter,
}

impl Recal {
    /// Follows `table`, whose entries were measured as `references` tell. A table that breaks [`CapacityTable::check`] is kept as it is.
    #[must_use]
    pub fn new(table: &CapacityTable, references: &[Reference], rule: SplitRule) -> Self {
        let cpus = table.cpus.iter().map(|entry| {
            let reference = references.iter().find(|reference| reference.cpu == entry.cpu);
            let sound = |value: &f64| value.is_finite() && *value > 0.0;
            let home = Entry { class: entry.class, cost_permille: entry.cost_permille };
            CpuState {
                cycles: Gauge::of(reference.and_then(|reference| reference.khz).filter(sound)),
                spot: Gauge::of(reference.and_then(|r| r.step_ns).filter(sound).map(|ns| 1.0 / ns)),
                ..CpuState::new(entry.cpu, home)
            }
        });
        Self { table: table.clone(), rule, cpus: cpus.collect() }
    }

    /// The table as it is now.
    #[must_use]
    pub fn table(&self) -> &CapacityTable {
        &self.table
    }

    /// Speed of a CPU relative to the calibrated [permille], as the table has it; None for a CPU that is not in the table.
    #[must_use]
    pub fn speed_permille(&self, cpu: u32) -> Option<u32> {
        self.state(cpu).map(|state| (state.speed * 1000.0).round() as u32)
    }

    /// What was last believed of a CPU, and when [ms]; None if nothing was yet.
    #[must_use]
    pub fn seen(&self, cpu: u32) -> Option<u64> {
        self.state(cpu)?.seen_ms
    }

    /// Something happened to `cpu` that may have changed its speed: fewer readings are believed now.
    pub fn trigger(&mut self, cpu: u32, trigger: Trigger) {
        if let Some(state) = self.cpus.iter_mut().find(|state| state.cpu == cpu) {
            state.trigger = Some(trigger);
            state.filter.hurry();
            if trigger == Trigger::Hotplug {
                state.seen_ms = None;
                state.cycles_ms = None;
            }
        }
    }

    /// What a spot check of an idle `cpu` would tell at `now_ms`; `counted` is whether its cycles are counted when tasks run there.
    #[must_use]
    pub fn wants_spot(&self, cpu: u32, now_ms: u64, counted: bool) -> Want {
        let Some(state) = self.state(cpu) else { return Want::Nothing };
        let age_ms = state.seen_ms.map_or(u64::MAX, |seen| now_ms.saturating_sub(seen));
        if state.trigger.is_some() || state.filter.suspects() {
            return Want::Soon;
        }
        match age_ms {
            _ if (!counted || !state.with_class) && age_ms >= FRESH_MS / 4 => Want::Routine,
            FRESH_MS.. => Want::Rare,
            _ => Want::Nothing,
        }
    }

    /// Takes readings in. The entries that changed, of which [`Self::table`] is made then; none if the table is as before.
    pub fn turn(&mut self, now_ms: u64, samples: &[Sample]) -> Vec<Change> {
        for sample in samples {
            if let Some(state) = self.cpus.iter_mut().find(|state| state.cpu == sample.cpu) {
                state.observe(now_ms, sample.evidence);
            }
        }
        self.compare_with_class(now_ms);
        let followed: Vec<Option<f64>> = self.cpus.iter().map(|state| self.follows(state, now_ms)).collect();
        for (state, speed) in self.cpus.iter_mut().zip(followed) {
            if let Some(speed) = speed {
                (state.speed, state.changed, state.followed_ms) = (speed, Some(Cause::Class), Some(now_ms));
            }
        }
        if self.cpus.iter().all(|state| state.changed.is_none()) {
            return Vec::new();
        }
        let changes = self.replace(now_ms);
        for state in &mut self.cpus {
            if state.changed.take().is_some() {
                state.trigger = None;
            }
        }
        changes
    }

    fn state(&self, cpu: u32) -> Option<&CpuState> {
        self.cpus.iter().find(|state| state.cpu == cpu)
    }

    /// The fastest of `class`'s CPUs that were seen of late, but for `except`, and how many there are.
    fn best_seen(&self, class: Class, now_ms: u64, except: u32) -> (f64, usize) {
        let seen = self
            .cpus
            .iter()
            .filter(|state| state.home.class == class && state.cpu != except && state.is_fresh(now_ms));
        seen.fold((0.0, 0), |(best, count), state| (state.speed.max(best), count + 1))
    }

    fn compare_with_class(&mut self, now_ms: u64) {
        let with_class: Vec<Option<bool>> = self
            .cpus
            .iter()
            .map(|state| {
                let (best, count) = self.best_seen(state.home.class, now_ms, state.cpu);
                let measure = if count == 0 { 1.0 } else { best };
                state.is_fresh(now_ms).then_some(state.speed >= WITH_CLASS * measure)
            })
            .collect();
        for (state, with_class) in self.cpus.iter_mut().zip(with_class) {
            state.with_class = with_class.unwrap_or(state.with_class);
        }
    }

    /// The speed that a CPU which was not seen of late has by what the others of its class do; None if they tell nothing new.
    fn follows(&self, state: &CpuState, now_ms: u64) -> Option<f64> {
        let of_late = state.followed_ms.is_some_and(|at| now_ms.saturating_sub(at) < FOLLOW_MS);
        if of_late || state.is_fresh(now_ms) {
            return None;
        }
        let (best, count) = self.best_seen(state.home.class, now_ms, state.cpu);
        let (up, down) = (best > state.speed, best < state.speed && count >= 2);
        let tells = (best / state.speed - 1.0).abs() > TOLERANCE;
        (tells && (down || (up && state.with_class))).then_some(best)
    }

    /// Makes the table anew from what is applied.
    fn replace(&mut self, now_ms: u64) -> Vec<Change> {
        let home: Vec<_> = self.cpus.iter().map(|state| state.home.cost_permille).collect();
        let speeds: Vec<f64> = self.cpus.iter().map(|state| state.speed).collect();
        let Some(costs) = scaled(&home, &speeds) else { return Vec::new() };
        let classes = if costs == home {
            self.cpus.iter().map(|state| state.home.class).collect()
        } else {
            let current: Vec<Class> = self.table.cpus.iter().map(|entry| entry.class).collect();
            reclassify(&costs, &current, self.rule)
        };
        let mut table = self.table.clone();
        for (entry, (cost, class)) in table.cpus.iter_mut().zip(costs.into_iter().zip(classes)) {
            (entry.cost_permille, entry.class) = (cost, class);
        }
        if table.check().is_err() {
            return Vec::new();
        }
        let before = std::mem::replace(&mut self.table, table);
        let entry = |of: &CpuCapacity| Entry { class: of.class, cost_permille: of.cost_permille };
        let entries = before.cpus.iter().zip(&self.table.cpus).zip(&self.cpus);
        let changes = entries.map(|((old, new), state)| Change {
            at_ms: now_ms,
            cpu: state.cpu,
            old: entry(old),
            new: entry(new),
            cause: state.changed.unwrap_or(Cause::Others),
            trigger: state.changed.and(state.trigger),
        });
        changes.filter(|change| change.old != change.new).collect()
    }
}

impl Gauge {
    fn of(reference: Option<f64>) -> Self {
        Self { reference, ..Self::default() }
    }

    /// Takes a speed as reference once it was seen [`LEARN`] times in a row.
    fn learn(&mut self, speed: f64) {
        if self.learning.iter().any(|other| (other / speed - 1.0).abs() > TOLERANCE) {
            self.learning.clear();
        }
        self.learning.push(speed);
        if self.learning.len() >= LEARN {
            self.reference = median(&self.learning);
            self.learned = true;
            self.learning.clear();
        }
    }
}

impl CpuState {
    fn new(cpu: u32, home: Entry) -> Self {
        Self {
            cpu,
            home,
            cycles: Gauge::default(),
            spot: Gauge::default(),
            speed: 1.0,
            changed: None,
            with_class: true,
            followed_ms: None,
            trigger: None,
            seen_ms: None,
            cycles_ms: None,
            filter: Filter::default(),
        }
    }

    fn is_fresh(&self, now_ms: u64) -> bool {
        self.seen_ms.is_some_and(|seen| now_ms.saturating_sub(seen) <= FRESH_MS)
    }

    fn observe(&mut self, now_ms: u64, evidence: Evidence) {
        let counted = self.cycles_ms.is_some_and(|at| now_ms.saturating_sub(at) <= FRESH_MS);
        let (ratio, cause, busy) = match evidence {
            Evidence::Cycles { khz, busy } => match self.ratio(true, khz, busy) {
                Some(ratio) => (ratio, Cause::Cycles, busy),
                None => return,
            },
            Evidence::Spot { step_ns } if !counted => match self.ratio(false, 1.0 / step_ns, true) {
                Some(ratio) => (ratio, Cause::SpotCheck, true),
                None => return,
            },
            Evidence::Limit { share } if !self.is_fresh(now_ms) && share <= 1.0 => {
                (share, Cause::Limit, true)
            }
            Evidence::Spot { .. } | Evidence::Limit { .. } => return,
        };
        if !(SLOWEST..=FASTEST).contains(&ratio) {
            return;
        }
        // A CPU with little to do may be clocked down for it.
        if !busy && ratio < self.speed * (1.0 - TOLERANCE) {
            return;
        }
        self.seen_ms = Some(now_ms);
        if cause == Cause::Cycles && busy {
            self.cycles_ms = Some(now_ms);
        }
        if let Some(decided) = self.filter.add(ratio, self.speed, now_ms, cause) {
            self.decide(decided, cause);
        } else if self.filter.settled() {
            self.trigger = None;
        }
    }

    /// The ratio that a speed stands for; None while there is no reference.
    fn ratio(&mut self, cycles: bool, speed: f64, busy: bool) -> Option<f64> {
        let at_home = (self.speed - 1.0).abs() <= TOLERANCE;
        let gauge = if cycles { &mut self.cycles } else { &mut self.spot };
        if !speed.is_finite() || speed <= 0.0 {
            return None;
        }
        match gauge.reference {
            Some(reference) => Some(speed / reference),
            None => {
                // What it does now is what its entry says, unless its entry is known to be another's doing.
                if busy && at_home {
                    gauge.learn(speed);
                }
                None
            }
        }
    }

    fn decide(&mut self, ratio: f64, cause: Cause) {
        let gauge = if cause == Cause::Cycles { &mut self.cycles } else { &mut self.spot };
        let mut ratio = ratio;
        if ratio > 1.0 && gauge.learned && cause != Cause::Limit {
            gauge.reference = gauge.reference.map(|reference| reference * ratio);
            ratio = 1.0;
        }
        self.speed = if (ratio - 1.0).abs() <= HOME { 1.0 } else { ratio };
        self.changed = Some(cause);
    }
}
