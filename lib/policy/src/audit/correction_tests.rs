// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of the properties that the head of the correction module proves.

#![allow(clippy::unwrap_used)]

use super::correction::*;
use crate::costs::corrected;
use crate::ffi;
use crate::swap::time_permille;
use proptest::prelude::*;

const SLOW: [u32; 3] = [2500, 1580, 1100];

fn sample(stack_permille: [u32; 3], slow_cost_permille: [u32; 3]) -> CostSample {
    CostSample { stack_permille, fast_cost_permille: [1000, 1010, 1030], slow_cost_permille, slowdown: 1.0 }
}

/// Return the measurement that the factors `truth` would give.
fn measured(sample: &CostSample, truth: [f64; 3]) -> f64 {
    sample.coefficients().unwrap().iter().zip(truth).map(|(phi, factor)| phi * factor).sum()
}

fn distance(correction: &Correction, truth: [f64; 3]) -> f64 {
    correction.factors().iter().zip(truth).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}

fn any_stack() -> impl Strategy<Value = [u32; 3]> {
    (0u32..=1000, 0u32..=1000).prop_map(|(a, b)| {
        let (low, high) = (a.min(b), a.max(b));
        [low, high - low, 1000 - high]
    })
}

fn any_truth() -> impl Strategy<Value = [f64; 3]> {
    prop::array::uniform3(0.5f64..=2.0)
}

/// Return one of three mixes, one per component: `lean` of the time is that component's [permille].
fn mixed(lean: u32, turn: usize) -> [u32; 3] {
    let rest = (1000 - lean) / 2;
    std::array::from_fn(|k| if k == turn % 3 { 1000 - 2 * rest } else { rest })
}

/// Return noise in -1..=1 that depends only on the seed.
fn noise(seed: &mut u64) -> f64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

proptest! {
    /// Property 1: no sample moves the factors further from the truth.
    #[test]
    fn without_noise_no_sample_takes_it_further_away(
        truth in any_truth(),
        start in prop::array::uniform3(500u32..=2000),
        samples in prop::collection::vec((any_stack(), prop::array::uniform3(1000u32..=8000)), 1..60),
    ) {
        let mut correction = Correction::new(start);
        for (stack, cost) in samples {
            let sample = sample(stack, cost);
            let before = distance(&correction, truth);
            correction.learn(&CostSample { slowdown: measured(&sample, truth), ..sample });
            prop_assert!(distance(&correction, truth) <= before + 1e-12, "{before} {correction:?}");
        }
    }

    /// Property 2: the factors converge to the truth.
    #[test]
    fn without_noise_it_finds_the_truth(truth in any_truth(), start in prop::array::uniform3(500u32..=2000), lean in 600u32..=1000) {
        let mut correction = Correction::new(start);
        for turn in 0..1500 {
            let sample = sample(mixed(lean, turn), SLOW);
            correction.learn(&CostSample { slowdown: measured(&sample, truth), ..sample });
        }
        prop_assert!(distance(&correction, truth) < 1e-3, "{truth:?} {correction:?}");
        prop_assert_eq!(correction.error_permille(), 0);
    }

    /// Property 3: noise of +-10 % has a deviation of 5.8 %. A quarter of it (the root of a
    /// fifteenth) remains: 1.5 %. The test allows five times that.
    #[test]
    fn under_noise_it_stays_near_the_truth(truth in any_truth(), lean in 700u32..=1000, seed in any::<u64>()) {
        let (mut correction, mut seed) = (Correction::default(), seed);
        for turn in 0..600 {
            let sample = sample(mixed(lean, turn), SLOW);
            let slowdown = measured(&sample, truth) * (1.0 + 0.1 * noise(&mut seed));
            correction.learn(&CostSample { slowdown, ..sample });
        }
        for turn in 0..3 {
            let sample = sample(mixed(lean, turn), SLOW);
            let error = measured(&sample, correction.factors()) / measured(&sample, truth) - 1.0;
            prop_assert!(error.abs() < 0.075, "{truth:?} {correction:?} {error}");
        }
    }

    /// Property 4: stacks are counted on either class and converted by the corrected costs, as the
    /// kernel side does.
    #[test]
    fn it_finds_the_truth_though_stacks_change_with_it(truth in prop::array::uniform3(0.7f64..=1.5), lean in 700u32..=1000) {
        let mut correction = Correction::default();
        let fast = [1000; 3];
        let real = |k: usize| f64::from(SLOW[k]) * truth[k] / 1000.0;
        for turn in 0..1500 {
            let own = mixed(lean, turn).map(|share| f64::from(share) / 1000.0);
            let slowdown: f64 = (0..3).map(|k| own[k] * real(k)).sum();
            let stack_permille = if turn % 2 == 0 {
                mixed(lean, turn)
            } else {
                // Shares of the task's cycles on the slow CPU, converted back to the reference CPU.
                let seen = std::array::from_fn(|k| (own[k] * real(k) / slowdown * 1000.0).round() as u32);
                let mut stack = ffi::bias_stack { permille: seen };
                let cost = ffi::bias_cost { permille: corrected(SLOW, correction.factors_permille()) };
                // SAFETY: a pure function over references that live across the call.
                unsafe { ffi::bias_stack_to_reference(&mut stack, &cost) };
                stack.permille
            };
            correction.learn(&CostSample { stack_permille, fast_cost_permille: fast, slow_cost_permille: SLOW, slowdown });
        }
        // A cost is never below the best one, so a truth below it is out of reach. Shares are
        // rounded.
        for k in 0..3 {
            let (found, real) = (f64::from(corrected(SLOW, correction.factors_permille())[k]), (real(k) * 1000.0).max(1000.0));
            prop_assert!(truth[k] * f64::from(SLOW[k]) < 1000.0 || (found / real - 1.0).abs() < 0.03, "{k}: {found} {real}");
        }
    }

    #[test]
    fn whatever_is_learnt_factors_stay_in_bounds(
        start in any::<[u32; 3]>(),
        samples in prop::collection::vec((any::<[u32; 3]>(), any::<[u32; 3]>(), any::<[u32; 3]>(), any::<f64>()), 1..60),
        cost in any::<[u32; 3]>(),
    ) {
        let mut correction = Correction::new(start);
        let (least, most) = FACTOR_BOUNDS_PERMILLE;
        for (stack_permille, fast_cost_permille, slow_cost_permille, slowdown) in samples {
            correction.learn(&CostSample { stack_permille, fast_cost_permille, slow_cost_permille, slowdown });
            prop_assert!(correction.factors_permille().iter().all(|factor| (least..=most).contains(factor)), "{correction:?}");
            prop_assert!(correction.error_permille().abs() <= 250);
        }
        prop_assert!(corrected(cost, correction.factors_permille()).iter().all(|cost| (ffi::BIAS_COST_BEST..=ffi::BIAS_COST_MAX).contains(cost)));
    }

    /// The components' contributions to the time on the slow CPU add up to the formula.
    #[test]
    fn coefficients_are_the_formula_taken_apart(stack in any_stack(), cost in prop::array::uniform3(1000u32..=8000)) {
        let sample = sample(stack, cost);
        let whole = f64::from(time_permille(stack, cost)) / f64::from(time_permille(stack, sample.fast_cost_permille));
        prop_assert!((measured(&sample, [1.0; 3]) - whole).abs() < 0.004);
    }
}

/// A factor stops at its bound when the truth is beyond it.
#[test]
fn a_factor_ends_at_its_bound() {
    let mut correction = Correction::default();
    for _ in 0..1000 {
        correction.learn(&CostSample { slowdown: 25.0, ..sample([1000, 0, 0], SLOW) });
    }
    assert_eq!(correction.factors_permille(), [2000, 1000, 1000]);
    assert_eq!(corrected(SLOW, correction.factors_permille()), [5000, 1580, 1100]);
    assert!(correction.error_permille() > 200, "what cannot be corrected is still reported");
}

#[test]
fn what_no_task_has_keeps_its_calibrated_cost() {
    let mut correction = Correction::default();
    for _ in 0..100 {
        correction.learn(&CostSample { slowdown: 1.5, ..sample([700, 0, 300], SLOW) });
    }
    let [execute, internal, external] = correction.factors();
    assert_eq!(internal, 1.0);
    assert!(execute < 0.9 && external < 1.0);
}

#[test]
fn what_says_nothing_is_left_out() {
    let mut correction = Correction::default();
    for slowdown in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        correction.learn(&CostSample { slowdown, ..sample([1000, 0, 0], SLOW) });
    }
    correction.learn(&sample([0; 3], SLOW));
    assert_eq!(correction, Correction::default());
    correction.learn(&sample([1, 0, 0], SLOW));
    assert_eq!(correction.samples(), 1);
}
