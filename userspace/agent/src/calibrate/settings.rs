// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Parameters and result of a calibration, and the choice of the CPUs that are measured together.
//!
//! # Problem
//! CPUs that share a core, a cache or a power budget disturb each other. Measuring one after the
//! other takes long on a large machine.
//!
//! # Approach
//! CPUs are measured one at a time while that fits the time budget, which holds for up to about a
//! dozen CPUs. Larger machines use the number of lanes that the budget needs. The CPUs of a batch
//! are on different physical cores. The memory loop runs on one CPU of a last-level cache at a time
//! (a lock, see [`super::memory`]). Batches take CPUs of different caches first, so that few
//! threads wait for that lock.
//!
//! # Invariants
//! Every CPU is in exactly one batch. No batch holds two CPUs of a core or more than `lanes` CPUs.

use crate::counter_model::CounterModel;
use crate::pmu::Probed;
use crate::topology::Cpu;
use bias_policy::classes::{CpuSamples, Split, SplitRule};
use bias_policy::table::CapacityTable;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Duration, number of visits and other parameters of a calibration.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Visits to each CPU. More visits average out more drift and take longer.
    pub rounds: u32,
    /// Length of a visit. None means what the budget allows, within [`VISIT`].
    pub visit: Option<Duration>,
    /// Length of one timed chunk. It must be short against the time between ticks.
    pub chunk: Duration,
    /// Size of the memory loop's set [bytes]. None means that calibration measures to choose it.
    pub external_bytes: Option<usize>,
    /// Time within which CPUs are measured one at a time. Larger machines are measured in parallel
    /// to keep within it.
    pub budget: Duration,
    /// Rule that decides when a split of the CPUs into classes counts.
    pub rule: SplitRule,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            rounds: 5,
            visit: None,
            chunk: Duration::from_millis(2),
            external_bytes: None,
            budget: Duration::from_millis(1600),
            rule: SplitRule::default(),
        }
    }
}

/// Shortest and longest visit when the settings give no length.
pub const VISIT: (Duration, Duration) = (Duration::from_millis(40), Duration::from_millis(120));

/// Conditions under which the samples were taken. They are stored with the samples.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conditions {
    /// Visits to each CPU.
    pub rounds: u32,
    /// Length of a visit [us].
    pub visit_us: u64,
    /// Length of a chunk [us].
    pub chunk_us: u64,
    /// Size of the memory loop's set [bytes].
    pub external_bytes: u64,
    /// CPUs measured at the same time.
    pub lanes: usize,
    /// True if the loops ran ahead of ordinary tasks (SCHED_FIFO) throughout.
    pub realtime: bool,
    /// Duration of the calibration [ms].
    pub took_ms: u64,
}

#[cfg(test)]
impl Conditions {
    /// Return conditions for fake samples.
    pub(crate) const fn made_up() -> Self {
        Self { rounds: 1, visit_us: 1, chunk_us: 1, external_bytes: 1, lanes: 1, realtime: false, took_ms: 1 }
    }
}

/// Result of a calibration.
#[derive(Debug, Clone)]
pub struct Calibration {
    /// Costs and classes.
    pub table: CapacityTable,
    /// The evidence for the classes.
    pub split: Split,
    /// Raw samples in the order taken [ns per step].
    pub samples: Vec<CpuSamples>,
    /// Conditions under which the samples were taken.
    pub conditions: Conditions,
    /// Scales of the counters; None without counters.
    pub model: Option<CounterModel>,
    /// Counts per CPU and event, which show the dead events.
    pub seen: Vec<Probed>,
    /// Cycles per millisecond while the execute loop ran [kHz], for CPUs that counted them.
    pub clocks: Vec<(u32, u64)>,
}

/// Return the lanes needed for `count` CPUs that take `each`, so that all take `budget`; at least
/// one.
#[must_use]
pub fn lanes(count: usize, each: Duration, budget: Duration) -> usize {
    let total_us = each.as_micros().saturating_mul(count as u128);
    let lanes = total_us.div_ceil(budget.as_micros().max(1));
    usize::try_from(lanes).unwrap_or(usize::MAX).clamp(1, count.max(1))
}

/// Return the length of a visit: what the budget allows when CPUs are measured one at a time,
/// within `bounds`. Small machines are measured longer, and so more exactly, in the same total
/// time.
#[must_use]
pub fn visit_length(count: usize, rounds: u32, budget: Duration, bounds: (Duration, Duration)) -> Duration {
    let visits = u32::try_from(count).unwrap_or(u32::MAX).saturating_mul(rounds).max(1);
    (budget / visits).clamp(bounds.0, bounds.1)
}

/// Return batches of CPUs to measure together, as indices into `cpus`.
#[must_use]
pub fn batches(cpus: &[Cpu], lanes: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..cpus.len()).collect();
    if lanes > 1 {
        // Sort by rank within the cache first: neighbours in this order are in different caches.
        let rank = |at: usize| cpus.iter().take(at).filter(|other| other.llc == cpus[at].llc).count();
        order.sort_by_key(|at| (rank(*at), *at));
    }
    let mut batches: Vec<Vec<usize>> = Vec::new();
    for at in order {
        let fits = |batch: &&mut Vec<usize>| {
            batch.len() < lanes.max(1) && batch.iter().all(|other| cpus[*other].core != cpus[at].core)
        };
        match batches.iter_mut().find(fits) {
            Some(batch) => batch.push(at),
            None => batches.push(vec![at]),
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn machine(cores: u32, threads: u32, caches: u32) -> Vec<Cpu> {
        let cpu = |cpu| Cpu { cpu, core: cpu % cores, llc: cpu % cores % caches, node: 0 };
        (0..cores * threads).map(cpu).collect()
    }

    #[test]
    fn lanes_follow_the_budget() {
        let ms = Duration::from_millis;
        assert_eq!(lanes(8, ms(240), ms(2200)), 1);
        assert_eq!(lanes(64, ms(240), ms(2200)), 7);
        assert_eq!(lanes(4, ms(1000), Duration::ZERO), 4);
        assert_eq!(lanes(0, ms(1000), ms(1)), 1);
    }

    #[test]
    fn small_machines_are_visited_longer() {
        let ms = Duration::from_millis;
        let visit = |count| visit_length(count, 5, ms(2000), (ms(48), ms(120)));
        assert_eq!(
            [visit(0), visit(2), visit(4), visit(8), visit(500)],
            [ms(120), ms(120), ms(100), ms(50), ms(48)]
        );
    }

    #[test]
    fn one_lane_measures_in_order() {
        assert_eq!(batches(&machine(4, 1, 1), 1), vec![vec![0], vec![1], vec![2], vec![3]]);
    }

    #[test]
    fn siblings_are_never_together() {
        assert_eq!(batches(&machine(2, 2, 1), 4), vec![vec![0, 1], vec![2, 3]]);
    }

    proptest! {
        #[test]
        fn batches_hold_every_cpu_once_and_no_core_twice(cores in 1u32..20, threads in 1u32..3, caches in 1u32..5, lanes in 1usize..12) {
            let cpus = machine(cores, threads, caches);
            let batches = batches(&cpus, lanes);
            let mut all: Vec<usize> = batches.concat();
            all.sort_unstable();
            prop_assert_eq!(all, (0..cpus.len()).collect::<Vec<_>>());
            for batch in batches {
                let cores: std::collections::BTreeSet<u32> = batch.iter().map(|at| cpus[*at].core).collect();
                prop_assert!(cores.len() == batch.len() && batch.len() <= lanes);
            }
        }
    }
}
