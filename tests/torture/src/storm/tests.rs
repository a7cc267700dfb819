// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Storms that pass, and storms that must fail.

use super::*;
use bias_bench::options::Printable;
use nix::sys::signal::{Signal, kill};

#[test]
fn a_short_storm_passes_and_every_kind_of_worker_worked() {
    let options = StormOptions {
        scheduler_cmd: None,
        load_timeout: Duration::ZERO,
        time: Duration::from_millis(1500),
        seed: 7,
        stall_limit: Duration::from_secs(30),
        no_stress_ng: true,
    };
    let report = run(&options).unwrap();
    assert!(report.failures.is_empty(), "{}", report.text());
    for what in
        ["forks", "execs", "futex wake-ups", "affinity changes", "signals handled", "changes of threads"]
    {
        assert!(report.counts[what] > 0, "{what}: {}", report.text());
    }
}

#[test]
fn a_worker_that_dies_is_a_failure() {
    let mut storm = Storm::start(1).unwrap();
    let victim = storm.workers[0].pid;
    kill(victim, Signal::SIGKILL).unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while storm.failures.is_empty() && Instant::now() < deadline {
        storm.watch(Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(10));
    }
    storm.end();
    let report = storm.report(1, Duration::ZERO);
    assert!(report.failures[0].contains("ended early"), "{:?}", report.failures);
    assert_eq!(report.verdict().unwrap_err().exit_code(), 1);
}

#[test]
fn a_worker_that_stands_still_is_a_failure() {
    let mut storm = Storm::start(1).unwrap();
    kill(storm.workers[0].pid, Signal::SIGSTOP).unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while storm.failures.is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
        // Only the stopped worker's gap grows without end.
        storm.watch(Duration::from_secs(3));
    }
    storm.end();
    let failures = storm.report(1, Duration::ZERO).failures;
    assert!(failures[0].contains("made no progress") && failures[0].contains("stopped"), "{failures:?}");
}
