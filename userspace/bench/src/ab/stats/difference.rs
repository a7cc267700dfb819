// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Difference between the log-ratios of two runs: the logarithm of the ratio of ratios.
//!
//! # Problem
//! The two runs share neither blocks nor boots, so their values cannot be paired.
//!
//! # Approach
//! The estimate is the difference of the two Hodges-Lehmann estimates. The interval is computed in
//! three steps:
//!
//! * Resample the blocks of both runs independently.
//! * Expand the deviations as far as Student's t of their common degrees of freedom (Welch 1947)
//!   exceeds the normal distribution.
//! * Add the scatter of each run's boots (see [`super::interval`]).
//!
//! The p-value is the one that corresponds to such an interval (Altman and Bland 2011, "How to
//! obtain the P value from a confidence interval").
//!
//! # Invariants
//! Two runs with the same pairs differ by zero. Swapping the runs mirrors the estimate.
//!
//! # Limits
//! Infinite pairs have no difference. The p-value assumes that the estimate is approximately
//! normal.

use super::MIN_PAIRS;
use super::estimate::hodges_lehmann;
use super::interval::{Interval, NORMAL_95, boot_error, resample, shortfall, student_t};
use super::pairs::{Pair, is_infinite};
use distrs::Normal;

/// Difference of two log-ratios, new minus old.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// Estimate of each run, old first.
    pub sides: [Option<f64>; 2],
    /// Difference of the estimates. None if one is missing or a pair is infinite.
    pub estimate: Option<f64>,
    /// 95 % interval. None if a run has fewer than five pairs.
    pub interval: Option<Interval>,
    /// p-value of no difference, not adjusted.
    pub p: Option<f64>,
}

impl Difference {
    /// Compare the pairs of two runs, old first. The seeds are those of their resampling.
    pub fn of(sides: [&[Pair]; 2], seeds: [u64; 2]) -> Difference {
        let values = sides.map(|pairs| pairs.iter().map(|p| p.log_ratio).collect::<Vec<_>>());
        let centres = [hodges_lehmann(&values[0]), hodges_lehmann(&values[1])];
        let unknown = Difference { sides: centres, estimate: None, interval: None, p: None };
        let [Some(old), Some(new)] = centres else { return unknown };
        if values.iter().flatten().any(|v| is_infinite(*v)) {
            return unknown;
        }
        let estimate = new - old;
        if values.iter().any(|v| v.len() < MIN_PAIRS) {
            return Difference { estimate: Some(estimate), ..unknown };
        }
        let [of_old, of_new] = [0, 1].map(|i| {
            // Use different streams. With equal seeds, the resamples of the two runs would be
            // correlated.
            let seed = seeds[i].wrapping_mul(2).wrapping_add(i as u64);
            let centre = [old, new][i];
            let deviation = |x: f64| (x - centre) * shortfall(values[i].len());
            resample(&values[i], seed).into_iter().map(deviation).collect::<Vec<f64>>()
        });
        let expansion =
            student_t(freedom([&of_old, &of_new], [values[0].len(), values[1].len()])) / NORMAL_95;
        let both = of_old.iter().zip(&of_new);
        let mut both: Vec<f64> = both.map(|(old, new)| estimate + (new - old) * expansion).collect();
        both.sort_by(f64::total_cmp);
        let skipped = both.len() / 40;
        let blocks =
            Interval { low: both[skipped].min(estimate), high: both[both.len() - 1 - skipped].max(estimate) };
        let boots = boot_error(sides[0]).hypot(boot_error(sides[1]));
        let interval = blocks.widened(estimate, boots);
        Difference {
            estimate: Some(estimate),
            interval: Some(interval),
            p: Some(p_of(estimate, interval)),
            ..unknown
        }
    }
}

/// Return the degrees of freedom of a difference of two estimates (Welch 1947), from their
/// resampled deviations.
fn freedom(deviations: [&[f64]; 2], values: [usize; 2]) -> f64 {
    let variance = |d: &[f64]| d.iter().map(|x| x * x).sum::<f64>() / d.len().max(1) as f64;
    let [old, new] = deviations.map(variance);
    let [n_old, n_new] = values.map(|n| n as f64 - 1.0);
    let spread = old * old / n_old + new * new / n_new;
    // Without any scatter the interval is a point, and the expansion has no effect.
    if spread > 0.0 { (old + new).powi(2) / spread } else { n_old + n_new }
}

/// Return the p-value that corresponds to an estimate with this 95 % interval.
fn p_of(estimate: f64, interval: Interval) -> f64 {
    let half = if estimate > 0.0 { estimate - interval.low } else { interval.high - estimate };
    let deviations = match (estimate == 0.0, half > 0.0) {
        (true, _) => 0.0,
        (false, true) => estimate.abs() / half * NORMAL_95,
        (false, false) => f64::INFINITY,
    };
    2.0 * Normal::cdf(-deviations, 0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::ChaCha8Rng;
    use rand::{RngExt, SeedableRng};

    #[test]
    fn the_interval_of_two_runs_alike_covers_zero_as_often_as_it_says() {
        let mut rng = ChaCha8Rng::seed_from_u64(8);
        let mut draw = |n: u32| -> Vec<Pair> {
            // The sum of four uniform numbers is nearly normal.
            let mut noise = || (0..4).map(|_| rng.random::<f64>() - 0.5).sum::<f64>();
            (0..n).map(|block| Pair { boot: 0, block, log_ratio: noise() }).collect()
        };
        for (old, new) in [(6, 6), (10, 20)] {
            let runs = 700;
            let covers = |i: Interval| i.low <= 0.0 && 0.0 <= i.high;
            let hits = (0..runs)
                .filter(|_| Difference::of([&draw(old), &draw(new)], [1, 2]).interval.is_some_and(covers))
                .count();
            let covered = hits as f64 * 100.0 / f64::from(runs);
            assert!((92.0..=98.0).contains(&covered), "{old} and {new}: {covered} %");
        }
    }

    #[test]
    fn p_values_belong_to_their_intervals() {
        let p = |estimate, low, high| p_of(estimate, Interval { low, high });
        // Altman and Bland's relation: an interval that just touches zero has p = 0.05.
        assert!((p(0.1, 0.0, 0.2) - 0.05).abs() < 1e-9 && (p(-0.1, -0.3, 0.0) - 0.05).abs() < 1e-9);
        assert_eq!((p(0.0, -1.0, 1.0), p(0.1, 0.1, 0.1)), (1.0, 0.0));
    }
}
