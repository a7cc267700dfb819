// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Check of published data for possible swaps: tells cheaply whether a plan is worth making.
//!
//! # Problem
//!
//! A plan needs the CPI stack of every running task, and each costs a system call. CPUs publish
//! only the predicted speedup of their resident task. Most of the time no swap gains.
//!
//! # Approach
//!
//! The planner's bound decides (`bound` in `candidate.rs`): the gain of a task on a CPU that has
//! the least cost of the other class in each component. A pair may gain if its two bounds sum to
//! more than zero. The costs are those in force: shared ones beside a busy sibling.
//!
//! A speedup leaves the CPI stack open, but it confines it: stacks of equal speedup lie on a line
//! across the triangle of all stacks. A task's time on a CPU is linear in the stack. So the ratio
//! of two times is extreme at an end of that line, and the ends bound the gain of all stacks
//! between.
//!
//! # Invariants
//!
//! * Where the planner finds a swap, this check is [`Outlook::Promising`], if the speedups are
//!   those of the table.
//! * Without siblings, on a machine with two kinds of CPUs, the bound is exact up to the difference
//!   between stacks of equal speedup.
//!
//! # Limits
//!
//! A task's speedup belongs to the costs of its last window. The check errs for as long after a
//! change of the table.

use super::input::Limits;
use crate::ffi;
use crate::sharing::Sharing;
use crate::table::{COMPONENTS, COST_MAX, CapacityTable, Class, CpuCapacity};
use std::collections::BTreeMap;

/// The published state of a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Resident {
    /// The CPU.
    pub cpu: u32,
    /// pid of the resident task; 0 for none.
    pub pid: u32,
    /// Its predicted speedup [permille]; 0 if unknown.
    pub speedup_permille: u32,
    /// Time since which tasks wait that might run there [ns]; 0 if none waits.
    pub waiting_since_ns: u64,
}

/// Result of the check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outlook {
    /// On some node, the exchange of a task on a slow CPU and one on a fast CPU may gain enough.
    Promising,
    /// Every task is placed well, or its speedup is unknown, or CPUs are idle.
    Settled,
    /// Tasks wait for a CPU on every node: each dispatch places them again.
    Queued,
}

/// Largest relative error that rounding adds to a speedup or a gain.
const ROUNDING: f64 = 0.004;

/// Check `residents` at `now_ns`, on the clock of their waits. A swap must gain as much as `limits`
/// require of a plan.
#[must_use]
pub fn precheck(table: &CapacityTable, residents: &[Resident], now_ns: u64, limits: &Limits) -> Outlook {
    let busy = residents.iter().filter(|resident| resident.pid != 0).map(|resident| resident.cpu).collect();
    let sharing = Sharing::new(&table.cpus, &busy);
    let classes = [Class::Slow, Class::Fast].map(|class| table.class_cost_permille(class).map(f64::from));
    let mut nodes: BTreeMap<u32, Node> = BTreeMap::new();
    for resident in residents {
        let Some(cpu) = table.get(resident.cpu) else { continue };
        let node = nodes.entry(cpu.node).or_default();
        let waited_ns = now_ns.saturating_sub(resident.waiting_since_ns);
        node.waiting |= resident.waiting_since_ns != 0 && waited_ns >= limits.passing_ns;
        if resident.pid != 0 && resident.speedup_permille != 0 {
            node.add(cpu, &sharing, resident.speedup_permille);
        }
    }
    let gain = Gain::new(&limits.sane());
    if nodes.values().any(|node| !node.waiting && node.may_gain(&classes, &gain)) {
        Outlook::Promising
    } else if !nodes.is_empty() && nodes.values().all(|node| node.waiting) {
        Outlook::Queued
    } else {
        Outlook::Settled
    }
}

/// One value for each component.
type Vector = [f64; COMPONENTS];

/// Tasks of known speedup on one node.
#[derive(Debug, Default)]
struct Node {
    waiting: bool,
    slow: Vec<Task>,
    fast: Vec<Task>,
}

#[derive(Debug)]
struct Task {
    /// Cost in force of its CPU [permille].
    costs: Vector,
    speedup: f64,
}

impl Node {
    fn add(&mut self, cpu: &CpuCapacity, sharing: &Sharing, speedup_permille: u32) {
        let costs = sharing.cost_permille(cpu).map(|cost| f64::from(cost.min(COST_MAX)));
        let task = Task { costs, speedup: f64::from(speedup_permille) / 1000.0 };
        if cpu.class == Class::Slow { self.slow.push(task) } else { self.fast.push(task) }
    }

    /// Return true if the best task of each class may gain together.
    fn may_gain(&self, classes: &[Vector; 2], gain: &Gain) -> bool {
        let best = |here: &[Task], there: &[Task]| {
            let costs = |k: usize| there.iter().map(move |task| task.costs[k]);
            let least = std::array::from_fn(|k| costs(k).fold(f64::from(COST_MAX), f64::min));
            let bounds = here.iter().map(|task| gain.bound(task, &least, classes));
            bounds.max_by(f64::total_cmp)
        };
        let pair = best(&self.slow, &self.fast).zip(best(&self.fast, &self.slow));
        pair.is_some_and(|(up, down)| up + down > -ROUNDING)
    }
}

/// What a move must gain.
struct Gain {
    /// Part of the residence that the migration leaves.
    kept: f64,
    /// Progress that a move must exceed, relative to the present one.
    threshold: f64,
}

impl Gain {
    fn new(limits: &Limits) -> Self {
        Self {
            kept: 1.0 - limits.migration_ns as f64 / limits.residence_ns as f64,
            threshold: 1.0 + f64::from(limits.min_gain_permille) / 1000.0,
        }
    }

    /// Return an upper bound of the gain of `task` on a CPU of cost `to`, relative to progress on
    /// the reference CPU.
    fn bound(&self, task: &Task, to: &Vector, classes: &[Vector; 2]) -> f64 {
        let mut faster = 0.0_f64;
        let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
        for stack in stacks(task.speedup, classes) {
            let before = time(&stack, &task.costs);
            faster = faster.max(before / time(&stack, to));
            (least, most) = (least.min(1000.0 / before), most.max(1000.0 / before));
        }
        let gain = faster * self.kept - self.threshold;
        if gain > 0.0 { gain * most } else { gain * least }
    }
}

/// Return the time of a unit of work [permille of the reference CPU].
fn time(stack: &Vector, costs: &Vector) -> f64 {
    stack.iter().zip(costs).map(|(share, cost)| share * cost).sum()
}

/// Return the corners of the area of stacks whose speedup between these classes, slow and fast, is
/// `speedup` up to rounding. Without such a stack, return the one of the nearest speedup.
fn stacks(speedup: f64, [slow, fast]: &[Vector; 2]) -> Vec<Vector> {
    let corner = |k: usize| std::array::from_fn(|other| if other == k { 1.0 } else { 0.0 });
    let of_corner = |k: usize| slow[k] / fast[k];
    let bounds = [speedup * (1.0 - ROUNDING), speedup * (1.0 + ROUNDING)];
    let within = |k: &usize| (bounds[0]..=bounds[1]).contains(&of_corner(*k));
    let mut stacks: Vec<Vector> = (0..COMPONENTS).filter(within).map(corner).collect();
    for (a, b) in [(0, 1), (0, 2), (1, 2)] {
        for bound in bounds {
            // Zero where the speedup is that of the bound; linear along the edge.
            let [at_a, at_b] = [a, b].map(|k: usize| slow[k] - bound * fast[k]);
            if at_a * at_b < 0.0 {
                let part = at_a / (at_a - at_b);
                let mut stack = [0.0; COMPONENTS];
                (stack[a], stack[b]) = (1.0 - part, part);
                stacks.push(stack);
            }
        }
    }
    if stacks.is_empty() {
        let distance = |k: &usize| (of_corner(*k) - speedup).abs();
        let nearest = (0..COMPONENTS).min_by(|a, b| distance(a).total_cmp(&distance(b)));
        stacks.push(corner(nearest.unwrap_or(ffi::BIAS_EXECUTE as usize)));
    }
    stacks
}

#[cfg(test)]
#[path = "precheck_tests.rs"]
mod tests;
