// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Shrinking: the smallest case that still breaks the same rule.
//!
//! Each step makes the case simpler in one way and stays if the rule is still broken. Steps repeat
//! until none helps or the patience is used up.

use crate::campaign;
use crate::case::{Case, CountersOf, TaskSpec};
use crate::load::{Op, Program};
use crate::unit::Image;

/// Maximum number of cases to try.
const PATIENCE: usize = 3000;

/// Virtual time of a case that counts as one more try [ns].
const LONG_NS: u64 = 100_000_000;

/// Return the simplest case found that breaks `rule`, beginning with `case`.
#[must_use]
pub fn shrink(case: &Case, rule: &str, image: Image<'_>) -> Case {
    let mut best = case.clone();
    let mut tried = 0;
    let breaks = |case: &Case| matches!(campaign::run(case, image), Ok(Some(fault)) if fault.rule == rule);
    loop {
        let mut simpler = false;
        let mut at = 0;
        while let Some(candidate) = step(&best, at) {
            tried += 1 + (candidate.duration_ns / LONG_NS) as usize;
            if tried > PATIENCE {
                return best;
            }
            if candidate != best && breaks(&candidate) {
                best = candidate;
                simpler = true;
            } else {
                at += 1;
            }
        }
        if !simpler {
            return best;
        }
    }
}

/// Return the case after step `at`. None after the last one.
fn step(case: &Case, at: usize) -> Option<Case> {
    let mut case = case.clone();
    let disturbances = case.disturbances.len();
    if at < disturbances {
        case.disturbances.remove(at);
        return Some(case);
    }
    let at = at - disturbances;
    let per_task = 6;
    if at < case.tasks.len() * per_task {
        let task = &mut case.tasks[at / per_task];
        match at % per_task {
            0 => *task = absent(),
            1 => task.cpus = None,
            2 => (task.weight, task.group) = (100, 0),
            3 => task.kthread = false,
            4 => task.start_ns = task.start_ns.map(|ns| ns / 1_000_000 * 1_000_000),
            _ => drop(task.program.ops.pop()),
        }
        return Some(case);
    }
    match at - case.tasks.len() * per_task {
        0 => case.interleave = None,
        1 => case.groups.clear(),
        2 => case.counters = CountersOf::None,
        3 => case.counters = CountersOf::Good,
        4 => case.memory_fails = false,
        5 => case.ipi_ns = (500, 500),
        6 => case.irq_ns = (100, 100),
        7 => case.timer_ns = (0, 0),
        8 => case.tick_ns = 1_000_000,
        9 => case.duration_ns = case.duration_ns * 3 / 4,
        10 => drop(case.tasks.pop_if(|task| *task == absent())),
        _ => return None,
    }
    Some(case)
}

/// A task that never starts: others may name it.
fn absent() -> TaskSpec {
    let ops = vec![Op::Run { stack: [1000, 0, 0], work_ns: 1 }];
    TaskSpec { start_ns: None, ..TaskSpec::new(Program { ops, repeat: false }) }
}
