// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The state of recalibration for `scx_bias status`.

use crate::boot_time;
use bias_policy::recal::{Cause, Change, Trigger};
use bias_policy::table::{COMPONENTS, Class};
use serde::{Deserialize, Serialize};

/// Source that keeps a CPU's entry up to date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Follows {
    /// Cycles counted while tasks run there.
    Cycles,
    /// Spot checks while it idles.
    SpotChecks,
    /// No source: nothing is counted there, and no check of it succeeded.
    Nothing,
}

/// One CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuRecal {
    /// The kernel's CPU number.
    pub cpu: u32,
    /// The present class.
    pub class: Class,
    /// The costs in force [permille of the best CPU of each component].
    pub cost_permille: [u32; COMPONENTS],
    /// The calibrated costs [permille]. These three are None from a version without them.
    #[serde(default)]
    pub calibrated_permille: Option<[u32; COMPONENTS]>,
    /// Time of a cycle relative to that of the calibration [permille].
    #[serde(default)]
    pub clock_permille: Option<u32>,
    /// Factors learned from swaps [permille].
    #[serde(default)]
    pub learned_permille: Option<[u32; COMPONENTS]>,
    /// The clock relative to that of the calibration [permille].
    pub speed_permille: u32,
    /// Source of these values.
    pub follows: Follows,
    /// Time since the entry was last confirmed or changed [ms]; None if it never was.
    pub seen_ms_ago: Option<u64>,
}

/// The state of recalibration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecalReport {
    /// True if recalibration is on.
    pub on: bool,
    /// The reason why the last new table could not be put in force; None if it could.
    pub failure: Option<String>,
    /// CPUs that came online later and are not measured yet. They count as fast, with the best
    /// costs.
    #[serde(default)]
    pub unmeasured: Vec<u32>,
    /// The CPUs of the table.
    pub cpus: Vec<CpuRecal>,
    /// Entries changed since the start.
    pub changed: u64,
    /// Spot checks made since the start.
    pub spot_checks: u64,
    /// The reason why events of heat and of the hardware feedback interface do not arrive; None if
    /// they do.
    #[serde(default, alias = "deaf")]
    pub no_events: Option<String>,
    /// The last changes, newest last. Their time is in ms since 1970.
    pub changes: Vec<Change>,
}

/// Return a change in words.
#[must_use]
pub fn line(change: &Change) -> String {
    let costs = |costs: [u32; COMPONENTS]| {
        costs.map(|cost| format!("{}.{:02}", cost / 1000, cost % 1000 / 10)).join("/")
    };
    let cause = match change.cause {
        Cause::Cycles => "counted cycles",
        Cause::SpotCheck => "a spot check",
        Cause::Limit => "the limit of its clock",
        Cause::Class => "the other CPUs of its class",
        Cause::Others => "another CPU's change",
    };
    let trigger = match change.trigger {
        None => "",
        Some(Trigger::Hotplug) => " after it came online",
        Some(Trigger::FrequencyPolicy) => " after its frequency limits changed",
        Some(Trigger::Thermal) => " after thermal throttling",
        Some(Trigger::Feedback) => " after the hardware announced it",
    };
    format!(
        "CPU {}: {} {} became {} {} (execute/internal/external), by {cause}{trigger}",
        change.cpu,
        change.old.class.name(),
        costs(change.old.cost_permille),
        change.new.class.name(),
        costs(change.new.cost_permille),
    )
}

/// Return a change with its time by the present wall clock.
pub(super) fn by_wall_clock(change: &Change) -> Change {
    Change { at_ms: boot_time::to_wall_ms(change.at_ms), ..change.clone() }
}
