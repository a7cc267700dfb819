// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The performance counters of every CPU, opened for the kernel side to read.
//!
//! # Problem
//! A task's CPI stack comes from counters, and no two core types name them alike. One event code
//! means cycles of starvation on a large core and slots on the small core of the same machine. Some
//! cores count no stalls at all, and a virtual machine may count nothing or zeros. None of this may
//! end the scheduler or give a task a wrong bias.
//!
//! # Approach
//! For each CPU, find the PMU that serves it and its core type ([`sysfs`]), and the events to
//! try, in this order ([`event_plan`]):
//!
//! 1. the user's events ([`events`]),
//! 2. the shipped table ([`event_table`]),
//! 3. the kernel's generic stall events,
//! 4. misses of the last-level cache.
//!
//! Open the first of these that works as one group of at most four events ([`group`]): cycles,
//! instructions, external, internal. The kernel side reads these slots and no others. Then run work
//! that must move the events ([`probe`]), and close those that stand still.
//!
//! Four slots leave one event for each kind of stall. The table says for each entry which stalls
//! this leaves out. In most cases it is the recovery after mispredicted branches, which then counts
//! as execution.
//!
//! The kernel closes a CPU's events when the CPU goes offline. [`Counters::reopen`] opens them
//! when it comes back.
//!
//! # Invariants
//! [`Counters::open`] never fails: a CPU without counters is `Unknown`, with the reason and a
//! remedy. Misses are not time, so they are marked and make a CPU `Degraded`. Nothing stays open
//! that is not in use, and programs that the agent starts inherit nothing.
//!
//! # Limits
//! On some cores the external event of a `Full` CPU is a superset of memory stalls; the table says
//! which. A virtual machine may migrate between unlike cores of its host. Then its CPU model names
//! one core type, while the counts come from both.

mod event_plan;
mod event_table;
pub mod events;
#[cfg(test)]
pub(crate) mod fake;
mod group;
mod probe;
mod sysfs;
#[cfg(test)]
mod tests;

pub use event_plan::{Coverage, survey};
pub use events::{Override, PerfEvent, Role, Unit};
pub use group::{CounterReading, CounterState, CpuSummary, Delta, EventSummary, Group};
pub use probe::Probed;

use crate::topology::Topology;
use event_plan::{EventPlan, Plans, plans};
use event_table::Table;
use group::{Perf, PerfOpener, make_room, open_best};
use probe::{Lazy, ProbeVerdict, judge, seen_of};
use std::path::Path;
use sysfs::{Identities, Pmu};

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
    cpus: Vec<OpenCpu>,
}

/// The counters of one CPU.
#[derive(Debug)]
struct OpenCpu {
    cpu: u32,
    pmu: Option<String>,
    source: CounterState,
    /// Plans, best first; empty when none are known.
    plans: Vec<EventPlan>,
    /// Memory events that the probe found not to count.
    absent: Vec<PerfEvent>,
    group: Option<Group>,
}

impl Counters {
    /// Open the counters of every CPU of `topology`.
    #[must_use]
    pub fn open(topology: &Topology, options: &Options) -> Self {
        Self::open_by(&Perf, Path::new("/"), topology, options)
    }

    /// Like [`Self::open`], on the machine whose `sys` and `proc` are below `root`.
    #[must_use]
    pub(crate) fn open_by(
        kernel: &dyn PerfOpener,
        root: &Path,
        topology: &Topology,
        options: &Options,
    ) -> Self {
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
    pub fn reopen(&mut self, cpus: &[u32], topology: &Topology, options: &Options) {
        self.reopen_by(&Perf, Path::new("/"), cpus, topology, options);
        let lazy = Lazy::new(topology.llc_bytes);
        self.probe_by(&Perf, &|group| cpus.contains(&group.cpu).then(|| lazy.measure(group))?);
    }

    fn reopen_by(
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
        let offline = |cpu| OpenCpu::unknown(cpu, "this CPU is offline; bring it online".to_owned());
        self.cpus.extend(gone.copied().map(offline));
        self.cpus.sort_by_key(|counters| counters.cpu);
    }

    /// Close the counters that do not move on every CPU, and open the next plans instead.
    ///
    /// Use the calibration's counts where it counted the same events, and run loops of some
    /// milliseconds elsewhere. `llc_bytes` is the size of the last-level cache.
    pub fn probe_at_start(&mut self, seen: &[Probed], llc_bytes: u64) {
        let lazy = Lazy::new(llc_bytes);
        self.probe_by(&Perf, &|group| seen_of(seen, group).or_else(|| lazy.measure(group)));
    }

    /// Like [`Self::probe_at_start`], with another kernel and measurement. None from `measure`
    /// leaves a CPU unchanged.
    fn probe_by(
        &mut self,
        kernel: &dyn PerfOpener,
        measure: &(dyn Fn(&Group) -> Option<(Delta, Delta)> + Sync),
    ) {
        let mut pending: Vec<&mut OpenCpu> =
            self.cpus.iter_mut().filter(|counters| counters.group.is_some()).collect();
        while !pending.is_empty() {
            let measured: Vec<Option<(Delta, Delta)>> = std::thread::scope(|scope| {
                let groups = pending.iter().map(|counters| counters.group.as_ref());
                let threads: Vec<_> =
                    groups.map(|group| scope.spawn(move || group.and_then(measure))).collect();
                threads.into_iter().map(|thread| thread.join().ok().flatten()).collect()
            });
            let verdicts = measured.iter().map(|both| both.as_ref().map(|(one, other)| judge(one, other)));
            let judged = pending.into_iter().zip(verdicts);
            pending = judged
                .filter_map(|(counters, verdict)| {
                    let again = verdict.is_some_and(|verdict| counters.sentence(kernel, verdict));
                    again.then_some(counters)
                })
                .collect();
        }
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

    fn of(&self, cpu: u32) -> Option<&OpenCpu> {
        self.cpus.iter().find(|counters| counters.cpu == cpu)
    }
}

impl OpenCpu {
    fn unknown(cpu: u32, reason: String) -> Self {
        let source = CounterState::Unknown { reason };
        Self { cpu, pmu: None, source, plans: Vec::new(), absent: Vec::new(), group: None }
    }

    fn open(kernel: &dyn PerfOpener, cpu: u32, Plans { pmu, plans }: Plans) -> Self {
        let mut counters = Self { pmu, plans, ..Self::unknown(cpu, String::new()) };
        match open_best(kernel, cpu, &counters.plans, |_, _| true) {
            Ok((group, refusal)) => counters.install(group, refusal),
            Err(reason) => counters.source = CounterState::Unknown { reason },
        }
        counters
    }

    /// Install a group. `refusal` says why no better one is open.
    fn install(&mut self, group: Group, refusal: Option<String>) {
        self.source = group.worth(refusal);
        self.group = Some(group);
    }

    fn summary(&self) -> CpuSummary {
        let (origin, events) = match &self.group {
            Some(group) => (group.origin.clone(), group.summary()),
            None => ("none".to_owned(), Vec::new()),
        };
        CpuSummary { cpu: self.cpu, source: self.source.clone(), pmu: self.pmu.clone(), origin, events }
    }

    /// Carry out a verdict. Return true if other counters were opened, which must be probed as
    /// well.
    fn sentence(&mut self, kernel: &dyn PerfOpener, verdict: ProbeVerdict) -> bool {
        match verdict {
            ProbeVerdict::Sound => false,
            ProbeVerdict::Dead(why) => {
                self.group = None;
                self.source = CounterState::Unknown { reason: why };
                false
            }
            ProbeVerdict::Absent { external: false, .. } => {
                if let Some(group) = &mut self.group {
                    let why = group.still(Role::Internal);
                    group.close(Role::Internal);
                    self.source = group.worth(Some(why));
                }
                false
            }
            ProbeVerdict::Absent { external: true, .. } => self.reopen(kernel),
        }
    }

    /// Open the next plan with another memory event.
    fn reopen(&mut self, kernel: &dyn PerfOpener) -> bool {
        let Some(group) = self.group.take() else { return false };
        let slot = Role::External.index();
        let why = group.still(Role::External);
        self.absent.extend(group.events[slot].clone());
        let at = group.plan;
        // Close first: the next group needs its counters.
        drop(group);
        let absent = &self.absent;
        let next = open_best(kernel, self.cpu, &self.plans, |plan, candidate| {
            plan > at && candidate.events[slot].as_ref().is_some_and(|event| !absent.contains(event))
        });
        match next {
            Ok((group, _)) => {
                self.install(group, Some(why));
                true
            }
            Err(more) => {
                self.source = CounterState::Unknown { reason: format!("{why}; {more}") };
                false
            }
        }
    }
}
