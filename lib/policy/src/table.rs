// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The capacity table: the cost of one unit of work of each component on every CPU.
//!
//! # Problem
//!
//! The table decides where every task runs. It may come from a file that a user, an older version
//! or a broken disk wrote. This module must refuse a wrong entry, so that the kernel never sees
//! one.
//!
//! # Approach
//!
//! The table is plain data with one checker, [`CapacityTable::check`]. Every table from outside
//! passes through it. A cost is relative to the CPU that is best at the component, so a table means
//! the same on any time base.
//!
//! # Invariants
//!
//! A checked table satisfies these conditions:
//! * It has at least one CPU. Ids are unique, ascending and below [`MAX_CPUS`].
//! * Costs are within [`COST_BEST`]..=[`COST_MAX`], and each component has a CPU of cost
//!   [`COST_BEST`].
//! * Factors of SMT siblings ([`crate::sharing`]) are within their bounds.
//! * At least one CPU is fast. A table without slow CPUs has one class.
//!
//! # Limits
//!
//! The table does not describe overlap between components: see `lib/include/bias/cost.h`.

use crate::ffi;
use serde::{Deserialize, Serialize};

/// Number of components that have a cost.
pub const COMPONENTS: usize = ffi::BIAS_NR_COMPONENTS as usize;
/// Cost of the CPU that is best at a component [permille].
pub const COST_BEST: u32 = ffi::BIAS_COST_BEST;
/// Highest cost that the table stores [permille]; a higher cost is cut to it.
pub const COST_MAX: u32 = ffi::BIAS_COST_MAX;
/// Factor of a CPU that shares its core with no other CPU [permille].
pub const SHARED_NONE: u32 = 1000;
/// Highest factor that is stored [permille]; a higher factor is cut to it.
pub const SHARED_MAX: u32 = 4000;
/// Bound on CPU ids, which stay below it: the size of the kernel side's arrays.
pub const MAX_CPUS: u32 = ffi::BIAS_MAX_CPUS;

/// A component of a task's cycles, in the order of the C headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Component {
    /// Cycles that retire instructions.
    Execute,
    /// Stalls inside the core: mispredicted branches, TLB, private caches.
    Internal,
    /// Stalls outside the core: shared caches, memory.
    External,
}

impl Component {
    /// All components, in the order of the indices.
    pub const ALL: [Self; COMPONENTS] = [Self::Execute, Self::Internal, Self::External];

    /// Return the index in a cost vector.
    #[must_use]
    pub const fn index(self) -> usize {
        match self {
            Self::Execute => ffi::BIAS_EXECUTE as usize,
            Self::Internal => ffi::BIAS_INTERNAL as usize,
            Self::External => ffi::BIAS_EXTERNAL as usize,
        }
    }

    /// Return the name that users see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Execute => "execute",
            Self::Internal => "internal",
            Self::External => "external",
        }
    }
}

/// Class of a CPU. A machine without a significant split has fast CPUs only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// The better CPUs, or all CPUs.
    Fast,
    /// The other CPUs.
    Slow,
}

impl Class {
    /// Return the name of the class.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Slow => "slow",
        }
    }
}

/// One CPU's entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuCapacity {
    /// CPU number of the kernel.
    pub cpu: u32,
    /// Lowest CPU number on this CPU's physical core.
    pub core: u32,
    /// Lowest CPU number on this CPU's last-level cache.
    pub llc: u32,
    /// NUMA node.
    pub node: u32,
    /// Class of the CPU.
    pub class: Class,
    /// Cost of execute, internal and external work [permille of the CPU that is best at each].
    pub cost_permille: [u32; COMPONENTS],
    /// Robust relative standard deviation of single samples [permille]; 0 when not measured.
    pub spread_permille: [u32; COMPONENTS],
    /// Time of a unit of work while all siblings of the core do the same work, over the time alone
    /// [permille]. The range is [`SHARED_NONE`] to [`SHARED_MAX`]; a CPU without siblings has
    /// [`SHARED_NONE`].
    pub shared_permille: [u32; COMPONENTS],
}

impl CpuCapacity {
    /// Return the entry of a CPU that is a core of its own, of cache 0 and node 0, measured once.
    #[must_use]
    pub fn alone(cpu: u32, class: Class, cost_permille: [u32; COMPONENTS]) -> Self {
        Self {
            cpu,
            core: cpu,
            llc: 0,
            node: 0,
            class,
            cost_permille,
            spread_permille: [0; COMPONENTS],
            shared_permille: [SHARED_NONE; COMPONENTS],
        }
    }
}

/// The capacity table of a machine, in ascending order of CPU number.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CapacityTable {
    /// One entry per online CPU.
    pub cpus: Vec<CpuCapacity>,
}

/// One line that names the defect of a table and its remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TableError(String);

impl CapacityTable {
    /// Sort the entries by CPU number and return the checked table.
    ///
    /// # Errors
    /// The error names the first entry that breaks an invariant of the module.
    pub fn new(mut cpus: Vec<CpuCapacity>) -> Result<Self, TableError> {
        cpus.sort_by_key(|entry| entry.cpu);
        let table = Self { cpus };
        table.check()?;
        Ok(table)
    }

    /// Check every invariant of the module.
    ///
    /// # Errors
    /// The error names the first entry that breaks one.
    pub fn check(&self) -> Result<(), TableError> {
        let fail = |text: String| Err(TableError(text));
        if self.cpus.is_empty() {
            return fail("the table has no CPUs; list at least one under \"cpus\"".into());
        }
        for pair in self.cpus.windows(2) {
            if let [a, b] = pair
                && a.cpu >= b.cpu
            {
                return fail(format!("CPU {} is listed twice or out of order; list each CPU once", b.cpu));
            }
        }
        for entry in &self.cpus {
            check_entry(entry)?;
        }
        for component in Component::ALL {
            let best = self.cpus.iter().map(|entry| entry.cost_permille[component.index()]).min();
            if best != Some(COST_BEST) {
                return fail(format!(
                    "no CPU has {} cost {COST_BEST}; costs are permille of the best CPU, so divide all by the smallest",
                    component.name()
                ));
            }
        }
        if self.cpus.iter().all(|entry| entry.class == Class::Slow) {
            return fail("every CPU is of class slow; call the only class fast".into());
        }
        Ok(())
    }

    /// Return the entry of a CPU; None if it is not in the table.
    #[must_use]
    pub fn get(&self, cpu: u32) -> Option<&CpuCapacity> {
        let at = self.cpus.binary_search_by_key(&cpu, |entry| entry.cpu).ok()?;
        self.cpus.get(at)
    }

    /// Return the number of classes, 1 or 2.
    #[must_use]
    pub fn nr_classes(&self) -> usize {
        if self.cpus.iter().any(|entry| entry.class == Class::Slow) { 2 } else { 1 }
    }

    /// Return one more than the highest NUMA node, or 1 if the kernel side cannot tell so many
    /// nodes apart: it then treats the machine as one.
    #[must_use]
    pub fn nr_nodes(&self) -> u32 {
        let highest = self.cpus.iter().map(|entry| entry.node).max().unwrap_or(0);
        if highest < ffi::BIAS_MAX_NODES { highest + 1 } else { 1 }
    }

    /// Return the costs of a typical CPU of `class`: the mean of its CPUs in each component
    /// [permille]. An empty class has the costs of the other class, and an empty table has
    /// [`COST_BEST`] in each.
    #[must_use]
    pub fn class_cost_permille(&self, class: Class) -> [u32; COMPONENTS] {
        let of_class: Vec<_> = self.cpus.iter().filter(|entry| entry.class == class).collect();
        if of_class.is_empty() {
            let other = if class == Class::Fast { Class::Slow } else { Class::Fast };
            return if self.cpus.is_empty() {
                [COST_BEST; COMPONENTS]
            } else {
                self.class_cost_permille(other)
            };
        }
        std::array::from_fn(|k| {
            let sum: u64 = of_class.iter().map(|entry| u64::from(entry.cost_permille[k])).sum();
            (sum / of_class.len() as u64) as u32
        })
    }
}

fn check_entry(entry: &CpuCapacity) -> Result<(), TableError> {
    let cpu = entry.cpu;
    for (what, id) in [("CPU", cpu), ("core", entry.core), ("llc", entry.llc), ("node", entry.node)] {
        if id >= MAX_CPUS {
            return Err(TableError(format!(
                "{what} {id} is beyond the highest number supported, {}",
                MAX_CPUS - 1
            )));
        }
    }
    for component in Component::ALL {
        let shared = entry.shared_permille[component.index()];
        if !(SHARED_NONE..=SHARED_MAX).contains(&shared) {
            return Err(TableError(format!(
                "CPU {cpu} has a shared {} factor of {shared}; give a permille figure between {SHARED_NONE} and {SHARED_MAX}",
                component.name()
            )));
        }
        let cost = entry.cost_permille[component.index()];
        if !(COST_BEST..=COST_MAX).contains(&cost) {
            return Err(TableError(format!(
                "CPU {cpu} has {} cost {cost}; give a permille figure between {COST_BEST} (best CPU) and {COST_MAX}",
                component.name()
            )));
        }
    }
    Ok(())
}

/// Convert times per unit of work to costs [permille of the best]: `1000 * time / least time`,
/// rounded and cut to [`COST_MAX`]. Return None if there is no time, or if one is not finite and
/// positive.
#[must_use]
pub fn costs_from_times(times: &[f64]) -> Option<Vec<u32>> {
    if times.iter().any(|time| !time.is_finite() || *time <= 0.0) {
        return None;
    }
    let best = times.iter().copied().min_by(f64::total_cmp)?;
    let cost = |time: &f64| (time / best * f64::from(COST_BEST)).round().min(f64::from(COST_MAX)) as u32;
    Some(times.iter().map(cost).collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(cpu: u32, cost: [u32; 3]) -> CpuCapacity {
        let class = Class::Fast;
        CpuCapacity::alone(cpu, class, cost)
    }

    fn refusal(cpus: Vec<CpuCapacity>) -> String {
        CapacityTable::new(cpus).unwrap_err().to_string()
    }

    #[test]
    fn accepts_and_sorts_a_sane_table() {
        let table = CapacityTable::new(vec![entry(3, [2500, 1580, 1000]), entry(0, [1000; 3])]).unwrap();
        assert_eq!(table.cpus.iter().map(|entry| entry.cpu).collect::<Vec<_>>(), [0, 3]);
        assert_eq!(table.get(3).unwrap().cost_permille[0], 2500);
        assert_eq!(table.get(1), None);
        assert_eq!(table.nr_classes(), 1);
    }

    #[test]
    fn a_class_costs_the_mean_of_its_cpus() {
        let slow = |cpu, cost| CpuCapacity { class: Class::Slow, ..entry(cpu, cost) };
        let table = CapacityTable::new(vec![
            entry(0, [1000; 3]),
            slow(1, [2400, 1500, 1000]),
            slow(2, [2600, 1600, 1100]),
        ])
        .unwrap();
        assert_eq!(table.class_cost_permille(Class::Slow), [2500, 1550, 1050]);
        assert_eq!(table.class_cost_permille(Class::Fast), [1000; 3]);
        let alike = CapacityTable::new(vec![entry(0, [1000; 3])]).unwrap();
        assert_eq!(alike.class_cost_permille(Class::Slow), [1000; 3]);
        assert_eq!(CapacityTable::default().class_cost_permille(Class::Slow), [COST_BEST; 3]);
    }

    #[test]
    fn refuses_each_broken_invariant_by_name() {
        assert!(refusal(vec![]).contains("no CPUs"));
        assert!(refusal(vec![entry(1, [1000; 3]), entry(1, [1000; 3])]).contains("CPU 1 is listed twice"));
        assert!(refusal(vec![entry(MAX_CPUS, [1000; 3])]).contains("beyond the highest"));
        assert!(refusal(vec![entry(0, [1000; 3]), entry(1, [999, 1000, 1000])]).contains("execute cost 999"));
        assert!(
            refusal(vec![entry(0, [1000; 3]), entry(1, [1000, 1000, COST_MAX + 1])])
                .contains("external cost")
        );
        for factor in [SHARED_NONE - 1, SHARED_MAX + 1] {
            let shared = CpuCapacity { shared_permille: [1000, factor, 1000], ..entry(0, [1000; 3]) };
            assert!(refusal(vec![shared]).contains("shared internal factor"));
        }
        assert!(refusal(vec![entry(0, [1000, 2000, 1000])]).contains("no CPU has internal cost 1000"));
        assert!(
            refusal(vec![CpuCapacity { class: Class::Slow, ..entry(0, [1000; 3]) }]).contains("class slow")
        );
        assert!(refusal(vec![CpuCapacity { llc: u32::MAX, ..entry(0, [1000; 3]) }]).contains("llc"));
    }

    #[test]
    fn times_that_are_not_positive_give_no_costs() {
        assert_eq!(costs_from_times(&[]), None);
        assert_eq!(costs_from_times(&[1.0, 0.0]), None);
        assert_eq!(costs_from_times(&[1.0, f64::NAN]), None);
        assert_eq!(costs_from_times(&[1.0, 1e9]), Some(vec![1000, COST_MAX]));
    }

    proptest! {
        #[test]
        fn costs_do_not_depend_on_the_time_base(times in prop::collection::vec(1.0f64..60.0, 1..20), factor in 0.001f64..1000.0) {
            let scaled: Vec<f64> = times.iter().map(|time| time * factor).collect();
            let (plain, scaled) = (costs_from_times(&times).unwrap(), costs_from_times(&scaled).unwrap());
            prop_assert!(plain.iter().zip(&scaled).all(|(a, b)| a.abs_diff(*b) <= 1));
        }

        #[test]
        fn costs_keep_the_order_of_times_and_make_a_checked_table(times in prop::collection::vec(1.0f64..60.0, 1..20)) {
            let costs = costs_from_times(&times).unwrap();
            for (i, a) in times.iter().enumerate() {
                for (j, b) in times.iter().enumerate() {
                    prop_assert!(a > b || costs[i] <= costs[j]);
                }
            }
            let cpus = costs.iter().zip(0..).map(|(cost, cpu)| entry(cpu, [*cost; 3])).collect();
            prop_assert!(CapacityTable::new(cpus).is_ok());
        }
    }
}
