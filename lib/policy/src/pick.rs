// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Picks CPUs for a program: the fastest ones, or those that other programs miss least.
//!
//! # Problem
//!
//! A program is to run on N CPUs until it ends (`golden-run` in \[Reif20\], section 4.1).
//! An order by measured speed alone picks badly. Equal speeds measure slightly different, so chance
//! could give two threads the two siblings of one core, or caches that they do not share.
//!
//! # Approach
//!
//! Rank the CPUs one by one, each time one of the cheapest. The cost of a CPU follows from the
//! ranked ones: alone, or while its core has a ranked CPU, the cost of the work that a further
//! thread adds to the core ([`crate::sharing`]). A thread that adds a quarter of a core thus costs
//! four times as much, and comes after each whole core that is up to four times slower.
//!
//! All CPUs within the resolution of a calibration ([`Similarity::RESOLUTION_PERMILLE`]) of the
//! cheapest are ties. The first of these criteria that differs decides:
//! 1. a CPU of a core with no ranked CPU
//! 2. a CPU of a cache in use
//! 3. a CPU of a node in use
//! 4. the lower mean cost of all components
//! 5. the lower CPU number
//!
//! [`Order::LeastUseful`] starts at the other end: the costliest CPUs come first. Other programs
//! may use all other CPUs, so that each CPU has its cost beside busy siblings. Among ties a sibling
//! of a ranked CPU comes first, and the higher mean cost. So one core is disturbed further before
//! another core is.
//!
//! # Invariants
//!
//! * The pick has exactly N allowed CPUs of the requested class, each once, and never none.
//! * No CPU is left out that is cheaper than a picked one, beside those that ranked before it, by
//!   the resolution or more. From the other end, no such costlier CPU is left out.
//! * No other N CPUs do more work by the resolution or more, where siblings cost the same and two
//!   busy ones do more than one.
//! * The pick of N is the start of the pick of N + 1: more CPUs never change the first ones.
//! * Among ties, no second sibling ranks before the first CPU of another core. No further cache
//!   ranks before the cores of those in use.
//! * From the other end, no further core ranks before the siblings of those in use.
//! * Neither order nor repeats of the allowed CPUs matter.
//!
//! # Limits
//!
//! * A program whose threads wait for each other advances like its slowest one. It should ask for
//!   [`Rule::whole_cores`].
//! * One component ranks all CPUs. A program's own mix of execution and stalls is not known here.

use crate::classes::Similarity;
use crate::table::{COMPONENTS, CapacityTable, Class, Component, CpuCapacity};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;

/// Cost that ranks the CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RankBy {
    /// The cost of one component.
    Component(Component),
    /// The mean cost of all components.
    Mean,
}

impl RankBy {
    /// Return the cost that ranks a CPU of these costs [permille of the best].
    #[must_use]
    pub fn cost_permille(self, cost_permille: [u32; COMPONENTS]) -> u32 {
        match self {
            Self::Component(component) => cost_permille[component.index()],
            Self::Mean => (sum(cost_permille) / COMPONENTS as u64) as u32,
        }
    }

    /// Return the name that users see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Component(component) => component.name(),
            Self::Mean => "mean",
        }
    }
}

/// End of the ranking from which CPUs are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The fastest first.
    Fastest,
    /// The slowest first, on as few cores as possible: for programs that should not disturb others.
    LeastUseful,
}

/// Rule that selects and ranks CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Cost that ranks the CPUs.
    pub by: RankBy,
    /// End of the ranking to begin at.
    pub order: Order,
    /// Only CPUs of this class; None for all.
    pub class: Option<Class>,
    /// At most one CPU of each core.
    pub whole_cores: bool,
}

/// Error: fewer CPUs fit the rule than the caller requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{wanted} CPUs are requested and {available} available")]
pub struct TooFew {
    /// CPUs requested; 1 when the caller requested all and there is none.
    pub wanted: usize,
    /// CPUs that fit the rule.
    pub available: usize,
}

/// Pick the best `count` of the `allowed` CPUs, the best first. Without a count, pick all that fit
/// the rule. Skip allowed CPUs that are not in the table.
///
/// # Errors
/// Fewer than `count` CPUs fit the rule, or none.
pub fn pick<'a>(
    table: &'a CapacityTable,
    allowed: &[u32],
    rule: &Rule,
    count: Option<NonZeroUsize>,
) -> Result<Vec<&'a CpuCapacity>, TooFew> {
    let allowed: BTreeSet<u32> = allowed.iter().copied().collect();
    let fits = |entry: &&CpuCapacity| {
        allowed.contains(&entry.cpu) && rule.class.is_none_or(|class| class == entry.class)
    };
    let mut ranked = rank(table, table.cpus.iter().filter(fits).collect(), rule);
    let (wanted, available) = (count.map_or(ranked.len().max(1), NonZeroUsize::get), ranked.len());
    if wanted > available {
        return Err(TooFew { wanted, available });
    }
    ranked.truncate(wanted);
    Ok(ranked)
}

/// Rank `rest`, the best first. With [`Rule::whole_cores`], leave out further CPUs of a core.
fn rank<'a>(table: &CapacityTable, mut rest: Vec<&'a CpuCapacity>, rule: &Rule) -> Vec<&'a CpuCapacity> {
    let mut used = Used::of(table);
    let mut ranked = Vec::with_capacity(rest.len());
    loop {
        let costs: Vec<_> = rest.iter().map(|entry| used.cost_permille(entry, rule.order)).collect();
        let by_rule = |at: usize| rule.by.cost_permille(costs[at]);
        let all = (0..rest.len()).map(by_rule);
        let best = if rule.order == Order::Fastest { all.min() } else { all.max() };
        let ties = (0..rest.len()).filter(|at| best.is_some_and(|best| tie(best, by_rule(*at))));
        let Some(next) = ties.min_by_key(|at| used.preference(rest[*at], costs[*at], rule.order)) else {
            return ranked;
        };
        let entry = rest.swap_remove(next);
        used.add(entry);
        ranked.push(entry);
        rest.retain(|other| !rule.whole_cores || other.core != entry.core);
    }
}

/// Return the sum of the costs of all components [permille].
fn sum(cost_permille: [u32; COMPONENTS]) -> u64 {
    cost_permille.into_iter().map(u64::from).sum()
}

/// Return true if a calibration cannot separate the two costs [permille].
fn tie(one: u32, other: u32) -> bool {
    let (low, high) = (u64::from(one.min(other)), u64::from(one.max(other)));
    low == high || high * 1000 < low * u64::from(1000 + Similarity::RESOLUTION_PERMILLE)
}

/// Cores, caches and nodes that the ranked CPUs occupy.
struct Used {
    /// Number of CPUs of each core.
    threads: BTreeMap<u32, u32>,
    cores: BTreeSet<u32>,
    llcs: BTreeSet<u32>,
    nodes: BTreeSet<u32>,
}

impl Used {
    /// Return the state before the first CPU of `table` is ranked.
    fn of(table: &CapacityTable) -> Self {
        let mut threads = BTreeMap::new();
        for entry in &table.cpus {
            *threads.entry(entry.core).or_default() += 1;
        }
        Self { threads, cores: BTreeSet::new(), llcs: BTreeSet::new(), nodes: BTreeSet::new() }
    }

    fn add(&mut self, entry: &CpuCapacity) {
        self.cores.insert(entry.core);
        self.llcs.insert(entry.llc);
        self.nodes.insert(entry.node);
    }

    /// Return the costs of a CPU that is ranked next.
    fn cost_permille(&self, entry: &CpuCapacity, order: Order) -> [u32; COMPONENTS] {
        let threads = self.threads.get(&entry.core).copied().unwrap_or(1);
        match order {
            Order::Fastest if self.cores.contains(&entry.core) => entry.added_cost_permille(threads),
            Order::LeastUseful if threads > 1 => entry.shared_cost_permille(),
            Order::Fastest | Order::LeastUseful => entry.cost_permille,
        }
    }

    /// Return the sort key of a tie of these costs; the tie with the least key is ranked next.
    fn preference(
        &self,
        entry: &CpuCapacity,
        cost_permille: [u32; COMPONENTS],
        order: Order,
    ) -> (bool, bool, bool, u64, u32) {
        let sibling = self.cores.contains(&entry.core);
        let (core, cost) = match order {
            Order::Fastest => (sibling, sum(cost_permille)),
            Order::LeastUseful => (!sibling, u64::MAX - sum(cost_permille)),
        };
        (core, !self.llcs.contains(&entry.llc), !self.nodes.contains(&entry.node), cost, entry.cpu)
    }
}

#[cfg(test)]
#[path = "pick_tests.rs"]
mod tests;
