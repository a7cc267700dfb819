// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! An interactive task together with a batch mix, e.g. `interactive+4compute`.
//!
//! # Problem
//! A scheduler that places batch tasks well may still let a desktop stutter. The user feels the
//! time from an event until the program has handled it.
//!
//! # Approach
//! A task sleeps for a period, works for a short burst, and sleeps again. A latency is the time
//! from the requested end of the sleep to the end of the burst. It includes waiting for a CPU and
//! running on a slow one.
//!
//! # Invariants
//! Every latency that overlaps the window counts. A task that starves throughout the window thus
//! has one latency longer than the window, not none. The batch is measured at the same time.
//!
//! # Limits
//! The next sleep begins after the burst, so no further event happens while the task waits. A very
//! long wait therefore counts once. With few samples the 99.9th percentile is the maximum. The
//! detail shows the number of samples.

use super::child::{Child, Fault};
use super::series::{self, SharedSeries};
use super::{Description, Env, Measured, Workload, count, measured, mix};
use crate::shared::Shared;
use crate::spec::{Mix, WorkKind};
use crate::{Result, work};
use serde_json::json;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Entry of this workload in [`super::list`].
pub const DESCRIPTION: Description = Description {
    name: "interactive",
    syntax: "interactive+TASKS or interactive:PERIOD_US+TASKS (100 to 1000000, default 1000)",
    measures: "a task that sleeps and works in short bursts next to batch tasks: time from the end of the sleep to the \
               end of the burst, and the throughput of the batch",
    metrics: &["latency_p50_us", "latency_p99_us", "latency_p999_us", "stp"],
    with_pmu: &[],
};

/// Default sleep between two bursts, microseconds of hardware.
const DEFAULT_PERIOD_US: usize = 1000;
/// Steps of compute in a burst: about 60 000 cycles.
const BURST_STEPS: u32 = 3;
/// Maximum number of stored samples.
const CAPACITY: usize = 1 << 17;

/// The workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Interactive {
    /// Sleep between two bursts, microseconds of hardware.
    period_us: usize,
    /// The batch tasks.
    batch: Mix,
}

impl Interactive {
    /// Parse the text after the name.
    pub(super) fn parse(rest: &str) -> std::result::Result<Self, String> {
        let wrong = || format!("'interactive{rest}' is not a workload; write {}", DESCRIPTION.syntax);
        let (period, batch) = rest.split_once('+').ok_or_else(wrong)?;
        let period_us = match period.strip_prefix(':') {
            Some(digits) => count(digits, 100..=1_000_000).ok_or_else(wrong)?,
            None if period.is_empty() => DEFAULT_PERIOD_US,
            None => return Err(wrong()),
        };
        Ok(Interactive { period_us, batch: batch.parse()? })
    }
}

impl Workload for Interactive {
    fn name(&self) -> String {
        match self.period_us {
            DEFAULT_PERIOD_US => format!("interactive+{}", self.batch),
            period => format!("interactive:{period}+{}", self.batch),
        }
    }

    fn kinds(&self) -> Vec<WorkKind> {
        self.batch.kinds()
    }

    fn run(&self, env: &Env) -> Result<Measured> {
        let kinds = self.batch.tasks();
        let period = env.stretched(Duration::from_micros(self.period_us as u64));
        let length = mix::whole_periods(env.window, &kinds);
        let go: Shared<AtomicU64> = Shared::new(1)?;
        let latencies = SharedSeries::new(CAPACITY)?;
        let times = Times { period, warmup: env.warmup, window: length };
        let task = Child::start(|| live(times, &go.all()[0], &latencies))?;
        let group = mix::start(&kinds, env)?;
        go.all()[0].store(1, Relaxed);
        let window = group.measure(env.warmup, length)?;
        task.wait(period)?;
        let batch = mix::figures(&kinds, &window, env.solo)?;
        let (mut metrics, interactive) = series::latency(&latencies.values(), latencies.dropped())?;
        metrics.extend(batch.metrics.into_iter().filter(|(name, _)| name == "stp"));
        measured(metrics, json!({ "interactive": interactive, "batch": batch.detail }))
    }
}

/// Timing of the interactive task.
#[derive(Clone, Copy)]
struct Times {
    period: Duration,
    warmup: Duration,
    window: Duration,
}

impl Times {
    /// Return true if a latency from `due` to `done` counts, both measured from the start.
    fn counts(&self, due: Duration, done: Duration) -> bool {
        done >= self.warmup && due < self.end()
    }

    /// Return the time from the start to the end of the window.
    fn end(&self) -> Duration {
        self.warmup + self.window
    }
}

/// Run the interactive task, from the start order until the end of the window.
fn live(times: Times, go: &AtomicU64, latencies: &SharedSeries) -> std::result::Result<(), Fault> {
    // By default, the kernel may wake a task 50 microseconds late to save energy. If this cannot be
    // changed, it applies to all arms.
    let _ = nix::sys::prctl::set_timerslack(1);
    let mut work = work::build(&WorkKind::Compute);
    while go.load(Relaxed) == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let start = Instant::now();
    while start.elapsed() < times.end() {
        let due = start.elapsed() + times.period;
        std::thread::sleep(times.period);
        for _ in 0..BURST_STEPS {
            work.step();
        }
        let done = start.elapsed();
        if times.counts(due, done) {
            latencies.push(done.saturating_sub(due).as_nanos() as u64);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_that_overlap_the_window_count() {
        let s = Duration::from_secs;
        let times = Times { period: s(1), warmup: s(2), window: s(3) };
        let counted: Vec<u64> = (0..8).filter(|&at| times.counts(s(at), s(at))).collect();
        assert_eq!(counted, [2, 3, 4]);
        assert!(times.counts(s(1), s(9)) && times.counts(s(4), s(9)) && times.counts(s(1), s(2)));
    }
}
