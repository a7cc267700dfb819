//! Options of a run.

use std::path::PathBuf;
use std::time::Duration;

use tracing::Level;

use super::knobs::Knobs;
use crate::counter_model::CounterModel;
use crate::pmu::{self, Override};
use crate::swaps::SwapOptions;

/// Options of a run that the user can choose.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Numeric options.
    pub knobs: Knobs,
    /// Fixed thresholds of the predicted speedup [permille], low and high. None adapts them to the
    /// running tasks.
    pub thresholds_permille: Option<(u32, u32)>,
    /// True if the stalls of tasks are counted.
    pub bias: bool,
    /// Options of planned swaps.
    pub swaps: SwapOptions,
    /// True if CPUs migrate running tasks by themselves. If false, for an ablation, only planned
    /// swaps do.
    pub moving: bool,
    /// True if the table is recalibrated during the run.
    pub recalibrate: bool,
    /// Events to count in place of the default ones.
    pub events: Vec<Override>,
    /// Scales of the counters from calibration, None for nominal scales.
    pub model: Option<CounterModel>,
    /// Interval at which statistics are printed, None for never.
    pub stats_interval: Option<Duration>,
    /// True if statistics are printed as JSON.
    pub stats_as_json: bool,
    /// Log level. The code that installed the subscriber applies it.
    pub log_level: Level,
    /// True if libbpf's messages are printed, with the verifier's log.
    pub verbose: bool,
    /// Cgroups whose threads are scheduled. If there are none, the whole system is scheduled.
    pub cgroups: Vec<PathBuf>,
    /// True if the whole system is scheduled all the same, and only bias is limited to these
    /// cgroups.
    pub limit_bias: bool,
    /// File of the table, if the user named one.
    pub capacity_file: Option<PathBuf>,
}

impl RunOptions {
    /// Return the options with which the counters are opened.
    #[must_use]
    pub fn counting(&self) -> pmu::Options {
        pmu::Options { events: self.events.clone(), enabled: self.bias }
    }

    /// Return true if the whole system is scheduled.
    #[must_use]
    pub fn schedules_everything(&self) -> bool {
        self.cgroups.is_empty() || self.limit_bias
    }

    /// Return true if the whole system is scheduled and bias is limited to some cgroups.
    #[must_use]
    pub fn limits_bias(&self) -> bool {
        !self.cgroups.is_empty() && self.limit_bias
    }
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            knobs: Knobs::default(),
            thresholds_permille: None,
            bias: true,
            swaps: SwapOptions::default(),
            moving: true,
            recalibrate: true,
            events: Vec::new(),
            model: None,
            stats_interval: None,
            stats_as_json: false,
            log_level: Level::INFO,
            verbose: false,
            cgroups: Vec::new(),
            limit_bias: false,
            capacity_file: None,
        }
    }
}
