// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of measurements that wait for the clock.

#![allow(clippy::unwrap_used)]

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
fn a_cpu_that_does_as_expected_is_let_alone_at_once() {
    let (ns, chunks) = run(Some(10.0), |_| 10.1);
    assert!((ns - 10.1).abs() < 0.05 && chunks == 1 + ENOUGH, "{ns} {chunks}");
}

#[test]
fn one_disturbed_chunk_is_no_sign() {
    let (ns, chunks) = run(Some(10.0), |chunk| if chunk == 3 { 70.0 } else { 10.0 });
    assert!((ns - 10.0).abs() < 0.05 && chunks == 1 + ENOUGH);
}

#[test]
fn interrupts_do_not_slow_a_cpu_down() {
    let (ns, _) = run(Some(10.0), |chunk| if chunk % 20 == 0 { 60.0 } else { 30.0 });
    assert!((ns - 30.0).abs() < 0.05, "{ns}");
}

#[test]
fn a_cpu_that_is_slow_is_given_time_to_speed_up() {
    let (ns, chunks) = run(Some(10.0), |chunk| if chunk < 20 { 30.0 } else { 10.0 });
    assert!((ns - 10.0).abs() < 0.05 && (20..30).contains(&chunks), "{ns} {chunks}");
    let (ns, chunks) = run(Some(10.0), |_| 30.0);
    assert!((ns - 30.0).abs() < 0.05 && chunks < 420, "{ns} {chunks}");
}

#[test]
fn a_governor_that_follows_load_is_waited_for() {
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
fn a_cpu_that_gets_faster_for_ever_is_not_waited_for() {
    let (ns, chunks) = run(Some(1.0), |chunk| 10_000.0 / chunk as f64);
    assert!(ns > 1.0 && chunks < 1000, "{ns} {chunks}");
}

#[test]
fn chunks_stay_long_on_a_cpu_that_is_faster_than_expected() {
    let time = |steps: u64| Some(Duration::from_nanos(steps * 10 + 3000));
    let ns = measure(CHUNK, Some(30.0), time).unwrap();
    assert!(ns / 10.0 < 1.04, "{ns}");
}

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

#[test]
fn a_reading_of_a_clock_that_jumps_is_about_as_long_as_it_is() {
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

#[test]
fn a_cpu_that_gets_its_time_in_bursts_is_as_fast_as_on_the_whole() {
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
