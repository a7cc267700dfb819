//! What a user can choose about a run.

use std::path::PathBuf;
use std::time::Duration;

use bias_policy::recal::Reference;
use bias_policy::table::CapacityTable;
use tracing::Level;

use super::knobs::Knobs;
use crate::model::CounterModel;
use crate::pmu::{self, Override};
use crate::swaps::SwapOptions;

/// What a user can choose about a run.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// The numbers.
    pub knobs: Knobs,
    /// Fixed thresholds of the predicted speedup [permille], low and high; None adapts them to what runs.
    pub thresholds_permille: Option<(u32, u32)>,
    /// Count what tasks stall on.
    pub bias: bool,
    /// Swaps that the agent plans.
    pub swaps: SwapOptions,
    /// Let CPUs move running tasks by themselves; without, an ablation, the agent's swaps alone do.
    pub moving: bool,
    /// Keep the table true while scheduling.
    pub recalibrate: bool,
    /// Events to count in place of those we would choose.
    pub events: Vec<Override>,
    /// What calibration found of the counters; None for nominal scales.
    pub model: Option<CounterModel>,
    /// Print statistics at this interval.
    pub stats_interval: Option<Duration>,
    /// What is logged; whoever installed the subscriber sees to it.
    pub log_level: Level,
    /// Print the verifier's log on a failure to load.
    pub verbose: bool,
    /// Schedule the threads of these cgroups only; everything if there are none.
    pub cgroups: Vec<PathBuf>,
    /// Schedule everything all the same, and limit bias to them.
    pub whole_system: bool,
    /// Where the table comes from, if the user named a file.
    pub capacity_file: Option<PathBuf>,
    /// The machine.
    pub table: CapacityTable,
    /// What its CPUs did when the table was measured, as far as that is known.
    pub references: Vec<Reference>,
}

impl RunOptions {
    /// What the counters are to be opened with.
    #[must_use]
    pub fn counting(&self) -> pmu::Options {
        pmu::Options { events: self.events.clone(), enabled: self.bias }
    }

    /// Is everything scheduled?
    #[must_use]
    pub fn schedules_everything(&self) -> bool {
        self.cgroups.is_empty() || self.whole_system
    }

    /// Are only the tasks of some cgroups judged by what they stall on, of all that are scheduled?
    #[must_use]
    pub fn limits_bias(&self) -> bool {
        !self.cgroups.is_empty() && self.whole_system
    }

    /// The defaults, for a machine described by `table`.
    #[must_use]
    pub fn new(table: CapacityTable) -> Self {
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
            log_level: Level::INFO,
            verbose: false,
            cgroups: Vec::new(),
            whole_system: false,
            capacity_file: None,
            table,
            references: Vec::new(),
        }
    }
}
