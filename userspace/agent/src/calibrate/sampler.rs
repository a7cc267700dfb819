//! Timing a loop in many short chunks.
//!
//! Problem. A tick, an interrupt or a preemption lengthens whatever it falls into, and on slow or emulated CPUs a fixed number
//! of steps may take seconds.
//!
//! Approach. Steps are chosen once per loop and CPU so that a chunk takes about a millisecond; chunks are short against the 4 to 10 ms
//! between ticks, so most contain none, and the median drops those that do. The clock is CLOCK_MONOTONIC (`Instant`), not the thread's
//! CPU time: reading the latter is a system call, and what it would leave out, preemption, is an outlier anyway.
//!
//! Invariants. A sample is nanoseconds per step; the first chunk of a visit is never a sample.

use std::time::{Duration, Instant};

/// Most steps of a chunk; a bound for loops that a broken clock says take no time.
const MAX_STEPS: u64 = 1 << 40;

/// A loop with the number of steps that fills a chunk on one CPU.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pace {
    /// Steps per chunk; 0 before the first measurement.
    steps: u64,
}

impl Pace {
    /// Finds the number of steps that takes about `chunk`, by growing it; does nothing when it is known.
    pub fn find(&mut self, chunk: Duration, mut run: impl FnMut(u64)) {
        if self.steps != 0 {
            return;
        }
        let mut steps = 1;
        loop {
            let elapsed = time(steps, &mut run);
            // From an eighth on, the estimate is good enough.
            if elapsed * 8 >= chunk || steps >= MAX_STEPS {
                let per_step_ns = (elapsed.as_nanos() as f64 / steps as f64).max(1e-3);
                self.steps = ((chunk.as_nanos() as f64 / per_step_ns) as u64).clamp(1, MAX_STEPS);
                return;
            }
            steps *= 4;
        }
    }

    /// Runs one chunk; time per step [ns].
    pub fn sample(&self, mut run: impl FnMut(u64)) -> f64 {
        let steps = self.steps.max(1);
        time(steps, &mut run).as_nanos() as f64 / steps as f64
    }
}

fn time(steps: u64, run: &mut impl FnMut(u64)) -> Duration {
    let start = Instant::now();
    run(steps);
    start.elapsed()
}

/// Calls `chunk` until `budget` has passed, at least `least` times, and keeps what it returns, the first one excepted.
pub fn collect(budget: Duration, least: usize, mut chunk: impl FnMut() -> f64) -> Vec<f64> {
    chunk();
    let start = Instant::now();
    let mut samples = Vec::new();
    while samples.len() < least || start.elapsed() < budget {
        samples.push(chunk());
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_chunk_is_dropped_and_the_least_number_kept() {
        let mut calls = 0;
        let samples = collect(Duration::ZERO, 3, || {
            calls += 1;
            f64::from(calls)
        });
        assert_eq!(samples, [2.0, 3.0, 4.0]);
    }

    #[test]
    fn a_pace_is_found_once_and_kept() {
        let mut pace = Pace::default();
        let mut calls = 0;
        pace.find(Duration::from_micros(10), |_| {
            calls += 1;
            std::thread::sleep(Duration::from_micros(20));
        });
        assert_eq!((calls, pace.steps > 0), (1, true));
        pace.find(Duration::from_micros(10), |_| calls += 1);
        assert_eq!(calls, 1);
    }

    #[test]
    fn a_loop_that_takes_no_time_does_not_hang() {
        let mut pace = Pace::default();
        pace.find(Duration::from_secs(3600), |_| {});
        assert!(pace.steps > 0);
    }
}
