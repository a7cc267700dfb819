// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Reports of a running scheduler that the daemon composes: its state, and its tasks.
//!
//! # Invariants
//!
//! An unknown value is None, never zero. There is no average speedup before a counted task has run,
//! and no adaptive threshold without an average.

use std::collections::BTreeMap;

use bias_policy::ffi;
use bias_policy::table::{COMPONENTS, CapacityTable, Class};
use serde::{Deserialize, Serialize};

use crate::bpf::{Band, CpuCounters, Stats, TaskReport};
use crate::optin::CgroupsReport;
use crate::recal::RecalReport;
use crate::swaps::SwapSummary;

/// State of a running scheduler.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StatusReport {
    /// Version of the running program.
    pub version: String,
    /// Time since the scheduler was started [s].
    pub uptime_s: u64,
    /// Scope of scheduling and bias.
    pub scope: Scope,
    /// CPUs by class, from the table in force.
    pub machine: Machine,
    /// State of the recalibration.
    pub recalibration: RecalReport,
    /// Speedups that decide a task's bias.
    pub thresholds: Thresholds,
    /// Value of each knob, by its key in the configuration file.
    pub knobs: BTreeMap<String, u64>,
    /// State of each CPU's counters.
    pub counters: Vec<CpuCounters>,
    /// Summary of the planned swaps.
    #[serde(default)]
    pub swaps: SwapSummary,
    /// Totals since the start.
    pub statistics: Stats,
}

/// Answer to a request for tasks, with all that `top` and `trace` need of the state.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TasksReport {
    /// Number to request with next time, for the tasks that run from now on.
    pub next: u32,
    /// CPUs by class, from the table in force.
    pub machine: Machine,
    /// Average predicted speedup of running tasks, weighted by time [permille].
    pub average_permille: Option<u32>,
    /// The tasks, in the order of their pids.
    pub tasks: Vec<TaskReport>,
}

/// Scope of scheduling and bias.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "kebab-case")]
pub enum Scope {
    /// The whole system is scheduled.
    #[default]
    WholeSystem,
    /// Only the threads of opted-in cgroups are scheduled.
    Cgroups(CgroupsReport),
    /// The whole system is scheduled, but only tasks of these cgroups have a bias.
    BiasInCgroups(CgroupsReport),
}

impl Scope {
    /// Add a note on the cgroups of the run.
    pub(crate) fn note(&mut self, note: String) {
        if let Self::Cgroups(report) | Self::BiasInCgroups(report) = self {
            report.notes.push(note);
        }
    }
}

/// CPUs by class.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The fast class, then the slow one if there is one.
    pub classes: Vec<CpuClass>,
}

/// CPUs of one class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuClass {
    /// Fast or slow.
    pub class: Class,
    /// CPUs of the class, in ascending order.
    pub cpus: Vec<u32>,
    /// Costs of a typical CPU for execute, internal and external work [permille of the reference
    /// CPU].
    pub cost_permille: [u32; COMPONENTS],
}

/// Speedups that decide a task's bias.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thresholds {
    /// True if the thresholds follow the average.
    pub adaptive: bool,
    /// A task is slow-biased up to this speedup [permille].
    pub low_permille: Option<u32>,
    /// A task is fast-biased from this speedup on [permille].
    pub high_permille: Option<u32>,
    /// Average predicted speedup of running tasks, weighted by time [permille].
    pub average_permille: Option<u32>,
}

impl Machine {
    pub(crate) fn of(table: &CapacityTable) -> Self {
        let class = |class| {
            let cpus =
                table.cpus.iter().filter(|entry| entry.class == class).map(|entry| entry.cpu).collect();
            CpuClass { class, cpus, cost_permille: table.class_cost_permille(class) }
        };
        let classes = [Class::Fast, Class::Slow].map(class).into_iter();
        Self { classes: classes.filter(|class| !class.cpus.is_empty()).collect() }
    }

    /// Return the number of CPUs in a class.
    #[must_use]
    pub fn count(&self, class: Class) -> usize {
        self.classes.iter().filter(|entry| entry.class == class).map(|entry| entry.cpus.len()).sum()
    }
}

impl Thresholds {
    pub(crate) fn of(fixed: Option<(u32, u32)>, band: Band) -> Self {
        let average = Some(band.average >> ffi::BIAS_AVERAGE_PLACES).filter(|average| *average != 0);
        let (low, high) = fixed.map_or_else(
            || (average.map(|_| band.low), average.map(|_| band.high)),
            |(low, high)| (Some(low), Some(high)),
        );
        Self { adaptive: fixed.is_none(), low_permille: low, high_permille: high, average_permille: average }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::optin::CgroupReport;
    use crate::pmu::{CounterState, CpuSummary, EventSummary, PerfEvent, Role, Unit};
    use bias_policy::table::CpuCapacity;

    #[test]
    fn thresholds_are_unknown_before_the_first_count_unless_fixed() {
        let start = Band { average: 0, low: 0, high: u32::MAX };
        let adaptive = Thresholds::of(None, start);
        assert_eq!((adaptive.adaptive, adaptive.low_permille, adaptive.high_permille), (true, None, None));
        let fixed = Thresholds::of(Some((1200, 1800)), start);
        assert_eq!(
            (fixed.adaptive, fixed.low_permille, fixed.high_permille),
            (false, Some(1200), Some(1800))
        );
        let known = Thresholds::of(None, Band { average: 1790 << 8, low: 1700, high: 1881 });
        assert_eq!((known.average_permille, known.low_permille), (Some(1790), Some(1700)));
    }

    #[test]
    fn a_machine_has_the_classes_that_have_cpus() {
        let entry = |cpu, class, cost| CpuCapacity::alone(cpu, class, [cost, 1000, 1000]);
        let mut cpus = vec![entry(0, Class::Fast, 1000), entry(1, Class::Fast, 1000)];
        assert_eq!(Machine::of(&CapacityTable { cpus: cpus.clone() }).classes.len(), 1);
        cpus.push(entry(2, Class::Slow, 2500));
        let machine = Machine::of(&CapacityTable { cpus });
        assert_eq!((machine.count(Class::Fast), machine.count(Class::Slow)), (2, 1));
        assert_eq!(machine.classes[1].cost_permille, [2500, 1000, 1000]);
    }

    #[test]
    fn a_report_survives_the_socket() {
        let event =
            PerfEvent { name: "e".into(), kind: 4, config: [1, 2, 3], unit: Unit::Slots { width: 5 } };
        let events = vec![EventSummary { role: Role::External, event }];
        let counters = |source| CpuCounters {
            summary: CpuSummary { cpu: 1, source, pmu: None, origin: "table".into(), events: events.clone() },
            counted: true,
        };
        let cgroup = CgroupReport { path: "/a".into(), threads: 3, real_time: 1 };
        let scope =
            CgroupsReport { cgroups: vec![cgroup], waiting: vec!["/b".into()], notes: vec!["c".into()] };
        let report = StatusReport {
            uptime_s: 3,
            scope: Scope::Cgroups(scope),
            counters: vec![
                counters(CounterState::Full),
                counters(CounterState::Degraded { reason: "why; remedy".into() }),
            ],
            statistics: Stats { moved: 3, ..Stats::default() },
            ..StatusReport::default()
        };
        let json = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<StatusReport>(&json).unwrap(), report, "{json}");
        assert!(json.contains("\"scope\":{\"mode\":\"cgroups\""), "{json}");
        assert_eq!(serde_json::to_value(Scope::WholeSystem).unwrap()["mode"], "whole-system");
    }
}
