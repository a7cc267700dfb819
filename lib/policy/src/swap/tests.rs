// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of the planner: the gains of plans, the limits that no plan may violate, and machines with
//! SMT siblings.

#![allow(clippy::unwrap_used)]

use super::plan::{EXPLORED, FIRST_TRIED};
use super::system::*;
use super::*;
use crate::cpuset::CpuSet;
use crate::table::{Class, CpuCapacity, MAX_CPUS};
use proptest::prelude::*;

const SECOND_NS: u64 = 1_000_000_000;

#[test]
fn executing_tasks_move_up_and_pointer_chasers_move_down() {
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
    for number in 0..200 {
        let mut confined = None;
        let stack = match (number % 2, number) {
            // On fast CPUs, all tasks but the last may run on CPU 1 only, whose task has nothing to
            // gain.
            (0, 0..198) => {
                confined = Some([1].into_iter().collect());
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
        let third = hard.then(|| (0..nr).filter(|cpu| cpu % 3 == 0).collect());
        system.runners.iter_mut().for_each(|runner| runner.allowed = third);
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
        |system| system.runner(1002).allowed = Some([2, 3].into_iter().collect()),
        |system| system.runner(1002).allowed = Some(CpuSet::EMPTY),
        |system| system.cpus[2].node = 1,
    ];
    for confine in confined {
        let mut system = misplaced();
        confine(&mut system);
        let plan = system.plan(0, &Limits::default());
        assert_eq!(plan.swaps.len(), 1);
        assert_eq!(plan.swaps[0].up.pid, 1003);
    }
}

#[test]
fn a_queue_corrects_the_cpus_it_serves_and_no_others() {
    let waiting = |cpu, since_ns| {
        let system = System { waiting: vec![Waiting { cpu, since_ns }], ..misplaced() };
        let plan = system.plan(0, &Limits::default());
        plan.swaps.iter().map(|swap| swap.down.from).collect::<Vec<_>>()
    };
    assert_eq!(waiting(3, 9_000_000_000), Vec::<u32>::new());
    // The task began to wait 1 ms ago.
    assert_eq!(waiting(3, 9_999_000_000), vec![0, 1]);
    // The CPU of the task is unknown.
    assert_eq!(waiting(30, 9_000_000_000), vec![0, 1]);
    // The task waits on another node.
    let mut apart = misplaced();
    apart.cpus.push(CpuCapacity { node: 1, ..cpu(4, Class::Slow) });
    apart.waiting = vec![Waiting { cpu: 4, since_ns: 0 }];
    assert_eq!(apart.plan(0, &Limits::default()).swaps.len(), 2);
}

#[test]
fn duplicate_and_offline_entries_take_no_part() {
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
fn an_empty_system_gets_an_empty_plan() {
    assert_eq!(System::default().plan(0, &Limits::default()), Plan::default());
    let mut system = misplaced();
    assert_eq!(system.plan(0, &Limits { max_swaps: 0, ..EAGER }).swaps, vec![]);
    system.runners.clear();
    assert_eq!(system.plan(0, &EAGER), Plan::default());
}

/// Generate a number that is often one of few.
fn number() -> impl Strategy<Value = u32> {
    prop_oneof![3 => 0u32..20, 1 => any::<u32>()]
}

fn any_runner() -> impl Strategy<Value = Runner> {
    let some = |cpus: Vec<u32>| Some(cpus.into_iter().collect());
    let cpus = prop_oneof![Just((0..MAX_CPUS).collect()), prop::collection::vec(any::<u32>(), 0..9)];
    let allowed = prop_oneof![3 => Just(None), 1 => cpus.prop_map(some)];
    let who = (number(), number(), prop::option::weighted(0.9, any::<[u32; 3]>()));
    let times = (prop::option::weighted(0.2, any::<u64>()), prop_oneof![4 => Just(0), 1 => any::<u64>()]);
    (who, allowed, times).prop_map(
        |((pid, cpu, stack_permille), allowed, (moved_at_ns, backoff_until_ns))| Runner {
            cpu,
            stack_permille,
            allowed,
            moved_at_ns,
            backoff_until_ns,
            ..runner(pid, LOOP)
        },
    )
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
fn an_idle_sibling_leaves_the_core_whole_unlike_an_unprofiled_task() {
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

/// Generate systems with limits, and some of them with siblings.
fn any_system() -> impl Strategy<Value = System> {
    prop_oneof![limited_system(16, false), smt_system(16)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn no_plan_lowers_throughput_at_the_costs_in_force(mut system in any_system(), limits in any_limits(), round in any::<u64>()) {
        let limits = limits.sane();
        let before = throughput(&system, limits.residence_ns);
        let plan = system.plan(round, &limits);
        prop_assert_eq!(broken_rules(&system, &plan, &limits), Vec::<String>::new());
        let predicted: i128 = plan.swaps.iter().map(|swap| i128::from(swap.net_ns)).sum();
        let costs = |system: &System| system.cpus.iter().map(|cpu| system.cpu(cpu.cpu).cost_permille).collect::<Vec<_>>();
        let in_force = costs(&system);
        system.apply(&plan);
        let gained = throughput(&system, limits.residence_ns) - before;
        prop_assert!(plan.swaps.is_empty() || gained > 0, "{gained}");
        // The plan promises at most the actual gain, because its figure excludes the cost of
        // migrations.
        prop_assert!(predicted <= gained, "{predicted} {gained}");
        prop_assert_eq!(in_force, costs(&system), "a swap changed which cores are shared");
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
    fn plans_reach_a_local_optimum_and_stop(mut system in any_system(), limits in any_limits()) {
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

    /// The reverse of any planned swap has a negative gain.
    #[test]
    fn no_planned_swap_gains_in_reverse(mut system in limited_system(10, false), limits in any_limits()) {
        let plan = system.plan(0, &limits);
        system.apply(&plan);
        for swap in &plan.swaps {
            let (up, down) = (*system.runner(swap.up.pid), *system.runner(swap.down.pid));
            prop_assert!(worth(&system, &up, &down, &limits) < 0);
        }
    }

    /// There is no plan with one class, with classes of equal cost, nor for equal tasks where the
    /// CPUs of a class are equal.
    #[test]
    fn without_a_difference_nothing_is_planned(
        system in free_system(16, 2, false), alike in free_system(16, 1, true),
        slow in any::<bool>(), cost in prop::array::uniform3(1000u32..4000), stack in any_stack(),
    ) {
        let (mut one_class, mut equal, mut tasks) = (system.clone(), system, alike);
        one_class.cpus.iter_mut().for_each(|cpu| cpu.class = if slow { Class::Slow } else { Class::Fast });
        prop_assert_eq!(one_class.plan(0, &EAGER), Plan::default());
        equal.cpus.iter_mut().for_each(|cpu| cpu.cost_permille = cost);
        prop_assert_eq!(equal.plan(0, &EAGER).swaps, vec![]);
        tasks.runners.iter_mut().for_each(|runner| runner.stack_permille = Some(stack));
        prop_assert_eq!(tasks.plan(0, &EAGER).swaps, vec![]);
    }

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
        waiting in prop::collection::vec((number(), any::<u64>()), 0..9),
        now_ns in any::<u64>(),
        round in any::<u64>(),
        limits in (any::<usize>(), any::<u32>(), any::<u64>(), any::<u64>(), any::<u64>()),
    ) {
        let (max_swaps, min_gain_permille, migration_ns, residence_ns, passing_ns) = limits;
        let limits = Limits { max_swaps, min_gain_permille, migration_ns, residence_ns, passing_ns };
        let waiting = waiting.into_iter().map(|(cpu, since_ns)| Waiting { cpu, since_ns }).collect();
        let system = System { now_ns, cpus, runners, waiting, ..System::default() };
        let plan = system.plan(round, &limits);
        let mut seen: Vec<u32> = plan.swaps.iter().flat_map(|swap| [swap.up.pid, swap.down.pid]).collect();
        seen.sort_unstable();
        prop_assert!(seen.windows(2).all(|pair| pair[0] != pair[1]));
        prop_assert!(plan.swaps.len() <= max_swaps);
    }

    /// Without siblings, neither factors nor busy CPUs change a plan.
    #[test]
    fn without_siblings_factors_and_busy_cpus_change_no_plan(system in rough_system(16), shared in prop::array::uniform3(1000u32..=4000), busy in any::<u16>(), limits in any_limits(), round in any::<u64>()) {
        let mut other = system.clone();
        other.cpus.iter_mut().for_each(|cpu| cpu.shared_permille = shared);
        other.busy = (0..16).filter(|cpu| busy & (1 << cpu) != 0).collect();
        prop_assert_eq!(other.plan(round, &limits), system.plan(round, &limits));
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
