// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of spot checks. The VM scenario `recal` has CPUs that really change.

#![allow(clippy::unwrap_used)]

use super::*;
use proptest::prelude::*;

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

/// A tick of a slow CPU takes a chunk's time in one of 20 chunks.
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

/// Schedutil sets 1.25 times the share of its capacity that the CPU was recently busy. The
/// calibration measured the CPU at full speed.
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

/// Reading the clock takes 3 us of each chunk.
#[test]
fn chunks_stay_long_on_a_cpu_that_is_faster_than_expected() {
    let time = |steps: u64| Some(Duration::from_nanos(steps * 10 + 3000));
    let ns = measure(CHUNK, Some(30.0), time).unwrap();
    assert!(ns / 10.0 < 1.04, "{ns}");
}

/// Ticks come each 4 ms and take 0.2 ms. With the expected steps, each chunk would contain one.
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

/// A vCPU that does 40 000 steps of 1 ns in each 1.2 ms and waits for the rest.
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

#[test]
fn a_thread_measures_a_cpu() {
    let cpu = crate::affinity::allowed().unwrap()[0];
    let mut threads = Threads::default();
    assert!(threads.ask(cpu, None));
    assert!(!threads.ask(cpu, None), "one at a time");
    let deadline = Instant::now() + Duration::from_secs(60);
    while !threads.under_way.is_empty() && Instant::now() < deadline {
        // A disturbed check on a busy machine gives no result, which is correct as well.
        assert!(threads.collect().iter().all(|(of, ns)| *of == cpu && *ns > 0.0));
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(threads.under_way.is_empty());
    assert!(threads.measure(cpu));
    assert!(!threads.ask(cpu, Some(5.0)), "one at a time, of whatever kind");
}

#[test]
fn a_check_that_waits_for_long_leaves_its_cpu() {
    let all = crate::affinity::allowed().unwrap();
    let mut threads = Threads::default();
    assert!(threads.begin(all[0], {
        let (all, deadline) = (all.clone(), Instant::now() + Duration::from_secs(60));
        move || {
            thread::pin(all[0]).unwrap();
            while crate::affinity::allowed().unwrap() != all && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(1));
            }
            (crate::affinity::allowed().unwrap() == all).then_some(1.0)
        }
    }));
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut results = Vec::new();
    while results.is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
        threads.release(Duration::from_millis(5));
        results = threads.collect();
    }
    assert_eq!(results, [(all[0], 1.0)]);
}

#[test]
fn a_cpu_that_is_not_there_gives_no_result() {
    assert_eq!(std::thread::spawn(|| check(1023, None)).join().unwrap(), None);
}

proptest! {
    /// Checks that never agree, tried ten times a second, take a twentieth of a CPU.
    #[test]
    fn checks_that_never_agree_take_a_twentieth(seconds in 100u32..1000, check_ms in 1u64..640) {
        let start = Instant::now();
        let mut budget = budget(start);
        let mut spent = Duration::ZERO;
        for tenth in 0..seconds * 10 {
            if budget.pause(start + Duration::from_millis(100) * tenth).is_none() {
                budget.charge(Duration::from_millis(check_ms));
                spent += Duration::from_millis(check_ms);
            }
        }
        let most = Duration::from_secs(3) + Duration::from_secs(u64::from(seconds)) / 20;
        prop_assert!(spent <= most + Duration::from_millis(check_ms), "{spent:?}");
        // Shorter checks may all run, and take less.
        prop_assert!(check_ms < 20 || spent >= most / 2, "{spent:?}");
    }
}
