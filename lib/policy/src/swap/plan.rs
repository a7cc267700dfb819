// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Builds a plan from a snapshot.

use super::candidate::{Candidate, Pool, candidates};
use super::input::{Limits, Snapshot};
use super::pair::{Pair, pairs};
use super::valuation::{Valuation, work_ns};
use crate::table::COMPONENTS;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;

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
    /// Number of pairs evaluated, a measure of the planner's work. It is at most
    /// [`super::FIRST_TRIED`] + [`super::EXPLORED`] for each slow CPU.
    pub evaluated: usize,
}

/// Plan the swaps that gain now. The time is linear in CPUs and tasks, except for sorting them.
#[must_use]
pub fn plan(snapshot: &Snapshot, limits: &Limits) -> Plan {
    let limits = limits.sane();
    let valuation = Valuation::new(&limits);
    let mut all = candidates(snapshot, &limits, &valuation);
    // A stable sort keeps the order by CPU within a node.
    all.sort_by_key(|candidate| candidate.cpu.node);
    let mut draft = Draft::default();
    for of_node in all.chunk_by(|a, b| a.cpu.node == b.cpu.node) {
        draft.add(&Pool::new(snapshot, &valuation, of_node.iter().copied()), snapshot, &valuation);
    }
    draft.swaps.sort_unstable_by_key(|(gain, swap)| (Reverse(*gain), swap.up.from));
    draft.swaps.truncate(limits.max_swaps);
    Plan { swaps: draft.swaps.into_iter().map(|(_, swap)| swap).collect(), evaluated: draft.evaluated }
}

/// A plan under construction.
#[derive(Default)]
struct Draft {
    /// Swaps with their net gains [reference ns].
    swaps: Vec<(i64, Swap)>,
    evaluated: usize,
}

impl Draft {
    fn add<'a>(&mut self, pool: &Pool<'a>, snapshot: &Snapshot<'a>, valuation: &Valuation) {
        let (pairs, evaluated) = pairs(snapshot, valuation, pool);
        self.evaluated += evaluated;
        for pair in pairs {
            self.swaps.push(swap_of(&pair, valuation));
        }
    }
}

/// Time over which progress is counted: 1 ms gives parts per million.
const MILLISECOND_NS: u64 = 1_000_000;

/// Return the swap and its net gain [reference ns].
fn swap_of(pair: &Pair, valuation: &Valuation) -> (i64, Swap) {
    let (up, up_gain) = move_of(&pair.up, &pair.down, valuation);
    let (down, down_gain) = move_of(&pair.down, &pair.up, valuation);
    let sum = |up_ppm, down_ppm| u64::from(up_ppm) + u64::from(down_ppm);
    let (before, after) = (sum(up.before_ppm, down.before_ppm), sum(up.after_ppm, down.after_ppm));
    let gain_permille = after.saturating_sub(before) * 1000 / before.max(1);
    let net = up_gain + down_gain;
    let swap = Swap {
        up,
        down,
        gain_permille: u32::try_from(gain_permille).unwrap_or(u32::MAX),
        net_ns: net.max(0) as u64,
    };
    (net, swap)
}

/// Return the move of `candidate` to the CPU of `other`, and its net gain [reference ns].
fn move_of(candidate: &Candidate, other: &Candidate, valuation: &Valuation) -> (Move, i64) {
    let to_permille = candidate.time_on(other.cost_permille);
    let progress_ppm = |time_permille: u32| work_ns(MILLISECOND_NS, time_permille) as u32;
    let one = Move {
        pid: candidate.runner.pid,
        from: candidate.cpu.cpu,
        to: other.cpu.cpu,
        stack_permille: candidate.stack_permille,
        before_ppm: progress_ppm(candidate.time_permille),
        after_ppm: progress_ppm(to_permille),
    };
    (one, valuation.gains(candidate.time_permille, to_permille))
}
