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
//! * A verdict compares the measured gain with the predicted one: paid, neutral or regretted.
//! * [`Backoffs`]: a task whose swaps do not pay waits twice as long each time. Its failures expire
//!   with time.
//! * [`Correction`]: an error that is the same for all swaps is an error of the costs, and corrects
//!   them.
//! * [`Record`] and [`VerdictCounts`] show the results to the user. The caller keeps the records.
//!
//! The instructions of two tasks cannot be added, because one may need three times as many for the
//! same work. So each task is compared with itself. Its ratio is its speed after the swap over its
//! speed before, and does not depend on the model. The pair's gain is the weighted mean of the two
//! ratios, less one. A ratio's weight is the task's planned progress before the swap. This is the
//! planner's own sum with measured ratios in place of predicted ones.
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
#[cfg(test)]
mod tests;

pub use backoff::{BackoffLimits, Backoffs, MAX_TASKS};
pub use correction::{Correction, CostSample};

use crate::swap::{Move, Swap};
use crate::table::COMPONENTS;
use serde::{Deserialize, Serialize};

/// Largest gain or loss that counts as neutral [permille].
const DEAD_ZONE_PERMILLE: f64 = 20.0;
/// Least time that each task has to run before and after a swap [ns].
const MIN_RAN_NS: u64 = 20_000_000;

/// Work of a task in some time of running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rate {
    /// Instructions, or another measure of its work that does not depend on the CPU.
    pub instructions: u64,
    /// Time that it ran [ns], without waiting.
    pub ran_ns: u64,
}

/// A task before and after a swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Observed {
    /// Work on its old CPU.
    pub before: Rate,
    /// Work on its new CPU.
    pub after: Rate,
    /// Time that it lost in the migration and that `after` does not contain [ns].
    pub lost_ns: u64,
}

/// A swap that was carried out, and its measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Experiment {
    /// The swap as planned.
    pub swap: Swap,
    /// The task that migrated to the fast CPU.
    pub up: Observed,
    /// The task that migrated to the slow CPU.
    pub down: Observed,
    /// Calibrated cost of the fast CPU, without correction [permille].
    pub fast_cost_permille: [u32; COMPONENTS],
    /// Calibrated cost of the slow CPU, without correction [permille].
    pub slow_cost_permille: [u32; COMPONENTS],
}

/// Verdict on a swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The gain exceeds the dead zone.
    Paid,
    /// Gain and loss stay within the dead zone.
    Neutral,
    /// The loss exceeds the dead zone.
    Regretted,
}

/// Measured result of a swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Verdict by `net_permille`.
    pub verdict: Verdict,
    /// Gain in the two tasks' progress without the cost of migrations, comparable with the
    /// prediction [permille].
    pub measured_permille: i32,
    /// The same gain, less the time that the migrations took [permille].
    pub net_permille: i32,
    /// Speed of the task that migrated to the fast CPU, after over before [permille].
    pub up_permille: u32,
    /// Speed of the task that migrated to the slow CPU, after over before [permille].
    pub down_permille: u32,
    /// The swap did not pay, and this task fell short of its prediction. Both tasks failed if
    /// neither fell short by itself.
    pub up_failed: bool,
    /// The same for the other task, see `up_failed`.
    pub down_failed: bool,
}

/// Reason why an experiment cannot be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum Unjudged {
    /// A task ran for too short a time.
    #[error("a task ran too little before or after the swap; it may have slept or ended")]
    TooShort,
    /// A task did no work, which is impossible for a running task.
    #[error("no instructions were counted; the CPU's counters are missing or in use: see scx_bias check")]
    NoWork,
}

/// One task's part of a verdict.
struct Part {
    /// Progress before the swap.
    worth: f64,
    /// Predicted speed after over before.
    predicted: f64,
    /// Measured speed after over before.
    ratio: f64,
    /// Measured ratio with the lost time included.
    net: f64,
}

impl Part {
    fn new(planned: &Move, seen: &Observed) -> Result<Self, Unjudged> {
        if seen.before.ran_ns < MIN_RAN_NS || seen.after.ran_ns < MIN_RAN_NS {
            return Err(Unjudged::TooShort);
        }
        let ratio = seen.speed_ratio().ok_or(Unjudged::NoWork)?;
        let ran = seen.after.ran_ns as f64;
        // A plan has progress above zero, but a record from elsewhere may not.
        let before = f64::from(planned.before_ppm.max(1));
        Ok(Self {
            worth: before,
            predicted: f64::from(planned.after_ppm) / before,
            ratio,
            net: ratio * ran / (ran + seen.lost_ns as f64),
        })
    }
}

impl Observed {
    /// Return the speed after over the speed before; None if the task did not run or did no work.
    fn speed_ratio(&self) -> Option<f64> {
        let speed = |rate: &Rate| rate.instructions as f64 / rate.ran_ns as f64;
        let ratio = speed(&self.after) / speed(&self.before);
        (ratio.is_finite() && ratio > 0.0).then_some(ratio)
    }
}

impl Experiment {
    /// Judge the swap, or return the reason why it cannot be judged.
    fn judge(&self) -> Result<Outcome, Unjudged> {
        let (up, down) = (Part::new(&self.swap.up, &self.up)?, Part::new(&self.swap.down, &self.down)?);
        let total = up.worth + down.worth;
        let gain =
            |ratio: fn(&Part) -> f64| (up.worth * ratio(&up) + down.worth * ratio(&down)) / total - 1.0;
        let net = gain(|part| part.net) * 1000.0;
        let verdict = if net > DEAD_ZONE_PERMILLE {
            Verdict::Paid
        } else if net < -DEAD_ZONE_PERMILLE {
            Verdict::Regretted
        } else {
            Verdict::Neutral
        };
        let paid = verdict == Verdict::Paid;
        let short =
            |part: &Part| part.worth / total * (part.predicted - part.net) * 1000.0 > DEAD_ZONE_PERMILLE;
        let neither = !short(&up) && !short(&down);
        Ok(Outcome {
            verdict,
            measured_permille: (gain(|part| part.ratio) * 1000.0).round() as i32,
            net_permille: net.round() as i32,
            up_permille: (up.ratio * 1000.0).round() as u32,
            down_permille: (down.ratio * 1000.0).round() as u32,
            up_failed: !paid && (neither || short(&up)),
            down_failed: !paid && (neither || short(&down)),
        })
    }

    /// Return the samples of the slow CPU's cost: one for each task whose speed is known.
    fn samples(&self) -> Vec<CostSample> {
        let sample = |planned: &Move, slowdown: Option<f64>| {
            Some(CostSample {
                stack_permille: planned.stack_permille,
                fast_cost_permille: self.fast_cost_permille,
                slow_cost_permille: self.slow_cost_permille,
                slowdown: slowdown?,
            })
        };
        let up = sample(&self.swap.up, self.up.speed_ratio());
        let down = sample(&self.swap.down, self.down.speed_ratio().map(f64::recip));
        up.into_iter().chain(down).collect()
    }
}

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
        let ending = match experiment.judge() {
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
