//! Adds a CPU that comes online after the table was measured.
//!
//! # Problem
//!
//! Only the time of the execute loop is known of such a CPU.
//!
//! # Approach
//!
//! The calibrated CPU with the nearest time stands for the new one. The new CPU gets that entry,
//! scaled by the ratio of the times ([`scaled`]), as if it were the same CPU at another clock. So
//! the entry is exact for a core like the others. For a core of a new type only the cost of
//! execution is right. Then the CPUs are classified again ([`reclassify`]).
//!
//! # Invariants
//!
//! Tests check these:
//! * The table passes [`CapacityTable::check`](crate::table::CapacityTable::check) and keeps every
//!   CPU that it had.
//! * Costs of the other CPUs keep their ratios.
//! * An invalid time, or no reference to compare it with, changes nothing.
//!
//! # Limits
//!
//! The cost of external stalls is that of the CPU that stands for the new one.

use super::{Cause, Change, CpuState, Entry, FASTEST, Gauge, Recal, Reference, SLOWEST, reclassify, scaled};
use crate::sharing::SHARED_NONE;
use crate::table::{COST_BEST, Class, CpuCapacity};

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

impl Recal {
    /// Add a CPU to the table by comparing its time with `references`, the readings of other CPUs
    /// at calibration. Return the entries that changed. Return None if there is no reference to
    /// compare with, the CPU is in the table already, or the new table would fail its check.
    pub fn join(&mut self, now_ms: u64, new: Newcomer, references: &[Reference]) -> Option<Vec<Change>> {
        let at = self.table.cpus.binary_search_by_key(&new.cpu, |entry| entry.cpu).err()?;
        let (like, speed) = self.nearest(new.step_ns, references)?;
        let mut joined = self.clone();
        let entry = Entry { class: Class::Fast, cost_permille: [COST_BEST; 3] };
        joined.cpus.insert(at, CpuState { home: like, ..CpuState::new(new.cpu, entry) });
        let homes: Vec<_> = joined.cpus.iter().map(|state| state.home.cost_permille).collect();
        let speeds: Vec<f64> = (0..homes.len()).map(|place| if place == at { speed } else { 1.0 }).collect();
        let homes = scaled(&homes, &speeds)?;
        let present: Vec<Class> = joined.cpus.iter().map(|state| state.home.class).collect();
        let classes = reclassify(&homes, &present, self.rule);
        for (state, (cost_permille, class)) in joined.cpus.iter_mut().zip(homes.into_iter().zip(classes)) {
            state.home = Entry { class, cost_permille };
        }
        let state = joined.cpus.get_mut(at)?;
        state.spot = Gauge::of(Some(1.0 / new.step_ns));
        (state.seen_ms, state.changed) = (Some(now_ms), Some(Cause::SpotCheck));
        state.trigger = Some(super::Trigger::Hotplug);
        let Newcomer { cpu, core, llc, node, .. } = new;
        let (Entry { class, cost_permille }, spread_permille) = (entry, [0; 3]);
        // The kernel side assumes this for a CPU without an entry, and knows no siblings of the
        // CPU.
        let shared_permille = [SHARED_NONE; 3];
        joined.table.cpus.insert(
            at,
            CpuCapacity { cpu, core, llc, node, class, cost_permille, spread_permille, shared_permille },
        );
        let changes = joined.replace(now_ms);
        joined.table.check().ok()?;
        for state in &mut joined.cpus {
            if state.changed.take().is_some() {
                state.trigger = None;
            }
        }
        *self = joined;
        Some(changes)
    }

    /// Return the calibrated entry of the CPU whose step time is nearest to `step_ns`, and the new
    /// CPU's speed relative to it.
    fn nearest(&self, step_ns: f64, references: &[Reference]) -> Option<(Entry, f64)> {
        let known = references.iter().filter_map(|reference| {
            let home = self.state(reference.cpu)?.home;
            let speed = reference.step_ns? / step_ns;
            (SLOWEST..=FASTEST).contains(&speed).then_some((home, speed))
        });
        known.min_by(|(_, a), (_, b)| a.ln().abs().total_cmp(&b.ln().abs()))
    }
}

#[cfg(test)]
#[path = "join_tests.rs"]
mod tests;
