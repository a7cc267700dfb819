// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Pipe ping-pong as a cell: `pingpong`, `pingpong:4`, `pingpong:2@0`. See [`crate::pingpong`].
//!
//! This module also has the [`InstructionMeter`], which counts the instructions of the whole
//! machine less those of the idle machine.
//!
//! # Limits
//! Without the amp PMU the only metric is the rate of switches, which depends on the host.

use super::{Description, Env, Measured, Workload, count, measured};
use crate::counters::MachineEvent;
use crate::{Error, Result, cpus, pingpong};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Entry of this workload in [`super::list`].
pub const DESCRIPTION: Description = Description {
    name: "pingpong",
    syntax: "pingpong[:PAIRS][@CPU] such as pingpong, pingpong:4, pingpong@0 (1 to 256 pairs)",
    measures: "pairs of processes that wake each other through pipes: the cost of a context switch",
    metrics: &["throughput_per_s"],
    with_pmu: &["instructions_per_switch"],
};

/// The workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Pingpong {
    /// Number of pairs that run at the same time.
    pairs: usize,
    /// CPU to which every process is pinned, or None.
    cpu: Option<usize>,
}

impl Pingpong {
    /// Parse the text after the name.
    pub(super) fn parse(rest: &str) -> Option<Self> {
        let (pairs, cpu) = match rest.split_once('@') {
            Some((pairs, cpu)) => (pairs, Some(count(cpu, 0..=crate::spec::MAX_CPUS - 1)?)),
            None => (rest, None),
        };
        Some(Pingpong { pairs: super::optional_count(pairs, 1..=256)?.unwrap_or(1), cpu })
    }
}

impl Workload for Pingpong {
    fn name(&self) -> String {
        let pairs = if self.pairs == 1 { String::new() } else { format!(":{}", self.pairs) };
        let cpu = self.cpu.map_or(String::new(), |cpu| format!("@{cpu}"));
        format!("pingpong{pairs}{cpu}")
    }

    fn missing(&self) -> Option<String> {
        cpus::require_online(&[self.cpu?]).err().map(|error| error.to_string())
    }

    fn run(&self, env: &Env) -> Result<Measured> {
        let report = pingpong::run_for(self.pairs, self.cpu, env.warmup, env.window)?;
        let mut metrics = BTreeMap::from([("throughput_per_s".to_string(), 1e9 / report.ns_per_switch)]);
        if let Some(instructions) = report.instructions_per_switch {
            metrics.insert("instructions_per_switch".into(), instructions);
        }
        let failed = |e| Error::failed("the detail of ping-pong", e);
        let mut detail = serde_json::to_value(&report).map_err(failed)?;
        // Keep only the number of rounds, because there may be hundreds of short ones.
        detail["rounds"] = serde_json::json!(report.rounds.len());
        measured(metrics, detail)
    }
}

/// Time for which the idle machine's instructions are counted, and the number of its parts.
const IDLE: Duration = Duration::from_secs(1);
const IDLE_PARTS: u32 = 10;

/// Return the machine's instructions per second while this program sleeps: the minimum of the
/// parts.
fn idle_rate(counters: &mut MachineEvent) -> Result<f64> {
    let mut rates = Vec::new();
    for _ in 0..IDLE_PARTS {
        let before = counters.read()?;
        let start = Instant::now();
        std::thread::sleep(IDLE / IDLE_PARTS);
        let executed = counters.read()?.saturating_sub(before);
        rates.push(executed as f64 / start.elapsed().as_secs_f64());
    }
    Ok(least(&rates))
}

/// Return the minimum, which excludes work that is not the idle machine's. A new scheduler still
/// opens its sockets, the kernel cleans up after the previous one, and an agent wakes occasionally.
/// Such work would otherwise be subtracted from all later results.
fn least(rates: &[f64]) -> f64 {
    rates.iter().copied().reduce(f64::min).unwrap_or(0.0)
}

/// Counter of the instructions that the machine executes beyond those of the idle machine. Has no
/// effect without the amp PMU.
pub(super) struct InstructionMeter {
    counters: Option<MachineEvent>,
    idle_per_s: f64,
    before: u64,
    start: Instant,
}

impl InstructionMeter {
    /// Open the counters and measure the idle machine. This takes a second if there are counters.
    pub(super) fn open() -> Result<Self> {
        let mut counters = MachineEvent::instructions(&cpus::online()?.0)?;
        let idle_per_s = counters.as_mut().map(idle_rate).transpose()?.unwrap_or(0.0);
        Ok(InstructionMeter { counters, idle_per_s, before: 0, start: Instant::now() })
    }

    /// Begin to count.
    pub(super) fn start(&mut self) -> Result<()> {
        self.before = self.counters.as_mut().map(MachineEvent::read).transpose()?.unwrap_or(0);
        self.start = Instant::now();
        Ok(())
    }

    /// Return the instructions since the start, less those of the idle machine. None without the
    /// amp PMU.
    pub(super) fn stop(&mut self) -> Result<Option<f64>> {
        let Some(counters) = &mut self.counters else { return Ok(None) };
        let all = counters.read()?.saturating_sub(self.before) as f64;
        Ok(Some(all - self.idle_per_s * self.start.elapsed().as_secs_f64()))
    }
}

#[cfg(test)]
mod tests {
    use super::least;

    #[test]
    fn work_after_loading_does_not_count_as_idle() {
        let mut rates = [150_000.0; 10];
        rates[..8].copy_from_slice(&[60e6, 30e6, 9e6, 1e6, 1e6, 1e6, 1e6, 1e6]);
        assert!((least(&rates) - 150_000.0).abs() < 1.0);
        assert!(least(&[]).abs() < 1e-9);
    }
}
