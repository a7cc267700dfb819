// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Rank tests: whether the timings of two or more CPUs come from the same distribution.
//!
//! # Problem
//!
//! Timings are skewed and have tails. A test that assumes normal noise reports equal CPUs as
//! different and misses a change of shape.
//!
//! # Approach
//!
//! The k-sample Anderson-Darling test in its midrank form \[Scholz87\] decides. It uses ranks only,
//! gives weight to the tails, and handles ties. The Kolmogorov-Smirnov distance grades how
//! different two CPUs are. \[Reif20\] uses both for its similarity matrix, where p < 0.01 means
//! "different".
//!
//! # Invariants
//!
//! * The result depends only on the order of the values. An increasing transformation of all
//!   samples does not change it.
//! * The result is symmetric in the samples.
//!
//! # Limits
//!
//! * The p-value is interpolated in the published table and ends at 0.001 and 0.25.
//! * Samples taken close in time are not quite independent. So a tiny p-value also needs a large
//!   enough effect: see [`crate::classes`].

use crate::samples::sorted;

/// Upper tail probabilities of the table below.
const TAIL: [f64; 7] = [0.25, 0.10, 0.05, 0.025, 0.01, 0.005, 0.001];
/// Coefficients of the critical values b0 + b1 / sqrt(m) + b2 / m, with m samples beyond the first
/// (\[Scholz87\], table 2).
const B0: [f64; 7] = [0.675, 1.281, 1.645, 1.960, 2.326, 2.573, 3.085];
const B1: [f64; 7] = [-0.245, 0.25, 0.678, 1.149, 1.822, 2.364, 3.615];
const B2: [f64; 7] = [-0.105, -0.305, -0.362, -0.391, -0.396, -0.345, -0.154];

/// Outcome of the Anderson-Darling test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AndersonDarling {
    /// Standardised statistic; about 0 for equal distributions.
    pub statistic: f64,
    /// Probability of a statistic this large among equal distributions, cut to 0.001..=0.25.
    pub p_value: f64,
}

/// Run the k-sample Anderson-Darling test. Return None when it cannot be computed: fewer than two
/// samples, an empty sample, fewer than four values in all, or all values equal.
#[must_use]
pub fn anderson_darling(samples: &[&[f64]]) -> Option<AndersonDarling> {
    let groups: Vec<Vec<f64>> = samples.iter().map(|sample| sorted(sample)).collect();
    if groups.len() < 2 || groups.iter().any(Vec::is_empty) {
        return None;
    }
    let pooled = sorted(&groups.concat());
    if pooled.len() < 4 || pooled.first() == pooled.last() {
        return None;
    }
    let k = groups.len() as f64;
    let sum: f64 = groups.iter().map(|group| group_term(group, &pooled)).sum();
    let n = pooled.len() as f64;
    let sigma = variance(&groups, n).sqrt();
    let statistic = (sum * (n - 1.0) / n - (k - 1.0)) / sigma;
    Some(AndersonDarling { statistic, p_value: p_value(statistic, k - 1.0) })
}

/// Return one group's part of the midrank statistic.
fn group_term(group: &[f64], pooled: &[f64]) -> f64 {
    let n = pooled.len() as f64;
    let size = group.len() as f64;
    let mut sum = 0.0;
    let mut at = 0;
    while let Some(value) = pooled.get(at) {
        let next = pooled.partition_point(|other| other <= value);
        let ties = (next - at) as f64;
        let below = at as f64 + ties / 2.0;
        let group_from = group.partition_point(|other| other < value) as f64;
        let group_to = group.partition_point(|other| other <= value) as f64;
        let group_below = f64::midpoint(group_from, group_to);
        let weight = below * (n - below) - n * ties / 4.0;
        if weight > 0.0 {
            sum += ties / n * (n * group_below - size * below).powi(2) / weight;
        }
        at = next;
    }
    sum / size
}

/// Return the variance of the statistic among equal distributions.
fn variance(groups: &[Vec<f64>], n: f64) -> f64 {
    let k = groups.len() as f64;
    let big_h: f64 = groups.iter().map(|group| 1.0 / group.len() as f64).sum();
    let total = n as usize;
    let h: f64 = (1..total).map(|i| 1.0 / i as f64).sum();
    // g = sum over i < j < n of 1 / ((n - i) j); the inner sum accumulates from the end.
    let mut inner = 0.0;
    let mut g = 0.0;
    for i in (1..total.saturating_sub(1)).rev() {
        inner += 1.0 / (i + 1) as f64;
        g += inner / (total - i) as f64;
    }
    let a = (4.0 * g - 6.0) * (k - 1.0) + (10.0 - 6.0 * g) * big_h;
    let b =
        (2.0 * g - 4.0) * k * k + 8.0 * h * k + (2.0 * g - 14.0 * h - 4.0) * big_h - 8.0 * h + 4.0 * g - 6.0;
    let c =
        (6.0 * h + 2.0 * g - 2.0) * k * k + (4.0 * h - 4.0 * g + 6.0) * k + (2.0 * h - 6.0) * big_h + 4.0 * h;
    let d = (2.0 * h + 6.0) * k * k - 4.0 * h * k;
    (a * n.powi(3) + b * n * n + c * n + d) / ((n - 1.0) * (n - 2.0) * (n - 3.0))
}

/// Return the upper tail probability of a standardised statistic with `m` degrees (samples less
/// one), log-interpolated in the table.
fn p_value(statistic: f64, m: f64) -> f64 {
    let critical = |i: usize| B0[i] + B1[i] / m.sqrt() + B2[i] / m;
    if statistic <= critical(0) {
        return TAIL[0];
    }
    for i in 1..TAIL.len() {
        let (low, high) = (critical(i - 1), critical(i));
        if statistic <= high {
            let part = (statistic - low) / (high - low);
            return (TAIL[i - 1].ln() + part * (TAIL[i].ln() - TAIL[i - 1].ln())).exp();
        }
    }
    TAIL[TAIL.len() - 1]
}

/// Return the Kolmogorov-Smirnov distance: the largest gap between two distribution functions, 0
/// (alike) to 1 (disjoint). Return None when a sample is empty.
#[must_use]
pub fn kolmogorov_smirnov(a: &[f64], b: &[f64]) -> Option<f64> {
    let (a, b) = (sorted(a), sorted(b));
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let share = |of: &[f64], value: f64| of.partition_point(|other| *other <= value) as f64 / of.len() as f64;
    a.iter().chain(&b).map(|value| (share(&a, *value) - share(&b, *value)).abs()).max_by(f64::total_cmp)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Smoothness of paper from four laboratories: the example of \[Scholz87\], section 7.
    const LABS: [[f64; 8]; 4] = [
        [38.7, 41.5, 43.8, 44.5, 45.5, 46.0, 47.7, 58.0],
        [39.2, 39.3, 39.7, 41.4, 41.8, 42.9, 43.3, 45.8],
        [34.0, 35.0, 39.0, 40.0, 43.0, 43.0, 44.0, 45.0],
        [34.0, 34.8, 34.8, 35.4, 37.2, 37.8, 41.2, 42.8],
    ];

    #[test]
    fn matches_the_published_example() {
        let labs: Vec<&[f64]> = LABS.iter().map(|lab| &lab[..]).collect();
        let result = anderson_darling(&labs).unwrap();
        assert!((result.statistic - 4.480).abs() < 0.001, "{result:?}");
        assert!((0.001..0.005).contains(&result.p_value), "{result:?}");
    }

    #[test]
    fn shifted_samples_differ_and_equal_ones_do_not() {
        let low: Vec<f64> = (0..40).map(f64::from).collect();
        let high: Vec<f64> = (0..40).map(|i| f64::from(i) + 30.0).collect();
        assert!(anderson_darling(&[&low, &high]).unwrap().p_value < 0.01);
        assert!(anderson_darling(&[&low, &low]).unwrap().p_value >= 0.25);
        assert_eq!(kolmogorov_smirnov(&low, &low), Some(0.0));
        assert_eq!(kolmogorov_smirnov(&[1.0, 2.0], &[3.0]), Some(1.0));
    }

    #[test]
    fn refuses_samples_that_cannot_be_tested() {
        assert_eq!(anderson_darling(&[&[1.0, 2.0, 3.0]]), None);
        assert_eq!(anderson_darling(&[&[1.0, 2.0, 3.0], &[]]), None);
        assert_eq!(anderson_darling(&[&[1.0; 9], &[1.0; 9]]), None);
        assert_eq!(kolmogorov_smirnov(&[], &[1.0]), None);
    }

    proptest! {
        #[test]
        fn depends_on_ranks_only(a in prop::collection::vec(1u32..1000, 4..40), b in prop::collection::vec(1u32..1000, 4..40)) {
            let plain = |values: &[u32]| values.iter().map(|v| f64::from(*v)).collect::<Vec<_>>();
            let cubed = |values: &[u32]| values.iter().map(|v| f64::from(*v).powi(3)).collect::<Vec<_>>();
            let before = anderson_darling(&[&plain(&a), &plain(&b)]);
            let after = anderson_darling(&[&cubed(&a), &cubed(&b)]);
            prop_assert_eq!(before.is_some(), after.is_some());
            if let (Some(before), Some(after)) = (before, after) {
                prop_assert!((before.statistic - after.statistic).abs() < 1e-9);
            }
        }

        #[test]
        fn symmetric(a in prop::collection::vec(1.0f64..10.0, 4..40), b in prop::collection::vec(1.0f64..10.0, 4..40)) {
            let (one, other) = (anderson_darling(&[&a, &b]).unwrap(), anderson_darling(&[&b, &a]).unwrap());
            prop_assert!((one.statistic - other.statistic).abs() < 1e-9);
            prop_assert!((0.001..=0.25).contains(&one.p_value));
            prop_assert_eq!(kolmogorov_smirnov(&a, &b), kolmogorov_smirnov(&b, &a));
        }
    }
}
