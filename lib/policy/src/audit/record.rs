// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The user's view of the audit: single experiments, and totals of all.

use super::judge::{Outcome, Unjudged, Verdict};
use crate::swap::Swap;
use serde::{Deserialize, Serialize};

/// End of an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ending {
    /// The experiment has a verdict.
    Judged(Outcome),
    /// The experiment could not be judged.
    Unjudged(Unjudged),
}

/// An experiment that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Sequence number, from 0.
    pub number: u64,
    /// Time of its end [ns].
    pub at_ns: u64,
    /// The swap, with its prediction.
    pub swap: Swap,
    /// Time that the migrations took from both tasks [ns].
    pub lost_ns: u64,
    /// Result of the experiment.
    pub ending: Ending,
}

/// Totals of all experiments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct VerdictCounts {
    /// Number of swaps that paid.
    pub paid: u64,
    /// Number of swaps that neither paid nor were regretted.
    pub neutral: u64,
    /// Number of swaps that were regretted.
    pub regretted: u64,
    /// Number of swaps without a verdict.
    pub unjudged: u64,
    /// Sum of the predicted gains of judged swaps [permille].
    pub predicted_permille: i64,
    /// Sum of their measured gains, without the cost of migrations [permille].
    pub measured_permille: i64,
    /// Sum of their measured gains, less the time that migrations took [permille].
    pub net_permille: i64,
    /// Time that the migrations of all swaps took [ns].
    pub lost_ns: u64,
}

impl VerdictCounts {
    /// Add a record to the totals.
    pub fn add(&mut self, record: &Record) {
        self.lost_ns = self.lost_ns.saturating_add(record.lost_ns);
        let Ending::Judged(outcome) = record.ending else {
            self.unjudged += 1;
            return;
        };
        match outcome.verdict {
            Verdict::Paid => self.paid += 1,
            Verdict::Neutral => self.neutral += 1,
            Verdict::Regretted => self.regretted += 1,
        }
        self.predicted_permille += i64::from(record.swap.gain_permille);
        self.measured_permille += i64::from(outcome.measured_permille);
        self.net_permille += i64::from(outcome.net_permille);
    }

    /// Return the number of swaps with a verdict.
    #[must_use]
    pub fn judged(&self) -> u64 {
        self.paid + self.neutral + self.regretted
    }

    /// Return the number of all swaps, which is the sequence number of the next record.
    #[must_use]
    pub fn ended(&self) -> u64 {
        self.judged() + self.unjudged
    }

    /// Return the mean predicted, measured and net gain of a swap with a verdict [permille]; None
    /// without any.
    #[must_use]
    pub fn means_permille(&self) -> Option<[i64; 3]> {
        let judged = i64::try_from(self.judged()).ok().filter(|judged| *judged > 0)?;
        Some([self.predicted_permille, self.measured_permille, self.net_permille].map(|sum| sum / judged))
    }
}
