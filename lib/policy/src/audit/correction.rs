// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Correction of the slow class's costs by the measurements of swaps.
//!
//! # Problem
//!
//! Calibration's loops are not the tasks that run. If swaps systematically gain less or more than
//! predicted, the costs do not describe the machine for these tasks. Every plan is then wrong in
//! the same direction.
//!
//! # Approach
//!
//! A swapped task gives one figure: the ratio of the time of its work on the slow CPU to that on
//! the fast one. In the model that is `y = sum over k of stack[k] * slow[k] / time(stack, fast)`. A
//! factor common to both classes cancels. So the fast class stays as it is, and only the slow one
//! is corrected.
//!
//! One factor for all components could be estimated best, but would be wrong. It could not correct
//! the cost of execution without spoiling that of stalls, which is near 1. Swaps depend on exactly
//! that difference. So each component has a factor `f[k]`, and the model is
//! `y = sum of phi[k] * f[k]` with `phi[k] = stack[k] * slow[k] / time(stack, fast)`.
//!
//! Each step goes along `phi` and so changes only factors about which the sample has information. A
//! component that no swapped task has keeps its calibrated cost exactly. Two components that always
//! occur together move together. The two tasks of a swap have opposite bias, so their `phi` differ
//! as much as tasks of this load do.
//!
//! The method is normalised least mean squares (Widrow and Hoff 1960; Nagumo and Noda 1967), with
//! one step per sample: `f += STEP * e * phi / |phi|^2` with `e = y - phi . f`. The error is cut to
//! `CLIP` of the prediction, so that a task that changed its phase counts no more than a wrong
//! cost. Then each `f[k]` is cut to its bounds.
//!
//! ## Convergence
//!
//! Let `t` be the true factors, within the bounds, `d = f - t`, `u = phi / |phi|`, and let there be
//! no noise. Then `e = -(phi . d)`. The cut scales `e` by some `c` in (0, 1], at least 1/12,
//! because factors differ by at most 4 times. With `s = STEP * c`, a step is
//! `d' = d - s (u . d) u`, so `|d'|^2 = |d|^2 - s (2 - s) (u . d)^2`. Cutting to bounds that
//! contain `t` brings `f` nearer to `t` in each component. So for 0 < s < 2, **no sample moves `f`
//! further from the truth** (property 1).
//!
//! Consider m samples whose directions cover the space: `sum of (u . x)^2 >= a |x|^2` for every x,
//! with a > 0. Let s be the least s among them. A step moves f by at most `|u . d|`. Hence
//! `|u_i . d_0| <= |u_i . d_i| + sum over j < i of |u_j . d_j|`. It follows that
//! `a |d_0|^2 <= (1 + m)^2 * sum of (u_i . d_i)^2` and
//! `|d_m|^2 <= (1 - s (2 - s) a / (1 + m)^2) |d_0|^2`. Each such sequence is a **contraction** by a
//! factor below 1, so the distance vanishes exponentially (property 2). Directions that are not
//! covered keep their distance.
//!
//! Let the noise be independent between samples with variance v in `y / |phi|`. The error along a
//! direction then settles at variance `v * STEP / (2 - STEP)`, a fifteenth of v (property 3).
//!
//! The kernel side uses the corrected costs to convert stacks that it counted on slow CPUs. So a
//! correction changes the stacks too. At the truth both are right. Near it the error of a sample
//! shrinks by `1 - STEP * g` with g between `min slow / max slow` and its inverse. So there is no
//! overshoot while costs of the components differ by less than `1 / STEP` times (property 4).
//!
//! # Invariants
//!
//! * Factors stay within 500 to 2000 permille for all samples.
//!
//! # Limits
//!
//! * Errors that depend on the pair (shared caches, bandwidth) act like noise, or like cost if they
//!   are the same for all pairs.
//! * The planner chooses tasks for large predicted differences, so errors of stacks do not cancel.
//!   Factors lean towards too small a gain, by about the noise's share of the variance between
//!   tasks.
//! * All slow CPUs share the factors. Recalibration finds a slow CPU that differs.

use crate::swap::{normalised, time_permille};
use crate::table::COMPONENTS;

/// Bounds of a factor [permille]. A calibration that is off by more should be repeated.
pub(super) const FACTOR_BOUNDS_PERMILLE: (u32, u32) = (500, 2000);
/// Share of a sample's error that one step corrects.
const STEP: f64 = 0.125;
/// Limit of an error, as a share of the prediction.
const CLIP: f64 = 0.25;

/// Measurement of one swapped task.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CostSample {
    /// CPI stack of the task [permille].
    pub stack_permille: [u32; COMPONENTS],
    /// Calibrated cost of the fast CPU [permille].
    pub fast_cost_permille: [u32; COMPONENTS],
    /// Calibrated cost of the slow CPU [permille].
    pub slow_cost_permille: [u32; COMPONENTS],
    /// Measured time of a unit of its work on the slow CPU over that on the fast one.
    pub slowdown: f64,
}

impl CostSample {
    /// Return the coefficient of each component's factor; None for an empty stack.
    pub(super) fn coefficients(&self) -> Option<[f64; COMPONENTS]> {
        let stack = normalised(self.stack_permille)?;
        let fast = f64::from(time_permille(stack, self.fast_cost_permille));
        // The formula is a sum over the components, so the time of one component's stack alone is
        // its contribution.
        let alone = |k: usize| {
            let only = std::array::from_fn(|i| if i == k { stack[k] } else { 0 });
            f64::from(time_permille(only, self.slow_cost_permille)) / fast
        };
        (fast > 0.0).then(|| std::array::from_fn(alone))
    }
}

/// Factors of the slow class's costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Correction {
    factors: [f64; COMPONENTS],
    samples: u64,
    error: f64,
}

impl Default for Correction {
    /// Trust the calibration: all factors are 1.
    fn default() -> Self {
        Self { factors: [1.0; COMPONENTS], samples: 0, error: 0.0 }
    }
}

impl Correction {
    /// Start with these factors, cut to the bounds [permille].
    #[cfg(test)]
    pub(super) fn new(factors_permille: [u32; COMPONENTS]) -> Self {
        Self {
            factors: factors_permille.map(|factor| bounded(f64::from(factor) / 1000.0)),
            ..Self::default()
        }
    }

    /// Learn from a sample. Ignore a sample without a stack or a plausible slowdown.
    pub fn learn(&mut self, sample: &CostSample) {
        let Some(phi) = sample.coefficients() else { return };
        if !sample.slowdown.is_finite() || sample.slowdown <= 0.0 {
            return;
        }
        let predicted: f64 = phi.iter().zip(&self.factors).map(|(phi, factor)| phi * factor).sum();
        let error = (sample.slowdown - predicted).clamp(-CLIP * predicted, CLIP * predicted);
        let length: f64 = phi.iter().map(|phi| phi * phi).sum();
        for (factor, phi) in self.factors.iter_mut().zip(phi) {
            *factor = bounded(*factor + STEP * error * phi / length);
        }
        self.error += STEP * (error / predicted - self.error);
        self.samples = self.samples.saturating_add(1);
    }

    /// Return the factors [permille].
    #[must_use]
    pub fn factors_permille(&self) -> [u32; COMPONENTS] {
        self.factors.map(|factor| (factor * 1000.0).round() as u32)
    }

    /// Return the running average of measured over predicted slowdown, less one [permille]: the
    /// systematic error that remains.
    #[must_use]
    pub fn error_permille(&self) -> i32 {
        (self.error * 1000.0).round() as i32
    }

    /// Return the number of samples learnt from.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.samples
    }

    #[cfg(test)]
    pub(super) fn factors(&self) -> [f64; COMPONENTS] {
        self.factors
    }
}

fn bounded(factor: f64) -> f64 {
    let (least, most) = FACTOR_BOUNDS_PERMILLE;
    factor.clamp(f64::from(least) / 1000.0, f64::from(most) / 1000.0)
}
