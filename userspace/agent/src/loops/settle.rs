// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Time of a step of the execute loop once the CPU's clock has settled.
//!
//! # Problem
//! A CPU that idled has a low clock. A governor that follows the kernel's load tracking (schedutil,
//! half-life 32 ms) takes a tenth of a second to reach full speed. What is measured before that
//! shows the governor, not the CPU.
//!
//! # Approach
//! The loop runs in chunks of some 100 us, or longer where reading the clock is slow. The time of a
//! reading is subtracted. The measurement stops as soon as the median of the last [`ENOUGH`] chunks
//! agrees with the expected time. Otherwise it continues until the CPU has had [`PATIENCE`] to
//! raise its clock, and twice as long each time while the clock still rises. Then the later half
//! counts.
//!
//! Time is the thread's own CPU time, so that preemptions cost nothing. It includes interrupts,
//! which lengthen few chunks: the median of the chunks counts, as in the calibration. But a
//! hypervisor may run a CPU in bursts, which only a sum shows. If the mean is longer by more than a
//! tenth, it counts instead.
//!
//! The thread sleeps for a moment now and then. schedutil looks at the clock of a real-time task only
//! when the task becomes runnable. Where the kernel does not know the present clock, each look raises
//! it by a quarter at most.
//!
//! # Limits
//! A governor that raises the clock later than after [`PATIENCE`] is not waited for.

use crate::loops::kernels::execute;
use bias_policy::samples::median;
use nix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Chunks that suffice if the CPU has the expected speed.
const ENOUGH: usize = 3;
/// Largest relative deviation that agrees.
pub const AGREES: f64 = 0.03;
/// Time for a CPU that seems slow to raise its clock: at first, and at most.
const PATIENCE: Duration = Duration::from_millis(40);
const LONGEST: Duration = Duration::from_millis(320);
/// The clock still rises if the time per step of the later half is below this share of the earlier
/// half's.
const SPEEDS_UP: f64 = 0.97;
/// Most by which interrupts lengthen the mean of chunks over their median.
const INTERRUPTS: f64 = 1.1;
/// Most by which chunks get more or fewer steps on a CPU that is not as fast as expected. A clock
/// that stands still must not make them endless.
const MOST_CHANGED: u64 = 8;
/// Most chunks, many times the usual number: a clock that stands still must end the check, too.
const MAX_CHUNKS: usize = 20_000;
/// Length of a chunk: this many readings of the clock, within these bounds.
const CLOCK_READINGS: u32 = 200;
const CHUNK: (Duration, Duration) = (Duration::from_micros(100), Duration::from_millis(1));
/// Readings of the clock to know how long one takes. A hypervisor's clock may stand still for
/// hundreds of microseconds and then jump, so they take as long where reading is slow.
const READINGS: u32 = 30;
/// CPU time between two sleeps, and their length.
const AWAKE: Duration = Duration::from_millis(2);
const ASLEEP: Duration = Duration::from_micros(1);
/// Steps of the first chunk where no time is expected.
const FIRST_STEPS: u64 = 1000;

/// Return the time of a step of the execute loop on the calling thread's CPU [ns]; None if a clock
/// cannot be read or stands still.
pub fn step_ns(expected_ns: Option<f64>) -> Option<f64> {
    let reading = reading_time(own_time)?;
    let chunk = if reading.is_zero() { CHUNK.1 } else { reading * CLOCK_READINGS };
    let chunk = chunk.clamp(CHUNK.0, CHUNK.1);
    let mut woke = own_time()?;
    measure(chunk, expected_ns, |steps| {
        if own_time()?.saturating_sub(woke) >= AWAKE {
            std::thread::sleep(ASLEEP);
            woke = own_time()?;
        }
        let start = own_time()?;
        execute(steps);
        Some(own_time()?.saturating_sub(start + reading))
    })
}

/// Return the CPU time of this thread.
pub fn own_time() -> Option<Duration> {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).ok().map(Duration::from)
}

/// Run the chunks of a check. `time` runs the given number of steps and returns their duration.
fn measure(
    chunk: Duration,
    expected_ns: Option<f64>,
    mut time: impl FnMut(u64) -> Option<Duration>,
) -> Option<f64> {
    let step_ns = |steps: u64, took: Duration| took.as_nanos() as f64 / steps as f64;
    let chunk_ns = chunk.as_nanos() as f64;
    let fitting = |step_ns: f64| ((chunk_ns / step_ns.max(1e-3)) as u64).clamp(1, 1 << 40);
    let mut steps = expected_ns.map_or(FIRST_STEPS, fitting);
    // The first chunk is cold. It sets the pace. In shorter chunks, reading the clock would count
    // too much, and in longer ones each would contain a tick.
    let mut spent = time(steps)?;
    let fits = fitting(step_ns(steps, spent));
    if expected_ns.is_some() {
        steps = fits.clamp((steps / MOST_CHANGED).max(1), steps * MOST_CHANGED);
    } else {
        steps = fits;
    }
    let mut samples = Vec::new();
    let mut patience = PATIENCE;
    loop {
        let took = time(steps)?;
        spent += took;
        samples.push(step_ns(steps, took));
        let last = median(samples.get(samples.len().saturating_sub(ENOUGH)..)?)?;
        if samples.len() < ENOUGH {
            continue;
        }
        if expected_ns.is_some_and(|expected| (last / expected - 1.0).abs() <= AGREES) {
            return Some(last);
        }
        if samples.len() >= MAX_CHUNKS {
            return None;
        }
        if spent >= patience {
            let (earlier, later) = samples.split_at(samples.len() / 2);
            let (earlier, later) = (average(earlier)?, average(later)?);
            if later >= earlier * SPEEDS_UP || patience >= LONGEST {
                return Some(later);
            }
            patience *= 2;
        }
    }
}

/// Return the median of chunks, or their mean if that is longer by more than [`INTERRUPTS`].
fn average(samples: &[f64]) -> Option<f64> {
    let (median, mean) = (median(samples)?, samples.iter().sum::<f64>() / samples.len() as f64);
    Some(if mean > median * INTERRUPTS { mean } else { median })
}

/// Return the time that reading the clock takes.
fn reading_time(mut clock: impl FnMut() -> Option<Duration>) -> Option<Duration> {
    let start = clock()?;
    let end = (0..READINGS).try_fold(start, |_, _| clock())?;
    Some(end.saturating_sub(start) / READINGS)
}

#[cfg(test)]
#[path = "settle_tests.rs"]
mod tests;
