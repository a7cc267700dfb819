// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Domains: the CPUs whose tasks wait in common DSQs (`bpf/queue.bpf.h`).
//!
//! # Problem
//! A task should wait for the CPUs of its cache. But a cache of one or two cores is not worth the
//! wait: its tasks queue behind each other beside idle CPUs, and each cache serves its tasks at a
//! pace of its own. Many virtual machines and Arm servers show such a cache for each core. Where
//! each class of CPUs has a cache of its own, a task could change class only by leaving its cache.
//!
//! # Approach
//! A domain begins as a last-level cache. A cache of one core counts as none: such cores of a node
//! share domains of up to [`MOST_ALONE`]. Then the smallest domain of fewer than [`FEWEST_CORES`]
//! joins the smallest other one of its node, until none is left. Finally a domain that lacks a
//! class joins one that lacks the other class, or one that has both if they have at most
//! [`MOST_MIXED`] cores together.
//!
//! # Invariants
//! A domain consists of whole caches of one node. If a node has two domains, each has
//! [`FEWEST_CORES`], and no two of them lack different classes. Where one lacks a class, those that
//! have both are too large.
//!
//! # Limits
//! The distance between caches is unknown: neighbours by number join. Classes count as they are
//! when the scheduler starts.

use std::collections::{BTreeMap, BTreeSet};

use crate::table::{CapacityTable, Class};

/// Fewest cores of a domain, unless its node has fewer.
pub const FEWEST_CORES: usize = 4;
/// Most cores with caches of their own that share a domain: all its CPUs contend for one lock.
pub const MOST_ALONE: usize = 64;

/// Most cores of a domain that is enlarged for a class that it lacks.
pub const MOST_MIXED: usize = 16;

/// The domain of each last-level cache.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Domains {
    /// Index of the domain by cache ([`crate::table::CpuCapacity::llc`]).
    of: BTreeMap<u32, u32>,
}

/// A domain in the making.
#[derive(Clone)]
struct Joined {
    node: u32,
    caches: BTreeSet<u32>,
    cores: BTreeSet<u32>,
    classes: BTreeSet<Class>,
}

impl Joined {
    /// Return the groups of single caches, by their lowest CPU.
    fn of_caches(table: &CapacityTable) -> Vec<Self> {
        let mut groups: BTreeMap<u32, Self> = BTreeMap::new();
        for cpu in &table.cpus {
            let group = groups.entry(cpu.llc).or_insert_with(|| Self {
                node: cpu.node,
                caches: BTreeSet::from([cpu.llc]),
                cores: BTreeSet::new(),
                classes: BTreeSet::new(),
            });
            group.cores.insert(cpu.core);
            group.classes.insert(cpu.class);
        }
        groups.into_values().collect()
    }
}

/// Move the caches of `from` to `into`.
fn join(into: &mut Joined, from: Joined) {
    into.caches.extend(from.caches);
    into.cores.extend(from.cores);
    into.classes.extend(from.classes);
}

/// Join the single cores of each node to groups of about equal size.
fn join_single_cores(groups: Vec<Joined>) -> Vec<Joined> {
    let (alone, mut joined): (Vec<_>, Vec<_>) = groups.into_iter().partition(|group| group.cores.len() == 1);
    let mut nodes: BTreeMap<u32, Vec<Joined>> = BTreeMap::new();
    alone.into_iter().for_each(|group| nodes.entry(group.node).or_default().push(group));
    for node in nodes.into_values() {
        let each = node.len().div_ceil(node.len().div_ceil(MOST_ALONE));
        for part in node.chunks(each) {
            joined.extend(part.iter().cloned().reduce(|mut into, from| {
                join(&mut into, from);
                into
            }));
        }
    }
    joined.sort_by_key(|group| group.caches.first().copied());
    joined
}

/// Return the group that `at` joins: of the groups that are `fit`, the smallest one, and of equal
/// ones the nearest by number.
fn partner(groups: &[Joined], at: usize, fit: impl Fn(&Joined) -> bool) -> Option<usize> {
    let others = groups.iter().enumerate();
    let fitting = others.filter(|(other, group)| *other != at && group.node == groups[at].node && fit(group));
    let best = fitting.min_by_key(|(other, group)| (group.cores.len(), other.abs_diff(at)));
    best.map(|(other, _)| other)
}

/// Return a group that is too small and the one that it joins.
fn small(groups: &[Joined]) -> Option<(usize, usize)> {
    let mut few: Vec<usize> = (0..groups.len()).filter(|at| groups[*at].cores.len() < FEWEST_CORES).collect();
    few.sort_by_key(|at| groups[*at].cores.len());
    few.into_iter().find_map(|at| Some((at, partner(groups, at, |_| true)?)))
}

/// Return true if `group` lacks a class that `other` has, and should join it.
fn should_complete(group: &Joined, other: &Joined) -> bool {
    let lacks = group.classes.len() == 1 && other.classes != group.classes;
    lacks && (other.classes.len() == 1 || group.cores.len() + other.cores.len() <= MOST_MIXED)
}

/// Return a group that lacks a class and the one with this class that it joins.
fn one_class(groups: &[Joined]) -> Option<(usize, usize)> {
    (0..groups.len())
        .find_map(|at| Some((at, partner(groups, at, |other| should_complete(&groups[at], other))?)))
}

/// Return the next CPU with the same domain for each CPU of a list of domains, in a ring.
#[must_use]
pub fn rings(of_cpus: &[u32]) -> Vec<u32> {
    let mut next: Vec<u32> = (0..of_cpus.len() as u32).collect();
    let mut last: BTreeMap<u32, usize> = BTreeMap::new();
    for (cpu, domain) in of_cpus.iter().enumerate() {
        // Insert the CPU between the last one and the first one.
        if let Some(before) = last.insert(*domain, cpu) {
            next.swap(before, cpu);
        }
    }
    next
}

impl Domains {
    /// Return the domains of a checked table.
    #[must_use]
    pub fn new(table: &CapacityTable) -> Self {
        let mut groups = join_single_cores(Joined::of_caches(table));
        while let Some((from, into)) = small(&groups).or_else(|| one_class(&groups)) {
            let group = groups[from].clone();
            join(&mut groups[into], group);
            groups.remove(from);
        }
        groups.sort_by_key(|group| group.caches.first().copied());
        let caches =
            (0..).zip(&groups).flat_map(|(at, group)| group.caches.iter().map(move |cache| (*cache, at)));
        Self { of: caches.collect() }
    }

    /// Return the index of the domain of a cache; the first one if the table has no such cache.
    #[must_use]
    pub fn of(&self, llc: u32) -> u32 {
        self.of.get(&llc).copied().unwrap_or(0)
    }

    /// Return the number of domains, at least 1.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.of.values().max().map_or(1, |last| last + 1)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::table::CpuCapacity;

    /// Return a table. Each cache is its node, the class of its cores, and their number.
    fn table(caches: &[(u32, Class, usize)]) -> CapacityTable {
        let mut cpus: Vec<CpuCapacity> = Vec::new();
        for (node, class, cores) in caches {
            let llc = cpus.len() as u32;
            for cpu in llc..llc + *cores as u32 {
                cpus.push(CpuCapacity { llc, node: *node, ..CpuCapacity::alone(cpu, *class, [1000; 3]) });
            }
        }
        CapacityTable { cpus }
    }

    /// Return the CPUs' domains.
    fn of_cpus(caches: &[(u32, Class, usize)]) -> Vec<u32> {
        let table = table(caches);
        let domains = Domains::new(&table);
        table.cpus.iter().map(|cpu| domains.of(cpu.llc)).collect()
    }

    #[test]
    fn typical_machines_get_useful_domains() {
        let (fast, slow) = (Class::Fast, Class::Slow);
        assert_eq!(of_cpus(&[(0, fast, 8), (0, fast, 8)])[7..9], [0, 1], "two large caches stay");
        assert_eq!(of_cpus(&[(0, fast, 1); 8]), [0; 8], "a virtual machine");
        assert_eq!(of_cpus(&[(0, fast, 1); 80])[39..41], [0, 1], "Ampere Altra without its L3");
        assert_eq!(Domains::new(&table(&[(0, fast, 1); 384])).count(), 6);
        assert_eq!(of_cpus(&[(0, slow, 2), (0, fast, 4), (0, fast, 4)]), [0; 10], "M1 Pro");
        assert_eq!(of_cpus(&[(0, fast, 4), (0, slow, 8)]), [0; 12], "a cache for each class");
        let server = [(0, slow, 8), (0, fast, 8), (0, fast, 8), (0, fast, 8)];
        assert_eq!(Domains::new(&table(&server)).count(), 3, "one cache of a server lacks cooling");
        assert_eq!(of_cpus(&[(0, fast, 1), (1, fast, 1)]), [0, 1], "nodes stay apart");
        assert_eq!(Domains::new(&CapacityTable::default()).count(), 1);
    }

    proptest! {
        #[test]
        fn a_ring_visits_the_cpus_of_a_domain_in_order(of in prop::collection::vec(0u32..4, 1..40)) {
            let next = rings(&of);
            for cpu in 0..of.len() {
                let later = (cpu + 1..cpu + of.len() + 1).map(|at| at % of.len());
                let expected = later.into_iter().find(|other| of[*other] == of[cpu]);
                prop_assert_eq!(Some(next[cpu] as usize), expected);
            }
        }

        #[test]
        fn domains_are_of_one_node_and_of_a_useful_size(
            caches in prop::collection::vec((0u32..3, any::<bool>(), 1usize..7), 1..24),
        ) {
            let caches: Vec<_> = caches
                .into_iter()
                .map(|(node, slow, cores)| (node, if slow { Class::Slow } else { Class::Fast }, cores))
                .collect();
            let table = table(&caches);
            let domains = Domains::new(&table);
            for domain in 0..domains.count() {
                let own: Vec<_> = table.cpus.iter().filter(|cpu| domains.of(cpu.llc) == domain).collect();
                prop_assert!(!own.is_empty());
                let node = own[0].node;
                prop_assert!(own.iter().all(|cpu| cpu.node == node));
                let others: Vec<_> =
                    table.cpus.iter().filter(|cpu| cpu.node == node && domains.of(cpu.llc) != domain).collect();
                prop_assert!(others.is_empty() || own.len() >= FEWEST_CORES);
                let lacks = |domain: u32, class: Class| {
                    table.cpus.iter().filter(|cpu| domains.of(cpu.llc) == domain).all(|cpu| cpu.class != class)
                };
                for other in others.iter().map(|cpu| domains.of(cpu.llc)) {
                    let cores = own.len() + others.iter().filter(|cpu| domains.of(cpu.llc) == other).count();
                    for (class, another) in [(Class::Slow, Class::Fast), (Class::Fast, Class::Slow)] {
                        prop_assert!(!lacks(domain, class) || !lacks(other, another));
                        prop_assert!(!lacks(domain, class) || lacks(other, class) || cores > MOST_MIXED);
                    }
                }
            }
        }
    }
}
