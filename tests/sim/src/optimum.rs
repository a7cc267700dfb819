// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The best throughput that any schedule can reach, to compare with.
//!
//! # Problem
//!
//! A measured throughput needs a bound to compare with. There may be more tasks than CPUs, cores
//! may have several threads, and tasks may change their behaviour or sleep.
//!
//! # Approach
//!
//! A schedule spends parts of the time of each task's phases on each type of core. These parts obey
//! linear bounds: of a CPU's time, of a task's time, and of the proportions of its phases. Any
//! parts within the bounds of CPUs and tasks are those of some schedule (open shop, Gonzalez and
//! Sahni 1976). So a linear program yields the optimum. Equal tasks and equal cores share
//! variables.
//!
//! A core of several threads runs one task alone for a part of the time, and shares the rest.
//!
//! [`Fairness::Any`] may starve tasks. [`Fairness::Equal`] demands equal work of all.
//!
//! # Limits
//!
//! The order of a task's phases is ignored, and its part of the last round. So a run of few rounds
//! may do a little more than the optimum. Tasks that wait for others have no optimum here.

use bias_policy::ffi as policy;

use crate::load::{Op, Program};
use crate::machine::Machine;
use crate::simplex::{Bound, maximum};

/// Demand on the best schedule for each task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fairness {
    /// Nothing: only the sum counts.
    Any,
    /// As much work as any other task does.
    Equal,
}

/// Maximum number of types of cores. With more, a program becomes too large.
const MAX_TYPES: usize = 200;

/// Demand of tasks of a kind in the long run, per ns of work.
#[derive(Debug, Clone, PartialEq)]
struct Demand {
    /// CPI stacks and their part of the work.
    phases: Vec<([u32; 3], f64)>,
    /// Time that it sleeps.
    sleeps: f64,
    tasks: f64,
}

impl Demand {
    fn new(program: &Program) -> Option<Self> {
        let (mut phases, mut sleeps, mut sum): (Vec<([u32; 3], f64)>, _, _) = (Vec::new(), 0.0, 0.0);
        for op in &program.ops {
            match op {
                Op::Run { stack, work_ns } => {
                    sum += *work_ns as f64;
                    match phases.iter_mut().find(|(other, _)| other == stack) {
                        Some((_, work)) => *work += *work_ns as f64,
                        None => phases.push((*stack, *work_ns as f64)),
                    }
                }
                Op::Sleep { ns } => sleeps += *ns as f64,
                _ => return None,
            }
        }
        phases.iter_mut().for_each(|(_, work)| *work /= sum);
        (sum > 0.0 && program.repeat).then_some(Self { phases, sleeps: sleeps / sum, tasks: 1.0 })
    }
}

/// Return the kinds of tasks. None if one has no [`Demand`].
fn demands(programs: &[Program]) -> Option<Vec<Demand>> {
    let mut demands: Vec<Demand> = Vec::new();
    for program in programs {
        let demand = Demand::new(program)?;
        let same = |other: &&mut Demand| other.phases == demand.phases && other.sleeps == demand.sleeps;
        match demands.iter_mut().find(same) {
            Some(known) => known.tasks += 1.0,
            None => demands.push(demand),
        }
    }
    Some(demands)
}

/// Equal cores.
#[derive(Debug, Clone, PartialEq)]
struct Cores {
    alone: [u32; 3],
    shared: [u32; 3],
    threads: usize,
    count: f64,
}

fn core_types(machine: &Machine) -> Vec<Cores> {
    let mut types: Vec<Cores> = Vec::new();
    for (_, cpu) in machine.cpus.iter().enumerate().filter(|(at, cpu)| cpu.core == *at) {
        let (alone, shared, threads) = (cpu.cost(false), cpu.cost(true), cpu.siblings.count());
        let same = |other: &&mut Cores| {
            other.alone == alone && other.threads == threads && (threads == 1 || other.shared == shared)
        };
        match types.iter_mut().find(same) {
            Some(known) => known.count += 1.0,
            None => types.push(Cores { alone, shared, threads, count: 1.0 }),
        }
    }
    types
}

/// A way to use cores, with the bound on the time that it offers.
struct Way {
    cost: [u32; 3],
    bound: Bound,
}

/// Return the ways to use the cores. `next` is the first unused variable.
fn ways(cores: &[Cores], next: &mut usize) -> Vec<Way> {
    let mut ways = Vec::new();
    for core in cores {
        let mut way = |cost, terms, limit| ways.push(Way { cost, bound: Bound { terms, limit } });
        if core.threads == 1 {
            way(core.alone, Vec::new(), core.count);
            continue;
        }
        // The variable is the number of cores on which a task is alone.
        let (alone, threads) = (*next, core.threads as f64);
        *next += 1;
        way(core.alone, vec![(alone, -1.0)], 0.0);
        way(core.shared, vec![(alone, threads)], threads * core.count);
    }
    ways
}

/// Return the largest work per time of all tasks [reference CPUs]. None if a task waits for others
/// or ends, or if the machine has too many types of cores.
#[must_use]
pub fn best_stp(machine: &Machine, programs: &[Program], progress: Fairness) -> Option<f64> {
    let (demands, cores) = (demands(programs)?, core_types(machine));
    if demands.is_empty() || cores.len() > MAX_TYPES {
        return None;
    }
    // The first variables are the work of each kind of task, or of any task.
    let works = if progress == Fairness::Any { demands.len() } else { 1 };
    let mut next = works;
    let mut ways = ways(&cores, &mut next);
    let mut bounds = Vec::new();
    for (at, demand) in demands.iter().enumerate() {
        let (work, part) = match progress {
            Fairness::Any => (at, 1.0),
            Fairness::Equal => (0, demand.tasks),
        };
        let mut time = vec![(work, part * demand.sleeps)];
        for (stack, share) in &demand.phases {
            let mut done = vec![(work, part * share)];
            for way in &mut ways {
                time.push((next, 1.0));
                way.bound.terms.push((next, 1.0));
                done.push((next, -speed(*stack, way.cost)));
                next += 1;
            }
            bounds.push(Bound { terms: done, limit: 0.0 });
        }
        bounds.push(Bound { terms: time, limit: demand.tasks });
    }
    bounds.extend(ways.into_iter().map(|way| way.bound));
    let mut gains = vec![0.0; next];
    gains[..works].fill(if progress == Fairness::Any { 1.0 } else { programs.len() as f64 });
    maximum(&gains, &bounds)
}

/// Return the throughput of a schedule that sees the present phase of each task and migrates at no
/// cost: every millisecond, the task that gains most gets the fastest CPU, and of equal ones the
/// one that has done least. It is not a bound. It shows which part of the gap to [`best_stp`] is
/// due to phases that do not fit each other, and not to learning. `None` unless each CPU has one
/// task that never sleeps.
#[must_use]
pub fn clairvoyant_stp(machine: &Machine, programs: &[Program], duration_ns: u64) -> Option<f64> {
    const STEP_NS: f64 = 1e6;
    let mut costs: Vec<_> = machine.cpus.iter().map(|cpu| cpu.cost(cpu.siblings.count() > 1)).collect();
    costs.sort_unstable();
    let (best, worst) = (*costs.first()?, *costs.last()?);
    let rounds: Option<Vec<Round>> = programs.iter().map(phases_in_order).collect();
    let rounds = rounds.filter(|rounds| rounds.len() == costs.len())?;
    let mut done = vec![0.0; rounds.len()];
    for _ in 0..(duration_ns as f64 / STEP_NS) as u64 {
        let stack = |task: usize| phase_at(&rounds[task], done[task]);
        let gain = |task| speed(stack(task), best) / speed(stack(task), worst);
        let mut order: Vec<usize> = (0..rounds.len()).collect();
        order.sort_by(|a, b| gain(*b).total_cmp(&gain(*a)).then(done[*a].total_cmp(&done[*b])));
        let speeds: Vec<f64> =
            order.iter().zip(&costs).map(|(task, cost)| speed(stack(*task), *cost)).collect();
        for (task, speed) in order.into_iter().zip(speeds) {
            done[task] += speed * STEP_NS;
        }
    }
    Some(done.iter().sum::<f64>() / duration_ns as f64)
}

/// CPI stacks and work [ns] of the phases of a round.
type Round = Vec<([u32; 3], f64)>;

/// Return the work of a round in the order of its phases. `None` if the task does anything else.
fn phases_in_order(program: &Program) -> Option<Round> {
    let phase = |op: &Op| match op {
        Op::Run { stack, work_ns } => Some((*stack, *work_ns as f64)),
        _ => None,
    };
    program.ops.iter().map(phase).collect::<Option<Round>>().filter(|phases| !phases.is_empty())
}

/// Return the CPI stack of the phase that a task is in after `done_ns` of work.
fn phase_at(round: &[([u32; 3], f64)], done_ns: f64) -> [u32; 3] {
    let mut left = done_ns % round.iter().map(|(_, work)| work).sum::<f64>();
    for (stack, work) in round {
        if left < *work {
            return *stack;
        }
        left -= work;
    }
    round[0].0
}

/// Return the speed of a CPI stack at a cost [reference CPUs].
fn speed(stack: [u32; 3], cost: [u32; 3]) -> f64 {
    let (stack, cost) = (policy::bias_stack { permille: stack }, policy::bias_cost { permille: cost });
    // SAFETY: a pure function of two valid structures.
    let time = unsafe { policy::bias_time_permille(&raw const stack, &raw const cost) };
    1000.0 / f64::from(time.max(1))
}

#[cfg(test)]
#[path = "optimum_tests.rs"]
mod tests;
