// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Builds a plan from a snapshot: candidates of both classes, an upper bound of each one's gain,
//! and pairs of them.
//!
//! Values are in reference ns times 1000. Each is at most 2^36 * 2000, so sums fit.

use super::input::{Limits, Runner, Snapshot};
use crate::cpuset::CpuSet;
use crate::ffi;
use crate::table::{COMPONENTS, COST_MAX, Class, CpuCapacity, MAX_CPUS};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Number of partners that a search tries first, in order of upper bound.
pub(super) const FIRST_TRIED: usize = 16;
/// Number of partners that it tries beyond those if none of them fits: another section in each
/// round.
pub(super) const EXPLORED: usize = 16;
/// Time over which progress is counted: 1 ms gives parts per million.
const MILLISECOND_NS: u64 = 1_000_000;

/// One task's part of a swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// pid of the task.
    pub pid: u32,
    /// CPU on which it runs; the caller that carries out the swap checks this again.
    pub from: u32,
    /// CPU to which it migrates.
    pub to: u32,
    /// CPI stack that the prediction used [permille].
    pub stack_permille: [u32; COMPONENTS],
    /// Predicted progress on `from`; 1 000 000 on the reference CPU.
    pub before_ppm: u32,
    /// Predicted progress on `to`.
    pub after_ppm: u32,
}

/// Two running tasks that should migrate to each other's CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Swap {
    /// The task that migrates from a slow CPU to a fast one.
    pub up: Move,
    /// The task that migrates from a fast CPU to a slow one.
    pub down: Move,
    /// Predicted gain in the two tasks' progress, before the cost of migrations [permille].
    pub gain_permille: u32,
    /// Work gained in the expected residence, after the cost of migrations [reference ns].
    pub net_ns: u64,
}

/// Swaps, the most gainful first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// In descending order of gain; no CPU and no task occurs twice.
    pub swaps: Vec<Swap>,
    /// Number of pairs evaluated, a measure of the planner's work. It is at most 32 for each slow
    /// CPU.
    pub evaluated: usize,
}

/// Plan the swaps that gain now. The time is linear in CPUs and tasks, except for sorting them.
#[must_use]
pub fn plan(snapshot: &Snapshot, limits: &Limits) -> Plan {
    let limits = limits.sane();
    let mut all = candidates(snapshot, &limits);
    // A stable sort keeps the order by CPU within a node.
    all.sort_by_key(|candidate| candidate.cpu.node);
    let (mut swaps, mut evaluated) = (Vec::new(), 0);
    for of_node in all.chunk_by(|a, b| a.cpu.node == b.cpu.node) {
        let (up, down): (Vec<_>, Vec<_>) =
            of_node.iter().partition(|candidate| candidate.cpu.class == Class::Slow);
        let (up, down) = (bounded(&up, &down, &limits), bounded(&down, &up, &limits));
        let mut search = Search::new(snapshot.round, &limits, &down);
        swaps.extend(search.pairs(&up).into_iter().map(|(up, down)| swap_of(up, down, &limits)));
        evaluated += search.evaluated;
    }
    swaps.sort_unstable_by_key(|(gain, swap)| (Reverse(*gain), swap.up.from));
    swaps.truncate(limits.max_swaps);
    Plan { swaps: swaps.into_iter().map(|(_, swap)| swap).collect(), evaluated }
}

/// Return the stack with shares that sum to 1000; None if it is empty and so carries no
/// information.
#[must_use]
pub(crate) fn normalised(stack_permille: [u32; COMPONENTS]) -> Option<[u32; COMPONENTS]> {
    if stack_permille == [0; COMPONENTS] {
        return None;
    }
    let mut stack = ffi::bias_stack { permille: stack_permille };
    // SAFETY: a pure function over a reference that lives across the call.
    unsafe { ffi::bias_stack_normalise(&mut stack) };
    Some(stack.permille)
}

/// Return the time of a unit of work of the stack on a CPU of this cost [permille of the time on
/// the reference CPU].
#[must_use]
pub(crate) fn time_permille(stack_permille: [u32; COMPONENTS], cost_permille: [u32; COMPONENTS]) -> u32 {
    let stack = ffi::bias_stack { permille: stack_permille };
    let cost = ffi::bias_cost { permille: cost_permille };
    // SAFETY: a pure function over references that live across the call.
    unsafe { ffi::bias_time_permille(&stack, &cost) }
}

/// Return the work done in `ran_ns` where a unit takes `time_permille`, as time on the reference
/// CPU [ns].
fn work_ns(ran_ns: u64, time_permille: u32) -> i64 {
    // SAFETY: a pure function of values.
    (unsafe { ffi::bias_reference_ns(ran_ns, time_permille) }) as i64
}

impl Limits {
    /// Return the part of the expected residence in which a migrated task works [ns].
    fn stay_ns(&self) -> u64 {
        self.residence_ns.saturating_sub(self.migration_ns)
    }
}

/// A running task that may be swapped.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    runner: &'a Runner,
    cpu: &'a CpuCapacity,
    stack_permille: [u32; COMPONENTS],
    /// Cost of its CPU in force [permille].
    cost_permille: [u32; COMPONENTS],
    /// Time of a unit of its work on its CPU [permille].
    time_permille: u32,
    /// Upper bound of the gain from a move to the other class.
    bound: i64,
}

impl Candidate<'_> {
    /// Return the gain from a move to a CPU of this cost, beyond the margin that it has to gain.
    fn worth_on(&self, cost_permille: [u32; COMPONENTS], limits: &Limits) -> i64 {
        let moves = work_ns(limits.stay_ns(), time_permille(self.stack_permille, cost_permille));
        let stays = work_ns(limits.residence_ns, self.time_permille);
        moves * 1000 - stays * (1000 + i64::from(limits.min_gain_permille))
    }

    /// Return its move to the CPU of `other`, and the net gain without margin [reference ns].
    fn move_to(&self, other: &Candidate, limits: &Limits) -> (Move, i64) {
        let to_permille = time_permille(self.stack_permille, other.cost_permille);
        let one = Move {
            pid: self.runner.pid,
            from: self.cpu.cpu,
            to: other.cpu.cpu,
            stack_permille: self.stack_permille,
            before_ppm: work_ns(MILLISECOND_NS, self.time_permille) as u32,
            after_ppm: work_ns(MILLISECOND_NS, to_permille) as u32,
        };
        let net = work_ns(limits.stay_ns(), to_permille) - work_ns(limits.residence_ns, self.time_permille);
        (one, net)
    }
}

/// Return the swap and its net gain [reference ns].
fn swap_of(up: &Candidate, down: &Candidate, limits: &Limits) -> (i64, Swap) {
    let ((up, up_gain), (down, down_gain)) = (up.move_to(down, limits), down.move_to(up, limits));
    let sum = |up_ppm, down_ppm| u64::from(up_ppm) + u64::from(down_ppm);
    let (before, after) = (sum(up.before_ppm, down.before_ppm), sum(up.after_ppm, down.after_ppm));
    let gain_permille = after.saturating_sub(before) * 1000 / before.max(1);
    let net = up_gain + down_gain;
    let gain_permille = u32::try_from(gain_permille).unwrap_or(u32::MAX);
    (net, Swap { up, down, gain_permille, net_ns: net.max(0) as u64 })
}

/// Return every running task that may be swapped, in ascending order of CPU. A task or a CPU that
/// occurs twice takes no part, because the CPU of the task is unknown.
fn candidates<'a>(snapshot: &Snapshot<'a>, limits: &Limits) -> Vec<Candidate<'a>> {
    let (awaited, sharing) = (awaited(snapshot, limits.passing_ns), snapshot.sharing());
    let cpus = singles(snapshot.cpus.iter().filter(|cpu| cpu.cpu < MAX_CPUS), |cpu| cpu.cpu);
    let by_pid = singles(snapshot.runners.iter(), |runner| runner.pid);
    let by_cpu = singles(snapshot.runners.iter(), |runner| runner.cpu);
    let rested = |runner: &Runner| {
        let moved = runner.moved_at_ns.map(|at| at.saturating_add(limits.residence_ns));
        moved.unwrap_or(0).max(runner.backoff_until_ns) <= snapshot.now_ns
    };
    cpus.into_iter()
        .filter(|(_, cpu)| !awaited.contains(&cpu.node))
        .filter_map(|(number, cpu)| {
            let runner = *by_cpu.get(&number)?;
            if !runner.stable || !rested(runner) || !by_pid.contains_key(&runner.pid) {
                return None;
            }
            let stack_permille = normalised(runner.stack_permille?)?;
            let cost_permille = sharing.cost_permille(cpu);
            let time_permille = time_permille(stack_permille, cost_permille);
            Some(Candidate { runner, cpu, stack_permille, cost_permille, time_permille, bound: 0 })
        })
        .collect()
}

/// Return the items whose key occurs once, by key.
fn singles<'a, T>(items: impl Iterator<Item = &'a T>, key: fn(&T) -> u32) -> BTreeMap<u32, &'a T> {
    let (mut seen, mut twice) = (BTreeMap::new(), BTreeSet::new());
    for item in items {
        if seen.insert(key(item), item).is_some() {
            twice.insert(key(item));
        }
    }
    seen.retain(|key, _| !twice.contains(key));
    seen
}

/// Return the nodes whose next dispatches choose tasks anyway, because one of their tasks waits.
///
/// Fast CPUs serve the slow DSQs too, so the class of the DSQ does not matter.
fn awaited(snapshot: &Snapshot, passing_ns: u64) -> BTreeSet<u32> {
    let waits = snapshot.waiting.iter();
    let long = waits.filter(|one| snapshot.now_ns.saturating_sub(one.since_ns) >= passing_ns);
    let cpus: CpuSet = long.map(|one| one.cpu).collect();
    snapshot.cpus.iter().filter(|cpu| cpus.contains(cpu.cpu)).map(|cpu| cpu.node).collect()
}

/// Return the candidates that may run on some CPU of the `others`, in descending order of upper
/// bound, then by CPU. The bound is the gain on a CPU that has the least cost of the others in each
/// component.
fn bounded<'a>(candidates: &[&Candidate<'a>], others: &[&Candidate], limits: &Limits) -> Vec<Candidate<'a>> {
    let cpus: CpuSet = others.iter().map(|other| other.cpu.cpu).collect();
    let costs = |k: usize| others.iter().map(move |other| other.cost_permille[k]);
    let best_permille = std::array::from_fn(|k| costs(k).min().unwrap_or(COST_MAX));
    let may_leave = |one: &&&Candidate| !one.runner.allowed.map_or(cpus, |set| set.common(&cpus)).is_empty();
    let fitting = candidates.iter().filter(may_leave);
    let mut bounded: Vec<_> =
        fitting.map(|one| Candidate { bound: one.worth_on(best_permille, limits), ..**one }).collect();
    bounded.sort_unstable_by_key(|one| (Reverse(one.bound), one.cpu.cpu));
    bounded
}

/// Pairing of the candidates of a node.
///
/// Both lists are in descending order of upper bound. The gain of a pair never exceeds the sum of
/// its two bounds. So a search may stop where this sum is at most the best gain so far, or zero.
struct Search<'s, 'a> {
    round: u64,
    limits: &'s Limits,
    down: &'s [Candidate<'a>],
    taken: Vec<bool>,
    /// All partners before this index are taken.
    first_free: usize,
    evaluated: usize,
}

impl<'s, 'a> Search<'s, 'a> {
    fn new(round: u64, limits: &'s Limits, down: &'s [Candidate<'a>]) -> Self {
        Self { round, limits, down, taken: vec![false; down.len()], first_free: 0, evaluated: 0 }
    }

    /// Return the pairs that migrate to each other's CPU.
    fn pairs<'u>(&mut self, up: &'u [Candidate<'a>]) -> Vec<(&'u Candidate<'a>, &'s Candidate<'a>)> {
        let mut pairs = Vec::new();
        for up in up {
            while self.taken.get(self.first_free) == Some(&true) {
                self.first_free += 1;
            }
            let Some(best) = self.down.get(self.first_free) else { break };
            if up.bound + best.bound <= 0 {
                break;
            }
            if let Some((at, _)) = self.partner(up) {
                self.taken[at] = true;
                pairs.push((up, &self.down[at]));
            }
        }
        pairs
    }

    /// Find the partner of the highest gain among those tried; the first of equal ones. Return its
    /// index and the gain.
    fn partner(&mut self, up: &Candidate) -> Option<(usize, i64)> {
        let end = self.down.partition_point(|down| up.bound + down.bound > 0);
        let first = self.first_free.min(end);
        let beyond = (first + FIRST_TRIED).min(end);
        let mut best = None;
        for at in first..beyond {
            // The list is in order: no later partner gains more than the one found.
            if best.is_some_and(|(_, worth)| up.bound + self.down[at].bound <= worth) {
                return best;
            }
            best = self.better(up, at, best);
        }
        let rest = end - beyond;
        if best.is_some() || rest == 0 {
            return best;
        }
        let start = (self.round % rest as u64) as usize * EXPLORED;
        for step in 0..EXPLORED.min(rest) {
            best = self.better(up, beyond + (start + step) % rest, best);
        }
        best
    }

    /// Return the partner at `at` if affinities permit the pair and it gains more than `best`, else
    /// `best`.
    fn better(&mut self, up: &Candidate, at: usize, best: Option<(usize, i64)>) -> Option<(usize, i64)> {
        self.evaluated += 1;
        let down = &self.down[at];
        let may_run =
            |one: &Candidate, on: &Candidate| one.runner.allowed.is_none_or(|set| set.contains(on.cpu.cpu));
        if self.taken[at] || !may_run(up, down) || !may_run(down, up) {
            return best;
        }
        let worth =
            up.worth_on(down.cost_permille, self.limits) + down.worth_on(up.cost_permille, self.limits);
        if worth > best.map_or(0, |(_, worth)| worth) { Some((at, worth)) } else { best }
    }
}
