// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The report on teams, and the conditions under which a team runs: CPUs, siblings, spare cores and
//! pinning.
//!
//! # Approach
//! The cores that this process may use are the machine. `spare` of the last cores get no thread.
//! Each other core has one thread, or one for each sibling. The team has one thread for each
//! remaining CPU. If it is pinned, each of these CPUs is a place of the runtime. Otherwise the
//! scheduler may use all CPUs, the spare ones and the siblings too, as in \[Cui23].

use super::frequency_log::FrequencySeries;
use crate::variation::Variation;
use clap::ValueEnum;
use serde::Serialize;
use std::fmt;

/// Binding of the team's threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Bind {
    /// The scheduler places the threads.
    None,
    /// Threads on neighbouring places.
    Close,
    /// Threads on distant places.
    Spread,
}

/// Threads on a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Smt {
    /// One on each core.
    One,
    /// One on each sibling.
    All,
}

/// One condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TeamCondition {
    /// Pinning.
    pub bind: Bind,
    /// Siblings.
    pub smt: Smt,
    /// Cores without a thread of the team.
    pub spare_cores: usize,
    /// CPUs of the team: one for each thread.
    pub cpus: Vec<usize>,
}

impl TeamCondition {
    /// Make a condition on these cores. `threads` limits the team.
    ///
    /// # Errors
    /// No core is left, or fewer CPUs than `threads`.
    pub fn new(
        cores: &[Vec<usize>],
        bind: Bind,
        smt: Smt,
        spare_cores: usize,
        threads: Option<usize>,
    ) -> Result<Self, String> {
        let used = &cores[..cores.len().saturating_sub(spare_cores)];
        let each = |core: &Vec<usize>| if smt == Smt::One { 1 } else { core.len() };
        let mut cpus: Vec<usize> =
            used.iter().flat_map(|core| &core[..each(core).min(core.len())]).copied().collect();
        if let Some(threads) = threads.filter(|&threads| threads <= cpus.len()) {
            cpus.truncate(threads);
        } else if threads.is_some() || cpus.is_empty() {
            return Err(format!(
                "{} CPUs remain of {} cores with {spare_cores} spare; give fewer --threads or --spare",
                cpus.len(),
                cores.len()
            ));
        }
        Ok(TeamCondition { bind, smt, spare_cores, cpus })
    }

    /// Return the variables of the OpenMP runtime, without the size of the team.
    pub fn variables(&self) -> Vec<(String, String)> {
        let places: Vec<String> = self.cpus.iter().map(|cpu| format!("{{{cpu}}}")).collect();
        match self.bind {
            Bind::None => vec![("OMP_PROC_BIND".into(), "false".into())],
            Bind::Close => {
                vec![("OMP_PROC_BIND".into(), "close".into()), ("OMP_PLACES".into(), places.join(","))]
            }
            Bind::Spread => {
                vec![("OMP_PROC_BIND".into(), "spread".into()), ("OMP_PLACES".into(), places.join(","))]
            }
        }
    }
}

impl fmt::Display for TeamCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bind = match self.bind {
            Bind::None => "not pinned",
            Bind::Close => "pinned close",
            Bind::Spread => "pinned spread",
        };
        let smt = if self.smt == Smt::One { "one sibling" } else { "all siblings" };
        write!(f, "{} threads, {bind}, {smt}, {} spare", self.cpus.len(), self.spare_cores)
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_team_has_the_cpus_that_the_factors_leave() {
        let cores = [vec![0, 4], vec![1, 5], vec![2], vec![3]];
        let of = |smt, spare, threads| TeamCondition::new(&cores, Bind::Close, smt, spare, threads);
        assert_eq!(of(Smt::One, 0, None).unwrap().cpus, [0, 1, 2, 3]);
        assert_eq!(of(Smt::All, 1, None).unwrap().cpus, [0, 4, 1, 5, 2]);
        assert_eq!(of(Smt::All, 0, Some(3)).unwrap().cpus, [0, 4, 1]);
        for (spare, threads) in [(4, None), (9, None), (2, Some(3)), (0, Some(5))] {
            assert!(of(Smt::One, spare, threads).unwrap_err().contains("fewer --threads"), "{spare}");
        }
    }

    #[test]
    fn pinned_teams_name_their_places_and_others_forbid_them() {
        let of = |bind| TeamCondition::new(&[vec![0], vec![2]], bind, Smt::One, 0, None).unwrap().variables();
        assert_eq!(of(Bind::None), [("OMP_PROC_BIND".to_string(), "false".to_string())]);
        assert_eq!(of(Bind::Spread)[1], ("OMP_PLACES".to_string(), "{0},{2}".to_string()));
        assert_eq!(of(Bind::Close)[0].1, "close");
    }
}
