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
//! # Invariants
//! * The tier of a CPU decides its class: fast is 0 or 1, slow is 2 or 3.
//! * No CPU of a tier has a lower mean cost than a CPU of a better tier of its class.
//! * The better tier of a class with CPUs is never empty.
//!
//! # Limits
//! A class has two tiers at most. Smaller differences than [`MIN_PERMILLE`] make no tier: a task
//! that wakes prefers its last CPU to one that is a few percent faster.

use crate::ffi;
use crate::table::{COMPONENTS, CapacityTable, Class};

/// Least difference of mean costs between tiers of a class [permille].
pub const MIN_PERMILLE: u64 = 100;

/// Tier of each CPU and the tiers that exist.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tiers {
    /// Tier of each CPU, in the order of the table.
    pub of: Vec<u32>,
    /// Bit n: a CPU has tier n.
    pub used: u32,
}

impl Tiers {
    /// Cut the classes of `table` into tiers. A table of one class has one tier.
    #[must_use]
    pub fn new(table: &CapacityTable) -> Self {
        if table.nr_classes() < 2 {
            return Self { of: vec![0; table.cpus.len()], used: 1 };
        }
        let cuts = [Class::Fast, Class::Slow].map(|class| {
            let of_class = table.cpus.iter().filter(|entry| entry.class == class);
            cut(of_class.map(|entry| total(entry.cost_permille)).collect())
        });
        let tier = |class: Class, cost: u64| {
            let slow = usize::from(class == Class::Slow);
            let worse = cuts[slow].is_some_and(|cut| cost >= cut);
            slow as u32 * ffi::BIAS_CLASS_TIERS + u32::from(worse)
        };
        let of: Vec<u32> =
            table.cpus.iter().map(|entry| tier(entry.class, total(entry.cost_permille))).collect();
        let used = of.iter().fold(0, |used, tier| used | 1 << tier);
        Self { of, used }
    }
}

fn total(cost_permille: [u32; COMPONENTS]) -> u64 {
    cost_permille.iter().copied().map(u64::from).sum()
}

/// Return the least cost of the worse tier, or None if there is one tier.
fn cut(mut costs: Vec<u64>) -> Option<u64> {
    costs.sort_unstable();
    let ratio = |pair: &&[u64]| pair[1] * 1000 / pair[0].max(1);
    let widest = costs.windows(2).max_by_key(ratio)?;
    (ratio(&widest) >= 1000 + MIN_PERMILLE).then(|| widest[1])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::table::{CpuCapacity, SHARED_NONE};

    fn table(cpus: &[(bool, u32)]) -> CapacityTable {
        let entry = |(cpu, (slow, cost)): (usize, &(bool, u32))| CpuCapacity {
            cpu: cpu as u32,
            core: cpu as u32,
            llc: 0,
            node: 0,
            class: if *slow { Class::Slow } else { Class::Fast },
            cost_permille: [*cost; COMPONENTS],
            spread_permille: [0; COMPONENTS],
            shared_permille: [SHARED_NONE; COMPONENTS],
        };
        CapacityTable { cpus: cpus.iter().enumerate().map(entry).collect() }
    }

    #[test]
    fn three_types_of_cores_have_three_tiers() {
        let laptop = [(false, 1000), (true, 1667), (true, 2500), (true, 1680), (false, 1020)];
        assert_eq!(Tiers::new(&table(&laptop)), Tiers { of: vec![0, 2, 3, 2, 0], used: 0b1101 });
        let phone = [(false, 1000), (false, 1300), (true, 2500)];
        assert_eq!(Tiers::new(&table(&phone)), Tiers { of: vec![0, 1, 2], used: 0b111 });
        assert_eq!(Tiers::new(&table(&[(false, 1000), (false, 1300)])).used, 1);
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
