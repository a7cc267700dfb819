// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of the factors of SMT siblings.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::table::COST_MAX;
use proptest::prelude::*;

/// Return a table of fast cores with two threads at a factor, then slow cores with one thread. Only
/// execute costs vary.
fn hybrid(shared: u32, slow: u32) -> CapacityTable {
    let entry = |cpu: u32| {
        let fast = cpu < 4;
        CpuCapacity {
            core: if fast { cpu / 2 * 2 } else { cpu },
            shared_permille: [if fast { shared } else { SHARED_NONE }, SHARED_NONE, SHARED_NONE],
            ..CpuCapacity::alone(
                cpu,
                if fast { Class::Fast } else { Class::Slow },
                [if fast { 1000 } else { slow }, 1000, 1000],
            )
        }
    };
    CapacityTable::new((0..6).map(entry).collect()).unwrap()
}

#[test]
fn a_sibling_goes_before_a_much_slower_core_only() {
    // The second thread adds 2/1.6 - 1 = a quarter of a fast core.
    assert!(!hybrid(1600, 2500).fast_sibling_first());
    assert!(!hybrid(1600, 4000).fast_sibling_first());
    assert!(hybrid(1600, 4001).fast_sibling_first());
    // Siblings that share nothing count as cores.
    assert!(hybrid(1000, 1001).fast_sibling_first());
    assert!(!hybrid(2000, COST_MAX).fast_sibling_first());
}

#[test]
fn without_siblings_or_slow_cores_there_is_no_choice() {
    let mut table = hybrid(1000, 3000);
    for entry in &mut table.cpus {
        entry.core = entry.cpu;
    }
    assert!(!table.fast_sibling_first());
    let mut table = hybrid(1000, 3000);
    table.cpus.retain(|entry| entry.class == Class::Fast);
    assert!(!table.fast_sibling_first());
    assert!(!CapacityTable::default().fast_sibling_first());
}

#[test]
fn costs_while_a_sibling_is_busy_are_absolute() {
    let entry = CpuCapacity {
        cost_permille: [1200, 1500, COST_MAX],
        shared_permille: [1500, 1000, SHARED_MAX],
        ..hybrid(1000, 1000).cpus[0].clone()
    };
    assert_eq!(entry.shared_cost_permille(), [1800, 1500, 4 * COST_MAX]);
}

#[test]
fn factors_come_from_times() {
    assert_eq!(shared_permille(10.0, 16.0), Some(1600));
    assert_eq!(shared_permille(10.0, 9.0), Some(SHARED_NONE));
    assert_eq!(shared_permille(10.0, 1e9), Some(SHARED_MAX));
    for (alone, together) in [(0.0, 1.0), (1.0, 0.0), (f64::NAN, 1.0), (1.0, f64::NAN), (1.0, f64::INFINITY)]
    {
        assert_eq!(shared_permille(alone, together), None, "{alone} {together}");
    }
}

proptest! {
    /// The inequality of the module, in fractions. Cases that rounding may decide are left out.
    #[test]
    fn two_threads_are_compared_by_the_throughput_they_add(
        shared in SHARED_NONE..=SHARED_MAX, fast in 1000u32..=COST_MAX, slow in 1000u32..=COST_MAX,
    ) {
        let added = 2.0 / (f64::from(shared) / 1000.0) - 1.0;
        let core = f64::from(fast) / f64::from(slow);
        prop_assume!((added - core).abs() > 1e-9);
        prop_assert_eq!(fast_sibling_first(2, shared, fast, slow), added > core);
    }

    #[test]
    fn a_costlier_slow_core_or_a_better_sibling_never_reverses_the_choice(
        threads in 2u32..=8, shared in SHARED_NONE..=SHARED_MAX, fast in 1000u32..=COST_MAX, slow in 1000u32..=COST_MAX,
        dearer in 0u32..=1000, better in 0u32..=1000,
    ) {
        if fast_sibling_first(threads, shared, fast, slow) {
            prop_assert!(fast_sibling_first(threads, shared, fast, slow.saturating_add(dearer)));
            prop_assert!(fast_sibling_first(threads, shared.saturating_sub(better), fast, slow));
        }
    }

    #[test]
    fn a_core_of_the_same_speed_goes_before_any_sibling(
        threads in 0u32..=8, shared in any::<u32>(), cost in 1u32..=COST_MAX,
    ) {
        prop_assert!(!fast_sibling_first(threads, shared, cost, cost));
        prop_assert!(!fast_sibling_first(threads.min(1), shared, cost, u32::MAX));
    }

    /// The ring leads from any CPU through every CPU of its core once, and back.
    #[test]
    fn siblings_form_a_ring(cores in prop::collection::vec(0u32..6, 1..24)) {
        let template = hybrid(1000, 1000).cpus[0].clone();
        let first = |at: usize| cores.iter().position(|core| *core == cores[at]).unwrap() as u32;
        let cpus = (0..cores.len()).map(|at| CpuCapacity { cpu: at as u32, core: first(at), ..template.clone() });
        let table = CapacityTable { cpus: cpus.collect() };
        for entry in &table.cpus {
            let mut seen = vec![entry.cpu];
            let mut at = table.next_sibling(entry);
            while at != entry.cpu {
                prop_assert!(!seen.contains(&at));
                seen.push(at);
                at = table.next_sibling(table.get(at).unwrap());
            }
            seen.sort_unstable();
            prop_assert_eq!(seen, table.core(entry.core).map(|other| other.cpu).collect::<Vec<_>>());
        }
    }
}
