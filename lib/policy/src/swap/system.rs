// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Systems for the planner's tests, and its rules in their plainest form.

#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;
use crate::cpuset::CpuSet;
use crate::ffi;
use crate::table::{COMPONENTS, Class, CpuCapacity};
pub(super) use crate::testkit::{CHASE, FAST, LOOP, SLOW, any_stack, cpu};
use crate::testkit::{one_fast_core, table};
use proptest::prelude::*;

/// Limits under which every gain is planned.
pub(super) const EAGER: Limits = Limits {
    max_swaps: usize::MAX,
    min_gain_permille: 0,
    migration_ns: 0,
    residence_ns: 1_000_000_000,
    passing_ns: 0,
};

#[derive(Debug, Clone, Default)]
pub(super) struct System {
    pub now_ns: u64,
    pub cpus: Vec<CpuCapacity>,
    pub runners: Vec<Runner>,
    pub waiting: Vec<Waiting>,
    pub busy: CpuSet,
}

impl System {
    pub(super) fn snapshot(&self, round: u64) -> Snapshot<'_> {
        Snapshot {
            now_ns: self.now_ns,
            round,
            cpus: &self.cpus,
            runners: &self.runners,
            waiting: &self.waiting,
            busy: self.busy,
        }
    }

    pub(super) fn plan(&self, round: u64, limits: &Limits) -> Plan {
        plan(&self.snapshot(round), limits)
    }

    /// Return a CPU with the costs in force.
    pub(super) fn cpu(&self, number: u32) -> CpuCapacity {
        let found = self.cpus.iter().find(|cpu| cpu.cpu == number).unwrap();
        let runs = |cpu: u32| self.busy.contains(cpu) || self.runners.iter().any(|runner| runner.cpu == cpu);
        let mut siblings = self.cpus.iter().filter(|cpu| cpu.core == found.core && cpu.cpu != number);
        let shared = siblings.any(|sibling| runs(sibling.cpu));
        let cost_permille = if shared { found.shared_cost_permille() } else { found.cost_permille };
        CpuCapacity { cost_permille, ..found.clone() }
    }

    pub(super) fn runner(&mut self, pid: u32) -> &mut Runner {
        self.runners.iter_mut().find(|runner| runner.pid == pid).unwrap()
    }

    pub(super) fn apply(&mut self, plan: &Plan) {
        for one in plan.swaps.iter().flat_map(|swap| [swap.up, swap.down]) {
            let runner = self.runner(one.pid);
            assert_eq!(runner.cpu, one.from);
            runner.cpu = one.to;
        }
    }

    /// Carry out plans until more consecutive plans than there are CPUs were empty.
    pub(super) fn settle(&mut self, limits: &Limits) -> Vec<Plan> {
        let mut plans = Vec::new();
        let mut empty = 0;
        for round in 0..10_000 {
            let plan = self.plan(round, limits);
            empty = if plan.swaps.is_empty() { empty + 1 } else { 0 };
            self.apply(&plan);
            if empty > self.cpus.len() {
                return plans;
            }
            if !plan.swaps.is_empty() {
                plans.push(plan);
            }
        }
        panic!("the plans never end");
    }
}

/// Return a task that runs on the CPU `pid` - 1000.
pub(super) fn runner(pid: u32, stack: [u32; COMPONENTS]) -> Runner {
    Runner {
        pid,
        cpu: pid.saturating_sub(1000),
        stack_permille: Some(stack),
        stable: true,
        allowed: None,
        moved_at_ns: None,
        backoff_until_ns: 0,
    }
}

/// Return a misplaced system: pointer chasers on the fast CPUs 0 and 1, executing loops on the slow
/// CPUs 2 and 3.
pub(super) fn misplaced() -> System {
    let stacks = [CHASE, CHASE, LOOP, LOOP];
    System {
        now_ns: 10_000_000_000,
        cpus: table().cpus,
        runners: (1000..).zip(stacks).map(|(pid, stack)| runner(pid, stack)).collect(),
        ..System::default()
    }
}

/// Return the misplaced system with both fast CPUs on one core, and tasks of `stack` on the slow
/// ones.
pub(super) fn one_shared_core(shared_permille: u32, stack: [u32; COMPONENTS]) -> System {
    let mut system = System { cpus: one_fast_core(shared_permille).cpus, ..misplaced() };
    for pid in [1002, 1003] {
        system.runner(pid).stack_permille = Some(stack);
    }
    system
}

/// Return `nr` CPUs, every second one slow. The stacks are of all biases, and most tasks run on the
/// wrong class.
pub(super) fn large(nr: u32) -> System {
    let class = |number: u32| if number.is_multiple_of(2) { Class::Fast } else { Class::Slow };
    let stack = |number: u32| {
        let execute = (number * 7919) % 400 + if class(number) == Class::Slow { 600 } else { 0 };
        [execute, (1000 - execute) / 3, 1000 - execute - (1000 - execute) / 3]
    };
    System {
        now_ns: 10_000_000_000,
        cpus: (0..nr).map(|number| cpu(number, class(number))).collect(),
        runners: (0..nr).map(|number| runner(1000 + number, stack(number))).collect(),
        ..System::default()
    }
}

fn any_costs(alike: bool) -> impl Strategy<Value = Vec<[u32; COMPONENTS]>> {
    // Costs of eight CPUs per class. The fast ones are better on the whole, but not always in each
    // component.
    let one = |most: u32| prop::array::uniform3(1000..=most);
    (prop::collection::vec(one(1300), 8), prop::collection::vec(one(4000), 8)).prop_map(
        move |(fast, slow)| {
            let pick = |costs: Vec<[u32; COMPONENTS]>| {
                (0..8).map(move |at| costs[if alike { 0 } else { at }]).collect::<Vec<_>>()
            };
            [pick(fast), pick(slow)].concat()
        },
    )
}

/// Generate systems in which every task may be swapped and none waits: 2 to `most` CPUs on `nodes`
/// nodes. With `alike`, CPUs of a class cost the same.
pub(super) fn free_system(most: usize, nodes: u32, alike: bool) -> impl Strategy<Value = System> {
    let slot = (any::<bool>(), 0..nodes, any_stack());
    (any_costs(alike), prop::collection::vec(slot, 2..=most)).prop_map(|(costs, slots)| {
        let mut system = System { now_ns: 10_000_000_000, ..System::default() };
        for (number, (slow, node, stack)) in (0..).zip(slots) {
            let class = if slow { Class::Slow } else { Class::Fast };
            let cost_permille = costs[number as usize % 8 + if slow { 8 } else { 0 }];
            system.cpus.push(CpuCapacity { node, cost_permille, ..cpu(number, class) });
            system.runners.push(runner(1000 + number, stack));
        }
        system
    })
}

/// Generate affinities. Most tasks have none, and some may use no CPU.
fn limited() -> impl Strategy<Value = Option<CpuSet>> {
    let members = |bits: u16| (0..16).filter(|cpu| bits & (1 << cpu) != 0).collect();
    prop_oneof![6 => Just(None), 3 => any::<u16>().prop_map(members).prop_map(Some), 1 => Just(Some(CpuSet::EMPTY))]
}

/// Generate systems as [`free_system`] does, with limits on some tasks.
pub(super) fn limited_system(most: usize, alike: bool) -> impl Strategy<Value = System> {
    let limits = prop::collection::vec(limited(), most);
    (free_system(most, 2, alike), limits).prop_map(|(mut system, limits)| {
        system.runners.iter_mut().zip(limits).for_each(|(runner, allowed)| runner.allowed = allowed);
        system
    })
}

/// Generate systems as [`limited_system`] does, with two CPUs per core, fewer tasks than CPUs, and
/// busy CPUs without a known task.
pub(super) fn smt_system(most: usize) -> impl Strategy<Value = System> {
    let shared = prop::collection::vec(prop::array::uniform3(1000u32..=2500), most);
    let kept = prop::collection::vec(prop::bool::weighted(0.8), most);
    (limited_system(most, false), shared, kept, any::<u16>()).prop_map(|(mut system, shared, kept, busy)| {
        for (cpu, shared_permille) in system.cpus.iter_mut().zip(shared) {
            (cpu.core, cpu.shared_permille) = (cpu.cpu / 2 * 2, shared_permille);
        }
        let mut kept = kept.into_iter();
        system.runners.retain(|_| kept.next().unwrap_or(true));
        system.busy = (0..16).filter(|cpu| busy & (1 << cpu) != 0).collect();
        system
    })
}

/// Defects of a task.
const FLAWS: [fn(&mut Runner); 9] = [
    |runner| runner.stack_permille = None,
    |runner| runner.stack_permille = Some([0; 3]),
    |runner| runner.stable = false,
    |runner| runner.moved_at_ns = Some(9_900_000_000),
    |runner| runner.moved_at_ns = Some(1),
    |runner| runner.backoff_until_ns = 10_000_000_001,
    |runner| runner.cpu = 0,
    |runner| runner.pid = 1000,
    |runner| runner.cpu = 5000,
];

/// Generate systems as [`limited_system`] does, with defects, offline CPUs and tasks that wait.
pub(super) fn rough_system(most: usize) -> impl Strategy<Value = System> {
    let waiter = (0u32..20, 0u64..20_000_000);
    let waiting = prop_oneof![2 => Just(vec![]), 1 => prop::collection::vec(waiter, 0..3)];
    let flaws = prop::collection::vec(prop::option::weighted(0.3, 0..FLAWS.len()), most);
    (limited_system(most, false), flaws, waiting).prop_map(|(mut system, flaws, waiting)| {
        for (runner, flaw) in system.runners.iter_mut().zip(flaws) {
            if let Some(flaw) = flaw {
                FLAWS[flaw](runner);
            }
        }
        let now_ns = system.now_ns;
        let waits = |(cpu, waited_ns)| Waiting { cpu, since_ns: now_ns - waited_ns };
        system.waiting = waiting.into_iter().map(waits).collect();
        system
    })
}

pub(super) fn any_limits() -> impl Strategy<Value = Limits> {
    (0usize..5, 0u32..300, 0u64..100_000_000, 1_000_000u64..2_000_000_000).prop_map(
        |(max_swaps, min_gain_permille, migration_ns, residence_ns)| Limits {
            max_swaps,
            min_gain_permille,
            migration_ns,
            residence_ns,
            passing_ns: 10_000_000,
        },
    )
}

/// Return the work of a task in `ran_ns` on a CPU.
pub(super) fn work(runner: &Runner, cpu: &CpuCapacity, ran_ns: u64) -> i128 {
    let (stack, cost) = (
        ffi::bias_stack { permille: runner.stack_permille.unwrap() },
        ffi::bias_cost { permille: cpu.cost_permille },
    );
    // SAFETY: pure functions over references that live across the calls.
    i128::from(unsafe { ffi::bias_reference_ns(ran_ns, ffi::bias_time_permille(&stack, &cost)) })
}

/// Return the work of all running tasks in `ran_ns`.
pub(super) fn throughput(system: &System, ran_ns: u64) -> i128 {
    system.runners.iter().map(|runner| work(runner, &system.cpu(runner.cpu), ran_ns)).sum()
}

/// Return the gain of a swap of two tasks beyond migrations and margin, times 1000.
pub(super) fn worth(system: &System, a: &Runner, b: &Runner, limits: &Limits) -> i128 {
    let (at_a, at_b) = (&system.cpu(a.cpu), &system.cpu(b.cpu));
    let stay_ns = limits.residence_ns.saturating_sub(limits.migration_ns);
    let after = work(a, at_b, stay_ns) + work(b, at_a, stay_ns);
    let before = work(a, at_a, limits.residence_ns) + work(b, at_b, limits.residence_ns);
    after * 1000 - before * i128::from(1000 + limits.min_gain_permille)
}

fn may_run(runner: &Runner, cpu: u32) -> bool {
    runner.allowed.is_none_or(|set| set.contains(cpu))
}

/// Return true if the limits permit this swap.
fn permitted(system: &System, a: &Runner, b: &Runner) -> bool {
    let (at_a, at_b) = (&system.cpu(a.cpu), &system.cpu(b.cpu));
    at_a.class != at_b.class && at_a.node == at_b.node && may_run(a, b.cpu) && may_run(b, a.cpu)
}

/// Return a permitted pair that would gain, if there is one.
pub(super) fn gainful_pair(system: &System, limits: &Limits) -> Option<(u32, u32)> {
    let running = &system.runners;
    let pairs = running.iter().flat_map(|a| running.iter().map(move |b| (a, b)));
    let mut gainful = pairs.filter(|(a, b)| permitted(system, a, b) && worth(system, a, b, limits) > 0);
    gainful.next().map(|(a, b)| (a.pid, b.pid))
}

/// Return the highest throughput of all assignments of the tasks to each other's CPUs, each on its
/// node.
pub(super) fn best_throughput(system: &System, ran_ns: u64) -> i128 {
    fn slot(system: &System, ran_ns: u64, at: usize, taken: &mut Vec<u32>) -> Option<i128> {
        let Some(runner) = system.runners.get(at) else { return Some(0) };
        let home = system.cpu(runner.cpu).node;
        let mut best = None;
        for other in &system.runners {
            let cpu = system.cpu(other.cpu);
            if taken.contains(&cpu.cpu) || cpu.node != home {
                continue;
            }
            taken.push(cpu.cpu);
            let rest = slot(system, ran_ns, at + 1, taken);
            taken.pop();
            best = best.max(rest.map(|rest| rest + work(runner, &cpu, ran_ns)));
        }
        best
    }
    slot(system, ran_ns, 0, &mut Vec::new()).unwrap()
}

/// List every rule that a plan for `system` breaks.
pub(super) fn broken_rules(system: &System, plan: &Plan, limits: &Limits) -> Vec<String> {
    let mut broken = Vec::new();
    let mut rule = |holds: bool, what: String| (!holds).then(|| broken.push(what));
    let moves: Vec<Move> = plan.swaps.iter().flat_map(|swap| [swap.up, swap.down]).collect();
    for distinct in [|one: &Move| one.pid, |one: &Move| one.from, |one: &Move| one.to] {
        let mut seen: Vec<u32> = moves.iter().map(distinct).collect();
        seen.sort_unstable();
        seen.dedup();
        rule(seen.len() == moves.len(), "a task or a CPU twice".into());
    }
    rule(plan.swaps.len() <= limits.max_swaps, "too many swaps".into());
    rule(plan.swaps.is_sorted_by_key(|swap| std::cmp::Reverse(swap.net_ns)), "out of order".into());
    for swap in &plan.swaps {
        rule(
            system.cpu(swap.up.from).class == Class::Slow && system.cpu(swap.down.from).class == Class::Fast,
            format!("not between the classes: {swap:?}"),
        );
        rule(swap.up.to == swap.down.from && swap.down.to == swap.up.from, format!("no exchange: {swap:?}"));
        let running =
            |one: &Move| system.runners.iter().filter(|runner| runner.pid == one.pid).collect::<Vec<_>>();
        let (up, down) = (running(&swap.up), running(&swap.down));
        rule(up.len() == 1 && down.len() == 1, format!("a task that runs twice or not: {swap:?}"));
        let (up, down) = (up[0], down[0]);
        rule(permitted(system, up, down), format!("not permitted: {swap:?}"));
        rule(worth(system, up, down, limits) > 0, format!("not worth it: {swap:?}"));
        for (one, runner) in [(swap.up, up), (swap.down, down)] {
            let slot = system.cpu(one.from);
            rule(slot.cpu == one.from && runner.cpu == one.from, format!("it is not there: {one:?}"));
            rule(runner.stable, format!("unsteady: {one:?}"));
            rule(runner.backoff_until_ns <= system.now_ns, format!("backs off: {one:?}"));
            let rested = runner.moved_at_ns.is_none_or(|at| at + limits.residence_ns <= system.now_ns);
            rule(rested, format!("rests: {one:?}"));
            rule(!awaited(system, &slot, limits), format!("a queue corrects it: {one:?}"));
            let others = system.runners.iter().filter(|other| other.cpu == one.from);
            rule(others.count() == 1, format!("two run there: {one:?}"));
        }
    }
    broken
}

/// Return true if a task of the node of `cpu` has been waiting.
fn awaited(system: &System, cpu: &CpuCapacity, limits: &Limits) -> bool {
    system.waiting.iter().any(|waiting| {
        let node = system.cpus.iter().find(|cpu| cpu.cpu == waiting.cpu).map(|cpu| cpu.node);
        system.now_ns - waiting.since_ns >= limits.passing_ns && node == Some(cpu.node)
    })
}
