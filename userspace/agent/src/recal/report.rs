// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The state of recalibration for `scx_bias status`.

use super::recalibrator::Recalibrator;
use crate::boot_time;
use crate::costs::Live;
use bias_policy::recal::Change;
use bias_policy::table::{COMPONENTS, Class};
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// Source that keeps a CPU's entry true.
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

impl Recalibrator {
    /// Return the present state, with the costs in force.
    #[must_use]
    pub fn report(&self, live: &Live) -> RecalReport {
        let now_ms = self.clock_ms(Instant::now());
        let costs = &live.costs;
        let cpus = live.table().cpus.iter().map(|entry| {
            let counted = self.before.as_ref().is_some_and(|(_, readings)| {
                readings.iter().any(|reading| reading.cpu == entry.cpu && reading.counted)
            });
            let seen = self.recal.seen(entry.cpu);
            CpuRecal {
                cpu: entry.cpu,
                class: entry.class,
                cost_permille: entry.cost_permille,
                calibrated_permille: costs.calibrated().get(entry.cpu).map(|home| home.cost_permille),
                clock_permille: costs.clock_permille(entry.cpu),
                learned_permille: Some(costs.learned_permille(entry.class)),
                speed_permille: self.recal.speed_permille(entry.cpu).unwrap_or(1000),
                follows: match (counted, seen) {
                    (true, _) => Follows::Cycles,
                    (false, Some(_)) => Follows::SpotChecks,
                    (false, None) => Follows::Nothing,
                },
                seen_ms_ago: seen.map(|seen| now_ms.saturating_sub(seen)),
            }
        });
        RecalReport {
            on: self.on,
            failure: live.failure().map(str::to_owned),
            unmeasured: self.late.cpus.clone(),
            cpus: cpus.collect(),
            changed: self.changed,
            spot_checks: self.spot_checks,
            no_events: self.no_events.clone(),
            changes: self.changes.iter().map(by_wall_clock).collect(),
        }
    }
}

/// Return a change with its time by the present wall clock.
fn by_wall_clock(change: &Change) -> Change {
    Change { at_ms: boot_time::to_wall_ms(change.at_ms), ..change.clone() }
}
