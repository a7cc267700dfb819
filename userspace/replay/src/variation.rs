// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Statistics of repeated runs, as \[Cui23] reports them.
//!
//! # Problem
//! A scheduler can vary in two ways: from repetition to repetition, and from run to run. One
//! coefficient of variation (CV) over all times would mix both.
//!
//! # Approach
//! | figure | formula |
//! |---|---|
//! | mean | mean of the runs' means |
//! | CV within | mean of the runs' CVs: standard deviation of the repetitions over their mean |
//! | CV between | standard deviation of the runs' means over their mean |
//! | normalised minimum, maximum | extreme times of a run over its mean; of all runs the extremes |
//!
//! # Invariants
//! No figure depends on the unit of time. Normalised minimum <= 1 <= normalised maximum.
//!
//! # Limits
//! Standard deviations are those of samples (n - 1), so one run has no CV between runs.

use serde::Serialize;

/// Figures of one run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RunFigures {
    /// Mean of the repetitions [ns].
    pub mean_ns: f64,
    /// Standard deviation over mean [permille].
    pub cv_permille: f64,
    /// Least time over mean.
    pub min: f64,
    /// Largest time over mean.
    pub max: f64,
}

/// Figures of all runs of a benchmark under one condition.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Variation {
    /// Mean of the runs' means [ns].
    pub mean_ns: f64,
    /// Mean of the runs' CVs [permille].
    pub cv_within_permille: f64,
    /// CV of the runs' means [permille]. None for one run.
    pub cv_between_permille: Option<f64>,
    /// Least time of any run over that run's mean.
    pub min: f64,
    /// Largest time of any run over that run's mean.
    pub max: f64,
    /// Each run.
    pub runs: Vec<RunFigures>,
}

impl Variation {
    /// Evaluate the times [ns] of each run. None if there is no run, or one without times.
    pub fn of(runs: &[Vec<u64>]) -> Option<Self> {
        let runs: Vec<RunFigures> = runs.iter().map(|times| figures(times)).collect::<Option<_>>()?;
        let means: Vec<f64> = runs.iter().map(|run| run.mean_ns).collect();
        Some(Variation {
            mean_ns: mean(&means)?,
            cv_within_permille: mean(&runs.iter().map(|run| run.cv_permille).collect::<Vec<_>>())?,
            cv_between_permille: cv_permille(&means),
            min: runs.iter().map(|run| run.min).fold(f64::INFINITY, f64::min),
            max: runs.iter().map(|run| run.max).fold(0.0, f64::max),
            runs,
        })
    }
}

fn figures(times: &[u64]) -> Option<RunFigures> {
    // The clock may be too coarse to see a short repetition.
    let times: Vec<f64> = times.iter().map(|&ns| ns.max(1) as f64).collect();
    let mean_ns = mean(&times)?;
    Some(RunFigures {
        mean_ns,
        cv_permille: cv_permille(&times).unwrap_or(0.0),
        min: times.iter().copied().fold(f64::INFINITY, f64::min) / mean_ns,
        max: times.iter().copied().fold(0.0, f64::max) / mean_ns,
    })
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Return the coefficient of variation. None for fewer than two values.
fn cv_permille(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    let freedom = values.len().checked_sub(1).filter(|&n| n > 0)? as f64;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / freedom;
    Some(variance.sqrt() / mean * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_variations_of_known_runs() {
        // Each run varies by a fifth around its mean, and the means are 10 and 20.
        let all = Variation::of(&[vec![8, 10, 12], vec![16, 20, 24]]).unwrap();
        assert!((all.mean_ns - 15.0).abs() < 1e-9 && (all.cv_within_permille - 200.0).abs() < 1e-9);
        let between = 50.0_f64.sqrt() / 15.0 * 1000.0;
        assert!((all.cv_between_permille.unwrap() - between).abs() < 1e-9);
        assert!((all.min - 0.8).abs() < 1e-9 && (all.max - 1.2).abs() < 1e-9);
    }

    #[test]
    fn too_few_values_have_no_figures() {
        assert_eq!(Variation::of(&[]), None);
        assert_eq!(Variation::of(&[vec![1, 2], vec![]]), None);
        let one = Variation::of(&[vec![7]]).unwrap();
        assert_eq!((one.cv_between_permille, one.cv_within_permille, one.min), (None, 0.0, 1.0));
    }

    proptest! {
        #[test]
        fn figures_have_no_unit_and_enclose_the_mean(
            runs in prop::collection::vec(prop::collection::vec(1u64..1 << 40, 1..20), 1..8)
        ) {
            let all = Variation::of(&runs).unwrap();
            prop_assert!(all.min <= 1.0 + 1e-9 && all.max >= 1.0 - 1e-9);
            let longer: Vec<Vec<u64>> =
                runs.iter().map(|times| times.iter().map(|ns| ns * 1000).collect()).collect();
            let other = Variation::of(&longer).unwrap();
            prop_assert!((other.cv_within_permille - all.cv_within_permille).abs() < 1e-6);
            let between = |of: &Variation| of.cv_between_permille.unwrap_or(0.0);
            prop_assert!((between(&other) - between(&all)).abs() < 1e-6);
        }
    }
}
