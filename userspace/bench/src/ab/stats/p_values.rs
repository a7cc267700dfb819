// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! P-values: a sign-flip permutation test of whether two arms differ, and the adjustment for
//! several questions.
//!
//! # Problem
//! The noise of emulated machines is not normal, so the p-value of a t-test would be unreliable.
//!
//! # Approach
//! If the arms are alike, the random order of visits decides which of them is called "arm". Every
//! sign of a log-ratio could then be the opposite.
//!
//! The statistic is the sum of signed ranks (Wilcoxon 1945). An outlying or infinite block affects
//! it no more than any other block. Zeros take ranks but no side (Pratt 1959), and ties share their
//! ranks. For up to 256 pairs, the distribution over all 2^n flips is computed exactly, by adding
//! one rank after another. For more pairs, 2^14 flips are sampled.
//!
//! Adjustment [Holm79] keeps the probability of any false call below the level, for any dependence
//! between the questions. The smallest p-value is multiplied by the number of questions, the next
//! by one less, and so on. Questions without a p-value were not asked and do not count.
//!
//! # Invariants
//! The p-value is the same for negated values, for scaled values, and for any order of values. The
//! adjustment never reverses the order of two p-values.
//!
//! # Limits
//! The p-value of n pairs is at least 2/2^n.

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

/// Maximum number of values for which all flips are counted.
const EXACT: usize = 256;
/// Number of sampled flips for more values.
const SAMPLED: u32 = 1 << 14;

/// Return the two-sided p-value of no difference. 1 for no values.
pub fn sign_flip(values: &[f64], seed: u64) -> f64 {
    let ranks = signed_double_ranks(values);
    let observed = ranks.iter().sum::<i64>().unsigned_abs();
    let ranks: Vec<u64> = ranks.iter().map(|r| r.unsigned_abs()).filter(|&r| r > 0).collect();
    let p = if values.len() <= EXACT { counted(&ranks, observed) } else { sampled(&ranks, observed, seed) };
    p.min(1.0)
}

/// Return each value's rank by size with its sign, and 0 for zeros. Ranks are doubled, so that
/// shared ranks are integers.
fn signed_double_ranks(values: &[f64]) -> Vec<i64> {
    let mut sorted: Vec<f64> = values.iter().map(|v| v.abs()).collect();
    sorted.sort_by(f64::total_cmp);
    let rank = |v: &f64| {
        let below = sorted.partition_point(|s| *s < v.abs());
        let up_to = sorted.partition_point(|s| *s <= v.abs());
        (below + 1 + up_to) as i64
    };
    let sign = |v: &f64| if *v > 0.0 { 1 } else { -i64::from(*v < 0.0) };
    values.iter().map(|v| sign(v) * rank(v)).collect()
}

/// Return the share of all flips whose sum is at least as far from zero as `observed`.
fn counted(ranks: &[u64], observed: u64) -> f64 {
    let total: u64 = ranks.iter().sum();
    // probability[s] is the probability that the ranks with a positive sign add up to s.
    let mut probability = vec![0.0f64; total as usize + 1];
    probability[0] = 1.0;
    let mut reached = 0;
    for &rank in ranks {
        let rank = rank as usize;
        reached += rank;
        for sum in (0..=reached).rev() {
            let with = if sum >= rank { probability[sum - rank] } else { 0.0 };
            probability[sum] = 0.5 * probability[sum] + 0.5 * with;
        }
    }
    let extreme = |positive: usize| (2 * positive as u64).abs_diff(total) >= observed;
    probability.iter().enumerate().filter(|(positive, _)| extreme(*positive)).map(|(_, p)| p).sum()
}

/// Estimate the same share from random flips. The observed flip counts as one of them, so the
/// result is never 0.
fn sampled(ranks: &[u64], observed: u64, seed: u64) -> f64 {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut sum =
        || -> i64 { ranks.iter().map(|&r| if rng.random::<bool>() { r as i64 } else { -(r as i64) }).sum() };
    let hits = (0..SAMPLED).filter(|_| sum().unsigned_abs() >= observed).count();
    (1 + hits) as f64 / f64::from(SAMPLED + 1)
}

/// Return the adjusted p-values, in the given order.
pub fn adjusted(p_values: &[Option<f64>]) -> Vec<Option<f64>> {
    let mut asked: Vec<(f64, usize)> =
        p_values.iter().zip(0..).filter_map(|(p, i)| Some(((*p)?, i))).collect();
    asked.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut larger = vec![None; p_values.len()];
    let mut largest = 0.0f64;
    for (rank, &(p, i)) in asked.iter().enumerate() {
        largest = largest.max((p * (asked.len() - rank) as f64).min(1.0));
        larger[i] = Some(largest);
    }
    larger
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Return the same share by trying all flips.
    fn enumerated(values: &[f64]) -> f64 {
        let ranks = signed_double_ranks(values);
        let observed = ranks.iter().sum::<i64>().abs();
        let flips = 1u32 << ranks.len();
        let sum = |flip: u32| {
            let side = |(i, r): (usize, &i64)| if flip >> i & 1 == 1 { r.abs() } else { -r.abs() };
            ranks.iter().enumerate().map(side).sum::<i64>()
        };
        (0..flips).filter(|&flip| sum(flip).abs() >= observed).count() as f64 / f64::from(flips)
    }

    #[test]
    fn the_published_example() {
        // [Hollander14], example 3.1: T+ = 5 of 45, one-sided p 0.0195. R's documentation gives the
        // same figure.
        let values = [-0.952, 0.147, -1.022, -0.430, -0.620, -0.590, -0.490, 0.080, -0.010];
        assert!((sign_flip(&values, 0) - 2.0 * 0.01953125).abs() < 1e-12);
    }

    #[test]
    fn the_smallest_and_the_largest_p_value() {
        let same_side: Vec<f64> = (1..=10).map(f64::from).collect();
        assert_eq!(sign_flip(&same_side, 0), 2.0 / 1024.0);
        assert_eq!(sign_flip(&[], 0), 1.0);
        assert_eq!(sign_flip(&[0.0; 7], 0), 1.0);
        assert_eq!(sign_flip(&[1.0, -1.0], 0), 1.0);
    }

    #[test]
    fn sampling_agrees_with_counting() {
        let values: Vec<f64> = (0..200).map(|i| f64::from(i * 37 % 101) - 46.0).collect();
        let ranks = signed_double_ranks(&values);
        let observed = ranks.iter().sum::<i64>().unsigned_abs();
        let ranks: Vec<u64> = ranks.iter().map(|r| r.unsigned_abs()).collect();
        let (exact, drawn) = (counted(&ranks, observed), sampled(&ranks, observed, 5));
        assert!(exact > 0.01 && exact < 0.5, "{exact}");
        assert!((exact - drawn).abs() < 4.0 * (exact / f64::from(SAMPLED)).sqrt(), "{exact} {drawn}");
    }

    proptest! {
        #[test]
        fn counting_agrees_with_trying_all_flips(values in proptest::collection::vec(-4i32..5, 0..10)) {
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            prop_assert!((sign_flip(&values, 0) - enumerated(&values)).abs() < 1e-9);
        }

        #[test]
        fn signs_and_scale_do_not_matter(values in proptest::collection::vec(-1.0f64..1.0, 0..30), scale in 0.1f64..10.0) {
            let p = sign_flip(&values, 0);
            prop_assert_eq!(p, sign_flip(&values.iter().map(|v| -v).collect::<Vec<_>>(), 0));
            prop_assert!((p - sign_flip(&values.iter().map(|v| v * scale).collect::<Vec<_>>(), 0)).abs() < 1e-9);
        }
    }

    #[test]
    fn a_worked_example() {
        // The same values as R's p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm").
        let adjusted = adjusted(&[Some(0.01), Some(0.04), None, Some(0.03), Some(0.005)]);
        let expected = [Some(0.03), Some(0.06), None, Some(0.06), Some(0.02)];
        for (a, e) in adjusted.iter().zip(expected) {
            assert_eq!(a.is_some(), e.is_some());
            assert!((a.unwrap_or(0.0) - e.unwrap_or(0.0)).abs() < 1e-12);
        }
    }

    proptest! {
        #[test]
        fn order_is_kept_and_no_p_shrinks(p in proptest::collection::vec(0.0f64..1.0, 0..20)) {
            let adjusted = adjusted(&p.iter().copied().map(Some).collect::<Vec<_>>());
            for (i, a) in adjusted.iter().map(|a| a.unwrap()).enumerate() {
                prop_assert!(a >= p[i] && a <= 1.0);
                prop_assert!((0..p.len()).all(|j| p[i] > p[j] || a <= adjusted[j].unwrap()));
            }
        }
    }
}
