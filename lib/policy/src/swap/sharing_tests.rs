// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of plans on machines with SMT siblings.

use super::brute::{broken_rules, gainful_pair, throughput};
use super::testkit::*;
use super::*;
use proptest::prelude::*;

/// Two fast CPUs of one core, and two slow cores. A chase runs on each fast CPU, and a task of
/// `stack` on each slow one.
fn one_shared_core(shared_permille: u32, stack: [u32; 3]) -> System {
    let mut system = misplaced();
    for cpu in &mut system.cpus[..2] {
        (cpu.core, cpu.shared_permille) = (0, [shared_permille, 1000, 1000]);
    }
    for pid in [1002, 1003] {
        system.runner(pid).stack_permille = Some(stack);
    }
    system
}

#[test]
fn a_shared_fast_core_promises_less() {
    let gain = |shared| one_shared_core(shared, LOOP).plan(0, &EAGER).swaps[0];
    assert_eq!((gain(1000).up.before_ppm, gain(1000).up.after_ppm), (400_000, 1_000_000));
    assert_eq!((gain(1600).up.before_ppm, gain(1600).up.after_ppm), (400_000, 625_000));
    assert!(gain(1600).gain_permille < gain(1000).gain_permille);
    // A thread of the shared fast core executes as fast as a slow core.
    assert_eq!(one_shared_core(2500, LOOP).plan(0, &EAGER).swaps, vec![]);
    // Then the fast core is better at internal stalls only.
    assert_eq!(one_shared_core(2500, [0, 1000, 0]).plan(0, &EAGER).swaps.len(), 2);
}

#[test]
fn an_idle_sibling_leaves_the_core_whole_and_a_task_without_profile_does_not() {
    let mut system = one_shared_core(1600, LOOP);
    system.runners.retain(|runner| runner.pid != 1001);
    let after_ppm = |system: &System| system.plan(0, &EAGER).swaps[0].up.after_ppm;
    assert_eq!(after_ppm(&system), 1_000_000);
    system.busy.insert(1);
    assert_eq!(after_ppm(&system), 625_000);
    // The CPU itself is not its sibling.
    system.busy = [0].into_iter().collect();
    assert_eq!(after_ppm(&system), 1_000_000);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn no_plan_lowers_throughput_at_the_costs_in_force(mut system in smt_system(16), limits in any_limits(), round in any::<u64>()) {
        let limits = limits.sane();
        let before = throughput(&system, limits.residence_ns);
        let plan = system.plan(round, &limits);
        prop_assert_eq!(broken_rules(&system, &plan, &limits), Vec::<String>::new());
        let predicted: i128 = plan.swaps.iter().map(|swap| i128::from(swap.net_ns)).sum();
        let costs: Vec<_> = system.cpus.iter().map(|cpu| system.cpu(cpu.cpu).cost_permille).collect();
        system.apply(&plan);
        let gained = throughput(&system, limits.residence_ns) - before;
        prop_assert!(plan.swaps.is_empty() || gained > 0, "{gained}");
        prop_assert!(predicted <= gained, "{predicted} {gained}");
        let after: Vec<_> = system.cpus.iter().map(|cpu| system.cpu(cpu.cpu).cost_permille).collect();
        prop_assert_eq!(costs, after, "a swap changed which cores are shared");
    }

    #[test]
    fn plans_reach_a_local_optimum_and_none_is_undone(mut system in smt_system(16), limits in any_limits()) {
        let limits = Limits { max_swaps: limits.max_swaps.max(1), ..limits.sane() };
        let mut last = throughput(&system, limits.residence_ns);
        for plan in system.clone().settle(&limits) {
            system.apply(&plan);
            let now = throughput(&system, limits.residence_ns);
            prop_assert!(now > last);
            last = now;
        }
        prop_assert_eq!(gainful_pair(&system, &limits), None);
    }

    /// Without siblings, neither factors nor busy CPUs change a plan.
    #[test]
    fn without_siblings_plans_are_those_at_the_costs_alone(system in rough_system(16), shared in prop::array::uniform3(1000u32..=4000), busy in any::<u16>(), limits in any_limits(), round in any::<u64>()) {
        let mut other = system.clone();
        other.cpus.iter_mut().for_each(|cpu| cpu.shared_permille = shared);
        other.busy = (0..16).filter(|cpu| busy & (1 << cpu) != 0).collect();
        prop_assert_eq!(other.plan(round, &limits), system.plan(round, &limits));
    }
}
