//! Correction of the slow class's cost vectors by what swaps measured.
//!
//! Problem. Calibration's loops are not the tasks that run. If swaps gain systematically less or more than predicted, the cost vectors do
//! not describe the machine for these tasks, and every plan is wrong in the same direction.
//!
//! What can be known. A swapped task gives one figure: how many times longer its work takes on the slow CPU than on the fast one. In the
//! model that is `y = sum over k of stack[k] * slow[k] / time(stack, fast)`. A factor common to both classes cancels, so the fast class is
//! taken as it is, and only the slow one is corrected. One factor for all components would be known best, but would be wrong: it could not
//! mend the price of execution without spoiling that of stalls, which is near 1 and is the very difference that swaps live on. So each component
//! has a factor `f[k]`, the model is `y = sum of phi[k] * f[k]` with `phi[k] = stack[k] * slow[k] / time(stack, fast)`, and of these only what
//! is known is changed: a step goes along `phi`, so a component that no swapped task has keeps its calibrated cost exactly, and two that always
//! come together are moved together. The two tasks of a swap have opposite bias, so their `phi` differ as much as tasks of this load do.
//!
//! Approach. Normalised least mean squares (Widrow and Hoff 1960; Nagumo and Noda 1967), one step a sample:
//! `f += STEP * e * phi / |phi|^2` with `e = y - phi . f`, cut to `CLIP` of the prediction, so that a task that changed its phase pulls no more than a
//! mistaken cost would. Then each `f[k]` is cut to its bounds.
//!
//! It converges. Let `t` be the true factors, within the bounds, `d = f - t`, `u = phi / |phi|`, and no noise. Then `e = -(phi . d)`, the cut scales it
//! by some `c` in (0, 1] (at least 1/12, as factors differ by 4 times at most), and with `s = STEP * c` a step is `d' = d - s (u . d) u`, so `|d'|^2 = |d|^2 - s (2 - s) (u . d)^2`. Cutting to bounds
//! that contain `t` brings `f` nearer to `t` in each component. So for 0 < s < 2, **no sample ever takes it further from the truth** (property 1).
//! Consider m samples whose directions cover the space: `sum of (u . x)^2 >= a |x|^2` for every x, with a > 0, and let s be the least s among them. A step
//! moves f by at most `|u . d|`, so `|u_i . d_0| <= |u_i . d_i| + sum over j < i of |u_j . d_j|`, whence
//! `a |d_0|^2 <= (1 + m)^2 * sum of (u_i . d_i)^2` and `|d_m|^2 <= (1 - s (2 - s) a / (1 + m)^2) |d_0|^2`: each such stretch is a
//! **contraction** by a factor below 1, and the distance vanishes exponentially (property 2). Directions that are not covered keep their
//! distance. With noise of independent samples and variance v in `y / |phi|`, the error along a direction settles at variance `v * STEP / (2 - STEP)`, a
//! fifteenth of v (property 3).
//!
//! The kernel side converts stacks that it counted on slow CPUs by the corrected costs, so that a correction changes the stacks too. At the truth
//! both are right; near it the error of a sample shrinks by `1 - STEP * g` with g between `min slow / max slow` and its inverse, so
//! there is no overshoot while costs of the components differ by less than `1 / STEP` times (property 4).
//!
//! Invariants. Factors stay within [`FACTOR_BOUNDS_PERMILLE`] whatever is learnt; a corrected cost is one that the kernel side takes.
//!
//! Limits. Errors that depend on the pair (shared caches, bandwidth) look like noise or, if they are the same for all, like cost. Swapped tasks
//! are chosen for large predicted differences, so errors of stacks are not quite fair: factors lean towards less gain than there is, by about the
//! noise's share of the variance between tasks. All slow CPUs share the factors; one that differs is for recalibration to find.

use crate::ffi;
use crate::swap::{normalised, time_permille};
use crate::table::COMPONENTS;

/// Bounds of a factor [permille]: calibration is not further off than this, or should be repeated.
pub const FACTOR_BOUNDS_PERMILLE: (u32, u32) = (500, 2000);
/// Share of a sample's error that is corrected at once.
const STEP: f64 = 0.125;
/// Errors count up to this share of the prediction.
const CLIP: f64 = 0.25;

/// What one swapped task says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Its stack [permille].
    pub stack_permille: [u32; COMPONENTS],
    /// Calibrated cost of the fast CPU [permille].
    pub fast_cost_permille: [u32; COMPONENTS],
    /// Calibrated cost of the slow CPU [permille].
    pub slow_cost_permille: [u32; COMPONENTS],
    /// Measured: time of a unit of its work on the slow CPU over that on the fast one.
    pub slowdown: f64,
}

impl Sample {
    /// What each component's factor is multiplied with; None for an empty stack.
    pub(super) fn coefficients(&self) -> Option<[f64; COMPONENTS]> {
        let stack = normalised(self.stack_permille)?;
        let fast = f64::from(time_permille(stack, self.fast_cost_permille));
        // The formula is a sum over the components, so what one contributes is the time of a stack of it alone.
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
    /// Calibration is right.
    fn default() -> Self {
        Self { factors: [1.0; COMPONENTS], samples: 0, error: 0.0 }
    }
}

impl Correction {
    /// Begins with these factors, cut to the bounds [permille]: what an earlier run has learnt.
    #[must_use]
    pub fn new(factors_permille: [u32; COMPONENTS]) -> Self {
        Self {
            factors: factors_permille.map(|factor| bounded(f64::from(factor) / 1000.0)),
            ..Self::default()
        }
    }

    /// Learns from a sample; one that says nothing (no stack, no sensible slowdown) is left out.
    pub fn learn(&mut self, sample: &Sample) {
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

    /// The factors [permille].
    #[must_use]
    pub fn factors_permille(&self) -> [u32; COMPONENTS] {
        self.factors.map(|factor| (factor * 1000.0).round() as u32)
    }

    /// A slow CPU's calibrated cost, corrected [permille]: never below the best cost, which the table's invariants forbid.
    #[must_use]
    pub fn apply(&self, slow_cost_permille: [u32; COMPONENTS]) -> [u32; COMPONENTS] {
        std::array::from_fn(|k| {
            let cost = (f64::from(slow_cost_permille[k]) * self.factors[k]).round() as u32;
            // SAFETY: a pure function of a value.
            unsafe { ffi::bias_cost_sanitize(cost) }
        })
    }

    /// Running average of measured over predicted slowdown, less one [permille]: the systematic error that is left.
    #[must_use]
    pub fn error_permille(&self) -> i32 {
        (self.error * 1000.0).round() as i32
    }

    /// Samples learnt from.
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
