//! What is told of swaps: for `scx_bias swaps`, `status` and the statistics.

use std::collections::VecDeque;

use bias_policy::audit::{Record, Summary};
use bias_policy::table::COMPONENTS;
use serde::{Deserialize, Serialize};

use super::trial::Trial;

/// Swaps that are remembered.
const MOST: usize = 1024;

/// A swap that was carried out and judged, or could not be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwapRecord {
    /// Who, where, what was predicted and what came of it.
    #[serde(flatten)]
    pub record: Record,
    /// When it was asked for [ns, monotonic]; the record's own time is when it was judged.
    pub asked_ns: u64,
    /// Name of the task that went to the fast CPU. May hold control characters.
    pub up_name: String,
    /// Name of the other.
    pub down_name: String,
}

/// What became of plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Swaps that were asked for.
    pub asked: u64,
    /// That no longer held when they were to be asked for.
    pub refused: u64,
    /// That were asked for and not carried out, or given up because the table they went by changed.
    pub undone: u64,
}

/// The figures of swaps.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SwapSummary {
    /// Why none are planned; None if they are.
    pub off: Option<String>,
    /// What became of plans.
    pub tally: Tally,
    /// What became of swaps.
    pub verdicts: Summary,
    /// Mean time that a migration takes from a task [ns].
    pub migration_ns: u64,
    /// What slow CPUs' calibrated costs are multiplied with, learnt from swaps [permille].
    pub factors_permille: [u32; COMPONENTS],
    /// Error of the predicted slowdown that is left [permille].
    pub error_permille: i32,
    /// Swapped tasks that taught this.
    pub samples: u64,
}

/// The answer to a question about swaps.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SwapsReport {
    /// Now [ns, monotonic].
    pub now_ns: u64,
    /// In figures.
    pub summary: SwapSummary,
    /// Number of the next record: what to ask for next time.
    pub next: u64,
    /// The last swaps from the number that was asked for, the oldest first.
    pub swaps: Vec<SwapRecord>,
}

/// The last records.
#[derive(Debug, Default)]
pub(super) struct History(VecDeque<SwapRecord>);

impl History {
    pub(super) fn push(&mut self, record: Record, trial: &Trial) {
        self.0.push_back(SwapRecord {
            record,
            asked_ns: trial.asked_ns,
            up_name: trial.up.name.clone(),
            down_name: trial.down.name.clone(),
        });
        while self.0.len() > MOST {
            self.0.pop_front();
        }
    }

    /// Those from number `first` on.
    pub(super) fn from(&self, first: u64) -> Vec<SwapRecord> {
        self.0.iter().filter(|one| one.record.number >= first).cloned().collect()
    }
}
