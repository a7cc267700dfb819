// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Statistics of calibration samples: location and spread of a CPU's raw timings in spite of
//! interrupts and preemption.
//!
//! # Problem
//!
//! Disturbances only lengthen a timing: ticks, interrupts, a neighbour on the host, a preemption. A
//! mean follows the disturbance, and a minimum follows luck.
//!
//! # Approach
//!
//! The location is the median. The spread is the median absolute deviation (MAD) relative to the
//! median, scaled to the standard deviation of normal noise. Both are stable while fewer than half
//! of the samples are disturbed. The caller drops a fixed number of warm-up samples, because it
//! knows beforehand which samples are cold.
//!
//! # Invariants
//!
//! * The order of the samples does not matter.
//! * Scaling all samples scales the median and leaves the relative spread.
//! * The median lies between the extremes.
//!
//! # Limits
//!
//! If more than half of the samples are disturbed, the median moves too. The spread then shows it.

/// Factor from a MAD to the standard deviation of normal noise.
const MAD_TO_SIGMA: f64 = 1.4826;

/// Location and spread of one set of samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// Median, in the unit of the samples.
    pub median: f64,
    /// Robust relative standard deviation of a single sample [permille of the median].
    pub spread_permille: u32,
}

/// Return the finite samples in ascending order, without NaN and infinities.
#[must_use]
pub fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = samples.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Return the quantile `q` (0 to 1) of ascending samples, interpolated linearly; None without
/// samples.
#[must_use]
pub fn quantile_of_sorted(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let position = q.clamp(0.0, 1.0) * last as f64;
    let below = sorted.get(position.floor() as usize)?;
    let above = sorted.get(position.ceil() as usize)?;
    Some(below + (above - below) * position.fract())
}

/// Return the median; None without a finite sample.
#[must_use]
pub fn median(samples: &[f64]) -> Option<f64> {
    quantile_of_sorted(&sorted(samples), 0.5)
}

/// Return the median and the relative spread. Return None without a finite sample, or if the median
/// is not positive, as a time must be.
#[must_use]
pub fn summarise(samples: &[f64]) -> Option<Summary> {
    let sorted = sorted(samples);
    let median = quantile_of_sorted(&sorted, 0.5).filter(|median| *median > 0.0)?;
    let deviations: Vec<f64> = sorted.iter().map(|value| (value - median).abs()).collect();
    let mad = self::median(&deviations)?;
    // Beyond 100 000 permille the exact spread does not matter, because the samples are unusable.
    let spread_permille = (mad * MAD_TO_SIGMA / median * 1000.0).round().min(100_000.0) as u32;
    Some(Summary { median, spread_permille })
}

/// Return the medians of `parts` consecutive blocks of the samples, or of fewer blocks when there
/// are fewer samples.
///
/// Neighbouring samples share their disturbances. Medians of blocks are nearly independent, as the
/// permutation test of [`crate::classes`] requires.
#[must_use]
pub fn block_medians(samples: &[f64], parts: usize) -> Vec<f64> {
    let parts = parts.clamp(1, samples.len().max(1));
    (0..parts)
        .filter_map(|part| {
            let from = part * samples.len() / parts;
            let to = (part + 1) * samples.len() / parts;
            median(samples.get(from..to)?)
        })
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn outliers_on_fewer_than_half_of_the_samples_do_not_move_the_median() {
        let mut samples = vec![100.0; 30];
        samples.extend([900.0; 29]);
        let summary = summarise(&samples).unwrap();
        assert_eq!(summary.median, 100.0);
    }

    #[test]
    fn no_finite_sample_gives_no_summary() {
        assert_eq!(summarise(&[]), None);
        assert_eq!(summarise(&[f64::NAN, f64::INFINITY]), None);
        assert_eq!(summarise(&[0.0, 0.0]), None);
    }

    #[test]
    fn blocks_follow_drift() {
        assert_eq!(block_medians(&[1.0, 1.0, 2.0, 2.0, 3.0, 3.0], 3), vec![1.0, 2.0, 3.0]);
        assert_eq!(block_medians(&[5.0], 4), vec![5.0]);
        assert!(block_medians(&[], 4).is_empty());
    }

    proptest! {
        #[test]
        fn order_does_not_matter(mut samples in prop::collection::vec(1.0f64..1e6, 1..60)) {
            let before = summarise(&samples).unwrap();
            samples.reverse();
            let middle = samples.len() / 2;
            samples.rotate_left(middle);
            prop_assert_eq!(before, summarise(&samples).unwrap());
        }

        #[test]
        fn scaling_scales_the_median_only(samples in prop::collection::vec(1.0f64..1e6, 1..60), factor in 0.01f64..100.0) {
            let before = summarise(&samples).unwrap();
            let scaled: Vec<f64> = samples.iter().map(|value| value * factor).collect();
            let after = summarise(&scaled).unwrap();
            prop_assert!((after.median / before.median / factor - 1.0).abs() < 1e-9);
            prop_assert!(after.spread_permille.abs_diff(before.spread_permille) <= 1);
        }

        #[test]
        fn the_median_lies_between_the_extremes(samples in prop::collection::vec(1.0f64..1e6, 1..60)) {
            let sorted = sorted(&samples);
            let median = median(&samples).unwrap();
            prop_assert!(sorted[0] <= median && median <= sorted[sorted.len() - 1]);
        }
    }
}
