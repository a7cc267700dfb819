// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tiers: types of cores within the two classes.
//!
//! # Problem
//! Some machines have three or four types of cores: prime, fast, efficient and low-power ones. Each
//! class has one DSQ per last-level cache, but its CPUs are not equally good for a task that wakes.
//!
//! # Approach
//! Each class is cut in two where the mean costs of neighbouring CPUs, sorted, differ most. A cut
//! counts from [`MIN_PERMILLE`] on. The kernel side searches for idle CPUs and for work tier by
//! tier (`bpf/idle.bpf.h`, `bpf/search.bpf.h`).
//!
//! Fast CPUs without such a cut may still have preferred cores, which are a few percent faster.
//! They become a tier of their own where the costs of executing first differ by [`NEAR_PERMILLE`].
//! The rest are then *near* the best: a task that computes moves up, but one that wakes keeps its
//! last CPU. Only the cost of executing counts here, because physical pages change the others.
//!
//! # Invariants
//! * The tier of a CPU decides its class: fast is 0 or 1, slow is 2 or 3.
//! * No CPU of a tier has a lower cost than a CPU of a better tier of its class: a lower mean cost,
//!   or of a near tier a lower cost of executing.
//! * The better tier of a class with CPUs is never empty.
//!
//! # Limits
//! A class has two tiers at most. CPUs of several last-level caches have no preferred cores: a
//! migration to another cache costs more than a few percent.

use crate::ffi;
use crate::table::{CapacityTable, Class, Component, CpuCapacity};

/// Least difference of mean costs between tiers of a class [permille].
pub const MIN_PERMILLE: u64 = 100;

/// Least difference of the costs of executing between preferred and other fast CPUs [permille].
pub const NEAR_PERMILLE: u64 = 25;

/// Tier of each CPU and the tiers that exist.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tiers {
    /// Tier of each CPU, in the order of the table.
    pub of: Vec<u32>,
    /// Bit n: a CPU has tier n.
    pub used: u32,
    /// Bit n: CPUs of tier n are near those of the tier before.
    pub near: u32,
}

impl Tiers {
    /// Cut the classes of `table` into tiers.
    #[must_use]
    pub fn new(table: &CapacityTable) -> Self {
        let cuts = [Class::Fast, Class::Slow].map(|class| widest(of_class(table, class).map(total)));
        let preferred = if cuts[0].is_none() { preferred(table) } else { None };
        let tier = |entry: &CpuCapacity| match entry.class {
            Class::Fast => u32::from(
                cuts[0].is_some_and(|cut| total(entry) >= cut)
                    || preferred.is_some_and(|cut| execute(entry) >= cut),
            ),
            Class::Slow => ffi::BIAS_CLASS_TIERS + u32::from(cuts[1].is_some_and(|cut| total(entry) >= cut)),
        };
        let of: Vec<u32> = table.cpus.iter().map(tier).collect();
        let used = of.iter().fold(0, |used, tier| used | 1 << tier);
        Self { of, used, near: u32::from(preferred.is_some()) << 1 }
    }
}

fn of_class(table: &CapacityTable, class: Class) -> impl Iterator<Item = &CpuCapacity> {
    table.cpus.iter().filter(move |entry| entry.class == class)
}

fn total(entry: &CpuCapacity) -> u64 {
    entry.cost_permille.iter().copied().map(u64::from).sum()
}

fn execute(entry: &CpuCapacity) -> u64 {
    entry.cost_permille[Component::Execute.index()].into()
}

/// Return the ratio of neighbours [permille].
fn ratio(pair: &[u64]) -> u64 {
    pair[1] * 1000 / pair[0].max(1)
}

/// Return the least of `costs` of the worse tier, or None if no cut is wide enough.
fn widest(costs: impl Iterator<Item = u64>) -> Option<u64> {
    let mut costs: Vec<u64> = costs.collect();
    costs.sort_unstable();
    let pair = costs.windows(2).max_by_key(|pair| ratio(pair))?;
    (ratio(pair) >= 1000 + MIN_PERMILLE).then(|| pair[1])
}

/// Return the least cost of executing of the fast CPUs that are not preferred, or None if none is.
fn preferred(table: &CapacityTable) -> Option<u64> {
    let mut llcs = of_class(table, Class::Fast).map(|entry| entry.llc);
    let first = llcs.next()?;
    if llcs.any(|llc| llc != first) {
        return None;
    }
    let mut costs: Vec<u64> = of_class(table, Class::Fast).map(execute).collect();
    costs.sort_unstable();
    costs.windows(2).find(|pair| ratio(pair) >= 1000 + NEAR_PERMILLE).map(|pair| pair[1])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::table::COMPONENTS;

    fn table(cpus: &[(bool, u32)]) -> CapacityTable {
        let entry = |(cpu, (slow, cost)): (usize, &(bool, u32))| {
            CpuCapacity::alone(cpu as u32, if *slow { Class::Slow } else { Class::Fast }, [*cost; COMPONENTS])
        };
        CapacityTable { cpus: cpus.iter().enumerate().map(entry).collect() }
    }

    #[test]
    fn three_types_of_cores_have_three_tiers() {
        let laptop = [(false, 1000), (true, 1667), (true, 2500), (true, 1680), (false, 1020)];
        assert_eq!(Tiers::new(&table(&laptop)), Tiers { of: vec![0, 2, 3, 2, 0], used: 0b1101, near: 0 });
        let phone = [(false, 1000), (false, 1300), (true, 2500)];
        assert_eq!(Tiers::new(&table(&phone)), Tiers { of: vec![0, 1, 2], used: 0b111, near: 0 });
    }

    #[test]
    fn cores_that_are_a_few_percent_faster_are_preferred() {
        let near = [(false, 1000), (false, 1034), (false, 1071), (false, 1111)];
        assert_eq!(Tiers::new(&table(&near)), Tiers { of: vec![0, 1, 1, 1], used: 0b11, near: 0b10 });
        let hybrid = [(false, 1035), (false, 1000), (true, 2500), (true, 2600)];
        assert_eq!(Tiers::new(&table(&hybrid)), Tiers { of: vec![1, 0, 2, 2], used: 0b111, near: 0b10 });
        let equal = [(false, 1000), (false, 1010), (false, 1020), (false, 1024)];
        assert_eq!(Tiers::new(&table(&equal)), Tiers { of: vec![0; 4], used: 1, near: 0 });
    }

    #[test]
    fn pages_and_other_caches_make_no_core_preferred() {
        let mut memory = table(&[(false, 1000), (false, 1000)]);
        memory.cpus[0].cost_permille[Component::External.index()] = 1200;
        assert_eq!(Tiers::new(&memory).used, 1);
        let mut caches = table(&[(false, 1000), (false, 1040)]);
        caches.cpus[1].llc = 1;
        assert_eq!(Tiers::new(&caches).used, 1);
    }

    proptest! {
        #[test]
        fn a_tier_keeps_to_its_class_and_to_the_order_of_costs(
            cpus in prop::collection::vec((any::<bool>(), 1000_u32..4000), 1..40)
        ) {
            let tiers = Tiers::new(&table(&cpus));
            let two = cpus.iter().any(|(slow, _)| *slow);
            for (at, (slow, cost)) in cpus.iter().enumerate() {
                let class = tiers.of[at] / ffi::BIAS_CLASS_TIERS;
                prop_assert_eq!(class, u32::from(*slow && two));
                for (other, (slow_too, least)) in cpus.iter().enumerate() {
                    prop_assert!(slow != slow_too || cost <= least || tiers.of[at] >= tiers.of[other]);
                }
            }
            for class in 0..2 {
                let bits = tiers.used >> (class * ffi::BIAS_CLASS_TIERS) & 3;
                prop_assert!(bits != 0b10, "the better tier of class {class} is empty");
            }
            prop_assert_eq!(tiers.used, tiers.of.iter().fold(0, |used, tier| used | 1 << tier));
        }
    }
}
