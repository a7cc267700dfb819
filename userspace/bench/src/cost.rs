// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Cost of a program that runs all the time: instructions per second of all its threads, kernel
//! included.
//!
//! # Problem
//! A scheduler's agent works a little all the time. Its share of a CPU depends on the CPU's speed,
//! which is fifty times too low in the asymmetric VM. Its instructions do not.
//!
//! # Approach
//! Each thread has a counter, which the threads that it starts inherit.
//!
//! # Limits
//! A thread that another process starts on the program's behalf is not counted. Neither is work
//! that the kernel does for it in kernel threads.

use crate::counters::ProcessInstructions;
use crate::options::{Printable, seconds};
use crate::{Error, Result, sched::SchedExt};
use clap::Args;
use serde::Serialize;
use std::time::{Duration, Instant};

/// Process and length of a measurement.
#[derive(Debug, Clone, Args)]
pub struct CostOptions {
    /// Pid of the process, e.g. a scheduler's agent
    #[arg(long)]
    pub pid: u32,
    /// Seconds to count. Must be many times the period of the process's activity
    #[arg(long = "seconds", value_name = "SECONDS", value_parser = seconds, default_value = "10")]
    pub time: Duration,
}

/// Figures of the process.
#[derive(Debug, Clone, Serialize)]
pub struct CostReport {
    /// Format of this report.
    pub schema: &'static str,
    /// Pid of the process.
    pub pid: u32,
    /// Name of the process.
    pub name: String,
    /// The sched_ext scheduler that was active, or "default".
    pub scheduler: String,
    /// Threads of the process at the beginning.
    pub threads: usize,
    /// Length of the measurement, nanoseconds.
    pub wall_ns: u64,
    /// Instructions in that time.
    pub instructions: u64,
    /// Instructions per second.
    pub instructions_per_s: f64,
}

/// Count the instructions of a process for the given time.
///
/// # Errors
/// The process does not exist, it ends meanwhile, or there is no counter.
pub fn run(options: &CostOptions) -> Result<CostReport> {
    let CostOptions { pid, time } = *options;
    let mut counters = ProcessInstructions::open(pid)?;
    let name = name_of(pid)?;
    let (before, begun) = (counters.read()?, Instant::now());
    std::thread::sleep(time);
    let (instructions, wall) = (counters.read()?.saturating_sub(before), begun.elapsed());
    if name_of(pid)? != name {
        return Err(Error::Runtime(format!("process {pid}, {name}, was replaced during the measurement")));
    }
    Ok(CostReport {
        schema: "bias-bench.cost/1",
        pid,
        name,
        scheduler: SchedExt::system().active().unwrap_or_else(|| "default".into()),
        threads: counters.threads(),
        wall_ns: wall.as_nanos() as u64,
        instructions,
        instructions_per_s: instructions as f64 / wall.as_secs_f64(),
    })
}

fn name_of(pid: u32) -> Result<String> {
    let path = format!("/proc/{pid}/comm");
    let text = std::fs::read_to_string(&path)
        .map_err(|e| Error::failed(format!("process {pid} no longer exists: {path}"), e))?;
    Ok(text.trim().to_owned())
}

impl Printable for CostReport {
    fn text(&self) -> String {
        format!(
            "{} ({}), {} threads: {:.3} million instructions a second over {:.1} s\n",
            self.name,
            self.pid,
            self.threads,
            self.instructions_per_s / 1e6,
            self.wall_ns as f64 / 1e9
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_process_is_reported() {
        let gone = CostOptions { pid: u32::MAX - 1, time: Duration::from_millis(1) };
        let error = run(&gone).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("no process 4294967294"), "{error}");
    }
}
