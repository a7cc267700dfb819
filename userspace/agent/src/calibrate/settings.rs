// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Parameters and result of a calibration.

use crate::counter_model::CounterModel;
use crate::pmu::Probed;
use bias_policy::classes::{CpuSamples, Split, SplitRule};
use bias_policy::table::CapacityTable;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Duration, number of visits and other parameters of a calibration.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Visits to each CPU. More visits average out more drift and take longer.
    pub rounds: u32,
    /// Length of a visit. None means what the budget allows, within [`VISIT`].
    pub visit: Option<Duration>,
    /// Length of one timed chunk. It must be short against the time between ticks.
    pub chunk: Duration,
    /// Size of the memory loop's set [bytes]. None means that calibration measures to choose it.
    pub external_bytes: Option<usize>,
    /// Time within which CPUs are measured one at a time. Larger machines are measured in parallel
    /// to keep within it.
    pub budget: Duration,
    /// Rule that decides when a split of the CPUs into classes counts.
    pub rule: SplitRule,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            rounds: 5,
            visit: None,
            chunk: Duration::from_millis(2),
            external_bytes: None,
            budget: Duration::from_millis(1600),
            rule: SplitRule::default(),
        }
    }
}

/// Shortest and longest visit when the settings give no length.
pub const VISIT: (Duration, Duration) = (Duration::from_millis(40), Duration::from_millis(120));

/// Conditions under which the samples were taken. They are stored with the samples.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conditions {
    /// Visits to each CPU.
    pub rounds: u32,
    /// Length of a visit [us].
    pub visit_us: u64,
    /// Length of a chunk [us].
    pub chunk_us: u64,
    /// Size of the memory loop's set [bytes].
    pub external_bytes: u64,
    /// CPUs measured at the same time.
    pub lanes: usize,
    /// True if the loops ran ahead of ordinary tasks (SCHED_FIFO) throughout.
    pub realtime: bool,
    /// Duration of the calibration [ms].
    pub took_ms: u64,
}

#[cfg(test)]
impl Conditions {
    /// Return conditions for samples that are made up.
    pub(crate) const fn made_up() -> Self {
        Self { rounds: 1, visit_us: 1, chunk_us: 1, external_bytes: 1, lanes: 1, realtime: false, took_ms: 1 }
    }
}

/// Result of a calibration.
#[derive(Debug, Clone)]
pub struct Calibration {
    /// Costs and classes.
    pub table: CapacityTable,
    /// The evidence for the classes.
    pub split: Split,
    /// Raw samples in the order taken [ns per step].
    pub samples: Vec<CpuSamples>,
    /// Conditions under which the samples were taken.
    pub conditions: Conditions,
    /// Scales of the counters; None without counters.
    pub model: Option<CounterModel>,
    /// Counts per CPU and event, which show the dead events.
    pub seen: Vec<Probed>,
    /// Cycles per millisecond while the execute loop ran [kHz], for CPUs that counted them.
    pub clocks: Vec<(u32, u64)>,
}
