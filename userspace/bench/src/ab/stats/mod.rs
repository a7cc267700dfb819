// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Pure functions from paired ratios to verdicts.
//!
//! # Problem
//! A handful of noisy blocks, with a dozen metrics, must decide whether a scheduler is better or
//! worse. Two errors must both be rare. One is to call a difference where there is none: for a
//! scheduler against itself, in at most 1 of 20 comparisons. The other is to miss one of 3 %.
//!
//! # Approach
//! * [`pairs`]: one log-ratio per block, arm against baseline. Drift between blocks cancels. All
//!   steps use logarithms, so that swapping the arms only changes signs.
//! * [`estimate`]: the Hodges-Lehmann estimate [HodgesLehmann63], the median of the means of all
//!   pairs of values. It is nearly as precise as the mean, and robust against a single outlying
//!   block. Its 95 % interval is found by resampling blocks, and widened for few blocks and for
//!   boots that differ. The same applies to the difference of two runs that share only the
//!   baseline.
//! * [`p_values`]: if the arms are alike, the sign of each block is random. P-values are adjusted
//!   for several metrics.
//!
//! # The rule
//! | verdict | conditions |
//! |---|---|
//! | *better*, *worse* | adjusted p < 0.05, interval without zero, estimate beyond the dead zone |
//! | *differs* | the same, for a metric without a better direction |
//! | *same* | the whole interval inside the dead zone: equality is shown, not assumed |
//! | *inconclusive* | everything else |
//!
//! The p-value alone keeps false calls below 5 % of comparisons, for any distribution of the noise.
//! The dead zone removes most of the rest, and all true differences that are too small to matter.
//! The interval covers a case that a p-value over blocks cannot detect: boots that differ. Two arms
//! with the same program cannot differ by boot, so the p-value over blocks is exact for A/A. A
//! claim about a scheduler must hold for the next boot as well.
//!
//! Simulation with noise of 1.5 % per block, ten blocks in two boots and eight metrics:
//!
//! | arms | result |
//! |---|---|
//! | identical | 28 and 39 of 1000 comparisons (two seeds) had any metric called different |
//! | a true difference of 3 % | found in 96.5 % of comparisons |
//!
//! The judged metrics of one cell and arm are adjusted together. Neutral metrics are a separate
//! family, so that explanatory figures do not weaken the judged ones. Adjusting over a whole report
//! would need p-values that ten blocks cannot give for any difference: their minimum is 2/1024.
//!
//! # Invariants
//! * Swapping arm and baseline mirrors estimate, interval and verdict.
//! * Scaling a metric changes nothing.
//! * The same pairs and seed give the same numbers.
//!
//! # Limits
//! Fewer than five pairs have no interval and no verdict. Blocks are assumed to be exchangeable
//! within a boot.

pub mod estimate;
pub mod p_values;
pub mod pairs;
#[cfg(test)]
mod simulation;

pub use pairs::MIN_PAIRS;

use super::metric::Direction;
use estimate::{Interval, hodges_lehmann, interval};
use pairs::Pair;
use serde::{Deserialize, Serialize};

/// Adjusted p-values below this allow a difference to be called.
pub const SIGNIFICANT_P: f64 = 0.05;

/// Conclusion about a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The arm is worse.
    Worse,
    /// The arm is better.
    Better,
    /// The arm differs in a metric without a better direction.
    Differs,
    /// No difference beyond the dead zone.
    Same,
    /// The data does not decide.
    Inconclusive,
    /// Only one of the two arms has this metric.
    NotCompared,
}

impl Verdict {
    /// Return the verdict in words.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Worse => "worse",
            Verdict::Better => "better",
            Verdict::Differs => "differs",
            Verdict::Same => "same",
            Verdict::Inconclusive => "inconclusive",
            Verdict::NotCompared => "not compared",
        }
    }
}

/// Results of the pairs of one metric. All values are logarithms of the ratio of arm to baseline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judged {
    /// Number of pairs.
    pub pairs: usize,
    /// Hodges-Lehmann estimate. None without pairs.
    pub estimate: Option<f64>,
    /// 95 % interval. None with fewer than [`MIN_PAIRS`].
    pub interval: Option<Interval>,
    /// Sign-flip p-value. None with fewer than [`MIN_PAIRS`].
    pub p: Option<f64>,
    /// The p-value, adjusted over the family.
    pub p_holm: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
}

/// Judge a family of metrics, whose p-values are adjusted together.
///
/// `dead_zone` is a share: 0.01 treats ratios from 1/1.01 to 1.01 as no difference. `seed` is that
/// of the resampling.
pub fn judge_family(members: &[(Direction, Vec<Pair>)], dead_zone: f64, seed: u64) -> Vec<Judged> {
    let values = |pairs: &[Pair]| pairs.iter().map(|p| p.log_ratio).collect::<Vec<_>>();
    let p = |pairs: &[Pair]| (pairs.len() >= MIN_PAIRS).then(|| p_values::sign_flip(&values(pairs), seed));
    let p_values: Vec<Option<f64>> = members.iter().map(|(_, pairs)| p(pairs)).collect();
    let adjusted = p_values::adjusted(&p_values);
    let judged = members.iter().zip(p_values.into_iter().zip(adjusted));
    judged
        .map(|((direction, pairs), (p, p_holm))| {
            let estimate = hodges_lehmann(&values(pairs));
            let interval = interval(pairs, seed);
            let verdict = verdict(*direction, estimate, interval, p_holm, dead_zone);
            Judged { pairs: pairs.len(), estimate, interval, p, p_holm, verdict }
        })
        .collect()
}

/// Apply the rule at the top of this module. `estimate` and `interval` are log-ratios, `dead_zone`
/// is a share.
pub fn verdict(
    direction: Direction,
    estimate: Option<f64>,
    interval: Option<Interval>,
    p_holm: Option<f64>,
    dead_zone: f64,
) -> Verdict {
    let (Some(estimate), Some(interval), Some(p)) = (estimate, interval, p_holm) else {
        return Verdict::Inconclusive;
    };
    let zone = dead_zone.max(0.0).ln_1p();
    if interval.low >= -zone && interval.high <= zone {
        return Verdict::Same;
    }
    let beyond_zero = interval.low > 0.0 || interval.high < 0.0;
    if !(p < SIGNIFICANT_P && beyond_zero && estimate.abs() > zone) {
        return Verdict::Inconclusive;
    }
    match (direction, estimate > 0.0) {
        (Direction::Neutral, _) => Verdict::Differs,
        (Direction::Higher, true) | (Direction::Lower, false) => Verdict::Better,
        (Direction::Higher, false) | (Direction::Lower, true) => Verdict::Worse,
    }
}

/// Return the minimum number of pairs with which one of `metrics` metrics can be called different.
pub fn pairs_needed(metrics: usize) -> usize {
    let flips = 2.0 * metrics.max(1) as f64 / SIGNIFICANT_P;
    (MIN_PAIRS..).find(|&n| f64::from(2).powi(n as i32) > flips).unwrap_or(MIN_PAIRS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pairs(values: &[f64]) -> Vec<Pair> {
        let pair = |(block, &log_ratio): (u32, &f64)| Pair { boot: block % 3, block, log_ratio };
        (0..).zip(values).map(pair).collect()
    }

    fn judge(direction: Direction, values: &[f64]) -> Judged {
        judge_family(&[(direction, pairs(values))], 0.01, 1)[0]
    }

    #[test]
    fn clear_cases() {
        let three = [0.031, 0.028, 0.033, 0.030, 0.029, 0.027, 0.032, 0.0305];
        assert_eq!(judge(Direction::Higher, &three).verdict, Verdict::Better);
        assert_eq!(judge(Direction::Lower, &three).verdict, Verdict::Worse);
        assert_eq!(judge(Direction::Neutral, &three).verdict, Verdict::Differs);
        assert_eq!(judge(Direction::Higher, &three.map(|x| x / 10.0)).verdict, Verdict::Same);
        assert_eq!(judge(Direction::Higher, &three[..4]).verdict, Verdict::Inconclusive);
        assert_eq!(judge(Direction::Higher, &[]).estimate, None);
        assert_eq!(judge(Direction::Higher, &[0.0; 6]).verdict, Verdict::Same);
    }

    #[test]
    fn starvation_in_every_block_is_worse_and_in_one_is_inconclusive() {
        let all = judge(Direction::Lower, &[pairs::INFINITE; 8]);
        assert_eq!(all.verdict, Verdict::Worse);
        assert!(pairs::ratio(all.estimate.unwrap()).is_infinite());
        let mut one = [0.0; 8];
        one[3] = pairs::INFINITE;
        assert_eq!(judge(Direction::Lower, &one).verdict, Verdict::Inconclusive);
    }

    #[test]
    fn a_significant_but_tiny_difference_is_inconclusive() {
        let trifle = [0.0091, 0.0095, 0.0105, 0.0099, 0.009, 0.0098, 0.0104, 0.0097];
        let judged = judge(Direction::Higher, &trifle);
        assert!(judged.p_holm.unwrap() < 0.05 && judged.interval.unwrap().low > 0.0);
        assert_eq!(judged.verdict, Verdict::Inconclusive);
    }

    #[test]
    fn needed_pairs_allow_a_significant_p_value() {
        assert_eq!([1, 10, 20].map(pairs_needed), [6, 9, 10]);
    }

    fn mirrored(verdict: Verdict) -> Verdict {
        match verdict {
            Verdict::Better => Verdict::Worse,
            Verdict::Worse => Verdict::Better,
            other => other,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn swapping_the_arms_mirrors_everything(
            values in proptest::collection::vec(prop_oneof![9 => -0.1f64..0.1, 1 => Just(pairs::INFINITE)], 0..14),
            shift in -0.05f64..0.05,
        ) {
            let values: Vec<f64> = values.iter().map(|x| x + shift).collect();
            let negated: Vec<f64> = values.iter().map(|x| -x).collect();
            let (a, b) = (judge(Direction::Higher, &values), judge(Direction::Higher, &negated));
            prop_assert_eq!(a.estimate, b.estimate.map(|x| -x));
            prop_assert_eq!(a.interval, b.interval.map(|i| Interval { low: -i.high, high: -i.low }));
            prop_assert_eq!(a.p, b.p);
            prop_assert_eq!(a.verdict, mirrored(b.verdict));
        }

        #[test]
        fn the_interval_holds_the_estimate(values in proptest::collection::vec(-1.0f64..1.0, 5..20)) {
            let judged = judge(Direction::Neutral, &values);
            let (interval, estimate) = (judged.interval.unwrap(), judged.estimate.unwrap());
            prop_assert!(interval.low <= estimate && estimate <= interval.high);
        }

        #[test]
        fn a_wider_dead_zone_never_makes_a_call(
            values in proptest::collection::vec(-0.1f64..0.1, 5..14), zone in 0.0f64..0.1
        ) {
            let calls = |zone| {
                let judged = judge_family(&[(Direction::Higher, pairs(&values))], zone, 1)[0];
                matches!(judged.verdict, Verdict::Better | Verdict::Worse)
            };
            prop_assert!(!calls(zone + 0.01) || calls(zone));
        }
    }
}
