// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The Hodges-Lehmann estimate: the median of the means of all pairs of values, each value with
//! itself included. These means are the Walsh averages [HodgesLehmann63], see [Hollander14],
//! section 3.2.
//!
//! # Problem
//! n values have n(n+1)/2 such means. For many values, they are too many to keep.
//!
//! # Approach
//! For few values, list the sums and select the median. For many values, find the median by
//! bisection over all floating-point numbers (64 steps). Each step counts the sums below with two
//! pointers into the sorted values.
//!
//! # Invariants
//! Both ways give the same number, to the last bit. Negating the values negates it.

/// Maximum number of values for which the means are listed: 2080 numbers.
const LISTED: usize = 64;

/// Return the estimate. None without values. Values must not be NaN.
pub fn hodges_lehmann(values: &[f64]) -> Option<f64> {
    Estimator::default().of(values)
}

/// An estimator that keeps its memory, for callers that need thousands of estimates.
#[derive(Debug, Default)]
pub struct Estimator {
    sums: Vec<f64>,
}

impl Estimator {
    /// Return the estimate. None without values.
    pub fn of(&mut self, values: &[f64]) -> Option<f64> {
        let count = values.len() * (values.len() + 1) / 2;
        if count == 0 {
            return None;
        }
        let (low, high) = ((count - 1) / 2, count / 2);
        let (low, high) = if values.len() <= LISTED {
            self.list(values);
            middle_of(&mut self.sums, low, high)
        } else {
            let mut sorted = values.to_vec();
            sorted.sort_by(f64::total_cmp);
            (select_sum(&sorted, low), select_sum(&sorted, high))
        };
        // Half of a sum is a Walsh average, and half of the sum of the two middle averages is the
        // median. Adding zero turns -0 into 0.
        Some((low + high) / 4.0 + 0.0)
    }

    /// List the sums of all pairs of values.
    fn list(&mut self, values: &[f64]) {
        self.sums.clear();
        for (i, a) in values.iter().enumerate() {
            self.sums.extend(values[i..].iter().map(|b| a + b));
        }
    }
}

/// Return the `low`-th and the `high`-th smallest sum, from 0. `high` is `low` or `low` + 1.
fn middle_of(sums: &mut [f64], low: usize, high: usize) -> (f64, f64) {
    let (below, &mut at_high, _) = sums.select_nth_unstable_by(high, f64::total_cmp);
    let at_low = if low == high { at_high } else { below.iter().copied().fold(f64::NEG_INFINITY, f64::max) };
    (at_low, at_high)
}

/// Return the `rank`-th smallest sum of two values, from 0, without listing the sums. A value with
/// itself counts as a pair.
fn select_sum(sorted: &[f64], rank: usize) -> f64 {
    let (mut low, mut high) = (key(f64::NEG_INFINITY), key(f64::INFINITY));
    while low < high {
        let middle = low + (high - low) / 2;
        if sums_up_to(sorted, from_key(middle)) > rank {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    from_key(low)
}

/// Return the number of sums of two values that are at most `limit`.
fn sums_up_to(sorted: &[f64], limit: f64) -> usize {
    let (mut count, mut end) = (0, sorted.len());
    for (i, a) in sorted.iter().enumerate() {
        while end > i && a + sorted[end - 1] > limit {
            end -= 1;
        }
        if end <= i {
            break;
        }
        count += end - i;
    }
    count
}

/// Map a number to an integer, preserving the order.
fn key(x: f64) -> u64 {
    let bits = x.to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

fn from_key(key: u64) -> f64 {
    f64::from_bits(if key >> 63 == 1 { key & !(1 << 63) } else { !key })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// [Hollander14], Table 3.1: depression scale factor IV of nine patients before and after a
    /// tranquilliser.
    pub(crate) const HAMILTON: [f64; 9] =
        [-0.952, 0.147, -1.022, -0.430, -0.620, -0.590, -0.490, 0.080, -0.010];

    #[test]
    fn the_published_example() {
        assert!((hodges_lehmann(&HAMILTON).unwrap() + 0.46).abs() < 1e-9);
    }

    #[test]
    fn small_cases() {
        assert_eq!(hodges_lehmann(&[]), None);
        assert_eq!(hodges_lehmann(&[3.0]), Some(3.0));
        assert_eq!(hodges_lehmann(&[1.0, 2.0]), Some(1.5));
        // The means are 0, 0, 0, 4.5, 4.5, 9.
        assert_eq!(hodges_lehmann(&[0.0, 9.0, 0.0]), Some(2.25));
    }

    #[test]
    fn ten_thousand_values_need_no_list() {
        let values: Vec<f64> = (0..10_000).map(|i| f64::from(i * 7919 % 10_000)).collect();
        assert_eq!(hodges_lehmann(&values), Some(4999.5));
    }

    proptest! {
        #[test]
        fn listing_and_counting_agree(values in proptest::collection::vec(
            prop_oneof![8 => -1.0f64..1.0, 1 => Just(1e9), 1 => Just(0.0)], 1..40)
        ) {
            let mut sorted = values.clone();
            sorted.sort_by(f64::total_cmp);
            let mut all = Estimator::default();
            all.list(&values);
            all.sums.sort_by(f64::total_cmp);
            for (rank, &sum) in all.sums.iter().enumerate() {
                prop_assert_eq!(select_sum(&sorted, rank), sum);
            }
        }

        #[test]
        fn it_shifts_with_the_values(values in proptest::collection::vec(-1.0f64..1.0, 1..90), shift in -5.0f64..5.0) {
            let shifted: Vec<f64> = values.iter().map(|x| x + shift).collect();
            let moved = hodges_lehmann(&shifted).unwrap() - hodges_lehmann(&values).unwrap();
            prop_assert!((moved - shift).abs() < 1e-9);
        }
    }
}
