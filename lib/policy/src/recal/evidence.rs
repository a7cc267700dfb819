// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Readings of CPUs, and the changes that follow from them.

use crate::table::{COMPONENTS, Class, CpuCapacity};
use serde::{Deserialize, Serialize};

/// Age up to which a reading holds [ms].
pub const FRESH_MS: u64 = 2000;

/// A reading of one CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// CPU number.
    pub cpu: u32,
    /// The reading.
    pub evidence: Evidence,
}

/// A reading, by its type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Evidence {
    /// Cycles per time, counted while tasks ran.
    Cycles {
        /// Cycles per millisecond.
        khz: f64,
        /// True if the CPU ran tasks for most of the interval.
        busy: bool,
    },
    /// Time of a step of the execute loop.
    Spot {
        /// Nanoseconds per step.
        step_ns: f64,
    },
    /// Share of its calibrated clock that a policy leaves the CPU.
    Limit {
        /// The share, at most 1.
        share: f64,
    },
}

/// Readings of a CPU when its entry was measured; None where unknown.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Reference {
    /// CPU number.
    pub cpu: u32,
    /// Cycles per millisecond of the execute loop.
    pub khz: Option<f64>,
    /// Time of a step of the execute loop [ns].
    pub step_ns: Option<f64>,
}

/// Cause of a change of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The cycles counted while tasks ran.
    Cycles,
    /// A spot check.
    SpotCheck,
    /// A limit of the CPU's clock.
    Limit,
    /// The other CPUs of its class; the CPU itself had no recent reading.
    Class,
    /// A change of another CPU: costs are relative to the best.
    Others,
}

/// Event that led to a check of a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trigger {
    /// The CPU came online.
    Hotplug,
    /// The limits of its clock changed.
    FrequencyPolicy,
    /// The hardware reported that it throttled the CPU.
    Thermal,
    /// The hardware feedback interface changed its values for the CPU.
    Feedback,
}

/// A CPU's class and costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Class of the CPU.
    pub class: Class,
    /// Cost of execute, internal and external work [permille of the CPU that is best at each].
    pub cost_permille: [u32; COMPONENTS],
}

/// A change of one CPU's entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Time of the change, by the caller's clock [ms].
    pub at_ms: u64,
    /// CPU number.
    pub cpu: u32,
    /// Its entry before.
    pub old: Entry,
    /// Its entry after the change.
    pub new: Entry,
    /// Cause of the change.
    pub cause: Cause,
    /// Event that led to the check; None if only the readings did.
    pub trigger: Option<Trigger>,
}

impl From<&CpuCapacity> for Entry {
    fn from(entry: &CpuCapacity) -> Self {
        Self { class: entry.class, cost_permille: entry.cost_permille }
    }
}
