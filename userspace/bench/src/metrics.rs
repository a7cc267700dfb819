// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The formulas of a comparison, without side effects.
//!
//! Every task has a *progress*: its rate of work in the mix divided by its rate alone on a fast
//! CPU. A task with progress 1 lost nothing. A task that gets half of a CPU of 0.4 times the speed
//! has progress 0.2. *Slowdown* is the reciprocal of progress. The metrics follow from these
//! [Eyerman08]:
//!
//! * STP (system throughput) = sum of progress: the number of fast CPUs that would do this work;
//! * ANTT (average normalised turnaround time) = mean slowdown: how much longer a task takes;
//! * unfairness = largest slowdown / smallest slowdown: 1 if all tasks are slowed down alike.
//!
//! A task without any progress has an infinite slowdown, so ANTT and unfairness are infinite too
//! (JSON shows them as null). A starved task must never look like a good average.

/// Return the progress of one task: its rate of work over its rate alone on a fast CPU, in the same
/// unit. None if the solo rate is not a positive number.
pub fn progress(rate_per_s: f64, solo_rate_per_s: f64) -> Option<f64> {
    (solo_rate_per_s.is_finite() && solo_rate_per_s > 0.0 && rate_per_s >= 0.0)
        .then(|| rate_per_s / solo_rate_per_s)
}

/// Return the slowdown of a progress; infinite for a task that did nothing.
pub fn slowdown(progress: f64) -> f64 {
    if progress > 0.0 { 1.0 / progress } else { f64::INFINITY }
}

/// Return the system throughput: the sum of all tasks' progress. 0 for no tasks.
pub fn stp(progress: &[f64]) -> f64 {
    sum(progress.iter().copied())
}

/// Return the average normalised turnaround time: the mean slowdown. None for no tasks.
pub fn antt(progress: &[f64]) -> Option<f64> {
    let total: f64 = progress.iter().map(|&p| slowdown(p)).sum();
    (!progress.is_empty()).then(|| total / progress.len() as f64)
}

/// Return the largest slowdown over the smallest, at least 1. None for no tasks, infinite if any
/// task starved.
pub fn unfairness(progress: &[f64]) -> Option<f64> {
    let max = progress.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let min = progress.iter().copied().fold(f64::INFINITY, f64::min);
    if progress.is_empty() {
        None
    } else if min > 0.0 {
        Some(max / min)
    } else {
        Some(f64::INFINITY)
    }
}

/// Return the median, or the mean of the middle two for an even count. None for no values. NaN
/// sorts last.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[half]),
        _ => Some((sorted[half - 1] + sorted[half]) / 2.0),
    }
}

/// Return the mean of the middle half: of the sorted values, without a quarter (rounded down) at
/// either end. It ignores outliers, and unlike the median it does not jump between discrete levels.
/// None for no values.
pub fn midmean(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let cut = sorted.len() / 4;
    let middle = &sorted[cut..sorted.len() - cut];
    (!middle.is_empty()).then(|| middle.iter().sum::<f64>() / middle.len() as f64)
}

/// Return the sum, which is 0 (not the standard library's -0) for no values.
pub fn sum(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, |sum, x| sum + x)
}

/// Return the share of `part` in `whole`, 0 if the whole is 0.
pub fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// Split CPUs into fast and slow by speed: a CPU is fast if it is above the middle between the
/// slowest and the fastest. If they differ by no more than `min_effect` (0.03 = 3 %), all are fast.
/// Return one bool per speed, in order.
pub fn fast_cpus(speeds: &[f64], min_effect: f64) -> Vec<bool> {
    let max = speeds.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let min = speeds.iter().copied().fold(f64::INFINITY, f64::min);
    let alike = max <= min * (1.0 + min_effect);
    speeds.iter().map(|&s| alike || s > (min + max) / 2.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn four_equal_tasks_two_on_cores_of_speed_0_4() {
        let p = [1.0, 1.0, 0.4, 0.4];
        assert!((stp(&p) - 2.8).abs() < 1e-12);
        assert!((antt(&p).unwrap() - 1.75).abs() < 1e-12);
        assert!((unfairness(&p).unwrap() - 2.5).abs() < 1e-12);
    }

    #[test]
    fn a_starved_task_shows_as_infinite() {
        let p = [1.0, 0.0];
        assert_eq!(antt(&p), Some(f64::INFINITY));
        assert_eq!(unfairness(&p), Some(f64::INFINITY));
        assert_eq!(stp(&p), 1.0);
    }

    #[test]
    fn no_tasks_have_no_means() {
        assert_eq!(stp(&[]), 0.0);
        assert_eq!((antt(&[]), unfairness(&[]), median(&[])), (None, None, None));
    }

    #[test]
    fn progress_needs_a_solo_rate() {
        assert_eq!(progress(5.0, 10.0), Some(0.5));
        assert_eq!(progress(5.0, 0.0), None);
        assert_eq!(progress(5.0, f64::NAN), None);
    }

    #[test]
    fn fast_split() {
        assert_eq!(fast_cpus(&[60.0, 60.5, 24.0, 24.1], 0.03), [true, true, false, false]);
        assert_eq!(fast_cpus(&[60.0, 60.1, 59.9], 0.03), [true, true, true]);
        assert_eq!(fast_cpus(&[60.0, 24.0], 0.03), [true, false]);
        assert!(fast_cpus(&[], 0.03).is_empty());
    }

    #[test]
    fn midmean_moves_with_the_share_of_levels_and_not_with_outliers() {
        assert_eq!(midmean(&[]), None);
        assert_eq!(midmean(&[7.0]), Some(7.0));
        assert_eq!(midmean(&[1.0, 2.0, 3.0, 1000.0]), Some(2.5));
        let levels = |ones: usize| [vec![1.0; ones], vec![2.0; 12 - ones]].concat();
        assert_eq!([5, 6, 7].map(|n| midmean(&levels(n)).unwrap()), [10.0 / 6.0, 9.0 / 6.0, 8.0 / 6.0]);
    }

    proptest! {
        #[test]
        fn scaling_all_tasks_alike_preserves_unfairness(
            p in proptest::collection::vec(0.001f64..1.0, 1..20), k in 0.1f64..10.0
        ) {
            let scaled: Vec<f64> = p.iter().map(|x| x * k).collect();
            let (a, b) = (unfairness(&p).unwrap(), unfairness(&scaled).unwrap());
            prop_assert!(a >= 1.0 && (a - b).abs() < 1e-6 * a);
        }

        #[test]
        fn antt_is_never_below_the_reciprocal_of_mean_progress(p in proptest::collection::vec(0.001f64..1.0, 1..20)) {
            let mean = stp(&p) / p.len() as f64;
            prop_assert!(antt(&p).unwrap() >= 1.0 / mean - 1e-9);
        }

        #[test]
        fn median_has_half_on_each_side(v in proptest::collection::vec(-1e6f64..1e6, 1..50)) {
            let m = median(&v).unwrap();
            let below = v.iter().filter(|&&x| x < m).count();
            let above = v.iter().filter(|&&x| x > m).count();
            prop_assert!(below <= v.len() / 2 && above <= v.len() / 2);
        }
    }
}
