// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Best and worst static placement: the bounds of a scheduler's throughput.
//!
//! # Problem
//! "Better than default" says little without the possible gain and loss. The best and the worst
//! fixed assignment of tasks to CPUs show both. [Koufaty10] compares with the best assignment, and
//! [Werling18] asks for an equivalent.
//!
//! # Approach
//! Exhaustive search. The STP of every assignment of tasks to classes is predicted from the speed
//! of each kind of task, alone on a fast and on a slow CPU. The tasks assigned to a class share its
//! CPUs evenly. Tasks of one kind are interchangeable, so only their number on fast CPUs matters.
//! Even large mixes therefore have few assignments.
//!
//! SMT siblings share a core. A task whose sibling CPU is busy makes its kind's shared progress
//! ([`KindProgress`]), and a task that has its core to itself makes the whole one. The best
//! placement of a class first takes a thread of each core, and then the siblings of as few cores as
//! possible. The cores that stay whole go to the tasks that lose most from a busy sibling. The
//! worst placement does the opposite.
//!
//! # Invariants
//! * In both placements, no CPU idles while another has two tasks of the mix. The worst placement
//!   is a wrong choice, not a refusal to work.
//! * With at most one task per CPU, no such placement has a higher prediction than the best or a
//!   lower one than the worst.
//! * Without siblings, the shared progress has no effect.
//!
//! # Limits
//! * Contention for caches and memory is not predicted.
//! * A kind without a speed on slow CPUs counts as equally fast there.
//! * One busy sibling counts like several, and the kind of its task does not matter.
//! * Mixes with more than [`MAX_ASSIGNMENTS`] assignments are refused.

mod classes;
mod cores;

pub(super) use classes::classes;
pub use classes::{Class, Classes, KindProgress};

use crate::spec::WorkKind;
use cores::{Order, Side};

/// Maximum number of assignments to search.
const MAX_ASSIGNMENTS: usize = 1_000_000;

/// A placement of every task, with its predicted throughput.
#[derive(Debug, Clone, PartialEq)]
pub struct Placement {
    /// The CPU of each task, in the order of the mix.
    pub pins: Vec<usize>,
    /// Predicted sum of the tasks' progress.
    pub stp: f64,
}

/// Return the best and the worst placement of `tasks`.
pub fn extremes(
    tasks: &[WorkKind],
    classes: &Classes,
    progress: &KindProgress,
) -> Result<(Placement, Placement), String> {
    let mut kinds: Vec<(WorkKind, usize)> = Vec::new();
    for kind in tasks {
        match kinds.iter_mut().find(|(known, _)| known == kind) {
            Some((_, count)) => *count += 1,
            None => kinds.push((*kind, 1)),
        }
    }
    let assignments = kinds.iter().try_fold(1usize, |n, (_, count)| n.checked_mul(count + 1));
    if assignments.is_none_or(|n| n > MAX_ASSIGNMENTS) {
        return Err(format!(
            "a mix of {} kinds has too many placements to search; use fewer kinds or tasks",
            kinds.len()
        ));
    }
    let search = |order| {
        let sides = [Class::Fast, Class::Slow]
            .map(|class| Side::new(classes, class, order, &kinds, progress, tasks.len()));
        let (stp, on_fast) =
            search(&kinds, classes, &sides, tasks.len(), order).ok_or("there is no CPU to place tasks on")?;
        Ok::<_, String>(Placement { pins: pins(tasks, &kinds, &on_fast, &sides), stp })
    };
    Ok((search(Order::Spread)?, search(Order::Packed)?))
}

/// Return the assignment of the highest STP (of the lowest one for [`Order::Packed`]): how many
/// tasks of each kind are on fast CPUs. None without CPUs.
fn search(
    kinds: &[(WorkKind, usize)],
    classes: &Classes,
    [fast, slow]: &[Side; 2],
    tasks: usize,
    order: Order,
) -> Option<(f64, Vec<usize>)> {
    let mut found: Option<(f64, Vec<usize>)> = None;
    let mut on_fast = vec![0; kinds.len()];
    loop {
        if works_everywhere(on_fast.iter().sum(), tasks, classes) {
            let on_slow: Vec<usize> = kinds.iter().zip(&on_fast).map(|((_, count), n)| count - n).collect();
            let of_kinds = fast.progress(&on_fast).into_iter().zip(slow.progress(&on_slow));
            let stp: f64 = of_kinds.map(|(fast, slow)| fast + slow).sum();
            let better = |value: f64| if order == Order::Spread { stp > value } else { stp < value };
            if found.as_ref().is_none_or(|(value, _)| better(*value)) {
                found = Some((stp, on_fast.clone()));
            }
        }
        if !next(&mut on_fast, kinds) {
            return found;
        }
    }
}

/// Advance to the next assignment. Return false after the last one.
fn next(on_fast: &mut [usize], kinds: &[(WorkKind, usize)]) -> bool {
    for (value, (_, count)) in on_fast.iter_mut().zip(kinds) {
        if *value < *count {
            *value += 1;
            return true;
        }
        *value = 0;
    }
    false
}

/// Return true if no CPU idles while another has two tasks.
fn works_everywhere(fast_tasks: usize, tasks: usize, classes: &Classes) -> bool {
    let slow_tasks = tasks - fast_tasks;
    let (fast, slow) = (classes.cpus(Class::Fast), classes.cpus(Class::Slow));
    let fits = |tasks: usize, cpus: usize| tasks <= cpus;
    let full = |tasks: usize, cpus: usize| tasks >= cpus;
    if slow == 0 {
        return slow_tasks == 0;
    }
    (fits(fast_tasks, fast) && fits(slow_tasks, slow)) || (full(fast_tasks, fast) && full(slow_tasks, slow))
}

/// Return a CPU for each task. The first tasks of a kind are those on fast CPUs.
fn pins(
    tasks: &[WorkKind],
    kinds: &[(WorkKind, usize)],
    on_fast: &[usize],
    [fast, slow]: &[Side; 2],
) -> Vec<usize> {
    let on_slow: Vec<usize> = kinds.iter().zip(on_fast).map(|((_, count), n)| count - n).collect();
    let (mut fast, mut slow) = (fast.pool(on_fast), slow.pool(&on_slow));
    let place = |kind: &WorkKind| {
        let index = kinds.iter().position(|(known, _)| known == kind)?;
        fast.next(index).or_else(|| slow.next(index))
    };
    tasks.iter().filter_map(place).collect()
}

#[cfg(test)]
mod tests;
