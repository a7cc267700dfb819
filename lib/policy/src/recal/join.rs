// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Adds a CPU that comes online after the table was measured.
//!
//! # Problem
//!
//! Only the time of the execute loop is known of such a CPU.
//!
//! # Approach
//!
//! The calibrated CPU with the nearest time stands for the new one. The new CPU gets that entry,
//! scaled by the ratio of the times, as if it were the same CPU at another clock. So the entry is
//! exact for a core like the others. For a core of a new type only the cost of execution is right.
//! Then the CPUs are classified again ([`Costs::add`]).
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

use super::clocks::{Recal, clock_permille};
use super::evidence::{Cause, Change, Entry, Reference, Trigger};
use super::state::{CpuState, FASTEST, Gauge, SLOWEST};
use crate::costs::Costs;
use crate::table::{CapacityTable, CpuCapacity, SHARED_NONE};

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

#[cfg(test)]
#[path = "join_tests.rs"]
mod tests;
