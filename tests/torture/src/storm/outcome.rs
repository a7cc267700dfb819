// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The report of a storm.

use bias_bench::options::Printable;
use bias_bench::{Error, Result};
use serde::Serialize;
use std::collections::BTreeMap;

/// Figures of one worker.
#[derive(Debug, Clone, Serialize)]
pub struct WorkerReport {
    /// Role of the worker.
    pub role: &'static str,
    /// Pid of the worker.
    pub pid: i32,
    /// Rounds of its work.
    pub progress: u64,
    /// Longest observed time without progress, seconds.
    pub longest_gap_s: f64,
}

/// Figures of a storm.
#[derive(Debug, Clone, Serialize)]
pub struct StormReport {
    /// Format of this report.
    pub schema: &'static str,
    /// Seed of the order of changes.
    pub seed: u64,
    /// Length, seconds.
    pub seconds: f64,
    /// Successful changes and events by kind.
    pub counts: BTreeMap<&'static str, u64>,
    /// Kinds of change that this machine did not allow, with the reason.
    pub skipped: Vec<String>,
    /// Every worker.
    pub workers: Vec<WorkerReport>,
    /// Failures; empty if the storm passed.
    pub failures: Vec<String>,
}

impl StormReport {
    /// Return an error that names the first failure, if there is one.
    pub fn verdict(&self) -> Result<()> {
        match self.failures.first() {
            None => Ok(()),
            Some(first) => Err(Error::Runtime(format!(
                "{} failure(s), the first: {first}; repeat with --seed {}",
                self.failures.len(),
                self.seed
            ))),
        }
    }
}

impl Printable for StormReport {
    fn text(&self) -> String {
        let counts: String = self.counts.iter().map(|(name, n)| format!("  {n:8} {name}\n")).collect();
        let skipped: String = self.skipped.iter().map(|why| format!("  skipped  {why}\n")).collect();
        let failures: String = self.failures.iter().map(|why| format!("  FAILED   {why}\n")).collect();
        let gap = self.workers.iter().map(|w| w.longest_gap_s).fold(0.0, f64::max);
        format!(
            "storm of {:.1} s, seed {}, {} workers, longest time without progress {gap:.1} s\n\
             {counts}{skipped}{failures}",
            self.seconds,
            self.seed,
            self.workers.len()
        )
    }
}
