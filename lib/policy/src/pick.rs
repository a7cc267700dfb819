//! Picks CPUs for a program: the fastest ones, or those that other programs miss least.
//!
//! # Problem
//!
//! A program is to run on N CPUs for as long as it lives (`golden-run` in \[Reif20\], section 4.1).
//! An order by measured speed alone picks badly. Equal speeds measure slightly different, so chance
//! could give two threads the two siblings of one core, or caches that they do not share.
//!
//! # Approach
//!
//! Order the CPUs by cost. All CPUs within the resolution of a calibration
//! ([`Similarity::RESOLUTION_PERMILLE`]) of the first unranked CPU are ties. Rank ties one by one,
//! by the first of these criteria that differs:
//! 1. a CPU of a core with no ranked CPU
//! 2. a CPU of a cache in use
//! 3. a CPU of a node in use
//! 4. the lower mean cost of all components
//! 5. the lower CPU number
//!
//! [`Order::LeastUseful`] starts at the other end: the costliest CPUs come first. Among ties it
//! prefers first a sibling of a ranked CPU, and later the higher mean cost. So one core is
//! disturbed further before another core is.
//!
//! # Invariants
//!
//! * The pick has exactly N allowed CPUs of the requested class, each once, and never none.
//! * No CPU is left out that is faster than a picked one by the resolution or more. From the other
//!   end, no such slower CPU is left out.
//! * The pick of N is the start of the pick of N + 1: more CPUs never change the first ones.
//! * Among ties, no second sibling ranks before the first CPU of another core. No further cache
//!   ranks before the cores of those in use.
//! * From the other end, no further core ranks before the siblings of those in use.
//! * Neither order nor repeats of the allowed CPUs matter.
//!
//! # Limits
//!
//! * The loss that siblings cause each other ([`crate::sharing`]) does not count here. Beyond ties,
//!   the second sibling of a fast core ranks before a whole core that is slower. A program with a
//!   busy thread for each CPU should ask for [`Rule::whole_cores`].
//! * One cost ranks all CPUs. A program's own mix of execution and stalls is not known here.

use crate::classes::Similarity;
use crate::table::{COMPONENTS, CapacityTable, Class, Component, CpuCapacity};
use std::collections::BTreeSet;
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
    /// Return the cost of a CPU [permille of the best]; the mean is that of the three components.
    #[must_use]
    pub fn cost_permille(self, entry: &CpuCapacity) -> u32 {
        match self {
            Self::Component(component) => entry.cost_permille[component.index()],
            Self::Mean => (sum(entry) / COMPONENTS as u64) as u32,
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

/// Error: fewer CPUs fit the rule than the caller asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{wanted} CPUs are asked for and there are {available}")]
pub struct TooFew {
    /// CPUs requested; 1 when the caller asked for all and there is none.
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
    let mut ranked = rank(table.cpus.iter().filter(fits).collect(), rule);
    if rule.whole_cores {
        let mut cores = BTreeSet::new();
        ranked.retain(|entry| cores.insert(entry.core));
    }
    let (wanted, available) = (count.map_or(ranked.len().max(1), NonZeroUsize::get), ranked.len());
    if wanted > available {
        return Err(TooFew { wanted, available });
    }
    ranked.truncate(wanted);
    Ok(ranked)
}

/// Rank all of `rest`, the best first.
fn rank<'a>(mut rest: Vec<&'a CpuCapacity>, rule: &Rule) -> Vec<&'a CpuCapacity> {
    let cost = |entry: &CpuCapacity| rule.by.cost_permille(entry);
    rest.sort_by_key(|entry| (cost(entry), entry.cpu));
    if rule.order == Order::LeastUseful {
        rest.reverse();
    }
    let (mut used, mut ranked) = (Used::default(), Vec::with_capacity(rest.len()));
    while let Some(leader) = rest.first().map(|entry| cost(entry)) {
        let ties = rest.iter().take_while(|entry| tie(leader, cost(entry))).count();
        let mut group: Vec<_> = rest.drain(..ties.max(1)).collect();
        while let Some(at) = (0..group.len()).min_by_key(|at| used.preference(group[*at], rule.order)) {
            let entry = group.swap_remove(at);
            used.add(entry);
            ranked.push(entry);
        }
    }
    ranked
}

/// Return the sum of the costs of all components [permille].
fn sum(entry: &CpuCapacity) -> u64 {
    entry.cost_permille.iter().map(|cost| u64::from(*cost)).sum()
}

/// Return true if a calibration cannot separate the two costs [permille].
fn tie(one: u32, other: u32) -> bool {
    let (low, high) = (u64::from(one.min(other)), u64::from(one.max(other)));
    high * 1000 < low * u64::from(1000 + Similarity::RESOLUTION_PERMILLE)
}

/// Cores, caches and nodes that the ranked CPUs occupy.
#[derive(Default)]
struct Used {
    cores: BTreeSet<u32>,
    llcs: BTreeSet<u32>,
    nodes: BTreeSet<u32>,
}

impl Used {
    fn add(&mut self, entry: &CpuCapacity) {
        self.cores.insert(entry.core);
        self.llcs.insert(entry.llc);
        self.nodes.insert(entry.node);
    }

    /// Return the sort key of a tie; the tie with the least key is ranked next.
    fn preference(&self, entry: &CpuCapacity, order: Order) -> (bool, bool, bool, u64, u32) {
        let sibling = self.cores.contains(&entry.core);
        let (core, cost) = match order {
            Order::Fastest => (sibling, sum(entry)),
            Order::LeastUseful => (!sibling, u64::MAX - sum(entry)),
        };
        (core, !self.llcs.contains(&entry.llc), !self.nodes.contains(&entry.node), cost, entry.cpu)
    }
}

#[cfg(test)]
#[path = "pick_tests.rs"]
mod tests;
