// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of spot checks. The VM scenario `recal` has CPUs that really change.

#![allow(clippy::unwrap_used)]

use super::*;
use proptest::prelude::*;

/// A tick of a slow CPU takes a chunk's time in one of 20 chunks.
/// Schedutil sets 1.25 times the share of its capacity that the CPU was recently busy. The
/// calibration measured the CPU at full speed.
/// Reading the clock takes 3 us of each chunk.
/// Ticks come each 4 ms and take 0.2 ms. With the expected steps, each chunk would contain one.
/// The clock advances by 300 us at a time, and reading it takes 17 us.
/// A vCPU that does 40 000 steps of 1 ns in each 1.2 ms and waits for the rest.
#[test]
fn a_thread_measures_a_cpu() {
    let cpu = crate::affinity::allowed().unwrap()[0];
    let mut threads = Threads::default();
    assert!(threads.ask(cpu, None));
    assert!(!threads.ask(cpu, None), "one at a time");
    let deadline = Instant::now() + Duration::from_secs(60);
    while !threads.under_way.is_empty() && Instant::now() < deadline {
        // A disturbed check on a busy machine gives no result, which is correct as well.
        assert!(threads.collect().iter().all(|(of, ns)| *of == cpu && ns.is_none_or(|ns| ns > 0.0)));
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
            pin(all[0]).unwrap();
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
    assert_eq!(results, [(all[0], Some(1.0))]);
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
