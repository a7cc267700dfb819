// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The report on teams, as it is printed and drawn.

use super::condition::TeamCondition;
use super::frequency_log::FrequencySeries;
use super::variation::Variation;
use serde::Serialize;

/// A benchmark under one condition.
#[derive(Debug, Clone, Serialize)]
pub struct TeamCase {
    /// The benchmark.
    pub benchmark: String,
    /// Its place in the list of conditions.
    pub condition: usize,
    /// Constructs, iterations per thread or numbers in an array.
    pub size: usize,
    /// Statistics.
    pub variation: Option<Variation>,
    /// Time of each repetition of each run [ns].
    pub times_ns: Vec<Vec<u64>>,
    /// Frequencies beside each run. Empty where the machine shows none.
    pub frequencies: Vec<FrequencySeries>,
}

/// All benchmarks under all conditions.
#[derive(Debug, Clone, Serialize)]
pub struct TeamReport {
    /// Format of this report.
    pub schema: &'static str,
    /// The sched_ext scheduler that was active, or "default".
    pub scheduler: String,
    /// Policy of waiting threads. None for the runtime's own.
    pub wait: Option<String>,
    /// Conditions.
    pub conditions: Vec<TeamCondition>,
    /// Benchmarks, grouped by condition.
    pub cases: Vec<TeamCase>,
}

impl TeamCase {
    /// Return the cells of this case in a table.
    pub(super) fn cells(&self, condition: &TeamCondition) -> Vec<String> {
        let Some(variation) = &self.variation else { return vec![self.benchmark.clone()] };
        let percent = |permille: f64| format!("{:.2} %", permille / 10.0);
        vec![
            self.benchmark.clone(),
            format!("{:.3}", variation.mean_ns / 1e6),
            percent(variation.cv_within_permille),
            variation.cv_between_permille.map_or("-".into(), percent),
            format!("{:.3}", variation.min),
            format!("{:.3}", variation.max),
            self.range_khz(&condition.cpus)
                .map_or("-".into(), |(low, high)| format!("{}-{}", low / 1000, high / 1000)),
        ]
    }

    /// Return the extremes of the frequencies of these CPUs over all runs [kHz].
    pub(super) fn range_khz(&self, cpus: &[usize]) -> Option<(u32, u32)> {
        let ranges: Vec<_> = self.frequencies.iter().filter_map(|series| series.range_khz(cpus)).collect();
        Some((ranges.iter().map(|range| range.0).min()?, ranges.iter().map(|range| range.1).max()?))
    }
}
