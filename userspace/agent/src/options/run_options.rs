// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Options of a run.

use std::path::PathBuf;
use std::time::Duration;

use tracing::Level;

use super::knobs::Knobs;
use super::profile::Profile;
use crate::counter_model::CounterModel;
use crate::housekeeping::HousekeepingCpu;
use crate::pmu::{self, Override};
use crate::swaps::SwapOptions;

/// Options of a run that the user can choose.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Kind of use, which decides the defaults of other options.
    pub profile: Profile,
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
    /// Length of the kernel's dump after an error [bytes].
    pub exit_dump_len: u32,
    /// Cgroups whose threads are scheduled. If there are none, the whole system is scheduled.
    pub cgroups: Vec<PathBuf>,
    /// True if only tasks that ask for SCHED_EXT are scheduled, even without cgroups.
    pub partial: bool,
    /// True if the whole system is scheduled all the same, and only bias is limited to these
    /// cgroups.
    pub limit_bias: bool,
    /// CPU of all threads outside these cgroups, None if they run anywhere.
    pub housekeeping: Option<HousekeepingCpu>,
    /// File of the table, if the user named one.
    pub capacity_file: Option<PathBuf>,
}

impl RunOptions {
    /// Return the options of a run with this profile and nothing else.
    #[must_use]
    pub fn of(profile: Profile) -> Self {
        let mut options = Self { profile, ..Self::default() };
        let knobs = &mut options.knobs;
        match profile {
            Profile::Auto => {}
            Profile::Gaming => {
                (knobs.slice_us, knobs.slice_min_us) = (4_000, 500);
                knobs.rotate_gap_us = 80_000;
            }
            Profile::LowLatency => {
                (knobs.slice_us, knobs.slice_min_us) = (2_000, 300);
                knobs.steal_lag_us = 20_000;
            }
            Profile::PowerSave => {
                knobs.slice_us = 20_000;
                knobs.sample_every = 16;
                knobs.gain_permille = 200;
                options.swaps.enabled = false;
            }
            Profile::Server => {
                (knobs.slice_us, knobs.slice_min_us) = (20_000, 3_000);
            }
        }
        options
    }

    /// Return the options with which the counters are opened.
    #[must_use]
    pub fn counting(&self) -> pmu::Options {
        pmu::Options { events: self.events.clone(), enabled: self.bias }
    }

    /// Return true if the whole system is scheduled.
    #[must_use]
    pub fn schedules_everything(&self) -> bool {
        !self.partial && (self.cgroups.is_empty() || self.limit_bias)
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
            profile: Profile::Auto,
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
            exit_dump_len: 32_768,
            partial: false,
            limit_bias: false,
            housekeeping: None,
            capacity_file: None,
        }
    }
}
