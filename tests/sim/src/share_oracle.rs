// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Oracle of shares: each task gets the CPU time that it is entitled to, and no more.
//!
//! # Problem
//!
//! A scheduler may break no other rule and still give one task the time of another. No behaviour
//! may gain: not sleep, forks, yields, nor changes of affinity.
//!
//! # Approach
//!
//! The oracle checks cases whose topic [`Case::shares`] names. All CPUs are alike, and each task
//! keeps its behaviour for the whole run. At the end the CPU time of each task is compared with its
//! [`entitlements`]:
//!
//! 1. A task that sleeps, forks, yields or hops gets at most [`GAIN`] of what is due to a busy task
//!    of its weight. Tasks that fork each other count as one.
//! 2. Honest busy tasks get at least [`SHARE`] of their entitlements. Such a task may use less than
//!    is due, and the rest belongs to the others. So the most that honest ones may get follows from
//!    what it has used.
//!
//! Each topic is a rule of its own (`share-sleep`, `share-fork`, ...), as its defects have their
//! own causes.

use crate::case::{Case, Disturbance};
use crate::entitlement::{Claim, Divided, entitlements};
use crate::kernel::Kernel;
use crate::load::{Op, Program};
use crate::mask::Mask;

/// Most that a behaviour may get of what is due.
const GAIN: f64 = 1.05;

/// Least and most that an honest busy task may get of what is due.
const SHARE: (f64, f64) = (0.9, 1.1);

/// Time by which any task may be off [ns]: the lag at which the scheduler lets a wakee start, and
/// a slice. Two ticks are added.
const SLACK_NS: f64 = 70e6;

/// A task, or a chain of tasks that fork each other.
struct Entity {
    tasks: Vec<usize>,
    claim: Claim,
    /// It is always runnable and does nothing but run.
    honest: bool,
}

/// Return the demand of a program [CPUs], and whether it is that of an honest busy task.
fn demand(program: &Program, timer_ns: u64) -> (f64, bool) {
    let (mut runs, mut sleeps, mut honest) = (0.0, 0.0, true);
    for op in &program.ops {
        match op {
            Op::Run { work_ns, .. } => runs += *work_ns as f64,
            Op::Sleep { ns } => sleeps += (*ns + timer_ns) as f64,
            _ => {}
        }
        honest &= matches!(op, Op::Run { .. });
    }
    (runs / (runs + sleeps), honest)
}

/// Return the tasks that `first` forks, itself included.
fn chain(case: &Case, first: usize) -> Vec<usize> {
    let mut tasks = vec![first];
    let mut at = 0;
    while let Some(task) = tasks.get(at).copied() {
        let forks = case.tasks[task].program.ops.iter();
        let forked = forks.filter_map(|op| if let Op::Spawn { task } = op { Some(*task) } else { None });
        let new: Vec<usize> = forked.filter(|task| !tasks.contains(task)).collect();
        tasks.extend(new);
        at += 1;
    }
    tasks
}

/// Return the tasks that compete in a case.
fn entities(case: &Case, cpus: usize) -> Vec<Entity> {
    let timer_ns = u64::midpoint(case.timer_ns.0, case.timer_ns.1);
    let roots = (0..case.tasks.len()).filter(|task| case.tasks[*task].start_ns.is_some());
    roots
        .map(|root| {
            let spec = &case.tasks[root];
            let (most, mut honest) = demand(&spec.program, timer_ns);
            let mask = |cpus: &[usize]| cpus.iter().copied().collect::<Mask>();
            let mut allowed = spec.cpus.as_ref().map_or(Mask::first_cpus(cpus), |cpus| mask(cpus));
            for disturb in &case.disturbances {
                if let Disturbance::Affinity { task, cpus } = &disturb.what
                    && *task == root
                {
                    allowed = allowed.or(&mask(cpus));
                    honest = false;
                }
            }
            let claim = Claim { weight: f64::from(spec.weight), most, cpus: allowed, group: spec.group };
            Entity { tasks: chain(case, root), claim, honest }
        })
        .collect()
}

/// Return by how much `ran` is outside of the bounds around `due`, as a part of it. 0 if it is not.
fn excess(ran: f64, due: f64, bounds: (f64, f64), slack: f64) -> f64 {
    let most = due * bounds.1 + slack;
    let least = due * bounds.0 - slack;
    if ran > most { ran / most - 1.0 } else { (least / ran.max(1.0) - 1.0).max(0.0) }
}

impl Kernel {
    /// Compare the CPU time of each task with its entitlement, in a case of shares.
    pub(crate) fn audit_shares(&self) {
        let Some(topic) = self.case.shares else { return };
        let cpus = self.cpus.len();
        let groups: Vec<Divided> = std::iter::once(Divided { parent: 0, weight: 100.0 })
            .chain(
                self.case
                    .groups
                    .iter()
                    .map(|group| Divided { parent: group.parent, weight: f64::from(group.weight) }),
            )
            .collect();
        let entities = entities(&self.case, cpus);
        let time = self.now() as f64;
        let slack = SLACK_NS + 2.0 * self.case.tick_ns as f64;
        let ran: Vec<f64> = entities
            .iter()
            .map(|one| one.tasks.iter().map(|task| self.tasks[*task].stats.ran_ns.get()).sum::<u64>() as f64)
            .collect();
        let mut claims: Vec<Claim> = entities.iter().map(|one| one.claim.clone()).collect();
        let Some(due) = entitlements(&claims, &groups, cpus) else { return };
        let mut worst = (0.0, 0, 0.0);
        let mut note = |at: usize, due: f64, bounds| {
            let excess = excess(ran[at], due, bounds, slack);
            if excess > worst.0 {
                worst = (excess, at, due);
            }
        };
        for (at, one) in entities.iter().enumerate().filter(|(_, one)| !one.honest) {
            note(at, due[at] * time, (0.0, GAIN));
            claims[at].most = (ran[at] / time).min(due[at]).min(one.claim.most).max(1e-6);
        }
        let Some(rest) = entitlements(&claims, &groups, cpus) else { return };
        for (at, _) in entities.iter().enumerate().filter(|(_, one)| one.honest) {
            note(at, due[at] * time, (SHARE.0, f64::INFINITY));
            note(at, rest[at].max(due[at]) * time, (0.0, SHARE.1));
        }
        let (excess, at, due) = worst;
        if excess > 0.0 {
            let (task, weight) = (entities[at].tasks[0], entities[at].claim.weight);
            let (ran_ms, due_ms, all_ms) = (ran[at] / 1e6, due / 1e6, time / 1e6);
            self.broken(
                topic.rule(),
                format!(
                    "task {task} of weight {weight} ran for {ran_ms:.0} ms of {all_ms:.0}, due {due_ms:.0}"
                ),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Fault, TaskSpec, Topic};
    use crate::load::stacks;
    use crate::unit::Image;

    fn run(case: Case) -> Option<Fault> {
        Kernel::new(case, Image::Plain).ok()?.run().err()
    }

    /// Two busy tasks on one CPU, one of which really has the weight `weight`.
    fn two(weight: u32) -> Case {
        let mut case = Case::new("1P", 1);
        case.duration_ns = 3_000_000_000;
        case.tasks = vec![TaskSpec::new(Program::busy(stacks::COMPUTE)); 2];
        case.tasks[1].weight = weight;
        case.shares = Some(Topic::Plain);
        case
    }

    #[test]
    fn equal_tasks_get_equal_shares() {
        assert_eq!(run(two(100)), None);
    }

    /// The second task gets 3/4 of the CPU from 1.5 s on, which the oracle does not know.
    #[test]
    fn a_task_that_gets_too_much_breaks_the_rule() {
        let mut case = two(100);
        let what = Disturbance::Nice { task: 1, weight: 300 };
        case.disturbances.push(crate::case::Disturb { at_ns: 1_500_000_000, what });
        let fault = run(case);
        assert_eq!(fault.map(|fault| fault.rule).as_deref(), Some("share-plain"));
    }

    #[test]
    fn bounds_apply_on_both_sides() {
        assert!(excess(105.0, 100.0, (0.9, 1.1), 0.0) == 0.0);
        assert!(excess(120.0, 100.0, (0.9, 1.1), 0.0) > 0.0);
        assert!(excess(120.0, 100.0, (0.9, 1.1), 20.0) == 0.0);
        assert!(excess(80.0, 100.0, (0.9, 1.1), 0.0) > 0.0);
        assert!(excess(0.0, 100.0, (0.9, 1.1), 0.0) > 0.0);
        assert!(excess(0.0, 100.0, (0.0, 1.05), 0.0) == 0.0);
    }

    /// A chain counts as one task that demands a CPU. A sleeper demands the time that it runs.
    #[test]
    fn chains_and_sleepers_are_recognised() {
        let mut case = Case::new("2P", 1);
        let run = Op::Run { stack: stacks::COMPUTE, work_ns: 1_000_000 };
        let link =
            |next| TaskSpec::new(Program { ops: vec![run.clone(), Op::Spawn { task: next }], repeat: false });
        case.tasks = vec![link(1), link(2), link(2)];
        case.tasks[1].start_ns = None;
        case.tasks[2].start_ns = None;
        case.tasks.push(TaskSpec::new(Program::periodic(stacks::COMPUTE, 1_000_000, 3_000_000)));
        case.timer_ns = (0, 0);
        let entities = entities(&case, 2);
        assert_eq!(entities[0].tasks, [0, 1, 2]);
        assert!(!entities[0].honest && !entities[1].honest);
        assert!((entities[0].claim.most - 1.0).abs() < 1e-9);
        assert!((entities[1].claim.most - 0.25).abs() < 1e-9);
    }
}
