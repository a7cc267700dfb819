// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Candidates for a swap, with an upper bound of their gain.

use super::input::{Limits, Runner, Snapshot};
use super::slots::{Slots, awaited, doubles};
use super::valuation::{Valuation, normalised, time_permille};
use crate::cpuset::CpuSet;
use crate::table::{COMPONENTS, COST_MAX, Class, CpuCapacity};

/// A running task that may be swapped.
#[derive(Clone, Copy)]
pub(super) struct Candidate<'a> {
    pub runner: &'a Runner,
    pub cpu: &'a CpuCapacity,
    pub stack_permille: [u32; COMPONENTS],
    /// Cost of its CPU in force [permille].
    pub cost_permille: [u32; COMPONENTS],
    /// Time of a unit of its work on its CPU [permille].
    pub time_permille: u32,
    /// Value of staying, see [`Valuation::stays`].
    pub stays: i64,
    /// Upper bound of the gain from a move to the other class.
    pub bound: i64,
}

impl Candidate<'_> {
    /// Return the time of a unit of its work on a CPU of this cost [permille].
    pub(super) fn time_on(&self, cost_permille: [u32; COMPONENTS]) -> u32 {
        time_permille(self.stack_permille, cost_permille)
    }

    /// Return the gain from a move to a CPU of this cost: the value of the move less that of
    /// staying.
    pub(super) fn worth_on(&self, cost_permille: [u32; COMPONENTS], valuation: &Valuation) -> i64 {
        valuation.moves(self.time_on(cost_permille)) - self.stays
    }
}

/// Return every running task that may be swapped, in ascending order of CPU.
pub(super) fn candidates<'a>(
    snapshot: &Snapshot<'a>,
    limits: &Limits,
    valuation: &Valuation,
) -> Vec<Candidate<'a>> {
    let slots = Slots::new(snapshot);
    let awaited = awaited(snapshot, &slots, limits.passing_ns);
    let rested = |runner: &Runner| {
        let moved = runner.moved_at_ns.map(|at| at.saturating_add(limits.residence_ns));
        moved.unwrap_or(0).max(runner.backoff_until_ns) <= snapshot.now_ns
    };
    let (doubles, sharing) = (doubles(snapshot), snapshot.sharing());
    let known = |runner: &Runner| doubles.binary_search(&runner.pid).is_err();
    slots
        .taken()
        .filter(|(cpu, runner)| {
            !awaited.contains(cpu.cpu) && runner.stable && rested(runner) && known(runner)
        })
        .filter_map(|(cpu, runner)| {
            let stack_permille = normalised(runner.stack_permille?)?;
            let cost_permille = sharing.cost_permille(cpu);
            let time_permille = time_permille(stack_permille, cost_permille);
            let stays = valuation.stays(time_permille);
            Some(Candidate { runner, cpu, stack_permille, cost_permille, time_permille, stays, bound: 0 })
        })
        .collect()
}

/// Candidates of both classes, each list in descending order of upper bound. All are on one node.
#[derive(Default)]
pub(super) struct Pool<'a> {
    /// Candidates on slow CPUs.
    pub up: Vec<Candidate<'a>>,
    /// Candidates on fast CPUs.
    pub down: Vec<Candidate<'a>>,
}

impl<'a> Pool<'a> {
    /// Keep the candidates that may run on some CPU of the other list's candidates, and compute
    /// their upper bounds.
    pub(super) fn new(
        snapshot: &Snapshot,
        valuation: &Valuation,
        candidates: impl Iterator<Item = Candidate<'a>>,
    ) -> Self {
        let (up, down): (Vec<_>, Vec<_>) =
            candidates.partition(|candidate| candidate.cpu.class == Class::Slow);
        let (slow, fast) = (Side::of(&up), Side::of(&down));
        Self { up: fast.bounded(snapshot, valuation, up), down: slow.bounded(snapshot, valuation, down) }
    }
}

/// CPUs of the candidates of one class.
struct Side {
    cpus: CpuSet,
    /// Least cost in each component: no CPU of the side costs less.
    best_permille: [u32; COMPONENTS],
}

impl Side {
    fn of(candidates: &[Candidate]) -> Self {
        let costs = |k: usize| candidates.iter().map(move |candidate| candidate.cost_permille[k]);
        Self {
            cpus: candidates.iter().map(|candidate| candidate.cpu.cpu).collect(),
            best_permille: std::array::from_fn(|k| costs(k).min().unwrap_or(COST_MAX)),
        }
    }

    /// Return the `others` that may run on some CPU of this side, sorted by upper bound, then by
    /// CPU.
    fn bounded<'a>(
        &self,
        snapshot: &Snapshot,
        valuation: &Valuation,
        mut others: Vec<Candidate<'a>>,
    ) -> Vec<Candidate<'a>> {
        others.retain(|other| {
            let confined = snapshot.confines(other.runner.allowed);
            !confined.map_or(self.cpus, |set| set.common(&self.cpus)).is_empty()
        });
        for other in &mut others {
            other.bound = other.worth_on(self.best_permille, valuation);
        }
        others.sort_unstable_by_key(|other| (std::cmp::Reverse(other.bound), other.cpu.cpu));
        others
    }
}
