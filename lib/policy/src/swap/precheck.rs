// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Check of published data for possible swaps: a cheap test whether a plan is worth making.
//!
//! # Problem
//!
//! A plan needs the CPI stack of every running task, and each costs a system call. CPUs publish
//! only the predicted speedup of their resident task. Most of the time no swap gains.
//!
//! # Approach
//!
//! The planner's bound decides (`bounded()` in `plan.rs`): the gain of a task on a CPU that has
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
//! A task's speedup belongs to the costs of its last window. After a change of the table the check
//! errs until the task's next window.

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
    let limits = limits.sane();
    if nodes.values().any(|node| !node.waiting && node.may_gain(&classes, &limits)) {
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
    fn may_gain(&self, classes: &[Vector; 2], limits: &Limits) -> bool {
        let best = |here: &[Task], there: &[Task]| {
            let costs = |k: usize| there.iter().map(move |task| task.costs[k]);
            let least = std::array::from_fn(|k| costs(k).fold(f64::from(COST_MAX), f64::min));
            let bounds = here.iter().map(|task| bound(task, &least, classes, limits));
            bounds.max_by(f64::total_cmp)
        };
        let pair = best(&self.slow, &self.fast).zip(best(&self.fast, &self.slow));
        pair.is_some_and(|(up, down)| up + down > -ROUNDING)
    }
}

/// Return an upper bound of the gain of `task` on a CPU of cost `to`, relative to progress on the
/// reference CPU. The migration takes a part of the residence, and the rest must exceed the margin.
fn bound(task: &Task, to: &Vector, classes: &[Vector; 2], limits: &Limits) -> f64 {
    let mut faster = 0.0_f64;
    let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
    for stack in stacks(task.speedup, classes) {
        let before = time(&stack, &task.costs);
        faster = faster.max(before / time(&stack, to));
        (least, most) = (least.min(1000.0 / before), most.max(1000.0 / before));
    }
    let kept = 1.0 - limits.migration_ns as f64 / limits.residence_ns as f64;
    let gain = faster * kept - (1.0 + f64::from(limits.min_gain_permille) / 1000.0);
    if gain > 0.0 { gain * most } else { gain * least }
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
mod tests {
    use super::super::plan;
    use super::super::system::*;
    use super::*;
    use crate::testkit::{one_fast_core, table};
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn resident(cpu: u32, speedup_permille: u32) -> Resident {
        Resident { cpu, pid: 100 + cpu, speedup_permille, waiting_since_ns: 0 }
    }

    fn on(table: &CapacityTable, residents: &[Resident]) -> Outlook {
        precheck(table, residents, 1000 * MS, &Limits::default())
    }

    fn checked(residents: &[Resident]) -> Outlook {
        on(&table(), residents)
    }

    /// Return the outlook of a machine with these speedups on CPUs 0 to 3.
    fn of_speedups(table: &CapacityTable, speedups: [u32; 4]) -> Outlook {
        on(table, &(0..).zip(speedups).map(|(cpu, speedup)| resident(cpu, speedup)).collect::<Vec<_>>())
    }

    #[test]
    fn only_misplaced_tasks_are_promising() {
        assert_eq!(of_speedups(&table(), [1070, 2500, 2500, 1070]), Outlook::Promising);
        assert_eq!(of_speedups(&table(), [2500, 2500, 1070, 1070]), Outlook::Settled);
        assert_eq!(of_speedups(&table(), [2450, 2500, 2500, 2480]), Outlook::Settled);
        assert_eq!(checked(&[]), Outlook::Settled);
    }

    #[test]
    fn a_pair_needs_two_tasks_of_known_speedup_on_cpus_of_the_table() {
        assert_eq!(checked(&[resident(0, 0), resident(2, 2500)]), Outlook::Settled);
        assert_eq!(checked(&[resident(2, 2500), resident(3, 1070)]), Outlook::Settled);
        assert_eq!(checked(&[Resident { pid: 0, ..resident(0, 1070) }, resident(2, 2500)]), Outlook::Settled);
        assert_eq!(checked(&[resident(0, 1070), resident(999, 2500)]), Outlook::Settled);
    }

    #[test]
    fn a_long_wait_on_a_node_ends_its_plans() {
        let waiting = |since_ns| {
            [resident(0, 1070), resident(2, 2500)].map(|one| Resident { waiting_since_ns: since_ns, ..one })
        };
        assert_eq!(checked(&waiting(900 * MS)), Outlook::Queued);
        assert_eq!(checked(&waiting(995 * MS)), Outlook::Promising);
        assert_eq!(
            checked(&waiting(2000 * MS)),
            Outlook::Promising,
            "a clock that lags behind is not a wait"
        );
    }

    #[test]
    fn a_busy_sibling_changes_the_gain_of_a_swap() {
        let misplaced = [1105, 1105, 2500, 2500];
        assert_eq!(of_speedups(&one_fast_core(1600), misplaced), Outlook::Promising);
        // A thread of the fast core executes as fast as a slow core, or slower.
        assert_eq!(of_speedups(&one_fast_core(2500), misplaced), Outlook::Settled);
        assert_eq!(of_speedups(&one_fast_core(4000), misplaced), Outlook::Settled);
        // Then tasks that execute belong on the slow cores.
        let placed = [2500, 2500, 1105, 1105];
        assert_eq!(of_speedups(&one_fast_core(4000), placed), Outlook::Promising);
        // With an idle sibling the core is whole.
        let alone = [resident(0, 1105), resident(2, 2500)];
        assert_eq!(on(&one_fast_core(4000), &alone), Outlook::Promising);
        let unknown = [resident(0, 1105), resident(1, 0), resident(2, 2500)];
        assert_eq!(on(&one_fast_core(4000), &unknown), Outlook::Settled);
    }

    #[test]
    fn speedups_beyond_the_table_are_the_nearest_of_the_table() {
        for speedup in [1, 900, 2600, u32::MAX] {
            assert_eq!(
                stacks(f64::from(speedup) / 1000.0, &[SLOW, FAST].map(|costs| costs.map(f64::from))).len(),
                1
            );
        }
        assert_eq!(of_speedups(&table(), [1, 1, u32::MAX, u32::MAX]), Outlook::Promising);
        assert_eq!(of_speedups(&table(), [u32::MAX, u32::MAX, 1, 1]), Outlook::Settled);
    }

    /// Return the published states of the CPUs of `system`, with the speedups by its table.
    fn published(system: &System, table: &CapacityTable) -> Vec<Resident> {
        let [slow, fast] = [Class::Slow, Class::Fast]
            .map(|class| ffi::bias_cost { permille: table.class_cost_permille(class) });
        let of_cpu = |cpu: &CpuCapacity| {
            let task = system.runners.iter().find(|one| one.cpu == cpu.cpu);
            let speedup = |stack| {
                let stack = ffi::bias_stack { permille: stack };
                // SAFETY: a pure function over references that live across the call.
                unsafe { ffi::bias_speedup_permille(&stack, &slow, &fast) }
            };
            Resident {
                cpu: cpu.cpu,
                pid: task.map_or(u32::from(system.busy.contains(cpu.cpu)), |task| task.pid),
                speedup_permille: task.and_then(|task| task.stack_permille).map_or(0, speedup),
                waiting_since_ns: 0,
            }
        };
        system.cpus.iter().map(of_cpu).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// The check never prevents a plan.
        #[test]
        fn a_plan_with_swaps_is_promising(system in smt_system(16), limits in any_limits(), round in any::<u64>()) {
            let limits = Limits { max_swaps: limits.max_swaps.max(1), ..limits };
            let planned = plan(&system.snapshot(round), &limits);
            let table = CapacityTable { cpus: system.cpus.clone() };
            let outlook = precheck(&table, &published(&system, &table), system.now_ns, &limits);
            prop_assert!(planned.swaps.is_empty() || outlook == Outlook::Promising, "{outlook:?} {planned:?}");
        }

        /// With two kinds of whole CPUs, a pair that clearly loses is not promising.
        #[test]
        fn a_pair_that_clearly_loses_is_not_promising(up in any_stack(), down in any_stack()) {
            let mut system = misplaced();
            system.runners.retain(|runner| [1000, 1002].contains(&runner.pid));
            system.runner(1002).stack_permille = Some(up);
            system.runner(1000).stack_permille = Some(down);
            let progress = |stack: [u32; 3], costs: [u32; 3]| 1e6 / time(&stack.map(f64::from), &costs.map(f64::from));
            let before = progress(up, SLOW) + progress(down, FAST);
            let after = progress(up, FAST) + progress(down, SLOW);
            let outlook = precheck(&table(), &published(&system, &table()), system.now_ns, &Limits::default());
            let clear = (after / before - 1.05).abs() > 0.02;
            prop_assert!(!clear || (outlook == Outlook::Promising) == (after > before * 1.05), "{outlook:?} {after} {before}");
        }

        #[test]
        fn no_published_value_causes_a_panic(
            table in prop::collection::vec((any::<u32>(), any::<u32>(), prop::array::uniform3(0u32..100_000), any::<bool>()), 0..6),
            published in prop::collection::vec((0u32..8, any::<u32>(), any::<u32>(), any::<u64>()), 0..8), now_ns in any::<u64>(),
        ) {
            let cpus = (0..).zip(table).map(|(number, (core, node, cost_permille, slow))| {
                CpuCapacity { core, node, cost_permille, ..cpu(number, if slow { Class::Slow } else { Class::Fast }) }
            });
            let residents = published.into_iter().map(|(cpu, pid, speedup_permille, waiting_since_ns)| {
                Resident { cpu, pid, speedup_permille, waiting_since_ns }
            });
            let _ = precheck(&CapacityTable { cpus: cpus.collect() }, &residents.collect::<Vec<_>>(), now_ns, &Limits::default());
        }
    }
}
