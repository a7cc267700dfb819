// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Audit: judges every swap as an experiment and applies the result.
//!
//! # Problem
//!
//! A prediction plans a swap. Its CPI stack may be old, and the costs may be wrong. It ignores the
//! effect of two tasks on each other's caches. A scheduler that never checks its results repeats
//! the same mistakes at full speed.
//!
//! # Approach
//!
//! The caller that carries out a [`Swap`](crate::swap::Swap) counts both tasks' instructions before
//! and after. It passes the figures in as an [`Experiment`].
//! * [`judge()`] compares the measured gain with the predicted one: paid, neutral or regretted.
//! * [`Backoff`]: a task whose swaps do not pay waits twice as long each time. Its failures expire
//!   with time.
//! * [`Correction`]: an error that is the same for all swaps is an error of the costs, and corrects
//!   them.
//! * [`Record`] and [`VerdictCounts`] show the results to the user. The caller keeps the records.
//!
//! [`Audit`] combines these parts; each can be used alone. No part reads a clock.
//!
//! # Invariants
//!
//! Tests of each part check them:
//! * Memory is bounded: the number of remembered tasks has a limit.
//! * Times saturate: a clock that steps back causes a delay, not a panic.
//! * For all measurements, factors and waits stay within their bounds.
//!
//! # Limits
//!
//! * A task may change phase during its migration, and its verdict then covers both effects. One
//!   verdict is weak evidence. So it delays a task for seconds, and corrects costs by an eighth of
//!   the error.
//! * Instructions count as work, so a task that spins seems to do more work.
//! * The audit does not see neighbours whose caches a swap disturbed.

mod backoff;
mod correction;
mod judge;
mod record;

#[cfg(test)]
mod audit_tests;
#[cfg(test)]
mod correction_tests;

pub use backoff::{Backoff, BackoffLimits, Backoffs};
pub use correction::{Correction, CostSample, FACTOR_BOUNDS_PERMILLE};
pub use judge::{Experiment, JudgeLimits, Observed, Outcome, Rate, Unjudged, Verdict, judge};
pub use record::{Ending, Record, VerdictCounts};

/// Maximum number of tasks of which data is kept.
pub const MAX_TASKS: usize = 4096;

/// Results of all swaps so far.
#[derive(Debug, Clone, PartialEq)]
pub struct Audit {
    /// Totals of all experiments.
    pub summary: VerdictCounts,
    /// Tasks that wait for their next swap.
    pub backoffs: Backoffs,
    /// Factors for the slow CPUs' costs.
    pub correction: Correction,
}

impl Default for Audit {
    fn default() -> Self {
        Self {
            summary: VerdictCounts::default(),
            backoffs: Backoffs::new(BackoffLimits::default(), MAX_TASKS),
            correction: Correction::default(),
        }
    }
}

impl Audit {
    /// Judge an experiment that ended at `at_ns`, update waits and factors, and return its
    /// record.
    pub fn conclude(&mut self, experiment: &Experiment, at_ns: u64) -> Record {
        let ending = match judge(experiment, &JudgeLimits::default()) {
            Ok(outcome) => Ending::Judged(outcome),
            Err(why) => Ending::Unjudged(why),
        };
        if let Ending::Judged(outcome) = ending {
            let swap = &experiment.swap;
            self.backoffs.note(swap.up.pid, !outcome.up_failed, at_ns);
            self.backoffs.note(swap.down.pid, !outcome.down_failed, at_ns);
            for sample in experiment.samples() {
                self.correction.learn(&sample);
            }
        }
        let lost_ns = experiment.up.lost_ns.saturating_add(experiment.down.lost_ns);
        let record = Record { number: self.summary.ended(), at_ns, swap: experiment.swap, lost_ns, ending };
        self.summary.add(&record);
        record
    }
}
