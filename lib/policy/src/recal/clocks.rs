// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The speeds of the CPUs of a table, from their readings, and the entries of CPUs that come online
//! after the table was measured.
//!
//! For such a CPU only the time of the execute loop is known. The new CPU gets the entry of the
//! calibrated CPU with the nearest time, scaled by the ratio of the times, as if it were the same
//! CPU at another clock. So the entry is exact for a core like the others. For a core of a new type
//! only the cost of execution is right: its cost of external stalls is that of the calibrated CPU.
//! Then the CPUs are classified again ([`Costs::add`]).

use super::state::{Cause, CpuState, Evidence, FASTEST, FRESH_MS, Gauge, SLOWEST, TOLERANCE, Trigger};
use crate::costs::{Costs, SAME};
use crate::table::{COMPONENTS, COST_BEST, CapacityTable, Class, CpuCapacity, SHARED_NONE};
use serde::{Deserialize, Serialize};

/// Least ratio of a CPU's speed to the best of its class at which the CPU agrees with its class.
const WITH_CLASS: f64 = 0.92;
/// Least time between two adjustments of a CPU to its class [ms].
const FOLLOW_MS: u64 = 10_000;

/// A reading of one CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// CPU number.
    pub cpu: u32,
    /// The reading.
    pub evidence: Evidence,
}

/// Readings of a CPU when its entry was measured; None where unknown.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Reference {
    /// CPU number.
    pub cpu: u32,
    /// Cycles per millisecond of the execute loop.
    pub khz: Option<f64>,
    /// Time of a step of the execute loop [ns].
    pub step_ns: Option<f64>,
}

/// A CPU's class and costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Class of the CPU.
    pub class: Class,
    /// Cost of execute, internal and external work [permille of the CPU that is best at each].
    pub cost_permille: [u32; COMPONENTS],
}

/// A change of one CPU's entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Time of the change, by the caller's clock [ms].
    pub at_ms: u64,
    /// CPU number.
    pub cpu: u32,
    /// Its entry before.
    pub old: Entry,
    /// Its entry after the change.
    pub new: Entry,
    /// Cause of the change.
    pub cause: Cause,
    /// Event that led to the check; None if only the readings did.
    pub trigger: Option<Trigger>,
}

impl From<&CpuCapacity> for Entry {
    fn from(entry: &CpuCapacity) -> Self {
        Self { class: entry.class, cost_permille: entry.cost_permille }
    }
}

/// A CPU that is not in the table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Newcomer {
    /// CPU number.
    pub cpu: u32,
    /// Lowest CPU number on its core.
    pub core: u32,
    /// Lowest CPU number on its last-level cache.
    pub llc: u32,
    /// NUMA node.
    pub node: u32,
    /// Time of a step of the execute loop [ns].
    pub step_ns: f64,
}

/// Benefit of a spot check of a CPU, in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Want {
    /// No benefit: the speed is known.
    Nothing,
    /// Low: the spot check shows whether the CPU still agrees with its class. Its cycles will show
    /// that too once a task runs there, which a wrong entry may prevent.
    Rare,
    /// Medium: it shows whether the entry still holds.
    Routine,
    /// High: there is a sign that the CPU has changed.
    Soon,
}

/// The speeds of the CPUs of a [`Costs`], with the readings that they depend on.
#[derive(Debug, Clone)]
pub struct Recal {
    /// In the order of the table.
    cpus: Vec<CpuState>,
}

impl Recal {
    /// Follow the CPUs of `table`, for whose entries `references` holds the readings.
    #[must_use]
    pub fn new(table: &CapacityTable, references: &[Reference]) -> Self {
        let cpus = table.cpus.iter().map(|entry| {
            let reference = references.iter().find(|reference| reference.cpu == entry.cpu);
            let sound = |value: &f64| value.is_finite() && *value > 0.0;
            CpuState {
                cycles: Gauge::of(reference.and_then(|reference| reference.khz).filter(sound)),
                spot: Gauge::of(reference.and_then(|r| r.step_ns).filter(sound).map(|ns| 1.0 / ns)),
                ..CpuState::new(entry.cpu)
            }
        });
        Self { cpus: cpus.collect() }
    }

    /// Return the speed of a CPU relative to the calibrated one [permille]; None for a CPU that is
    /// not in the table.
    #[must_use]
    pub fn speed_permille(&self, cpu: u32) -> Option<u32> {
        self.state(cpu).map(|state| (state.speed * 1000.0).round() as u32)
    }

    /// Return the time of the last usable reading of a CPU [ms]; None without one.
    #[must_use]
    pub fn seen(&self, cpu: u32) -> Option<u64> {
        self.state(cpu)?.seen_ms
    }

    /// Note an event that may have changed the speed of `cpu`: the filter then requires fewer
    /// readings.
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

    /// Return the benefit of a spot check of an idle `cpu` at `now_ms`. `counted` means that its
    /// cycles are counted when tasks run there.
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

    /// Process readings and update the clocks of `costs`. Return the entries that changed; none if
    /// the table did not change.
    pub fn step(&mut self, now_ms: u64, samples: &[Sample], costs: &mut Costs) -> Vec<Change> {
        for sample in samples {
            if let Some(state) = self.cpus.iter_mut().find(|state| state.cpu == sample.cpu) {
                state.observe(now_ms, sample.evidence);
            }
        }
        let homes: Vec<Class> = costs.calibrated().cpus.iter().map(|entry| entry.class).collect();
        self.compare_with_class(now_ms, &homes);
        let states = self.cpus.iter().zip(&homes);
        let followed: Vec<_> =
            states.map(|(state, home)| self.follows(state, *home, now_ms, &homes)).collect();
        for (state, speed) in self.cpus.iter_mut().zip(followed) {
            if let Some(speed) = speed {
                (state.speed, state.changed, state.followed_ms) = (speed, Some(Cause::Class), Some(now_ms));
            }
        }
        if self.cpus.iter().all(|state| state.changed.is_none()) {
            return Vec::new();
        }
        let before = costs.clocked().clone();
        costs.set_clocks(self.cpus.iter().map(|state| clock_permille(state.speed)).collect());
        self.changes(now_ms, &before, costs.clocked())
    }

    /// Add a CPU to `costs` by comparing its time with `references`, the readings of other CPUs at
    /// calibration. Return the entries that changed. Return None if there is no reference to
    /// compare with, the CPU is in the table already, or the new table would fail its check.
    pub fn join(
        &mut self,
        now_ms: u64,
        new: Newcomer,
        references: &[Reference],
        costs: &mut Costs,
    ) -> Option<Vec<Change>> {
        let at = self.cpus.binary_search_by_key(&new.cpu, |state| state.cpu).err()?;
        let (like, speed) = nearest(new.step_ns, references, costs.calibrated())?;
        let Newcomer { cpu, core, llc, node, .. } = new;
        let (Entry { class, cost_permille }, spread_permille) = (like, [0; 3]);
        // The kernel side assumes this for a CPU without an entry, and knows no siblings of the
        // CPU.
        let shared_permille = [SHARED_NONE; 3];
        let before = costs.clocked().clone();
        let entry =
            CpuCapacity { cpu, core, llc, node, class, cost_permille, spread_permille, shared_permille };
        costs.add(entry, clock_permille(speed))?;
        let joined = CpuState {
            spot: Gauge::of(Some(1.0 / new.step_ns)),
            seen_ms: Some(now_ms),
            changed: Some(Cause::SpotCheck),
            trigger: Some(Trigger::Hotplug),
            ..CpuState::new(cpu)
        };
        self.cpus.insert(at, joined);
        Some(self.changes(now_ms, &before, costs.clocked()))
    }

    fn state(&self, cpu: u32) -> Option<&CpuState> {
        self.cpus.iter().find(|state| state.cpu == cpu)
    }

    /// Return the highest speed among the CPUs of `class` with recent readings, without `except`,
    /// and the number of these CPUs. `homes` holds the calibrated classes.
    fn best_seen(&self, homes: &[Class], class: Class, now_ms: u64, except: u32) -> (f64, usize) {
        let of_class = self.cpus.iter().zip(homes).filter(|(_, home)| **home == class);
        let seen = of_class.filter(|(state, _)| state.cpu != except && state.is_fresh(now_ms));
        seen.fold((0.0, 0), |(best, count), (state, _)| (state.speed.max(best), count + 1))
    }

    fn compare_with_class(&mut self, now_ms: u64, homes: &[Class]) {
        let with_class = self.cpus.iter().zip(homes).map(|(state, home)| {
            let (best, count) = self.best_seen(homes, *home, now_ms, state.cpu);
            let measure = if count == 0 { 1.0 } else { best };
            state.is_fresh(now_ms).then_some(state.speed >= WITH_CLASS * measure)
        });
        let with_class: Vec<Option<bool>> = with_class.collect();
        for (state, with_class) in self.cpus.iter_mut().zip(with_class) {
            state.with_class = with_class.unwrap_or(state.with_class);
        }
    }

    /// Return the speed that a CPU of class `home` without a recent reading takes from the others
    /// of its class; None if it keeps its own.
    fn follows(&self, state: &CpuState, home: Class, now_ms: u64, homes: &[Class]) -> Option<f64> {
        let of_late = state.followed_ms.is_some_and(|at| now_ms.saturating_sub(at) < FOLLOW_MS);
        if of_late || state.is_fresh(now_ms) {
            return None;
        }
        let (best, count) = self.best_seen(homes, home, now_ms, state.cpu);
        let (up, down) = (best > state.speed, best < state.speed && count >= 2);
        let tells = (best / state.speed - 1.0).abs() > TOLERANCE;
        (tells && (down || (up && state.with_class))).then_some(best)
    }

    /// Return the entries that differ between two tables, with the causes in the states, and clear
    /// these causes. A CPU that `before` lacks had the entry that the kernel side assumes.
    fn changes(&mut self, now_ms: u64, before: &CapacityTable, after: &CapacityTable) -> Vec<Change> {
        let assumed = Entry { class: Class::Fast, cost_permille: [COST_BEST; COMPONENTS] };
        let mut changes = Vec::new();
        for (state, entry) in self.cpus.iter_mut().zip(&after.cpus) {
            let changed = state.changed.take();
            let trigger = changed.and_then(|_| state.trigger.take());
            let (old, new) = (before.get(state.cpu).map_or(assumed, Entry::from), Entry::from(entry));
            if old != new {
                let cause = changed.unwrap_or(Cause::Others);
                changes.push(Change { at_ms: now_ms, cpu: state.cpu, old, new, cause, trigger });
            }
        }
        changes
    }
}

/// Return the clock factor of a CPU of this speed [permille].
fn clock_permille(speed: f64) -> u32 {
    (f64::from(SAME) / speed).round() as u32
}

/// Return the calibrated entry of the CPU whose step time is nearest to `step_ns`, and the new
/// CPU's speed relative to it.
fn nearest(step_ns: f64, references: &[Reference], calibrated: &CapacityTable) -> Option<(Entry, f64)> {
    let known = references.iter().filter_map(|reference| {
        let home = calibrated.get(reference.cpu)?.into();
        let speed = reference.step_ns? / step_ns;
        (SLOWEST..=FASTEST).contains(&speed).then_some((home, speed))
    });
    known.min_by(|(_, a), (_, b)| a.ln().abs().total_cmp(&b.ln().abs()))
}
