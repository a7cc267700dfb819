// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Verdict on a swap.
//!
//! The instructions of two tasks cannot be added, because one may need three times as many for the
//! same work. So each task is compared with itself. Its ratio is its speed after the swap over its
//! speed before, and does not depend on the model.
//!
//! The pair's gain is the weighted mean of the two ratios, less one. A ratio's weight is the task's
//! planned progress before the swap. This is the planner's own sum with measured ratios in place of
//! predicted ones.

use super::correction::CostSample;
use crate::swap::{Move, Swap};
use crate::table::COMPONENTS;
use serde::{Deserialize, Serialize};

/// Work of a task in some time of running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Rate {
    /// Instructions, or another measure of its work that does not depend on the CPU.
    pub instructions: u64,
    /// Time that it ran [ns], without waiting.
    pub ran_ns: u64,
}

/// A task before and after a swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
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

/// Limits of the verdicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JudgeLimits {
    /// Largest gain or loss that counts as neutral [permille].
    pub dead_zone_permille: u32,
    /// Least time that each task has to run before and after [ns].
    pub min_ran_ns: u64,
}

impl Default for JudgeLimits {
    fn default() -> Self {
        Self { dead_zone_permille: 20, min_ran_ns: 20_000_000 }
    }
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
    #[error("no instructions were counted; the CPU has no counters, or they are taken: see scx_bias check")]
    NoWork,
}

/// Judge `experiment`.
///
/// # Errors
/// The error gives the reason why it cannot be judged.
pub fn judge(experiment: &Experiment, limits: &JudgeLimits) -> Result<Outcome, Unjudged> {
    let up = Part::new(&experiment.swap.up, &experiment.up, limits)?;
    let down = Part::new(&experiment.swap.down, &experiment.down, limits)?;
    let total = up.worth + down.worth;
    let gain = |ratio: fn(&Part) -> f64| (up.worth * ratio(&up) + down.worth * ratio(&down)) / total - 1.0;
    let net = gain(|part| part.net) * 1000.0;
    let dead_zone = f64::from(limits.dead_zone_permille);
    let verdict = if net > dead_zone {
        Verdict::Paid
    } else if net < -dead_zone {
        Verdict::Regretted
    } else {
        Verdict::Neutral
    };
    let paid = verdict == Verdict::Paid;
    let short = |part: &Part| part.worth / total * (part.predicted - part.net) * 1000.0 > dead_zone;
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
    fn new(planned: &Move, seen: &Observed, limits: &JudgeLimits) -> Result<Self, Unjudged> {
        let min_ns = limits.min_ran_ns.max(1);
        if seen.before.ran_ns < min_ns || seen.after.ran_ns < min_ns {
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
    /// Return the samples of the slow CPU's cost: one for each task whose speed is known.
    #[must_use]
    pub fn samples(&self) -> Vec<CostSample> {
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
