// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;
use crate::load::stacks;

const KINDS: [[u32; 3]; 4] = [stacks::COMPUTE, stacks::BRANCHES, stacks::MEMORY, stacks::MIXED];

fn best(machine: &str, programs: &[Program], progress: Fairness) -> f64 {
    best_stp(&Machine::parse(machine).unwrap(), programs, progress).unwrap()
}

fn busy(stacks: &[[u32; 3]]) -> Vec<Program> {
    stacks.iter().map(|stack| Program::busy(*stack)).collect()
}

/// Return the best sum of speeds over all ways to put at most one task on each CPU.
fn by_trying(machine: &Machine, stacks: &[[u32; 3]], at: usize, on: &mut Vec<Option<usize>>) -> f64 {
    if at == machine.cpus.len() {
        let busy = |cpu: usize| on[cpu].is_some();
        let speeds = machine.cpus.iter().enumerate().map(|(cpu, spec)| {
            let shared = spec.siblings.iter().any(|other| other != cpu && busy(other));
            on[cpu].map_or(0.0, |task| speed(stacks[task], spec.cost(shared)))
        });
        return speeds.sum();
    }
    let choices = std::iter::once(None).chain((0..stacks.len()).map(Some));
    let mut most = 0.0f64;
    for choice in choices.collect::<Vec<_>>() {
        if choice.is_none() || !on.contains(&choice) {
            on.push(choice);
            most = most.max(by_trying(machine, stacks, at + 1, on));
            on.pop();
        }
    }
    most
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// No placement is better. Without siblings one placement is as good.
    #[test]
    fn is_the_best(machine in 0usize..5, kinds in prop::collection::vec(0usize..4, 1..5)) {
        let text = ["2F2S", "1P+1E+1L", "2P2T", "1P2T+2E", "3P"][machine];
        let stacks: Vec<_> = kinds.iter().map(|kind| KINDS[*kind]).collect();
        let machine = Machine::parse(text).unwrap();
        let tried = by_trying(&machine, &stacks, 0, &mut Vec::new());
        let found = best(text, &busy(&stacks), Fairness::Any);
        prop_assert!(found > tried - 1e-6, "{} below {}", found, tried);
        prop_assert!(machine.smt() || found < tried + 1e-6, "{} above {}", found, tried);
        prop_assert!(best(text, &busy(&stacks), Fairness::Equal) < found + 1e-6);
    }
}

#[test]
fn tasks_that_execute_get_the_fast_cpus() {
    let stp = best("1P+1E", &busy(&[stacks::COMPUTE, stacks::MEMORY]), Fairness::Any);
    let memory = 1000.0 / f64::from(150 * 1700 / 1000 + 50 * 1500 / 1000 + 800 * 1150 / 1000);
    assert!((stp - (1.0 + memory)).abs() < 1e-2, "{stp}");
    assert!((best("1P+1E", &busy(&[stacks::COMPUTE; 5]), Fairness::Any) - 1.588).abs() < 1e-3);
}

/// A task alone on a fast core has progress 1, and the other one 1 / 1.7: equal ones take turns.
#[test]
fn equal_progress_shares_the_fast_cpu() {
    let stp = best("1P+1E", &busy(&[stacks::COMPUTE; 2]), Fairness::Equal);
    assert!((stp - 1.588).abs() < 1e-3, "{stp}");
    // Of four such tasks and one CPU each has a quarter.
    assert!((best("1P", &busy(&[stacks::COMPUTE; 4]), Fairness::Equal) - 1.0).abs() < 1e-6);
}

/// A core that two tasks share does 2 / 1.55 of the work.
#[test]
fn siblings_share_their_core() {
    let stp = |tasks| best("1P2T", &busy(&vec![stacks::COMPUTE; tasks]), Fairness::Any);
    assert!((stp(1) - 1.0).abs() < 1e-6 && (stp(2) - 2.0 / 1.55).abs() < 1e-3, "{}", stp(2));
    assert!((stp(4) - stp(2)).abs() < 1e-6);
}

#[test]
fn sleep_limits_a_task_and_phases_move_it() {
    let half = Program::periodic(stacks::COMPUTE, 1000, 1000);
    assert!((best("2P", &[half], Fairness::Any) - 0.5).abs() < 1e-6);
    let phase = |stack| Op::Run { stack, work_ns: 1000 };
    let ops = vec![phase(stacks::COMPUTE), phase(stacks::MEMORY)];
    let phases = Program { ops, repeat: true };
    let both = best("1P+1E", &[phases.clone(), phases], Fairness::Any);
    let apart = best("1P+1E", &busy(&[stacks::COMPUTE, stacks::MEMORY]), Fairness::Any);
    assert!(both < apart + 1e-6 && both > 1.7, "{both} of {apart}");
}

#[test]
fn tasks_that_wait_for_others_have_no_optimum() {
    let machine = Machine::parse("2P").unwrap();
    let waits = Program { ops: vec![Op::Run { stack: stacks::COMPUTE, work_ns: 1 }, Op::Wait], repeat: true };
    assert_eq!(best_stp(&machine, &[waits], Fairness::Any), None);
    assert_eq!(best_stp(&machine, &[], Fairness::Any), None);
}

proptest! {
    /// A busy task for each CPU: the clairvoyant schedule is at most as good as the optimum. With
    /// tasks of one kind it is as good, because every CPU does all that it can.
    #[test]
    fn the_clairvoyant_schedule_is_at_most_the_optimum(kinds in prop::collection::vec(0_usize..4, 4)) {
        let machine = Machine::parse("2P+2E").unwrap();
        let programs = busy(&kinds.iter().map(|kind| KINDS[*kind]).collect::<Vec<_>>());
        let seen = clairvoyant_stp(&machine, &programs, 1_000_000_000).unwrap();
        let most = best_stp(&machine, &programs, Fairness::Any).unwrap();
        prop_assert!(seen <= most * 1.001, "{seen} of {most}");
        if kinds.iter().all(|kind| *kind == kinds[0]) {
            prop_assert!(seen >= most * 0.999, "{seen} of {most}");
        }
    }
}

#[test]
fn a_task_for_each_cpu_that_never_sleeps_has_a_clairvoyant_schedule() {
    let machine = Machine::parse("2P").unwrap();
    let mut tasks = busy(&[stacks::COMPUTE; 2]);
    assert!(clairvoyant_stp(&machine, &tasks, 10_000_000).is_some_and(|stp| (stp - 2.0).abs() < 1e-9));
    tasks[1] = Program::periodic(stacks::COMPUTE, 1000, 1000);
    assert_eq!(clairvoyant_stp(&machine, &tasks, 10_000_000), None);
    assert_eq!(clairvoyant_stp(&machine, &tasks[..1], 10_000_000), None);
}
