// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of the limits that no plan may violate.

use super::brute::broken_rules;
use super::testkit::*;
use super::*;
use crate::table::{Class, CpuCapacity, MAX_CPUS};
use proptest::prelude::*;

#[test]
fn unknown_unsteady_and_resting_tasks_stay() {
    let flaws: [fn(&mut Runner); 6] = [
        |runner| runner.stack_permille = None,
        |runner| runner.stack_permille = Some([0; 3]),
        |runner| runner.stable = false,
        |runner| runner.moved_at_ns = Some(9_999_999_999),
        |runner| runner.moved_at_ns = Some(u64::MAX),
        |runner| runner.backoff_until_ns = u64::MAX,
    ];
    for flaw in flaws {
        let mut system = misplaced();
        flaw(system.runner(1002));
        flaw(system.runner(1001));
        let plan = system.plan(0, &Limits::default());
        assert_eq!(plan.swaps.len(), 1);
        assert_eq!((plan.swaps[0].up.pid, plan.swaps[0].down.pid), (1003, 1000));
    }
    let mut rested = misplaced();
    rested.runners.iter_mut().for_each(|runner| runner.moved_at_ns = Some(9_500_000_000));
    assert_eq!(rested.plan(0, &Limits::default()).swaps.len(), 2);
}

#[test]
fn affinity_and_node_are_kept() {
    let confined: [fn(&mut System); 3] = [
        |system| system.runner(1002).allowed = Allowed::Set(0),
        |system| system.runner(1002).allowed = Allowed::Set(77),
        |system| system.cpus[2].node = 1,
    ];
    for confine in confined {
        let mut system = misplaced();
        system.sets = vec![[2, 3].into_iter().collect()];
        confine(&mut system);
        let plan = system.plan(0, &Limits::default());
        assert_eq!(plan.swaps.len(), 1);
        assert_eq!(plan.swaps[0].up.pid, 1003);
    }
}

#[test]
fn a_queue_corrects_the_cpus_it_serves_and_no_others() {
    let waiting = |cpu, since_ns, allowed| {
        let mut system = misplaced();
        system.sets = vec![[1].into_iter().collect()];
        let state = State::Waiting { since_ns };
        system.runners.push(Runner { cpu, state, allowed, ..runner(9, LOOP) });
        let plan = system.plan(0, &Limits::default());
        plan.swaps.iter().map(|swap| swap.down.from).collect::<Vec<_>>()
    };
    assert_eq!(waiting(3, 9_000_000_000, Allowed::Everywhere), Vec::<u32>::new());
    // The waiting task may run on CPU 1 only, so the plan may use CPU 0.
    assert_eq!(waiting(3, 9_000_000_000, Allowed::Set(0)), vec![0]);
    // The task began to wait 1 ms ago.
    assert_eq!(waiting(3, 9_999_000_000, Allowed::Everywhere), vec![0, 1]);
    // The task waits on another node.
    let mut apart = misplaced();
    apart.cpus.push(CpuCapacity { node: 1, ..cpu(4, Class::Slow) });
    apart.runners.push(Runner { cpu: 4, state: State::Waiting { since_ns: 0 }, ..runner(9, LOOP) });
    assert_eq!(apart.plan(0, &Limits::default()).swaps.len(), 2);
    // The CPU of the task is unknown.
    assert_eq!(waiting(30, 9_000_000_000, Allowed::Everywhere), vec![0, 1]);
}

#[test]
fn what_is_told_twice_or_offline_takes_no_part() {
    let flaws: [fn(&mut System); 5] = [
        |system| system.cpus.push(system.cpus[2].clone()),
        |system| system.runners.push(Runner { pid: 9, ..system.runners[2] }),
        |system| {
            system.cpus.remove(2);
        },
        |system| system.runners.push(Runner { cpu: 4, ..system.runners[2] }),
        // CPU 4, the other CPU of the duplicate, has a second task.
        |system| {
            system
                .runners
                .extend([Runner { cpu: 4, ..system.runners[2] }, Runner { cpu: 4, ..runner(9, LOOP) }])
        },
    ];
    for flaw in flaws {
        let mut system = misplaced();
        system.cpus.push(cpu(4, Class::Slow));
        flaw(&mut system);
        let plan = system.plan(0, &Limits::default());
        assert_eq!(plan.swaps.iter().map(|swap| swap.up.from).collect::<Vec<_>>(), vec![3]);
    }
}

#[test]
fn nothing_is_planned_for_nothing() {
    assert_eq!(System::default().plan(0, &Limits::default()), Plan::default());
    let mut system = misplaced();
    assert_eq!(system.plan(0, &Limits { max_swaps: 0, ..EAGER }).swaps, vec![]);
    system.runners.clear();
    assert_eq!(system.plan(0, &EAGER), Plan::default());
}

fn any_runner() -> impl Strategy<Value = Runner> {
    let number = || prop_oneof![3 => 0u32..20, 1 => any::<u32>()];
    let state = prop_oneof![3 => Just(State::Running), 1 => any::<u64>().prop_map(|since_ns| State::Waiting { since_ns })];
    let allowed = prop_oneof![3 => Just(Allowed::Everywhere), 1 => number().prop_map(Allowed::Set)];
    let who = (number(), number(), state, prop::option::weighted(0.9, any::<[u32; 3]>()));
    let times = (prop::option::weighted(0.2, any::<u64>()), prop_oneof![4 => Just(0), 1 => any::<u64>()]);
    (who, allowed, times).prop_map(|(who, allowed, (moved_at_ns, backoff_until_ns))| {
        let (pid, cpu, state, stack_permille) = who;
        let known = runner(pid, LOOP);
        Runner { cpu, state, stack_permille, allowed, moved_at_ns, backoff_until_ns, ..known }
    })
}

fn any_cpu() -> impl Strategy<Value = CpuCapacity> {
    let number = prop_oneof![8 => 0u32..20, 1 => MAX_CPUS - 2..MAX_CPUS + 2, 1 => any::<u32>()];
    (number, any::<bool>(), prop_oneof![0u32..2, any::<u32>()], any::<[u32; 3]>()).prop_map(
        |(number, slow, node, cost_permille)| {
            let class = if slow { Class::Slow } else { Class::Fast };
            CpuCapacity { node, cost_permille, ..cpu(number, class) }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn no_rule_is_broken(system in rough_system(16), limits in any_limits(), round in 0u64..100) {
        let plan = system.plan(round, &limits);
        prop_assert_eq!(broken_rules(&system, &plan, &limits), Vec::<String>::new());
    }

    #[test]
    fn the_order_of_the_lists_does_not_matter(system in rough_system(16), limits in any_limits(), turn in 0usize..16, flip in any::<bool>()) {
        let mut other = system.clone();
        let by = |len: usize| if len == 0 { 0 } else { turn % len };
        other.cpus.rotate_left(by(system.cpus.len()));
        other.runners.rotate_left(by(system.runners.len()));
        if flip {
            other.cpus.reverse();
            other.runners.reverse();
        }
        prop_assert_eq!(other.plan(3, &limits), system.plan(3, &limits));
        prop_assert_eq!(system.plan(3, &limits), system.plan(3, &limits));
    }

    /// No input overflows or panics, and no task or CPU is planned twice.
    #[test]
    fn any_input_gives_a_plan(
        cpus in prop::collection::vec(any_cpu(), 0..20),
        runners in prop::collection::vec(any_runner(), 0..40),
        now_ns in any::<u64>(),
        round in any::<u64>(),
        limits in (any::<usize>(), any::<u32>(), any::<u64>(), any::<u64>(), any::<u64>()),
    ) {
        let (max_swaps, min_gain_permille, migration_ns, residence_ns, passing_ns) = limits;
        let limits = Limits { max_swaps, min_gain_permille, migration_ns, residence_ns, passing_ns };
        let sets = vec![(0..MAX_CPUS).collect()];
        let system = System { now_ns, cpus, runners, sets, ..System::default() };
        let plan = system.plan(round, &limits);
        let mut seen: Vec<u32> = plan.swaps.iter().flat_map(|swap| [swap.up.pid, swap.down.pid]).collect();
        seen.sort_unstable();
        prop_assert!(seen.windows(2).all(|pair| pair[0] != pair[1]));
        prop_assert!(plan.swaps.len() <= max_swaps);
    }
}
