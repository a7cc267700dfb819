// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Choice of the threshold between sections that execute and sections that wait for memory.
//!
//! # Problem
//! A miss rate alone does not tell which core suits a section: it depends on the machine and on the
//! other sections. [Werling18] looks for a gap in a plot by eye.
//!
//! # Approach
//! Sort the values. The threshold is the geometric mean of the two neighbours that differ by the
//! largest factor. Values below [`FLOOR`] count as that much.
//!
//! # Invariants
//! There are values on both sides of a threshold. It does not depend on the order of the values.
//! Sections of about equal values have none.
//!
//! # Limits
//! The gap says where sections differ most, not where a fast core begins to pay.

/// Misses per instruction below which a section executes, whatever the exact value: with 300 cycles
/// for a miss, one in 1000 instructions costs less than a third of a cycle for each.
pub const FLOOR: f64 = 1e-3;
/// Least factor between two sections that differ.
const LEAST_FACTOR: f64 = 2.0;

/// Return the threshold [misses per instruction]. None if all `values` are alike.
pub fn choose(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> =
        values.into_iter().filter(|value| value.is_finite()).map(|value| value.max(FLOOR)).collect();
    sorted.sort_by(f64::total_cmp);
    let factor = |pair: &[f64]| pair[1] / pair[0];
    let widest = sorted.windows(2).max_by(|a, b| factor(a).total_cmp(&factor(b)))?;
    (factor(widest) >= LEAST_FACTOR).then(|| (widest[0] * widest[1]).sqrt())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Listing 5.2 of the thesis, which sets the threshold to 0.01: three sections are above.
    const MYSQL: [f64; 7] = [0.0226868, 0.02721, 0.004393, 0.005928, 0.00366238, 0.018912, 0.004121];

    #[test]
    fn the_threshold_of_the_thesis_is_found() {
        let threshold = choose(MYSQL).unwrap();
        assert!((threshold - 0.01).abs() < 0.001, "{threshold}");
        assert_eq!(MYSQL.iter().filter(|value| **value > threshold).count(), 3);
    }

    #[test]
    fn sections_that_are_alike_have_none() {
        assert_eq!(choose([]), None);
        assert_eq!(choose([0.5]), None);
        assert_eq!(choose([0.02, 0.03, 0.025]), None);
        assert_eq!(choose([0.0, 1e-9, f64::NAN]), None);
    }

    proptest! {
        #[test]
        fn a_threshold_has_values_on_both_sides(mut values in prop::collection::vec(0.0..0.1f64, 0..12)) {
            let threshold = choose(values.iter().copied());
            values.reverse();
            prop_assert_eq!(threshold, choose(values.iter().copied()));
            if let Some(threshold) = threshold {
                let above = values.iter().filter(|value| **value > threshold).count();
                prop_assert!(above > 0 && above < values.len());
                // No value is close to it.
                let near = values.iter().map(|value| value.max(FLOOR) / threshold)
                    .filter(|factor| *factor > 0.72 && *factor < 1.4).count();
                prop_assert_eq!(near, 0);
            }
        }
    }
}
