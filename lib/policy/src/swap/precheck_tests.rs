// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of the check for possible swaps.

use super::super::testkit::*;
use super::super::{State, plan};
use super::*;
use proptest::prelude::*;

const MS: u64 = 1_000_000;

fn table() -> CapacityTable {
    CapacityTable { cpus: misplaced().cpus }
}

/// Return the table with both fast CPUs on one core.
fn one_fast_core(shared_permille: u32) -> CapacityTable {
    let mut table = table();
    for cpu in &mut table.cpus[..2] {
        (cpu.core, cpu.shared_permille) = (0, [shared_permille, 1000, 1000]);
    }
    table
}

fn resident(cpu: u32, speedup_permille: u32) -> Resident {
    Resident { cpu, pid: 100 + cpu, speedup_permille, waiting_since_ns: 0 }
}

fn on(table: &CapacityTable, residents: &[Resident]) -> Outlook {
    precheck(table, residents, 1000 * MS, &Limits::default())
}

fn checked(residents: &[Resident]) -> Outlook {
    on(&table(), residents)
}

/// Return the outlook of a machine with these speedups on CPUs 0 to 3.
fn of_speedups(table: &CapacityTable, speedups: [u32; 4]) -> Outlook {
    on(table, &(0..).zip(speedups).map(|(cpu, speedup)| resident(cpu, speedup)).collect::<Vec<_>>())
}

#[test]
fn only_misplaced_tasks_are_promising() {
    assert_eq!(of_speedups(&table(), [1070, 2500, 2500, 1070]), Outlook::Promising);
    assert_eq!(of_speedups(&table(), [2500, 2500, 1070, 1070]), Outlook::Settled);
    assert_eq!(of_speedups(&table(), [2450, 2500, 2500, 2480]), Outlook::Settled);
    assert_eq!(checked(&[]), Outlook::Settled);
}

#[test]
fn a_pair_needs_two_tasks_of_known_speedup_on_cpus_of_the_table() {
    assert_eq!(checked(&[resident(0, 0), resident(2, 2500)]), Outlook::Settled);
    assert_eq!(checked(&[resident(2, 2500), resident(3, 1070)]), Outlook::Settled);
    assert_eq!(checked(&[Resident { pid: 0, ..resident(0, 1070) }, resident(2, 2500)]), Outlook::Settled);
    assert_eq!(checked(&[resident(0, 1070), resident(999, 2500)]), Outlook::Settled);
}

#[test]
fn a_long_wait_on_a_node_ends_its_plans() {
    let waiting = |since_ns| {
        [resident(0, 1070), resident(2, 2500)].map(|one| Resident { waiting_since_ns: since_ns, ..one })
    };
    assert_eq!(checked(&waiting(900 * MS)), Outlook::Queued);
    assert_eq!(checked(&waiting(995 * MS)), Outlook::Promising);
    assert_eq!(checked(&waiting(2000 * MS)), Outlook::Promising, "a clock that lags behind is no wait");
}

#[test]
fn a_busy_sibling_changes_what_a_swap_gains() {
    let misplaced = [1105, 1105, 2500, 2500];
    assert_eq!(of_speedups(&one_fast_core(1600), misplaced), Outlook::Promising);
    // A thread of the fast core executes as fast as a slow core, or slower.
    assert_eq!(of_speedups(&one_fast_core(2500), misplaced), Outlook::Settled);
    assert_eq!(of_speedups(&one_fast_core(4000), misplaced), Outlook::Settled);
    // Then tasks that execute belong on the slow cores.
    let placed = [2500, 2500, 1105, 1105];
    assert_eq!(of_speedups(&one_fast_core(4000), placed), Outlook::Promising);
    // With an idle sibling the core is whole.
    let alone = [resident(0, 1105), resident(2, 2500)];
    assert_eq!(on(&one_fast_core(4000), &alone), Outlook::Promising);
    let unknown = [resident(0, 1105), resident(1, 0), resident(2, 2500)];
    assert_eq!(on(&one_fast_core(4000), &unknown), Outlook::Settled);
}

#[test]
fn speedups_beyond_the_table_are_the_nearest_of_the_table() {
    for speedup in [1, 900, 2600, u32::MAX] {
        assert_eq!(
            stacks(f64::from(speedup) / 1000.0, &[SLOW, FAST].map(|costs| costs.map(f64::from))).len(),
            1
        );
    }
    assert_eq!(of_speedups(&table(), [1, 1, u32::MAX, u32::MAX]), Outlook::Promising);
    assert_eq!(of_speedups(&table(), [u32::MAX, u32::MAX, 1, 1]), Outlook::Settled);
}

/// Return what the CPUs of `system` publish, with the speedups by its table.
fn published(system: &System, table: &CapacityTable) -> Vec<Resident> {
    let [slow, fast] =
        [Class::Slow, Class::Fast].map(|class| ffi::bias_cost { permille: table.class_cost_permille(class) });
    let of_cpu = |cpu: &CpuCapacity| {
        let mut here = system.runners.iter().filter(|one| one.state == State::Running && one.cpu == cpu.cpu);
        let task = here.next();
        let speedup = |stack| {
            let stack = ffi::bias_stack { permille: stack };
            // SAFETY: a pure function over references that live across the call.
            unsafe { ffi::bias_speedup_permille(&stack, &slow, &fast) }
        };
        Resident {
            cpu: cpu.cpu,
            pid: task.map_or(u32::from(system.busy.contains(cpu.cpu)), |task| task.pid),
            speedup_permille: task.and_then(|task| task.stack_permille).map_or(0, speedup),
            waiting_since_ns: 0,
        }
    };
    system.cpus.iter().map(of_cpu).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// The check never prevents a plan.
    #[test]
    fn a_plan_with_swaps_is_promising(system in smt_system(16), limits in any_limits(), round in any::<u64>()) {
        let limits = Limits { max_swaps: limits.max_swaps.max(1), ..limits };
        let planned = plan(&system.snapshot(round), &limits);
        let table = CapacityTable { cpus: system.cpus.clone() };
        let outlook = precheck(&table, &published(&system, &table), system.now_ns, &limits);
        prop_assert!(planned.swaps.is_empty() || outlook == Outlook::Promising, "{outlook:?} {planned:?}");
    }

    /// With two kinds of whole CPUs, a pair that clearly loses is not promising.
    #[test]
    fn a_pair_that_clearly_loses_is_not_promising(up in any_stack(), down in any_stack()) {
        let mut system = misplaced();
        system.runners.retain(|runner| [1000, 1002].contains(&runner.pid));
        system.runner(1002).stack_permille = Some(up);
        system.runner(1000).stack_permille = Some(down);
        let progress = |stack: [u32; 3], costs: [u32; 3]| 1e6 / time(&stack.map(f64::from), &costs.map(f64::from));
        let before = progress(up, SLOW) + progress(down, FAST);
        let after = progress(up, FAST) + progress(down, SLOW);
        let outlook = precheck(&table(), &published(&system, &table()), system.now_ns, &Limits::default());
        let clear = (after / before - 1.05).abs() > 0.02;
        prop_assert!(!clear || (outlook == Outlook::Promising) == (after > before * 1.05), "{outlook:?} {after} {before}");
    }

    #[test]
    fn no_published_value_ends_in_a_panic(
        table in prop::collection::vec((any::<u32>(), any::<u32>(), prop::array::uniform3(0u32..100_000), any::<bool>()), 0..6),
        published in prop::collection::vec((0u32..8, any::<u32>(), any::<u32>(), any::<u64>()), 0..8), now_ns in any::<u64>(),
    ) {
        let cpus = (0..).zip(table).map(|(number, (core, node, cost_permille, slow))| {
            CpuCapacity { core, node, cost_permille, ..cpu(number, if slow { Class::Slow } else { Class::Fast }) }
        });
        let residents = published.into_iter().map(|(cpu, pid, speedup_permille, waiting_since_ns)| {
            Resident { cpu, pid, speedup_permille, waiting_since_ns }
        });
        let _ = precheck(&CapacityTable { cpus: cpus.collect() }, &residents.collect::<Vec<_>>(), now_ns, &Limits::default());
    }
}
