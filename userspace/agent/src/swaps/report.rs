// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Reports about swaps for `scx_bias swaps`, `status` and the statistics.

use bias_policy::audit::{Record, VerdictCounts};
use bias_policy::table::COMPONENTS;
use serde::{Deserialize, Serialize};

/// A swap that was carried out and judged, or could not be judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwapRecord {
    /// Tasks, CPUs, prediction and result.
    #[serde(flatten)]
    pub record: Record,
    /// Time of the request [ns, monotonic]. The record's own time is that of the verdict.
    pub asked_ns: u64,
    /// Name of the task that migrated to the fast CPU. It may hold control characters.
    pub up_name: String,
    /// Name of the other task. It may hold control characters.
    pub down_name: String,
}

/// Counts of planned swaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Swaps that were requested.
    pub asked: u64,
    /// Swaps that the kernel side refused.
    pub refused: u64,
    /// Swaps that were requested and not carried out, or abandoned because the table changed.
    pub undone: u64,
}

/// Figures about swaps.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SwapSummary {
    /// The reason why no swaps are planned; None if they are.
    pub off: Option<String>,
    /// Counts of planned swaps.
    pub tally: Tally,
    /// Counts of verdicts.
    pub verdicts: VerdictCounts,
    /// Mean time that a migration takes from a task [ns].
    pub migration_ns: u64,
    /// Factors on the calibrated costs of slow CPUs, learned from swaps [permille].
    pub factors_permille: [u32; COMPONENTS],
    /// Remaining error of the predicted slowdown [permille].
    pub error_permille: i32,
    /// Swapped tasks that the factors were learned from.
    pub samples: u64,
}

/// The answer to a request about swaps.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SwapsReport {
    /// Present time [ns, monotonic].
    pub now_ns: u64,
    /// The figures.
    pub summary: SwapSummary,
    /// Number of the next record, to ask for next time.
    pub next: u64,
    /// The last swaps from the requested number on, oldest first.
    pub swaps: Vec<SwapRecord>,
}
