//! Which PMU serves which CPUs, for `scx_bias check`: found in sysfs alone, nothing is opened.
//!
//! Limits. What a PMU accepts, and whether it counts, shows only when it is opened and probed.

use super::identity::Identities;
use super::plan::plans;
use super::sysfs::Pmu;
use super::table::Table;
use std::path::Path;

/// CPUs that are served alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// Their numbers, ascending.
    pub cpus: Vec<u32>,
    /// Who serves them, or why nobody does, with a remedy.
    pub by: Result<Server, String>,
}

/// A PMU and the events that will be tried first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Name of the PMU.
    pub pmu: String,
    /// Where the choice of events comes from.
    pub origin: String,
}

/// Who serves `cpus` on the machine whose `sys` and `proc` are below `root`, in the order of the first CPU of each.
#[must_use]
pub fn survey(root: &Path, cpus: &[u32]) -> Vec<Service> {
    let (pmus, identities) = (Pmu::list(root), Identities::read(root));
    let mut services: Vec<Service> = Vec::new();
    for cpu in cpus {
        let by = plans(&pmus, Table::shipped(), &identities.of(*cpu), *cpu, &[]).map(|plans| Server {
            pmu: plans.pmu.unwrap_or_default(),
            origin: plans.plans.first().map_or_else(String::new, |plan| plan.origin.clone()),
        });
        // Reasons name their CPU: those of the same kind belong together all the same.
        let alike = |service: &&mut Service| match (&service.by, &by) {
            (Ok(one), Ok(other)) => one == other,
            (one, other) => one.is_err() && other.is_err(),
        };
        match services.iter_mut().find(alike) {
            Some(service) => service.cpus.push(*cpu),
            None => services.push(Service { cpus: vec![*cpu], by }),
        }
    }
    services
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::fake::Machine;
    use super::*;

    #[test]
    fn cpus_are_grouped_by_who_serves_them() {
        let services = survey(Machine::hybrid().root(), &[0, 1, 2, 3]);
        let named: Vec<_> =
            services.iter().map(|s| (s.cpus.clone(), s.by.as_ref().unwrap().pmu.as_str())).collect();
        assert_eq!(named, [(vec![0, 1], "cpu_core"), (vec![2, 3], "cpu_atom")]);
        assert!(services[1].by.as_ref().unwrap().origin.contains("Gracemont"));
    }

    #[test]
    fn cpus_without_are_told_with_a_remedy() {
        let machine = Machine::new(3);
        machine.pmu("cpu", &[("type", "4"), ("cpus", "1")]);
        let services = survey(machine.root(), &[0, 1, 2]);
        assert_eq!(services[0].cpus, [0, 2]);
        assert!(services[0].by.as_ref().unwrap_err().contains("; in a virtual machine"));
        assert_eq!(services[1].by.as_ref().unwrap().pmu, "cpu");
        assert!(survey(machine.root(), &[]).is_empty());
    }
}
