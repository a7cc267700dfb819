// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The planner's rules in their plainest form, as a reference for tests.

#![allow(clippy::unwrap_used)]

use super::testkit::System;
use super::*;
use crate::ffi;
use crate::table::{Class, CpuCapacity};

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

fn permits(system: &System, allowed: Allowed, cpu: u32) -> bool {
    match allowed {
        Allowed::Everywhere => true,
        Allowed::Set(at) => system.sets.get(at as usize).is_some_and(|set| set.contains(cpu)),
    }
}

pub(super) fn may_run(system: &System, runner: &Runner, cpu: u32) -> bool {
    permits(system, runner.allowed, cpu)
}

/// Return true if the limits permit this swap.
pub(super) fn permitted(system: &System, a: &Runner, b: &Runner) -> bool {
    let (at_a, at_b) = (&system.cpu(a.cpu), &system.cpu(b.cpu));
    at_a.class != at_b.class
        && at_a.node == at_b.node
        && may_run(system, a, b.cpu)
        && may_run(system, b, a.cpu)
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
        let running = |one: &Move| {
            system
                .runners
                .iter()
                .filter(|runner| runner.state == State::Running && runner.pid == one.pid)
                .collect::<Vec<_>>()
        };
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
            let others =
                system.runners.iter().filter(|other| other.state == State::Running && other.cpu == one.from);
            rule(others.count() == 1, format!("two run there: {one:?}"));
        }
    }
    broken
}

/// Return true if a task that may run on `cpu` has been waiting.
fn awaited(system: &System, cpu: &CpuCapacity, limits: &Limits) -> bool {
    system.runners.iter().any(|runner| {
        let State::Waiting { since_ns } = runner.state else { return false };
        let node = system.cpus.iter().find(|cpu| cpu.cpu == runner.cpu).map(|cpu| cpu.node);
        system.now_ns - since_ns >= limits.passing_ns
            && node == Some(cpu.node)
            && may_run(system, runner, cpu.cpu)
    })
}
