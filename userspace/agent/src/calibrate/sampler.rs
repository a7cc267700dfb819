// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Timing of a loop in many short chunks.
//!
//! # Problem
//! A tick, an interrupt or a preemption lengthens the loop that it interrupts. On slow or emulated
//! CPUs a fixed number of steps may take seconds.
//!
//! # Approach
//! The number of steps is chosen once per loop and CPU so that a chunk takes about two
//! milliseconds. Chunks are short against the 4 to 10 ms between ticks, so most contain none, and
//! the median drops those that do. The clock is CLOCK_MONOTONIC (`Instant`), not the thread's CPU
//! time. Reading the latter is a system call, and the preemptions that it would leave out are
//! outliers anyway.
//!
//! # Invariants
//! A sample is nanoseconds per step. The first chunk of a visit is never a sample.

use std::time::{Duration, Instant};

/// Most steps of a chunk: a bound for loops that take no time by a broken clock.
const MAX_STEPS: u64 = 1 << 40;
/// Trials after which the current number of steps is accepted.
const MAX_TRIALS: u32 = 24;

/// The number of steps of a loop that fills a chunk on one CPU.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pace {
    /// Steps per chunk; 0 before the first call of `find`.
    steps: u64,
}

impl Pace {
    /// Find the number of steps that takes about `chunk`, by growing it, or confirm an earlier
    /// result.
    ///
    /// A disturbance during the search makes chunks too short. Short chunks are worse than noisy
    /// ones: below the timing granularity of a hypervisor or emulator they show a speed that does
    /// not exist. So the search tries its choice and corrects it until a chunk takes between half
    /// and three times `chunk`.
    pub fn find(&mut self, chunk: Duration, mut run: impl FnMut(u64)) {
        self.find_timed(chunk, |steps| time(steps, &mut run));
    }

    /// Run the search of `find` on a loop that reports its own duration, so that tests need no
    /// clock.
    fn find_timed(&mut self, chunk: Duration, mut time: impl FnMut(u64) -> Duration) {
        let mut steps = self.steps.max(1);
        for _ in 0..MAX_TRIALS {
            let elapsed = time(steps);
            let fits = (chunk / 2..=chunk * 3).contains(&elapsed) || steps == MAX_STEPS;
            if fits && steps == self.steps {
                return;
            }
            // Far from the target the estimate is poor: approach it by at most a factor of sixteen.
            let factor = (chunk.as_nanos() as f64 / elapsed.as_nanos().max(1) as f64).clamp(1.0 / 16.0, 16.0);
            steps = ((steps as f64 * factor) as u64).clamp(1, MAX_STEPS);
            self.steps = steps;
        }
    }

    /// Run one chunk and return the time per step [ns].
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

impl Pace {
    /// Return samples of `run` [ns per step] for `budget` in all, at least `least` of them.
    ///
    /// The chunks that find the pace come out of the budget and are dropped. The last of them is a
    /// full chunk, so no sample is cold.
    pub fn samples(
        &mut self,
        chunk: Duration,
        budget: Duration,
        least: usize,
        mut run: impl FnMut(u64),
    ) -> Vec<f64> {
        let start = Instant::now();
        self.find(chunk, &mut run);
        let mut samples = Vec::new();
        while samples.len() < least || start.elapsed() < budget {
            samples.push(self.sample(&mut run));
        }
        samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_number_is_kept_when_there_is_no_time_and_none_of_finding_the_pace() {
        let mut calls = 0;
        let mut pace = Pace::default();
        let samples = pace.samples(Duration::ZERO, Duration::ZERO, 3, |_| calls += 1);
        assert!(samples.len() == 3 && calls > 3);
    }

    #[test]
    fn a_disturbance_while_finding_does_not_leave_chunks_short() {
        let chunk = Duration::from_millis(2);
        let mut pace = Pace::default();
        let mut calls = 0;
        pace.find_timed(chunk, |steps| {
            calls += 1;
            // The first call is delayed by more than a chunk; later ones take a microsecond per
            // step.
            if calls == 1 { chunk * 2 } else { Duration::from_micros(steps) }
        });
        assert!((1000..=6000).contains(&pace.steps), "{} steps of 1 us", pace.steps);
    }

    #[test]
    fn a_disturbance_of_every_kind_ends_within_the_trials() {
        // Every third call is delayed. The search still ends, and no chunk is shorter than half of
        // the request.
        let chunk = Duration::from_millis(2);
        let mut pace = Pace::default();
        let mut calls = 0;
        pace.find_timed(chunk, |steps| {
            calls += 1;
            Duration::from_micros(steps) + if calls % 3 == 0 { chunk * 10 } else { Duration::ZERO }
        });
        assert!(
            calls <= MAX_TRIALS && pace.steps >= 1000,
            "{} steps of 1 us after {calls} calls",
            pace.steps
        );
    }

    #[test]
    fn a_loop_that_takes_no_time_does_not_hang() {
        let mut pace = Pace::default();
        pace.find(Duration::from_secs(3600), |_| {});
        assert!(pace.steps > 0);
    }
}
