// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Series of times: their transfer from a child process, and their evaluation.
//!
//! # Problem
//! The 99.9th percentile of a latency needs every sample, and a histogram cannot be shared between
//! processes.
//!
//! # Approach
//! [`SharedSeries`] is an array in shared memory with one writer. The parent reads it after the
//! writer has ended. It computes a histogram (three significant digits) or the spread of
//! repetitions.
//!
//! # Invariants
//! A sample never changes after it is counted. Samples beyond the capacity are counted as dropped,
//! and the detail of a result shows them.

use crate::shared::Shared;
use crate::{Error, Result};
use hdrhistogram::Histogram;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Release};

/// Maximum number of single times in a detail, so that the file of samples stays readable.
const FIRST: usize = 100;

/// Times in nanoseconds, written by one thread and read by another process.
pub struct SharedSeries {
    /// The number of samples seen, followed by the samples.
    cells: Shared<AtomicU64>,
    capacity: usize,
}

impl SharedSeries {
    /// Allocate a series for `capacity` samples.
    pub fn new(capacity: usize) -> Result<Self> {
        Ok(SharedSeries { cells: Shared::new(capacity + 1)?, capacity })
    }

    /// Add a sample. Only one thread may call this.
    pub fn push(&self, ns: u64) {
        let cells = self.cells.all();
        let seen = cells[0].load(Acquire);
        if let Some(cell) = cells[1..].get(seen as usize) {
            cell.store(ns, Release);
        }
        cells[0].store(seen + 1, Release);
    }

    /// Return the number of samples seen, with dropped ones.
    pub fn seen(&self) -> u64 {
        self.cells.all()[0].load(Acquire)
    }

    /// Return the samples within the capacity.
    pub fn values(&self) -> Vec<u64> {
        let kept = self.seen().min(self.capacity as u64) as usize;
        self.cells.all()[1..=kept].iter().map(|cell| cell.load(Acquire)).collect()
    }

    /// Return the number of samples beyond the capacity.
    pub fn dropped(&self) -> u64 {
        self.seen().saturating_sub(self.capacity as u64)
    }
}

/// Return the latency metrics of these times, and a detail with the number of samples.
pub fn latency(times_ns: &[u64], dropped: u64) -> Result<(BTreeMap<String, f64>, Value)> {
    if times_ns.is_empty() {
        return Err(Error::failed("latencies", "the window held no request; lengthen it"));
    }
    let failed = |e: &dyn std::fmt::Display| Error::failed("latencies", e);
    let mut histogram = Histogram::<u64>::new(3).map_err(|e| failed(&e))?;
    for &ns in times_ns {
        histogram.record(ns.max(1)).map_err(|e| failed(&e))?;
    }
    let us = |quantile: f64| histogram.value_at_quantile(quantile) as f64 / 1e3;
    let metrics = [("latency_p50_us", 0.5), ("latency_p99_us", 0.99), ("latency_p999_us", 0.999)]
        .map(|(name, quantile)| (name.to_string(), us(quantile)));
    let detail = json!({
        "samples": times_ns.len(),
        "samples_dropped": dropped,
        "mean_us": histogram.mean() / 1e3,
        "max_us": histogram.max() as f64 / 1e3,
    });
    Ok((metrics.into(), detail))
}

/// Return the metrics of repetitions of the same work: mean time, coefficient of variation, fastest
/// over slowest.
pub fn spread(times_ns: &[u64]) -> Result<BTreeMap<String, f64>> {
    let n = times_ns.len() as f64;
    if times_ns.len() < 2 {
        return Err(Error::failed("repetitions", "the window held fewer than two; lengthen it"));
    }
    let times: Vec<f64> = times_ns.iter().map(|&ns| ns.max(1) as f64).collect();
    let mean = times.iter().sum::<f64>() / n;
    let variance = times.iter().map(|t| (t - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let min = times.iter().copied().fold(f64::INFINITY, f64::min);
    let max = times.iter().copied().fold(0.0, f64::max);
    Ok([
        ("time_ms", mean / 1e6),
        ("cv_permille", variance.sqrt() / mean * 1e3),
        ("min_max_permille", min / max * 1e3),
    ]
    .map(|(name, value)| (name.to_string(), value))
    .into())
}

/// Return the detail of repetitions: their number, and the first of them.
pub fn detail(times_ns: &[u64], dropped: u64) -> Value {
    json!({
        "repetitions": times_ns.len() as u64 + dropped,
        "first_times_ns": &times_ns[..times_ns.len().min(FIRST)],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn percentiles_of_a_known_series() {
        let times: Vec<u64> = (1..=1000).map(|us| us * 1000).collect();
        let (metrics, detail) = latency(&times, 7).unwrap();
        for (name, expected) in
            [("latency_p50_us", 500.0), ("latency_p99_us", 990.0), ("latency_p999_us", 999.0)]
        {
            assert!((metrics[name] / expected - 1.0).abs() < 2e-3, "{name}: {}", metrics[name]);
        }
        assert_eq!((detail["samples"].as_u64(), detail["samples_dropped"].as_u64()), (Some(1000), Some(7)));
    }

    #[test]
    fn an_empty_series_has_no_percentiles_and_one_time_no_spread() {
        assert!(latency(&[], 0).unwrap_err().to_string().contains("lengthen"));
        assert!(spread(&[1]).unwrap_err().to_string().contains("lengthen"));
    }

    #[test]
    fn the_time_agrees_with_its_description() {
        let metrics = spread(&[8_000_000, 9_000_000, 13_000_000]).unwrap();
        let about = crate::ab::metric::of("time_ms").about;
        assert!((metrics["time_ms"] - 10.0).abs() < 1e-9);
        assert!(about.contains("mean over the repetitions"), "{about}");
    }

    #[test]
    fn spread_of_a_known_series() {
        let metrics = spread(&[8_000_000, 10_000_000, 12_000_000]).unwrap();
        assert!((metrics["time_ms"] - 10.0).abs() < 1e-9);
        assert!((metrics["cv_permille"] - 200.0).abs() < 1e-9);
        assert!((metrics["min_max_permille"] - 8000.0 / 12.0).abs() < 1e-9);
    }

    #[test]
    fn a_full_series_counts_what_it_drops() {
        let series = SharedSeries::new(3).unwrap();
        (10..15).for_each(|ns| series.push(ns));
        assert_eq!((series.values(), series.seen(), series.dropped()), (vec![10, 11, 12], 5, 2));
    }

    proptest! {
        #[test]
        fn percentiles_are_ordered_and_within_the_samples(times in proptest::collection::vec(1u64..1 << 40, 1..200)) {
            let (m, _) = latency(&times, 0).unwrap();
            let (min, max) = (*times.iter().min().unwrap() as f64 / 1e3, *times.iter().max().unwrap() as f64 / 1e3);
            let [p50, p99, p999] = ["latency_p50_us", "latency_p99_us", "latency_p999_us"].map(|name| m[name]);
            prop_assert!(p50 <= p99 && p99 <= p999);
            prop_assert!(p50 >= min * 0.998 && p999 <= max * 1.002);
        }

        #[test]
        fn spread_does_not_depend_on_the_unit(
            times in proptest::collection::vec(1000u64..1 << 30, 2..50), k in 2u64..100
        ) {
            let scaled: Vec<u64> = times.iter().map(|t| t * k).collect();
            let (a, b) = (spread(&times).unwrap(), spread(&scaled).unwrap());
            for name in ["cv_permille", "min_max_permille"] {
                prop_assert!((a[name] - b[name]).abs() < 1e-6 * (1.0 + a[name]), "{}", name);
            }
            prop_assert!(a["min_max_permille"] > 0.0 && a["min_max_permille"] <= 1000.0);
        }
    }
}
