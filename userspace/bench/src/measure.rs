// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Measurement of one workload that runs alone. All other figures are normalised to it.

use crate::counters::{Counts, ThreadCounters};
use crate::spec::WorkKind;
use crate::{Result, cpus, task, work};
use serde::Serialize;
use std::time::{Duration, Instant};

/// End of a measurement.
#[derive(Debug, Clone, Copy)]
pub enum Until {
    /// After this much wall time, rounded up to a step.
    Elapsed(Duration),
    /// After this many steps.
    Steps(u64),
}

/// Figures of a workload that ran alone.
#[derive(Debug, Clone, Serialize)]
pub struct WorkSample {
    /// CPU that it ran on last.
    pub cpu: usize,
    /// Steps done.
    pub steps: u64,
    /// Units of work done.
    pub units: u64,
    /// Wall time, nanoseconds.
    pub wall_ns: u64,
    /// CPU time, nanoseconds.
    pub cpu_ns: u64,
    /// Counters of the amp PMU, None without that PMU.
    pub counters: Option<Counts>,
}

impl WorkSample {
    /// Return the units per second of wall time.
    pub fn units_per_s(&self) -> f64 {
        self.units as f64 * 1e9 / (self.wall_ns as f64).max(1.0)
    }

    /// Return the CPU time per unit of work, nanoseconds.
    pub fn ns_per_unit(&self) -> f64 {
        self.cpu_ns as f64 / (self.units as f64).max(1.0)
    }
}

/// Run a workload in this process, pinned to `cpu` if that is given. The first step comes before
/// the measured time.
pub fn run(kind: &WorkKind, cpu: Option<usize>, until: Until) -> Result<WorkSample> {
    let _pinned = cpu.map(cpus::Pinned::to).transpose()?;
    let mut work = work::build(kind);
    work.step();
    let mut counters = ThreadCounters::open()?;
    let before = counters.as_mut().map(ThreadCounters::read).transpose()?;
    let cpu_before = task::cpu_time_ns();
    let start = Instant::now();
    let (mut steps, mut units, mut last) = (0, 0, start);
    loop {
        let done = match until {
            Until::Elapsed(time) => last - start >= time,
            Until::Steps(n) => steps >= n,
        };
        if done {
            break;
        }
        units += work.step();
        steps += 1;
        last = Instant::now();
    }
    let cpu_ns = task::cpu_time_ns() - cpu_before;
    let after = counters.as_mut().map(ThreadCounters::read).transpose()?;
    Ok(WorkSample {
        cpu: cpus::current(),
        steps,
        units,
        wall_ns: (last - start).as_nanos() as u64,
        cpu_ns,
        counters: after.zip(before).map(|(after, before)| after.since(&before)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_steps_is_kept_exactly() {
        let sample = run(&WorkKind::Compute, None, Until::Steps(7)).unwrap();
        assert_eq!(sample.steps, 7);
        assert_eq!(sample.units % 7, 0);
        assert!(sample.wall_ns > 0);
    }

    #[test]
    fn a_time_is_reached() {
        let time = Duration::from_millis(20);
        let sample = run(&WorkKind::Branchy, None, Until::Elapsed(time)).unwrap();
        assert!(sample.wall_ns >= time.as_nanos() as u64 && sample.steps > 0);
    }
}
