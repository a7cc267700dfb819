// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! CPUs below the best tier by node: where better CPUs search for work (`bpf/search.bpf.h`).
//!
//! # Problem
//! Only tasks of the same node are migrated. On a machine of hundreds of CPUs a search must not
//! visit those of other nodes.
//!
//! # Approach
//! One list holds all CPUs below the best tier ([`crate::tiers`]), ordered by node, from the worst
//! tier to the best, and by LLC. Each LLC knows the part of its node, how many of the first CPUs
//! there are worse than each tier, and where its own CPUs begin.
//!
//! Each LLC also knows where biased tasks wait (`bpf/queue.bpf.h`). A DSQ of a class that no CPU of
//! the LLC has would be served last, so another LLC of the node is their home.
//!
//! # Invariants
//! The CPUs that an LLC's group has for a tier are exactly those of its node with a worse tier. If
//! only one tier is listed, the group begins with the LLC's own CPUs. A home has CPUs of its class,
//! and an LLC that has some is its own home.
//!
//! # Limits
//! A search from an LLC without such CPUs begins with the first one of the node. With several tiers
//! listed it may begin with CPUs of another LLC.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::ffi;

/// Number of tiers.
const TIERS: usize = ffi::BIAS_NR_TIERS as usize;

/// Number of classes.
const CLASSES: usize = ffi::BIAS_NR_CLASSES as usize;

/// A CPU and its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Number of the CPU.
    pub cpu: u32,
    /// Index of its LLC.
    pub llc: u32,
    /// NUMA node.
    pub node: u32,
    /// Tier of the CPU.
    pub tier: u32,
}

/// Part of the list that one LLC searches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Group {
    /// Index of its first CPU in the list.
    pub first: u32,
    /// Index within the group of the LLC's own first CPU.
    pub start: u32,
    /// Number of CPUs with a worse tier than each tier.
    pub worse: [u32; TIERS],
    /// For each class, 1 + the LLC with such CPUs in whose DSQ the LLC's tasks wait. This is the
    /// LLC itself, or else one of its node, or 0 if there is none.
    pub home: [u32; CLASSES],
}

/// The list and its groups.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlowGroups {
    /// CPUs below the best tier by node and LLC.
    pub cpus: Vec<u32>,
    /// Group of each LLC, by index.
    pub groups: Vec<Group>,
}

/// Return the homes of `here`'s LLC. LLCs without a class share those of their node that have it.
fn homes(places: &[Place], here: &Place) -> [u32; CLASSES] {
    std::array::from_fn(|class| {
        let with: BTreeSet<u32> = places
            .iter()
            .filter(|place| place.node == here.node && (place.tier / ffi::BIAS_CLASS_TIERS) as usize == class)
            .map(|place| place.llc)
            .collect();
        let other = || with.iter().nth(here.llc as usize % with.len().max(1));
        with.get(&here.llc).or_else(other).map_or(0, |llc| llc + 1)
    })
}

impl SlowGroups {
    /// Group the listed CPUs of `places`, which has all CPUs of the table.
    #[must_use]
    pub fn new(places: impl IntoIterator<Item = Place>) -> Self {
        let places: Vec<Place> = places.into_iter().collect();
        let mut listed: Vec<Place> = places.iter().copied().filter(|place| place.tier > 0).collect();
        listed.sort_unstable_by_key(|place| (place.node, Reverse(place.tier), place.llc, place.cpu));
        let llcs = places.iter().map(|place| place.llc as usize + 1).max().unwrap_or(0);
        let mut groups = vec![Group::default(); llcs];
        for place in &places {
            let first = listed.partition_point(|other| other.node < place.node);
            let group = &listed[first..listed.partition_point(|other| other.node <= place.node)];
            let mut worse = [0; TIERS];
            for (tier, worse) in (0..).zip(&mut worse) {
                *worse = group.partition_point(|other| other.tier > tier) as u32;
            }
            groups[place.llc as usize] = Group {
                first: first as u32,
                start: group.iter().position(|other| other.llc == place.llc).unwrap_or(0) as u32,
                worse,
                home: homes(&places, place),
            };
        }
        Self { cpus: listed.iter().map(|place| place.cpu).collect(), groups }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// CPUs of these tiers, spread over LLCs, and those over nodes.
    fn spread(tiers: &[u32], llcs: u32, nodes: u32) -> Vec<Place> {
        let place = |(cpu, tier): (usize, &u32)| {
            let llc = cpu as u32 % llcs;
            Place { cpu: cpu as u32, llc, node: llc % nodes, tier: *tier }
        };
        tiers.iter().enumerate().map(place).collect()
    }

    proptest! {
        #[test]
        fn a_group_has_the_worse_cpus_of_its_node_and_begins_with_its_own(
            tiers in prop::collection::vec(0_u32..4, 0..64),
            llcs in 1_u32..9,
            nodes in 1_u32..4,
        ) {
            let places = spread(&tiers, llcs, nodes);
            let list = SlowGroups::new(places.clone());
            for place in &places {
                let group = list.groups[place.llc as usize];
                for tier in 0..4 {
                    let worse = |other: &&Place| other.tier > tier && other.node == place.node;
                    let expected: Vec<u32> = places.iter().filter(worse).map(|other| other.cpu).collect();
                    let from = group.first as usize;
                    let mut members = list.cpus[from..from + group.worse[tier as usize] as usize].to_vec();
                    members.sort_unstable();
                    prop_assert_eq!(members, expected);
                }
            }
        }

        #[test]
        fn a_home_is_near_and_has_the_class(
            tiers in prop::collection::vec(0_u32..4, 1..64),
            llcs in 1_u32..9,
            nodes in 1_u32..4,
        ) {
            let places = spread(&tiers, llcs, nodes);
            let list = SlowGroups::new(places.clone());
            for here in &places {
                for class in 0..2 {
                    let has = |llc: Option<u32>, node: u32| {
                        let fits = |other: &Place| {
                            other.tier / 2 == class && other.node == node && llc.is_none_or(|llc| other.llc == llc)
                        };
                        places.iter().any(fits)
                    };
                    match list.groups[here.llc as usize].home[class as usize].checked_sub(1) {
                        Some(home) if home == here.llc => prop_assert!(has(Some(home), here.node)),
                        Some(home) => {
                            prop_assert!(has(Some(home), here.node) && !has(Some(here.llc), here.node));
                        }
                        None => prop_assert!(!has(None, here.node)),
                    }
                }
            }
        }

        #[test]
        fn a_group_of_one_tier_begins_with_its_own(
            slow in prop::collection::vec(any::<bool>(), 1..64),
            llcs in 1_u32..9,
        ) {
            let place = |(cpu, slow): (usize, &bool)| {
                Place { cpu: cpu as u32, llc: cpu as u32 % llcs, node: 0, tier: u32::from(*slow) * 2 }
            };
            let places: Vec<Place> = slow.iter().enumerate().map(place).collect();
            let list = SlowGroups::new(places.clone());
            for place in &places {
                let group = list.groups[place.llc as usize];
                let first = places.iter().find(|other| other.tier > 0 && other.llc == place.llc);
                let start = list.cpus.get((group.first + group.start) as usize).copied();
                prop_assert!(first.is_none_or(|first| Some(first.cpu) == start));
            }
        }
    }
}
