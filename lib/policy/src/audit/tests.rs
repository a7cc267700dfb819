// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of verdicts, waits and the log, and of the properties that the head of the correction
//! module proves.

#![allow(clippy::unwrap_used)]

use super::backoff::Backoff;
use super::correction::FACTOR_BOUNDS_PERMILLE;
use super::*;
use crate::costs::corrected;
use crate::ffi;
use crate::swap::time_permille;
use crate::testkit::{SLOW, any_stack};
use proptest::prelude::*;

const MS: u64 = 1_000_000;

/// Return a swap that makes a loop 2.5 times as fast and slows a chase down to 1000 of 1105.
fn swap() -> Swap {
    let one = |pid, from, to, stack_permille, before_ppm, after_ppm| Move {
        pid,
        from,
        to,
        stack_permille,
        before_ppm,
        after_ppm,
    };
    Swap {
        up: one(10, 2, 0, [1000, 0, 0], 400_000, 1_000_000),
        down: one(20, 0, 2, [70, 0, 930], 1_000_000, 905_000),
        gain_permille: 361,
        net_ns: 1,
    }
}

/// Return 100 ms before and 100 ms after, with speeds in this ratio [permille].
fn observed(ratio_permille: u64) -> Observed {
    let rate = |instructions| Rate { instructions, ran_ns: 100 * MS };
    Observed { before: rate(1_000_000), after: rate(1_000 * ratio_permille), lost_ns: 0 }
}

fn experiment(up_permille: u64, down_permille: u64) -> Experiment {
    Experiment {
        swap: swap(),
        up: observed(up_permille),
        down: observed(down_permille),
        fast_cost_permille: [1000; 3],
        slow_cost_permille: SLOW,
    }
}

fn judged(experiment: &Experiment) -> Outcome {
    experiment.judge().unwrap()
}

#[test]
fn a_swap_that_gains_as_predicted_paid() {
    let outcome = judged(&experiment(2500, 905));
    // (0.4 * 2.5 + 1.0 * 0.905) / 1.4 - 1
    assert_eq!((outcome.verdict, outcome.measured_permille, outcome.net_permille), (Verdict::Paid, 361, 361));
    assert_eq!((outcome.up_permille, outcome.down_permille), (2500, 905));
    assert!(!outcome.up_failed && !outcome.down_failed);
}

#[test]
fn tasks_that_fall_short_have_failed() {
    let cases = [
        // (up, down) -> verdict, failed tasks
        ((1000, 905), Verdict::Regretted, [true, false]),
        ((2500, 400), Verdict::Neutral, [false, true]),
        ((1000, 400), Verdict::Regretted, [true, true]),
        ((1230, 905), Verdict::Neutral, [true, false]),
        ((1300, 905), Verdict::Neutral, [true, false]),
        ((1320, 905), Verdict::Paid, [false, false]),
    ];
    for ((up, down), verdict, failed) in cases {
        let outcome = judged(&experiment(up, down));
        assert_eq!(
            (outcome.verdict, [outcome.up_failed, outcome.down_failed]),
            (verdict, failed),
            "{up} {down}"
        );
    }
    // A task that made little progress cannot account for the missing gain.
    let mut light = experiment(1000, 500);
    (light.swap.up.before_ppm, light.swap.up.after_ppm) = (4_000, 10_000);
    let outcome = judged(&light);
    assert_eq!((outcome.verdict, outcome.up_failed, outcome.down_failed), (Verdict::Regretted, false, true));
    // Neither task fell short by itself: a predicted gain of zero came true, and did not pay.
    let mut idle = experiment(1000, 1000);
    (idle.swap.up.after_ppm, idle.swap.down.after_ppm) = (400_000, 1_000_000);
    let outcome = judged(&idle);
    assert_eq!((outcome.verdict, outcome.up_failed, outcome.down_failed), (Verdict::Neutral, true, true));
}

#[test]
fn time_lost_counts_against_the_swap() {
    let mut costly = experiment(2500, 905);
    costly.up.lost_ns = 100 * MS;
    let outcome = judged(&costly);
    // The loop did 2.5 times the work in twice the time.
    assert_eq!(
        (outcome.measured_permille, outcome.net_permille, outcome.verdict),
        (361, 4, Verdict::Neutral)
    );
    assert!(outcome.up_failed && !outcome.down_failed);
}

#[test]
fn short_runs_and_runs_without_work_are_not_judged() {
    let mut short = experiment(2500, 905);
    short.down.after.ran_ns = MIN_RAN_NS - 1;
    assert_eq!(short.judge(), Err(Unjudged::TooShort));
    let mut still = experiment(2500, 905);
    still.up.before.instructions = 0;
    assert_eq!(still.judge(), Err(Unjudged::NoWork));
    assert_eq!(experiment(0, 905).judge(), Err(Unjudged::NoWork));
}

#[test]
fn samples_are_slowdowns_in_both_directions() {
    let samples = experiment(2500, 800).samples();
    assert_eq!(samples.len(), 2);
    assert!((samples[0].slowdown - 2.5).abs() < 1e-9 && (samples[1].slowdown - 1.25).abs() < 1e-9);
    assert_eq!(samples[1].stack_permille, [70, 0, 930]);
    assert_eq!(experiment(0, 800).samples().len(), 1);
}

#[test]
fn a_conclusion_updates_waits_factors_and_totals() {
    let mut audit = Audit::default();
    let now = 1_000_000 * MS;
    let record = audit.conclude(&experiment(1000, 905), now);
    assert!(matches!(record.ending, Ending::Judged(outcome) if outcome.verdict == Verdict::Regretted));
    assert_eq!(audit.backoffs.until_ns(10), now + 2000 * MS);
    assert_eq!(audit.backoffs.until_ns(20), 0);
    assert_eq!(audit.correction.samples(), 2);
    assert!(audit.correction.factors_permille()[0] < 1000);
    let mut short = experiment(2500, 905);
    (short.up.before.ran_ns, short.up.lost_ns, short.down.lost_ns) = (1, 5, u64::MAX);
    audit.conclude(&short, now + 1);
    assert_eq!(audit.correction.samples(), 2);
    audit.conclude(&experiment(2500, 905), now + 2);
    assert_eq!(audit.backoffs.until_ns(10), 0, "it paid");
    let summary = audit.summary;
    assert_eq!((summary.paid, summary.neutral, summary.regretted, summary.unjudged), (1, 0, 1, 1));
    assert_eq!(summary.judged(), 2);
    // (-68 + 361) / 2
    assert_eq!(summary.means_permille(), Some([361, 146, 146]));
    assert_eq!(summary.lost_ns, u64::MAX);
    assert_eq!(VerdictCounts::default().means_permille(), None);
    let next = audit.conclude(&short, now + 3);
    assert_eq!((next.number, audit.summary.ended()), (3, 4));
}

#[test]
fn records_survive_serialization() {
    let ending = Ending::Judged(judged(&experiment(2500, 905)));
    for ending in [ending, Ending::Unjudged(Unjudged::TooShort)] {
        let record = Record { number: 1, at_ns: 7, swap: swap(), lost_ns: 3, ending };
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record, "{text}");
    }
}

#[test]
fn the_longest_waits_are_kept_when_there_are_too_many() {
    let mut backoffs = Backoffs::new(BackoffLimits::default(), 2);
    for (pid, failures) in [(1, 3), (2, 1), (3, 2)] {
        (0..failures).for_each(|_| backoffs.note(pid, false, 100));
    }
    assert_eq!(backoffs.len(), 2);
    assert_eq!(backoffs.until_ns(2), 0);
    assert!(backoffs.until_ns(1) > backoffs.until_ns(3) && backoffs.until_ns(3) > 100);
    backoffs.forget(1);
    backoffs.note(3, true, 101);
    backoffs.note(3, true, 102);
    assert!(backoffs.is_empty());
}

fn any_rate() -> impl Strategy<Value = Rate> {
    let ran_ns = prop_oneof![1 => any::<u64>(), 3 => 20 * MS..1000 * MS];
    (prop_oneof![1 => any::<u64>(), 3 => 1u64..1 << 40], ran_ns)
        .prop_map(|(instructions, ran_ns)| Rate { instructions, ran_ns })
}

fn any_observed() -> impl Strategy<Value = Observed> {
    (any_rate(), any_rate(), prop_oneof![1 => any::<u64>(), 3 => 0..10 * MS])
        .prop_map(|(before, after, lost_ns)| Observed { before, after, lost_ns })
}

fn any_backoff_limits() -> impl Strategy<Value = BackoffLimits> {
    let time = || prop_oneof![1 => any::<u64>(), 6 => 1..100_000 * MS];
    (time(), time(), time()).prop_map(|(base_ns, max_ns, forgive_ns)| BackoffLimits {
        base_ns,
        max_ns,
        forgive_ns,
    })
}

proptest! {
    #[test]
    fn any_experiment_is_judged_by_its_net_gain(up in any_observed(), down in any_observed(), planned in any::<[u32; 4]>()) {
        let mut experiment = Experiment { up, down, ..experiment(1000, 1000) };
        let [a, b, c, d] = planned;
        (experiment.swap.up.before_ppm, experiment.swap.up.after_ppm) = (a, b);
        (experiment.swap.down.before_ppm, experiment.swap.down.after_ppm) = (c, d);
        if let Ok(outcome) = experiment.judge() {
            // The figures are rounded, so the edge of the dead zone may fall on either side.
            let dead = DEAD_ZONE_PERMILLE as i32;
            match outcome.verdict {
                Verdict::Paid => prop_assert!(outcome.net_permille >= dead),
                Verdict::Neutral => prop_assert!(outcome.net_permille.abs() <= dead),
                Verdict::Regretted => prop_assert!(outcome.net_permille <= -dead),
            }
            prop_assert!(outcome.net_permille <= outcome.measured_permille);
            prop_assert!(outcome.net_permille >= -1000);
            prop_assert_eq!(outcome.up_failed || outcome.down_failed, outcome.verdict != Verdict::Paid);
        }
        let mut audit = Audit::default();
        audit.conclude(&experiment, 5);
        prop_assert_eq!(audit.summary.judged() + audit.summary.unjudged, 1);
    }

    /// Each task is compared with itself, so the work per instruction does not matter.
    #[test]
    fn outcomes_do_not_depend_on_the_unit_of_work(up in 100u64..4000, down in 100u64..4000, factor in 1u64..1000) {
        let plain = experiment(up, down);
        let mut scaled = plain;
        for rate in [&mut scaled.up.before, &mut scaled.up.after] {
            rate.instructions *= factor;
        }
        let (plain, scaled) = (judged(&plain), judged(&scaled));
        prop_assert!(plain.net_permille.abs_diff(scaled.net_permille) <= 1);
        prop_assert!(plain.up_permille.abs_diff(scaled.up_permille) <= 1);
    }

    #[test]
    fn doing_more_is_never_judged_worse(up in 100u64..4000, down in 100u64..4000, more in 0u64..1000) {
        let rank = |outcome: &Outcome| match outcome.verdict {
            Verdict::Paid => 2,
            Verdict::Neutral => 1,
            Verdict::Regretted => 0,
        };
        let base = judged(&experiment(up, down));
        for better in [experiment(up + more, down), experiment(up, down + more)] {
            prop_assert!(rank(&judged(&better)) >= rank(&base));
            prop_assert!(judged(&better).net_permille >= base.net_permille);
        }
    }

    #[test]
    fn each_failure_lengthens_the_wait_up_to_the_bound(limits in any_backoff_limits(), failures in 1u32..80, now in 0u64..1 << 40) {
        let mut backoff = Backoff::default();
        prop_assert_eq!(backoff.until_ns(&limits), 0);
        let mut last = 0;
        for n in 0..failures {
            // There is no time between the failures, so none expires.
            backoff = backoff.after(false, now, &limits);
            let wait = backoff.until_ns(&limits) - now;
            let expected = u128::from(limits.base_ns) << n.min(62);
            prop_assert_eq!(u128::from(wait), expected.min(limits.max_ns.into()).min((u64::MAX - now).into()));
            prop_assert!(wait >= last);
            last = wait;
        }
    }

    #[test]
    fn time_forgives_and_a_swap_that_paid_never_delays(limits in any_backoff_limits(), history in prop::collection::vec((any::<bool>(), 0u64..200_000 * MS), 1..40)) {
        let (mut backoff, mut now) = (Backoff::default(), 0u64);
        for (paid, pause) in history {
            now += pause;
            let before = (backoff.until_ns(&limits), backoff.level(now, &limits));
            let after = backoff.after(paid, now, &limits);
            if paid {
                prop_assert!(after.until_ns(&limits) <= before.0.max(now));
                prop_assert!(after.level(now, &limits) <= before.1 / 2);
            } else {
                prop_assert_eq!(after.level(now, &limits), (before.1 + 1).min(63));
            }
            prop_assert!(after.until_ns(&limits) <= now.saturating_add(limits.max_ns));
            backoff = after;
        }
        // After any history, no level remains after the last wait and one `forgive_ns` per level.
        let all = backoff.until_ns(&limits).saturating_add(limits.forgive_ns.saturating_mul(64));
        prop_assert!(all == u64::MAX || backoff.level(all, &limits) == 0);
    }

    #[test]
    fn memory_is_bounded(most in 0usize..10, notes in prop::collection::vec((0u32..30, any::<bool>(), any::<u64>()), 0..100)) {
        let mut backoffs = Backoffs::new(BackoffLimits::default(), most);
        for (pid, paid, now) in &notes {
            backoffs.note(*pid, *paid, *now);
            prop_assert!(backoffs.len() <= most);
        }
    }
}

/// Costs of a slow CPU that also waits longer for memory.
const SLOW_COST: [u32; 3] = [2500, 1580, 1100];

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
    fn without_noise_no_sample_increases_the_error(
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
    fn without_noise_the_factors_converge_to_the_truth(truth in any_truth(), start in prop::array::uniform3(500u32..=2000), lean in 600u32..=1000) {
        let mut correction = Correction::new(start);
        for turn in 0..1500 {
            let sample = sample(mixed(lean, turn), SLOW_COST);
            correction.learn(&CostSample { slowdown: measured(&sample, truth), ..sample });
        }
        prop_assert!(distance(&correction, truth) < 1e-3, "{truth:?} {correction:?}");
        prop_assert_eq!(correction.error_permille(), 0);
    }

    /// Property 3: noise of +-10 % has a deviation of 5.8 %. A quarter of it (the root of a
    /// fifteenth) remains: 1.5 %. The test allows five times that.
    #[test]
    fn under_noise_the_factors_stay_near_the_truth(truth in any_truth(), lean in 700u32..=1000, seed in any::<u64>()) {
        let (mut correction, mut seed) = (Correction::default(), seed);
        for turn in 0..600 {
            let sample = sample(mixed(lean, turn), SLOW_COST);
            let slowdown = measured(&sample, truth) * (1.0 + 0.1 * noise(&mut seed));
            correction.learn(&CostSample { slowdown, ..sample });
        }
        for turn in 0..3 {
            let sample = sample(mixed(lean, turn), SLOW_COST);
            let error = measured(&sample, correction.factors()) / measured(&sample, truth) - 1.0;
            prop_assert!(error.abs() < 0.075, "{truth:?} {correction:?} {error}");
        }
    }

    /// Property 4: stacks are counted on either class and converted by the corrected costs, as the
    /// kernel side does.
    #[test]
    fn the_factors_converge_although_stacks_depend_on_them(truth in prop::array::uniform3(0.7f64..=1.5), lean in 700u32..=1000) {
        let mut correction = Correction::default();
        let fast = [1000; 3];
        let real = |k: usize| f64::from(SLOW_COST[k]) * truth[k] / 1000.0;
        for turn in 0..1500 {
            let own = mixed(lean, turn).map(|share| f64::from(share) / 1000.0);
            let slowdown: f64 = (0..3).map(|k| own[k] * real(k)).sum();
            let stack_permille = if turn % 2 == 0 {
                mixed(lean, turn)
            } else {
                // Shares of the task's cycles on the slow CPU, converted back to the reference CPU.
                let seen = std::array::from_fn(|k| (own[k] * real(k) / slowdown * 1000.0).round() as u32);
                let mut stack = ffi::bias_stack { permille: seen };
                let cost = ffi::bias_cost { permille: corrected(SLOW_COST, correction.factors_permille()) };
                // SAFETY: a pure function over references that live across the call.
                unsafe { ffi::bias_stack_to_reference(&mut stack, &cost) };
                stack.permille
            };
            correction.learn(&CostSample { stack_permille, fast_cost_permille: fast, slow_cost_permille: SLOW_COST, slowdown });
        }
        // A cost is never below the best one, so a truth below it is out of reach. Shares are
        // rounded.
        for k in 0..3 {
            let (found, real) = (f64::from(corrected(SLOW_COST, correction.factors_permille())[k]), (real(k) * 1000.0).max(1000.0));
            prop_assert!(truth[k] * f64::from(SLOW_COST[k]) < 1000.0 || (found / real - 1.0).abs() < 0.03, "{k}: {found} {real}");
        }
    }

    #[test]
    fn factors_stay_in_bounds_for_any_samples(
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
    fn coefficients_sum_to_the_formula(stack in any_stack(), cost in prop::array::uniform3(1000u32..=8000)) {
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
        correction.learn(&CostSample { slowdown: 25.0, ..sample([1000, 0, 0], SLOW_COST) });
    }
    assert_eq!(correction.factors_permille(), [2000, 1000, 1000]);
    assert_eq!(corrected(SLOW_COST, correction.factors_permille()), [5000, 1580, 1100]);
    assert!(correction.error_permille() > 200, "the remaining error is still reported");
}

#[test]
fn a_component_that_no_task_has_keeps_its_calibrated_cost() {
    let mut correction = Correction::default();
    for _ in 0..100 {
        correction.learn(&CostSample { slowdown: 1.5, ..sample([700, 0, 300], SLOW_COST) });
    }
    let [execute, internal, external] = correction.factors();
    assert_eq!(internal, 1.0);
    assert!(execute < 0.9 && external < 1.0);
}

#[test]
fn samples_without_information_are_ignored() {
    let mut correction = Correction::default();
    for slowdown in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        correction.learn(&CostSample { slowdown, ..sample([1000, 0, 0], SLOW_COST) });
    }
    correction.learn(&sample([0; 3], SLOW_COST));
    assert_eq!(correction, Correction::default());
    correction.learn(&sample([1, 0, 0], SLOW_COST));
    assert_eq!(correction.samples(), 1);
}
