// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Pairing of the candidates of a pool.
//!
//! Both lists are in descending order of upper bound (`bound`). The gain of a pair never exceeds
//! the sum of its two bounds. So a search may stop where this sum is at most the best gain so far,
//! or zero.

use super::candidate::{Candidate, Pool};
use super::input::Snapshot;
use super::valuation::Valuation;

/// Number of partners that a search tries first, in order of upper bound.
pub const FIRST_TRIED: usize = 16;
/// Number of partners that it tries beyond those if none of them fits: another section in each
/// round.
pub const EXPLORED: usize = 16;

/// Two candidates that migrate to each other's CPU.
pub(super) struct Pair<'a> {
    pub up: Candidate<'a>,
    pub down: Candidate<'a>,
}

/// A partner's index and the gain of the pair.
#[derive(Clone, Copy)]
struct Found {
    at: usize,
    worth: i64,
}

struct Search<'s, 'a> {
    snapshot: &'s Snapshot<'a>,
    valuation: &'s Valuation,
    down: &'s [Candidate<'a>],
    taken: Vec<bool>,
    /// All partners before this index are taken.
    first_free: usize,
    evaluated: usize,
}

/// Return the swaps of one pool, and the number of pairs that were evaluated.
pub(super) fn pairs<'a>(
    snapshot: &Snapshot<'a>,
    valuation: &Valuation,
    pool: &Pool<'a>,
) -> (Vec<Pair<'a>>, usize) {
    let mut search = Search {
        snapshot,
        valuation,
        down: &pool.down,
        taken: vec![false; pool.down.len()],
        first_free: 0,
        evaluated: 0,
    };
    let mut pairs = Vec::new();
    for up in &pool.up {
        while search.taken.get(search.first_free) == Some(&true) {
            search.first_free += 1;
        }
        let Some(best) = pool.down.get(search.first_free) else { break };
        if up.bound + best.bound <= 0 {
            break;
        }
        if let Some(found) = search.partner(up) {
            search.taken[found.at] = true;
            pairs.push(Pair { up: *up, down: pool.down[found.at] });
        }
    }
    (pairs, search.evaluated)
}

impl Search<'_, '_> {
    /// Find the partner of the highest gain among those tried; the first of equal ones.
    fn partner(&mut self, up: &Candidate) -> Option<Found> {
        let end = self.down.partition_point(|down| up.bound + down.bound > 0);
        let first = self.first_free.min(end);
        let beyond = (first + FIRST_TRIED).min(end);
        let mut best = None;
        for at in first..beyond {
            // The list is in order: no later partner gains more than the one found.
            if best.is_some_and(|best: Found| up.bound + self.down[at].bound <= best.worth) {
                return best;
            }
            best = self.better(up, at, best);
        }
        let rest = end - beyond;
        if best.is_some() || rest == 0 {
            return best;
        }
        let start = (self.snapshot.round % rest as u64) as usize * EXPLORED;
        for step in 0..EXPLORED.min(rest) {
            best = self.better(up, beyond + (start + step) % rest, best);
        }
        best
    }

    /// Return the partner at `at` if the pair is permitted and gains more than `best`, else `best`.
    fn better(&mut self, up: &Candidate, at: usize, best: Option<Found>) -> Option<Found> {
        self.evaluated += 1;
        let down = &self.down[at];
        if self.taken[at] || !self.permitted(up, down) {
            return best;
        }
        let worth =
            up.worth_on(down.cost_permille, self.valuation) + down.worth_on(up.cost_permille, self.valuation);
        if worth > best.map_or(0, |best| best.worth) { Some(Found { at, worth }) } else { best }
    }

    /// Return true if affinities permit the pair. The pool already ensures the nodes.
    fn permitted(&self, up: &Candidate, down: &Candidate) -> bool {
        self.snapshot.may_run(up.runner, down.cpu.cpu) && self.snapshot.may_run(down.runner, up.cpu.cpu)
    }
}
