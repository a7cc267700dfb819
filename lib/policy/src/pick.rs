//! Which CPUs a program is given: the fastest there are, or those that others miss least.
//!
//! Problem. A program is to run on N CPUs for as long as it lives (`golden-run` of seed 000, section 4.1). Sorting by measured
//! speed alone picks badly: speeds that are equal are measured a little different, so chance would give two threads the two
//! siblings of one core, or caches they do not share.
//!
//! Approach. CPUs in order of their cost. Those within the resolution of a calibration
//! ([`Similarity::RESOLUTION_PERMILLE`]) of the first that is not yet ranked are ties, and are ranked one by one: first a CPU of a core of
//! which nothing is ranked yet, then one of a cache in use, then one of a node in use, then the one better in the mean of all
//! components, then the lower number. From the other end ([`Order::LeastUseful`]) the costliest come first, and ties go the other
//! way about cores: what is already disturbed is disturbed further before another core is.
//!
//! Invariants.
//! * Of the allowed CPUs and of the class asked for, each at most once, exactly N of them and never none.
//! * No CPU is left out that is faster (from the other end: slower) by the resolution or more than one that is picked.
//! * The pick of N begins the pick of N + 1: more CPUs never change the first ones.
//! * Among ties no second sibling is ranked before the first of another core, and no further cache before the cores of those in use;
//!   from the other end no further core before the siblings of those in use.
//! * Neither order nor repeats of the allowed CPUs matter.
//!
//! Limits. What siblings take from each other ([`crate::sharing`]) does not count here: beyond ties, the second sibling of a fast core ranks before a whole
//! core that is slower. A program with a busy thread for each CPU should ask for [`Rule::whole_cores`]. One cost ranks all; a program's
//! own mix of execution and stalls is not known here.

use crate::classes::Similarity;
use crate::table::{COMPONENTS, CapacityTable, Class, Component, CpuCapacity};
use std::collections::BTreeSet;
use std::num::NonZeroUsize;

/// Cost by which CPUs are ranked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RankBy {
    /// That of one component.
    Component(Component),
    /// The mean of all components.
    Mean,
}

impl RankBy {
    /// Cost of a CPU [permille of the best; of the mean: that of the three].
    #[must_use]
    pub fn cost_permille(self, entry: &CpuCapacity) -> u32 {
        match self {
            Self::Component(component) => entry.cost_permille[component.index()],
            Self::Mean => (sum(entry) / COMPONENTS as u64) as u32,
        }
    }

    /// Name as users see it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Component(component) => component.name(),
            Self::Mean => "mean",
        }
    }
}

/// From which end CPUs are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The fastest first.
    Fastest,
    /// The slowest first, on as few cores as possible: for what should not be in the way.
    LeastUseful,
}

/// Which CPUs may be picked, and which are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Cost that ranks.
    pub by: RankBy,
    /// The end to begin at.
    pub order: Order,
    /// Only CPUs of this class; None for all.
    pub class: Option<Class>,
    /// At most one CPU of each core.
    pub whole_cores: bool,
}

/// Fewer CPUs fit the rule than were asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{wanted} CPUs are asked for and there are {available}")]
pub struct TooFew {
    /// CPUs asked for; 1 when all of them were and there is none.
    pub wanted: usize,
    /// CPUs that fit the rule.
    pub available: usize,
}

/// The best `count` of the `allowed` CPUs, the best first; all that fit the rule when no count is given. Allowed CPUs that are not in the
/// table are passed over.
///
/// # Errors
/// Fewer CPUs than that fit the rule, or none.
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

/// All of `rest`, the best first.
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

/// Costs of all components together [permille].
fn sum(entry: &CpuCapacity) -> u64 {
    entry.cost_permille.iter().map(|cost| u64::from(*cost)).sum()
}

/// True when a calibration cannot tell two costs apart [permille].
fn tie(one: u32, other: u32) -> bool {
    let (low, high) = (u64::from(one.min(other)), u64::from(one.max(other)));
    high * 1000 < low * u64::from(1000 + Similarity::RESOLUTION_PERMILLE)
}

/// What the CPUs ranked so far occupy.
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

    /// Sorts ties: the least is ranked next.
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
