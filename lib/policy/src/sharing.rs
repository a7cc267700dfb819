// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! SMT siblings: the cost of work on a CPU while the other CPUs of its core are busy.
//!
//! # Problem
//!
//! Siblings share one core. A capacity table of CPUs measured alone charges a busy core's second
//! thread like a core of its own. Fast cores then get two tasks before a slow core gets its first.
//!
//! # Approach
//!
//! Each CPU has a factor per component, [`crate::table::CpuCapacity::shared_permille`]. It is the
//! time of a unit of work on a CPU while all siblings do the same work, over the time alone.
//!
//! The throughput that each adds decides between a further thread of a fast core and a whole slow
//! core. With t threads at a factor s the core does t/s. So a further thread adds (t/s - 1) / (t -
//! 1) of a fast core. The cost of the added work is the cost alone divided by this share.
//!
//! # Invariants
//!
//! * A factor stays within [`SHARED_NONE`]..=[`SHARED_MAX`].
//! * The siblings of a core form one ring.
//!
//! # Limits
//!
//! All siblings do the same work when the factor is measured. Different work shares a core with
//! less loss.

use crate::cpuset::CpuSet;
use crate::table::{COMPONENTS, CapacityTable, Class, Component, CpuCapacity, SHARED_MAX, SHARED_NONE};

/// Factors of CPUs with siblings that were not measured [permille]. Two executing threads together
/// get a quarter more done than one alone, as is usual for two-way SMT. Stalls inside the core
/// overlap with the sibling's work. Memory latency does not change.
pub const SHARED_DEFAULT: [u32; COMPONENTS] = [1600, 1300, 1000];

/// Compute the factor from times per unit of work, alone and together with the siblings [same
/// unit]. Return None unless both are finite and positive.
#[must_use]
pub fn shared_permille(alone: f64, together: f64) -> Option<u32> {
    let factor = (alone > 0.0 && together > 0.0).then_some(together / alone)?;
    let bounds = (f64::from(SHARED_NONE), f64::from(SHARED_MAX));
    (alone.is_finite() && together.is_finite())
        .then(|| (factor * 1000.0).round().clamp(bounds.0, bounds.1) as u32)
}

/// Return true if a further thread of a busy fast core of `threads` threads adds more throughput
/// than a whole slow core. `shared` is the fast CPUs' factor, `fast` and `slow` are the classes'
/// costs alone. All three are of the same component [permille].
#[must_use]
pub fn fast_sibling_first(threads: u32, shared: u32, fast: u32, slow: u32) -> bool {
    let (threads, shared) = (u64::from(threads.max(1)), u64::from(shared.max(SHARED_NONE)));
    // Compare (threads / shared - 1) / (threads - 1) > fast / slow, without fractions.
    let added = (threads * 1000).saturating_sub(shared);
    u128::from(added) * u128::from(slow) > u128::from((threads - 1) * shared) * u128::from(fast)
}

impl CpuCapacity {
    /// Return the costs of this CPU while its siblings are busy [permille of the best CPU].
    #[must_use]
    pub fn shared_cost_permille(&self) -> [u32; COMPONENTS] {
        std::array::from_fn(|k| {
            let cost = u64::from(self.cost_permille[k]) * u64::from(self.shared_permille[k]) / 1000;
            u32::try_from(cost).unwrap_or(u32::MAX)
        })
    }

    /// Return the costs of the work that a further thread adds to this CPU's core, which has
    /// `threads` CPUs and a busy sibling [permille of the best CPU]. `u32::MAX` is the cost of a
    /// thread that adds none.
    #[must_use]
    pub fn added_cost_permille(&self, threads: u32) -> [u32; COMPONENTS] {
        let threads = u64::from(threads.max(2));
        std::array::from_fn(|k| {
            let shared = u64::from(self.shared_permille[k]);
            let added = (threads * 1000).saturating_sub(shared);
            let cost = u64::from(self.cost_permille[k]) * (threads - 1) * shared;
            cost.checked_div(added).and_then(|cost| u32::try_from(cost).ok()).unwrap_or(u32::MAX)
        })
    }
}

/// The busy CPUs of each core, from which the cost in force follows: the shared one while a sibling
/// is busy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sharing {
    /// Core and number of each busy CPU, in ascending order.
    busy: Vec<(u32, u32)>,
}

impl Sharing {
    /// Take the CPUs of `busy`.
    #[must_use]
    pub fn new(cpus: &[CpuCapacity], busy: &CpuSet) -> Self {
        let cpus = cpus.iter().filter(|entry| busy.contains(entry.cpu));
        let mut busy: Vec<(u32, u32)> = cpus.map(|entry| (entry.core, entry.cpu)).collect();
        busy.sort_unstable();
        Self { busy }
    }

    /// Return true if another CPU of the core of `entry` is busy.
    #[must_use]
    pub fn is_shared(&self, entry: &CpuCapacity) -> bool {
        let first = self.busy.partition_point(|(core, _)| *core < entry.core);
        let of_core = self.busy[first..].iter().take_while(|(core, _)| *core == entry.core);
        of_core.into_iter().any(|(_, cpu)| *cpu != entry.cpu)
    }

    /// Return the costs of a CPU that are in force [permille of the best CPU].
    #[must_use]
    pub fn cost_permille(&self, entry: &CpuCapacity) -> [u32; COMPONENTS] {
        if self.is_shared(entry) { entry.shared_cost_permille() } else { entry.cost_permille }
    }
}

impl CapacityTable {
    /// Iterate over the CPUs of the physical core `core`, in ascending order.
    pub fn core(&self, core: u32) -> impl Iterator<Item = &CpuCapacity> {
        self.cpus.iter().filter(move |entry| entry.core == core)
    }

    /// Return true if `entry` shares its core with another CPU of the table.
    #[must_use]
    pub fn has_sibling(&self, entry: &CpuCapacity) -> bool {
        self.core(entry.core).nth(1).is_some()
    }

    /// Return the CPU that follows `entry` on its core; the first one follows the last. A CPU
    /// without siblings follows itself.
    #[must_use]
    pub fn next_sibling(&self, entry: &CpuCapacity) -> u32 {
        let after = self.core(entry.core).find(|other| other.cpu > entry.cpu);
        after.or_else(|| self.core(entry.core).next()).map_or(entry.cpu, |other| other.cpu)
    }

    /// Return true if a further thread of a fast core adds more throughput than a whole slow core,
    /// by execute costs. Return false if no fast CPU has siblings or no CPU is slow.
    #[must_use]
    pub fn fast_sibling_first(&self) -> bool {
        let at = Component::Execute.index();
        let fast = self.cpus.iter().filter(|entry| entry.class == Class::Fast);
        let threads = fast.map(|entry| self.core(entry.core).count()).max().unwrap_or(1);
        let siblings: Vec<u64> = self
            .cpus
            .iter()
            .filter(|entry| entry.class == Class::Fast && self.has_sibling(entry))
            .map(|entry| u64::from(entry.shared_permille[at]))
            .collect();
        if siblings.is_empty() || self.nr_classes() == 1 {
            return false;
        }
        let shared = (siblings.iter().sum::<u64>() / siblings.len() as u64) as u32;
        let cost = |class| self.class_cost_permille(class)[at];
        fast_sibling_first(threads as u32, shared, cost(Class::Fast), cost(Class::Slow))
    }
}

#[cfg(test)]
#[path = "sharing_tests.rs"]
mod tests;
