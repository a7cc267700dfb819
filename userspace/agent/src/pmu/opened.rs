// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The open counters of all CPUs.

use super::event_plan::{EventPlan, Plans, plans};
use super::event_table::Table;
use super::events::Override;
use super::group::Group;
use super::identity::Identities;
use super::open::{Opened, Perf, PerfOpener, make_room, open_best};
use super::roles::{CounterState, CpuSummary, PerfEvent};
use super::sysfs::Pmu;
use crate::topology::Topology;
use std::path::Path;

/// The user's options for the counters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Events that replace the default choice.
    pub events: Vec<Override>,
    /// False to count nothing.
    pub enabled: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { events: Vec::new(), enabled: true }
    }
}

/// The counters of all CPUs, closed on drop. The default has none.
#[derive(Debug, Default)]
pub struct Counters {
    pub(super) cpus: Vec<OpenCpu>,
}

/// The counters of one CPU.
#[derive(Debug)]
pub(super) struct OpenCpu {
    pub(super) cpu: u32,
    pub(super) pmu: Option<String>,
    pub(super) source: CounterState,
    /// Plans, best first; empty when none are known.
    pub(super) plans: Vec<EventPlan>,
    /// Memory events that the probe found not to count.
    pub(super) absent: Vec<PerfEvent>,
    pub(super) group: Option<Group>,
}

impl Counters {
    /// Open the counters of every CPU of `topology`.
    #[must_use]
    pub fn open(topology: &Topology, options: &Options) -> Self {
        Self::open_by(&Perf, Path::new("/"), topology, options)
    }

    /// Like [`Self::open`], on the machine whose `sys` and `proc` are below `root`.
    #[must_use]
    pub fn open_by(kernel: &dyn PerfOpener, root: &Path, topology: &Topology, options: &Options) -> Self {
        let numbers = topology.cpus.iter().map(|cpu| cpu.cpu);
        if !options.enabled {
            let off = |cpu| {
                OpenCpu::unknown(cpu, "counting is switched off; switch it on to classify tasks".to_owned())
            };
            return Self { cpus: numbers.map(off).collect() };
        }
        make_room(topology.cpus.len());
        let (pmus, identities) = (Pmu::list(root), Identities::read(root));
        let open = |cpu| match plans(&pmus, Table::shipped(), &identities.of(cpu), cpu, &options.events) {
            Ok(plans) => OpenCpu::open(kernel, cpu, plans),
            Err(reason) => OpenCpu::unknown(cpu, reason),
        };
        Self { cpus: numbers.map(open).collect() }
    }

    /// Reopen the counters of CPUs that were offline, and run work that must move them. A CPU that
    /// is not in `topology`, because it went offline again, gets none.
    pub fn open_anew(&mut self, cpus: &[u32], topology: &Topology, options: &Options) {
        self.open_anew_by(&Perf, Path::new("/"), cpus, topology, options);
        self.probe_cpus(cpus, topology.llc_bytes);
    }

    pub(super) fn open_anew_by(
        &mut self,
        kernel: &dyn PerfOpener,
        root: &Path,
        cpus: &[u32],
        topology: &Topology,
        options: &Options,
    ) {
        // Close the old groups first: the new ones need their counters.
        self.cpus.retain(|counters| !cpus.contains(&counters.cpu));
        let back = topology.cpus.iter().filter(|cpu| cpus.contains(&cpu.cpu)).cloned().collect();
        let topology = Topology { cpus: back, ..topology.clone() };
        self.cpus.extend(Self::open_by(kernel, root, &topology, options).cpus);
        let gone = cpus.iter().filter(|cpu| topology.cpus.iter().all(|back| back.cpu != **cpu));
        let offline = |cpu| OpenCpu::unknown(cpu, format!("CPU {cpu} is offline; bring it online"));
        self.cpus.extend(gone.copied().map(offline));
        self.cpus.sort_by_key(|counters| counters.cpu);
    }

    /// Return the open counters of a CPU; None when it has none.
    #[must_use]
    pub fn cpu(&self, cpu: u32) -> Option<&Group> {
        self.of(cpu)?.group.as_ref()
    }

    /// Return all open groups, in ascending order of CPU.
    pub fn groups(&self) -> impl Iterator<Item = &Group> {
        self.cpus.iter().filter_map(|counters| counters.group.as_ref())
    }

    /// Return a summary of each CPU for `scx_bias status`.
    #[must_use]
    pub fn summary(&self) -> Vec<CpuSummary> {
        self.cpus.iter().map(OpenCpu::summary).collect()
    }

    pub(super) fn of(&self, cpu: u32) -> Option<&OpenCpu> {
        self.cpus.iter().find(|counters| counters.cpu == cpu)
    }
}

impl OpenCpu {
    pub(super) fn unknown(cpu: u32, reason: String) -> Self {
        let source = CounterState::Unknown { reason };
        Self { cpu, pmu: None, source, plans: Vec::new(), absent: Vec::new(), group: None }
    }

    pub(super) fn open(kernel: &dyn PerfOpener, cpu: u32, Plans { pmu, plans }: Plans) -> Self {
        let mut counters = Self { pmu, plans, ..Self::unknown(cpu, String::new()) };
        match open_best(kernel, cpu, &counters.plans, |_, _| true) {
            Ok(opened) => counters.install(opened),
            Err(reason) => counters.source = CounterState::Unknown { reason },
        }
        counters
    }

    /// Install a plan that was opened.
    pub(super) fn install(&mut self, opened: Opened) {
        // The index came from these plans.
        let Some(plan) = self.plans.get(opened.plan) else { return };
        let group = Group::new(self.cpu, plan, opened.plan, opened.fds);
        self.source = group.worth(opened.refusal);
        self.group = Some(group);
    }

    pub(super) fn summary(&self) -> CpuSummary {
        let (origin, events) = match &self.group {
            Some(group) => (group.origin.clone(), group.summary()),
            None => ("none".to_owned(), Vec::new()),
        };
        CpuSummary { cpu: self.cpu, source: self.source.clone(), pmu: self.pmu.clone(), origin, events }
    }
}
