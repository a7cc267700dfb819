//! A CPU that comes online after the table was measured.
//!
//! Approach. Only the time of the execute loop is known of it. The calibrated CPU whose time is nearest stands for it: the newcomer gets that
//! one's entry at the clock that the quotient of the times stands for ([`scaled`]), as if it were the same CPU at another clock. So a
//! core like others is exact, and one of a new kind right in what it executes. Classes are told anew ([`reclassify`]).
//!
//! Invariants (tests). The table passes [`CapacityTable::check`](crate::table::CapacityTable::check) and has every CPU that it had. Costs of
//! the others keep their ratios. A time that is none, or nothing to compare it with, changes nothing.
//!
//! Limits. External stalls are taken to cost what they cost the CPU that stands for it.

use super::{Cause, Change, CpuState, Entry, FASTEST, Gauge, Recal, Reference, SLOWEST, reclassify, scaled};
use crate::sharing::SHARED_NONE;
use crate::table::{COST_BEST, Class, CpuCapacity};

/// A CPU that is not in the table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Newcomer {
    /// Its number.
    pub cpu: u32,
    /// Lowest CPU number that shares its core.
    pub core: u32,
    /// Lowest CPU number that shares its last-level cache.
    pub llc: u32,
    /// NUMA node.
    pub node: u32,
    /// Time of a step of the execute loop [ns].
    pub step_ns: f64,
}

impl Recal {
    /// Adds a CPU to the table by what it did, where `references` tell what others did when they were calibrated. The entries that it changes,
    /// its own first; None if there is nothing to compare it with, or it is there already.
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
        // The kernel side takes a CPU without an entry for this, and knows no siblings of it.
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

    /// The calibrated entry of the CPU whose step took most nearly so long, and the speed of one that takes `step_ns` relative to it.
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
