// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Adjustment of p-values for several questions [Holm79]. It keeps the probability of any false
//! call below the level, for any dependence between the questions.
//!
//! The smallest p-value is multiplied by the number of questions, the next by one less, and so on.
//! The adjustment never reverses the order of two p-values. Questions without a p-value were not
//! asked and do not count.

/// Return the adjusted p-values, in the given order.
pub fn adjust(p_values: &[Option<f64>]) -> Vec<Option<f64>> {
    let mut asked: Vec<(f64, usize)> =
        p_values.iter().zip(0..).filter_map(|(p, i)| Some(((*p)?, i))).collect();
    asked.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut adjusted = vec![None; p_values.len()];
    let mut largest = 0.0f64;
    for (rank, &(p, i)) in asked.iter().enumerate() {
        largest = largest.max((p * (asked.len() - rank) as f64).min(1.0));
        adjusted[i] = Some(largest);
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_worked_example() {
        // The same values as R's p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm").
        let adjusted = adjust(&[Some(0.01), Some(0.04), None, Some(0.03), Some(0.005)]);
        let expected = [Some(0.03), Some(0.06), None, Some(0.06), Some(0.02)];
        for (a, e) in adjusted.iter().zip(expected) {
            assert_eq!(a.is_some(), e.is_some());
            assert!((a.unwrap_or(0.0) - e.unwrap_or(0.0)).abs() < 1e-12);
        }
    }

    proptest! {
        #[test]
        fn order_is_kept_and_no_p_shrinks(p in proptest::collection::vec(0.0f64..1.0, 0..20)) {
            let adjusted = adjust(&p.iter().copied().map(Some).collect::<Vec<_>>());
            for (i, a) in adjusted.iter().map(|a| a.unwrap()).enumerate() {
                prop_assert!(a >= p[i] && a <= 1.0);
                prop_assert!((0..p.len()).all(|j| p[i] > p[j] || a <= adjusted[j].unwrap()));
            }
        }
    }
}
