// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The PMU that serves each CPU, for `scx_bias check`: found in sysfs alone, without opening
//! anything.
//!
//! # Limits
//! Whether a PMU accepts an event and counts it shows only when the event is opened and probed.

use super::event_plan::plans;
use super::event_table::Table;
use super::identity::Identities;
use super::sysfs::Pmu;
use std::path::Path;

/// CPUs with the same PMU and events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coverage {
    /// The CPU numbers, ascending.
    pub cpus: Vec<u32>,
    /// The PMU that serves them, or the reason why there is none, with a remedy.
    pub by: Result<ServingPmu, String>,
}

/// A PMU and the events to try first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServingPmu {
    /// Name of the PMU.
    pub pmu: String,
    /// Origin of the choice of events.
    pub origin: String,
}

/// Return the PMU of each of `cpus` on the machine whose `sys` and `proc` are below `root`. Groups
/// are in the order of their first CPU.
#[must_use]
pub fn survey(root: &Path, cpus: &[u32]) -> Vec<Coverage> {
    let (pmus, identities) = (Pmu::list(root), Identities::read(root));
    let mut services: Vec<Coverage> = Vec::new();
    for cpu in cpus {
        let by = plans(&pmus, Table::shipped(), &identities.of(*cpu), *cpu, &[]).map(|plans| ServingPmu {
            pmu: plans.pmu.unwrap_or_default(),
            origin: plans.plans.first().map_or_else(String::new, |plan| plan.origin.clone()),
        });
        // Each reason names its CPU, so all CPUs without a PMU form one group.
        let alike = |service: &&mut Coverage| match (&service.by, &by) {
            (Ok(one), Ok(other)) => one == other,
            (one, other) => one.is_err() && other.is_err(),
        };
        match services.iter_mut().find(alike) {
            Some(service) => service.cpus.push(*cpu),
            None => services.push(Coverage { cpus: vec![*cpu], by }),
        }
    }
    services
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::fake::FakeSysfs;
    use super::*;

    #[test]
    fn cpus_are_grouped_by_who_serves_them() {
        let services = survey(FakeSysfs::hybrid().root(), &[0, 1, 2, 3]);
        let named: Vec<_> =
            services.iter().map(|s| (s.cpus.clone(), s.by.as_ref().unwrap().pmu.as_str())).collect();
        assert_eq!(named, [(vec![0, 1], "cpu_core"), (vec![2, 3], "cpu_atom")]);
        assert!(services[1].by.as_ref().unwrap().origin.contains("Gracemont"));
    }

    #[test]
    fn cpus_without_are_told_with_a_remedy() {
        let machine = FakeSysfs::new(3);
        machine.pmu("cpu", &[("type", "4"), ("cpus", "1")]);
        let services = survey(machine.root(), &[0, 1, 2]);
        assert_eq!(services[0].cpus, [0, 2]);
        assert!(services[0].by.as_ref().unwrap_err().contains("; in a virtual machine"));
        assert_eq!(services[1].by.as_ref().unwrap().pmu, "cpu");
        assert!(survey(machine.root(), &[]).is_empty());
    }
}
