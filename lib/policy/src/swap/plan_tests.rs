// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of the gains that plans achieve.

#![allow(clippy::unwrap_used)]

use super::brute::{best_throughput, gainful_pair, throughput, work, worth};
use super::testkit::*;
use super::*;
use crate::table::{Class, CpuCapacity};
use proptest::prelude::*;

const SECOND_NS: u64 = 1_000_000_000;

#[test]
fn who_executes_goes_up_and_who_chases_goes_down() {
    let mut system = misplaced();
    let plan = system.plan(0, &Limits::default());
    assert_eq!(plan.swaps.len(), 2);
    let swap = plan.swaps[0];
    assert_eq!((swap.up.pid, swap.up.from, swap.up.to), (1002, 2, 0));
    assert_eq!((swap.down.pid, swap.down.from, swap.down.to), (1000, 0, 2));
    assert_eq!((swap.up.before_ppm, swap.up.after_ppm), (400_000, 1_000_000));
    assert_eq!(swap.down.before_ppm, 1_000_000);
    // The chase keeps 1000 of 1105: the sum is 1.4 before and 1.905 after.
    assert!(swap.gain_permille.abs_diff(361) <= 1, "{swap:?}");
    // Half a second of 0.505 more, less 0.1 ms of each task.
    assert!(swap.net_ns.abs_diff(252_300_000) < 300_000, "{swap:?}");
    system.apply(&plan);
    assert_eq!(system.plan(1, &Limits::default()).swaps, vec![]);
}

#[test]
fn a_small_gain_is_not_worth_a_swap() {
    let mut system = misplaced();
    for (pid, execute) in [(1000, 480), (1001, 480), (1002, 500), (1003, 500)] {
        system.runner(pid).stack_permille = Some([execute, 0, 1000 - execute]);
    }
    assert_eq!(system.plan(0, &EAGER).swaps.len(), 2);
    assert_eq!(system.plan(0, &Limits { min_gain_permille: 50, ..EAGER }).swaps, vec![]);
    // A gain of 1 % of the time does not pay for a migration that takes 5 % of it.
    assert_eq!(system.plan(0, &Limits { migration_ns: EAGER.residence_ns / 20, ..EAGER }).swaps, vec![]);
    assert_eq!(system.plan(0, &Limits { migration_ns: u64::MAX, ..EAGER }).swaps, vec![]);
}

/// A CPU may be slow in one component and best in another.
#[test]
fn costs_are_those_of_the_cpus_themselves() {
    let mut system = misplaced();
    // CPU 0 costs as much as the slow CPUs, so only a migration to CPU 1 gains.
    system.cpus[0].cost_permille = SLOW;
    let plan = system.plan(0, &EAGER);
    assert_eq!(plan.swaps.len(), 1);
    assert_eq!((plan.swaps[0].up.from, plan.swaps[0].up.to), (2, 1));
}

/// Many tasks with a useless affinity hide the one partner that gains.
#[test]
fn a_hidden_partner_is_found_in_time() {
    let mut system = large(200);
    system.sets = vec![[1].into_iter().collect()];
    for number in 0..200 {
        let mut confined = Allowed::Everywhere;
        let stack = match (number % 2, number) {
            // On fast CPUs, all tasks but the last may run on CPU 1 only, whose task has nothing to
            // gain.
            (0, 0..198) => {
                confined = Allowed::Set(0);
                [10, 0, 990]
            }
            (0, _) => [20, 0, 980],
            (_, 1) => [0, 0, 1000],
            _ => LOOP,
        };
        let runner = system.runner(1000 + number);
        runner.stack_permille = Some(stack);
        runner.allowed = confined;
    }
    let in_time = 1..=100 / EXPLORED as u64 + 1;
    assert_eq!(system.plan(0, &EAGER).swaps, vec![], "it was not hidden");
    assert!(in_time.into_iter().any(|round| !system.plan(round, &EAGER).swaps.is_empty()));
    system.settle(&EAGER);
    assert_eq!(gainful_pair(&system, &EAGER), None);
}

#[test]
fn work_grows_with_the_system_and_no_faster() {
    let evaluated = |nr: u32, hard: bool| {
        let mut system = large(nr);
        // All tasks may use only CPUs that are multiples of three, so most evaluated pairs are not
        // permitted.
        system.sets = vec![(0..nr).filter(|cpu| cpu % 3 == 0).collect()];
        if hard {
            system.runners.iter_mut().for_each(|runner| runner.allowed = Allowed::Set(0));
        }
        let plan = system.plan(0, &EAGER);
        assert!(!plan.swaps.is_empty());
        plan.evaluated
    };
    for nr in [64, 128, 256, 512, 1024] {
        assert!(evaluated(nr, false) <= nr as usize, "{nr}");
        assert!(evaluated(nr, true) <= nr as usize / 2 * (FIRST_TRIED + EXPLORED), "{nr}");
    }
    assert!(evaluated(1024, false) <= 9 * evaluated(128, false));
    assert!(evaluated(1024, true) <= 9 * evaluated(128, true));
    assert!(evaluated(128, true) > 2 * evaluated(128, false), "it was not hard");
}

/// Return the largest distance from the best assignment that margin and migrations allow: each pair
/// may lack its threshold.
fn slack(system: &System, limits: &Limits) -> i128 {
    let stay_ns = limits.residence_ns - limits.migration_ns;
    let most = |of_cpu: &dyn Fn(&Runner, &CpuCapacity) -> i128| {
        let pairs = system.runners.iter().flat_map(|runner| system.cpus.iter().map(move |cpu| (runner, cpu)));
        pairs.map(|(runner, cpu)| of_cpu(runner, cpu)).max().unwrap()
    };
    let done = |runner: &Runner, cpu: &CpuCapacity| work(runner, cpu, limits.residence_ns);
    let margin = most(&|runner, cpu| done(runner, cpu) * i128::from(limits.min_gain_permille) / 1000 + 1);
    let lost = most(&|runner, cpu| done(runner, cpu) - work(runner, cpu, stay_ns));
    let slow = system.cpus.iter().filter(|cpu| cpu.class == Class::Slow).count();
    2 * (margin + lost) * slow.min(system.cpus.len() - slow) as i128
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn no_plan_lowers_throughput(mut system in limited_system(16, false), limits in any_limits(), round in any::<u64>()) {
        let before = throughput(&system, limits.residence_ns);
        let plan = system.plan(round, &limits);
        let predicted: i128 = plan.swaps.iter().map(|swap| i128::from(swap.net_ns)).sum();
        system.apply(&plan);
        let gained = throughput(&system, limits.residence_ns) - before;
        prop_assert!(plan.swaps.is_empty() || gained > 0, "{gained}");
        // The plan promises at most the actual gain, because its figure excludes the cost of
        // migrations.
        prop_assert!(predicted <= gained, "{predicted} {gained}");
    }

    #[test]
    fn plans_reach_the_optimum_and_stop(mut system in free_system(6, 2, true), max_swaps in 1usize..4) {
        let limits = Limits { max_swaps, ..EAGER };
        let best = best_throughput(&system, SECOND_NS);
        let plans = system.settle(&limits);
        prop_assert_eq!(throughput(&system, SECOND_NS), best);
        // Each task migrates to its class once and stays: no swap is undone.
        let mut moved: Vec<u32> = plans.iter().flat_map(|plan| &plan.swaps).flat_map(|swap| [swap.up.pid, swap.down.pid]).collect();
        moved.sort_unstable();
        prop_assert!(moved.windows(2).all(|pair| pair[0] != pair[1]), "{moved:?}");
        // There are no more plans than the limit on their size requires.
        prop_assert!(plans.len() <= (moved.len() / 2).div_ceil(max_swaps));
    }

    #[test]
    fn margin_and_cost_keep_it_near_the_optimum(mut system in free_system(6, 1, true), limits in any_limits()) {
        let limits = Limits { max_swaps: 3, ..limits.sane() };
        let best = best_throughput(&system, limits.residence_ns);
        system.settle(&limits);
        prop_assert!(best - throughput(&system, limits.residence_ns) <= slack(&system, &limits));
    }

    /// With limits, or CPUs that differ inside a class, no single swap remains that would gain.
    #[test]
    fn plans_reach_a_local_optimum_and_stop(mut system in limited_system(16, false), limits in any_limits()) {
        let limits = Limits { max_swaps: limits.max_swaps.max(1), ..limits };
        let mut last = throughput(&system, SECOND_NS);
        for plan in system.clone().settle(&limits) {
            system.apply(&plan);
            let now = throughput(&system, SECOND_NS);
            prop_assert!(now > last);
            last = now;
        }
        prop_assert_eq!(gainful_pair(&system, &limits), None);
    }

    /// The reverse of any planned swap has a negative gain.
    #[test]
    fn no_swap_is_worth_its_way_back(mut system in limited_system(10, false), limits in any_limits()) {
        let plan = system.plan(0, &limits);
        system.apply(&plan);
        for swap in &plan.swaps {
            let (up, down) = (*system.runner(swap.up.pid), *system.runner(swap.down.pid));
            prop_assert!(worth(&system, &up, &down, &limits) < 0);
        }
    }

    #[test]
    fn one_class_plans_nothing(mut system in free_system(16, 2, false), slow in any::<bool>()) {
        system.cpus.iter_mut().for_each(|cpu| cpu.class = if slow { Class::Slow } else { Class::Fast });
        prop_assert_eq!(system.plan(0, &EAGER), Plan::default());
    }

    #[test]
    fn classes_of_equal_cost_plan_nothing(mut system in free_system(16, 2, false), cost in prop::array::uniform3(1000u32..4000)) {
        system.cpus.iter_mut().for_each(|cpu| cpu.cost_permille = cost);
        prop_assert_eq!(system.plan(0, &EAGER).swaps, vec![]);
    }

    #[test]
    fn equal_tasks_plan_nothing_where_cpus_are_alike(mut system in free_system(16, 1, true), stack in any_stack()) {
        for runner in &mut system.runners {
            *runner = Runner { stack_permille: Some(stack), ..*runner };
        }
        prop_assert_eq!(system.plan(0, &EAGER).swaps, vec![]);
    }
}

/// Check that the strategies generate systems in which there is something to plan.
#[test]
fn the_systems_above_are_not_all_at_rest() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut random = TestRunner::deterministic();
    let mut planned = [0; 3];
    for _ in 0..200 {
        let systems = [
            free_system(6, 2, true).new_tree(&mut random).unwrap().current(),
            limited_system(16, false).new_tree(&mut random).unwrap().current(),
            rough_system(16).new_tree(&mut random).unwrap().current(),
        ];
        for (planned, system) in planned.iter_mut().zip(systems) {
            *planned += usize::from(!system.plan(0, &EAGER).swaps.is_empty());
        }
    }
    assert!(planned.iter().all(|planned| *planned > 60), "{planned:?}");
}
