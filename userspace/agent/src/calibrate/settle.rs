// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Time of a step of the execute loop once the CPU's clock has settled.
//!
//! # Problem
//! A CPU that idled has a low clock. A governor that follows the kernel's load tracking (schedutil,
//! half-life 32 ms) takes a tenth of a second to reach full speed. An earlier measurement shows the
//! governor, not the CPU.
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
//! The thread sleeps for a moment now and then. schedutil updates the clock for a real-time task
//! only when the task becomes runnable. Where the kernel does not know the present clock, each
//! update raises it by a quarter at most.
//!
//! # Limits
//! The measurement does not wait for a governor that raises the clock after [`PATIENCE`].

use crate::loops::execute;
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
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const CHUNK: Duration = Duration::from_micros(100);

    /// Run [`measure`] on a CPU whose n-th chunk takes the given ns per step. Return the result and
    /// the number of chunks.
    fn run(expected: Option<f64>, step_ns: impl Fn(usize) -> f64) -> (f64, usize) {
        let mut chunks = 0;
        let result = measure(CHUNK, expected, |steps| {
            chunks += 1;
            Some(Duration::from_nanos((steps as f64 * step_ns(chunks)) as u64))
        });
        (result.unwrap(), chunks)
    }

    #[test]
    fn a_cpu_of_the_expected_speed_takes_few_chunks() {
        let (ns, chunks) = run(Some(10.0), |_| 10.1);
        assert!((ns - 10.1).abs() < 0.05 && chunks == 1 + ENOUGH, "{ns} {chunks}");
    }

    #[test]
    fn one_disturbed_chunk_does_not_count() {
        let (ns, chunks) = run(Some(10.0), |chunk| if chunk == 3 { 70.0 } else { 10.0 });
        assert!((ns - 10.0).abs() < 0.05 && chunks == 1 + ENOUGH);
    }

    /// A tick of a slow CPU takes a chunk's time in one of 20 chunks.
    #[test]
    fn interrupts_do_not_lengthen_the_result() {
        let (ns, _) = run(Some(10.0), |chunk| if chunk % 20 == 0 { 60.0 } else { 30.0 });
        assert!((ns - 30.0).abs() < 0.05, "{ns}");
    }

    #[test]
    fn a_slow_cpu_gets_time_to_speed_up() {
        let (ns, chunks) = run(Some(10.0), |chunk| if chunk < 20 { 30.0 } else { 10.0 });
        assert!((ns - 10.0).abs() < 0.05 && (20..30).contains(&chunks), "{ns} {chunks}");
        let (ns, chunks) = run(Some(10.0), |_| 30.0);
        assert!((ns - 30.0).abs() < 0.05 && chunks < 420, "{ns} {chunks}");
    }

    /// Schedutil sets 1.25 times the share of its capacity that the CPU was recently busy. The
    /// calibration measured the CPU at full speed.
    #[test]
    fn the_measurement_waits_for_a_governor_that_follows_load() {
        let spent_ms = std::cell::Cell::new(0.0);
        let result = measure(CHUNK, Some(10.0), |steps| {
            let load = 1.0 - 0.5f64.powf((spent_ms.get() + 1.0) / 32.0);
            let took_ns = steps as f64 * 10.0 / (1.25 * load).clamp(0.2, 1.0);
            spent_ms.set(spent_ms.get() + took_ns / 1e6);
            Some(Duration::from_nanos(took_ns as u64))
        });
        assert!((result.unwrap() - 10.0).abs() < 0.4, "{result:?}");
        assert!(spent_ms.get() < 100.0, "{} ms", spent_ms.get());
    }

    #[test]
    fn a_clock_that_stands_still_gives_no_result() {
        assert_eq!(measure(CHUNK, Some(10.0), |_| Some(Duration::ZERO)), None);
        assert_eq!(measure(CHUNK, Some(10.0), |_| None), None);
    }

    #[test]
    fn the_measurement_ends_on_a_cpu_that_keeps_getting_faster() {
        let (ns, chunks) = run(Some(1.0), |chunk| 10_000.0 / chunk as f64);
        assert!(ns > 1.0 && chunks < 1000, "{ns} {chunks}");
    }

    /// Reading the clock takes 3 us of each chunk.
    #[test]
    fn chunks_stay_long_on_a_cpu_that_is_faster_than_expected() {
        let time = |steps: u64| Some(Duration::from_nanos(steps * 10 + 3000));
        let ns = measure(CHUNK, Some(30.0), time).unwrap();
        assert!(ns / 10.0 < 1.04, "{ns}");
    }

    /// Ticks come every 4 ms and take 0.2 ms. With the expected steps, each chunk would have one.
    #[test]
    fn chunks_stay_short_on_a_cpu_that_is_slower_than_expected() {
        let (mut now_ns, tick_ns) = (0, 4_000_000);
        let time = |steps: u64| {
            let (begin_ns, work_ns) = (now_ns, steps * 30);
            let ticks = (begin_ns + work_ns) / tick_ns - begin_ns / tick_ns;
            now_ns += work_ns + ticks * 200_000;
            Some(Duration::from_nanos(now_ns - begin_ns))
        };
        let ns = measure(super::CHUNK.1, Some(10.0), time).unwrap();
        assert!(ns / 30.0 < 1.01, "{ns}");
    }

    /// The clock advances by 300 us at a time, and reading it takes 17 us.
    #[test]
    fn the_reading_time_of_a_clock_that_jumps_is_about_right() {
        for offset in 0..20 {
            let mut now_us = offset * 15;
            let reading = reading_time(|| {
                now_us += 17;
                Some(Duration::from_micros(now_us / 300 * 300))
            });
            let us = reading.unwrap().as_nanos() as f64 / 1000.0;
            assert!((9.0..35.0).contains(&us), "{us}");
        }
    }

    /// A vCPU that does 40 000 steps of 1 ns every 1.2 ms and waits for the rest.
    #[test]
    fn a_cpu_that_runs_in_bursts_counts_with_its_mean_speed() {
        let (mut now_ns, period_ns, burst) = (0, 1_200_000, 40_000);
        let time = |mut steps: u64| {
            let begin_ns = now_ns;
            while steps > 0 {
                let done = steps.min(burst - (now_ns % period_ns).min(burst));
                steps -= done;
                now_ns += done;
                if now_ns % period_ns >= burst {
                    now_ns = now_ns.next_multiple_of(period_ns);
                }
            }
            Some(Duration::from_nanos(now_ns - begin_ns))
        };
        let ns = measure(CHUNK, Some(10.0), time).unwrap();
        assert!((ns - 30.0).abs() < 2.0, "{ns}");
    }

    #[test]
    fn without_an_expectation_chunks_are_fitted_to_the_cpu() {
        let (ns, chunks) = run(None, |_| 10.0);
        assert!((ns - 10.0).abs() < 0.05 && (200..=420).contains(&chunks), "{ns} {chunks}");
        // A clock that stands still ends the check, too: the steps do not grow, and the same clock
        // measures the patience.
        let (ns, _) = run(None, |_| 1e9);
        assert!((ns - 1e9).abs() < 1e7);
    }
}
