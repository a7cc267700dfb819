//! Slow CPUs by node: where a fast CPU searches for work (`bpf/search.bpf.h`).
//!
//! # Problem
//! Only tasks of the same node are migrated. On a machine of hundreds of CPUs a search must not
//! visit those of other nodes.
//!
//! # Approach
//! One list holds all slow CPUs, ordered by node and LLC. Each LLC knows the part of its node, and
//! where its own slow CPUs begin there.
//!
//! # Invariants
//! The group of an LLC has exactly the slow CPUs of its node, and begins with its own.
//!
//! # Limits
//! A search from an LLC without slow CPUs begins with the first slow CPU of the node.

/// A CPU and its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Number of the CPU.
    pub cpu: u32,
    /// Index of its LLC.
    pub llc: u32,
    /// NUMA node.
    pub node: u32,
    /// Its class is slow.
    pub slow: bool,
}

/// Part of the list that one LLC searches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Group {
    /// Index of its first CPU in the list.
    pub first: u32,
    /// Number of CPUs.
    pub nr: u32,
    /// Index within the group of the LLC's own first CPU.
    pub start: u32,
}

/// The list and its groups.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlowGroups {
    /// Slow CPUs by node and LLC.
    pub cpus: Vec<u32>,
    /// Group of each LLC, by index.
    pub groups: Vec<Group>,
}

impl SlowGroups {
    /// Group the slow CPUs of `places`, which has all CPUs of the table.
    #[must_use]
    pub fn new(places: impl IntoIterator<Item = Place>) -> Self {
        let mut places: Vec<Place> = places.into_iter().collect();
        places.sort_unstable_by_key(|place| (place.node, place.llc, place.cpu));
        let slow: Vec<Place> = places.iter().copied().filter(|place| place.slow).collect();
        let llcs = places.iter().map(|place| place.llc as usize + 1).max().unwrap_or(0);
        let mut groups = vec![Group::default(); llcs];
        for place in &places {
            let first = slow.partition_point(|other| other.node < place.node);
            let group = &slow[first..slow.partition_point(|other| other.node <= place.node)];
            groups[place.llc as usize] = Group {
                first: first as u32,
                nr: group.len() as u32,
                start: group.iter().position(|other| other.llc == place.llc).unwrap_or(0) as u32,
            };
        }
        Self { cpus: slow.iter().map(|place| place.cpu).collect(), groups }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_group_is_the_slow_cpus_of_its_node_and_begins_with_its_own(
            slow in prop::collection::vec(any::<bool>(), 0..64),
            llcs in 1_u32..9,
            nodes in 1_u32..4,
        ) {
            let place = |(cpu, slow): (usize, &bool)| {
                let llc = cpu as u32 % llcs;
                Place { cpu: cpu as u32, llc, node: llc % nodes, slow: *slow }
            };
            let places: Vec<Place> = slow.iter().enumerate().map(place).collect();
            let list = SlowGroups::new(places.clone());
            for place in &places {
                let group = list.groups[place.llc as usize];
                let from = group.first as usize;
                let mut members = list.cpus[from..from + group.nr as usize].to_vec();
                if let Some(start) = members.get(group.start as usize) {
                    let own = |other: &Place| other.slow && other.llc == place.llc;
                    let first = places.iter().find(|other| own(other)).map(|other| other.cpu);
                    prop_assert!(first.is_none_or(|first| first == *start));
                }
                members.sort_unstable();
                let node = |other: &&Place| other.slow && other.node == place.node;
                let expected: Vec<u32> = places.iter().filter(node).map(|other| other.cpu).collect();
                prop_assert_eq!(members, expected);
            }
        }
    }
}
