//! Did a swap pay?
//!
//! Two tasks' instructions cannot be added up: one may need three times as many for the same. So each task is its own measure. Its speed after the
//! swap over its speed before is a ratio that owes nothing to the model; the pair's gain is the mean of the two ratios, weighted by what the tasks'
//! progress before the swap was worth when it was planned, less one. This is the planner's own sum with measured ratios in place of predicted ones.

use super::correction::Sample;
use crate::swap::{Move, Swap};
use crate::table::COMPONENTS;
use serde::{Deserialize, Serialize};

/// What a task did in some time of running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Rate {
    /// Instructions, or any other measure of its work that does not depend on the CPU.
    pub instructions: u64,
    /// Time it ran meanwhile [ns]; waiting does not count.
    pub ran_ns: u64,
}

/// A task before and after a swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Observed {
    /// At its old place.
    pub before: Rate,
    /// At its new place.
    pub after: Rate,
    /// Time that the migration took from it and that `after` does not contain [ns].
    pub lost_ns: u64,
}

/// A swap that was carried out, and what was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Experiment {
    /// As it was planned.
    pub swap: Swap,
    /// The task that went to the fast CPU.
    pub up: Observed,
    /// The task that went to the slow CPU.
    pub down: Observed,
    /// Calibrated cost of the fast CPU, without correction [permille].
    pub fast_cost_permille: [u32; COMPONENTS],
    /// Calibrated cost of the slow CPU, without correction [permille].
    pub slow_cost_permille: [u32; COMPONENTS],
}

/// When an experiment is judged, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JudgeLimits {
    /// A gain or loss up to this is neither [permille].
    pub dead_zone_permille: u32,
    /// Each task has to run for this long before and after [ns].
    pub least_ran_ns: u64,
}

impl Default for JudgeLimits {
    fn default() -> Self {
        Self { dead_zone_permille: 20, least_ran_ns: 20_000_000 }
    }
}

/// Whether a swap was worth it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It gained more than the dead zone.
    Paid,
    /// Neither.
    Neutral,
    /// It lost more than the dead zone.
    Regretted,
}

/// What came of a swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// By `net_permille`.
    pub verdict: Verdict,
    /// Gain in the two tasks' progress, weighted, migrations left out: to compare with the prediction [permille].
    pub measured_permille: i32,
    /// The same, the time that migrations took deducted [permille].
    pub net_permille: i32,
    /// Speed of the task that went up, after over before [permille].
    pub up_permille: u32,
    /// Speed of the task that went down, after over before [permille].
    pub down_permille: u32,
    /// The swap did not pay, and this task fell short of what was predicted of it; both, if neither did by itself.
    pub up_failed: bool,
    /// See `up_failed`.
    pub down_failed: bool,
}

/// Why an experiment cannot be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum Unjudged {
    /// A task ran too little.
    #[error("a task ran too little before or after the swap; it may have slept or ended")]
    TooShort,
    /// A task did nothing, which no running task does.
    #[error("no instructions were counted; the CPU has no counters, or they are taken: see scx_bias check")]
    NoWork,
}

/// Judges `experiment`.
///
/// # Errors
/// Says why it cannot be judged.
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

/// One task's part.
struct Part {
    /// What its progress before the swap was worth.
    worth: f64,
    /// Its speed after over before, as predicted.
    predicted: f64,
    /// As measured.
    ratio: f64,
    /// As measured, lost time included.
    net: f64,
}

impl Part {
    fn new(planned: &Move, seen: &Observed, limits: &JudgeLimits) -> Result<Self, Unjudged> {
        let least_ns = limits.least_ran_ns.max(1);
        if seen.before.ran_ns < least_ns || seen.after.ran_ns < least_ns {
            return Err(Unjudged::TooShort);
        }
        let ratio = seen.speed_ratio().ok_or(Unjudged::NoWork)?;
        let ran = seen.after.ran_ns as f64;
        // A plan has progress above zero; a record that was read from elsewhere may not.
        let before = f64::from(planned.before_ppm.max(1));
        Ok(Self {
            worth: before * f64::from(planned.weight.max(1)),
            predicted: f64::from(planned.after_ppm) / before,
            ratio,
            net: ratio * ran / (ran + seen.lost_ns as f64),
        })
    }
}

impl Observed {
    /// Speed after over speed before; None if nothing was done or the task did not run.
    fn speed_ratio(&self) -> Option<f64> {
        let speed = |rate: &Rate| rate.instructions as f64 / rate.ran_ns as f64;
        let ratio = speed(&self.after) / speed(&self.before);
        (ratio.is_finite() && ratio > 0.0).then_some(ratio)
    }
}

impl Experiment {
    /// What it says of the slow CPU's cost: one sample of each task whose speed is known.
    #[must_use]
    pub fn samples(&self) -> Vec<Sample> {
        let sample = |planned: &Move, slowdown: Option<f64>| {
            Some(Sample {
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
