// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Delay of tasks that wait for a timer, an event or a CPU, compared with the default scheduler in
//! the same boot.
//!
//! Where wakeups are measured, quanta of virtual time are 20 us, because an interrupt between CPUs
//! is late by as much.

use crate::common::loads::{RUNS, median, repeated};
use crate::common::{Expectations, Scenario};

const TIMED: &str = "240x4,quantum_us=20";

/// Return the loads with timers of 2, 2.5, 3 and 3.5 ms on an idle machine.
fn timers(under: &str) -> String {
    repeated(RUNS, |run| format!("loads {under}-timers{run} cyclic 4 300\n"))
}

fn waiters_are_early(kernel: &str, machine: &str) {
    let pipelines =
        |under: &str| repeated(RUNS, |run| format!("loads {under}-pipeline{run} pipeline 2 100 65536 1\n"));
    let both = |under: &str| pipelines(under) + &timers(under);
    let under = format!("{}loads frames frames 4 100\n", both("bias"));
    let results = Scenario::emulated(kernel, machine, 5).loads(&both("default"), &under);
    let mut expect = Expectations::default();
    let blocks = |under: &str| median(&results.of_runs(&format!("{under}-pipeline"), "/blocks_per_s"));
    expect.at_least("pipeline/blocks_per_s against default", blocks("bias") / blocks("default"), 0.98);
    let most_us = |under: &str| results.of_runs(&format!("{under}-timers"), "/most_us");
    let (default, bias) = (most_us("default"), most_us("bias"));
    // The default's longest delay varies from 0.1 to 7 ms. So it is the bound only from 1.5 ms on.
    let what = format!("timers: median of the longest of each run [us] | {bias:?}, default {default:?}");
    expect.at_most(&what, median(&bias), median(&default).max(1500.0));
    expect.at_most("equal CPUs: frames missed of 100", results.number("frames", "/missed"), 0.0);
    expect.lasts(&results);
    expect.judge();
}

#[test]
fn waiters_are_as_early_as_under_the_default() {
    waiters_are_early("6.12", TIMED);
}

/// Check how many of `frames` are missed at most beside 4 and 8 busy tasks. Beside 8 they want more
/// than their share of unequal CPUs: 0.36 of a fast one for 0.31. The default misses some.
fn frames_are_in_time(kernel: &str, machine: &str, frames: u32, missed: [u32; 2]) {
    let loads = |under: &str| {
        let load = |busy| format!("loads {under}-frames{busy} frames {busy} {frames}\n");
        load(4) + &load(8)
    };
    let results = Scenario::emulated(kernel, machine, 5).loads(&loads("default"), &loads("bias"));
    let mut expect = Expectations::default();
    for (busy, most) in [4, 8].into_iter().zip(missed) {
        let of = |under: &str| results.number(&format!("{under}-frames{busy}"), "/missed");
        let (number, default) = (of("bias"), of("default"));
        let what = format!("beside {busy} tasks: missed of {frames}");
        expect.at_most(&format!("{what} | default {default}"), number, f64::from(most));
        if busy == 8 {
            expect.at_most(&format!("{what}, more than the default"), number - default, 0.0);
        }
    }
    expect.judge();
}

#[test]
fn frames_are_in_time_on_unequal_cpus() {
    frames_are_in_time("6.12", "240:240:96:96", 100, [1, 11]);
}

/// Check the gaps in busy tasks that run with four servers on one fast and three slow CPUs, for
/// each number of busy tasks. A CPU that goes idle for microseconds requests the busy task of
/// another CPU, repeatedly.
fn servers(kernel: &str, machine: &str, tasks: &[u32], runs: u32, seconds: u32) {
    let load = |name: &str, tasks: u32| format!("loads {name}-{tasks} servers {tasks} 4 {seconds}\n");
    let default: String = tasks.iter().map(|&tasks| load("default", tasks)).collect();
    let under: String = tasks
        .iter()
        .flat_map(|&tasks| (1..=runs).map(move |run| load(&format!("run{run}"), tasks)))
        .collect();
    let results = Scenario::emulated(kernel, machine, 8).loads(&default, &under);
    // Gaps shorter than a millisecond are not counted.
    let gap_ms = |name: &str| results.number(name, "/wait_most_us") / 1000.0;
    let mut expect = Expectations::default();
    for tasks in tasks {
        let mut gaps: Vec<f64> = (1..=runs).map(|run| gap_ms(&format!("run{run}-{tasks}"))).collect();
        gaps.sort_by(f64::total_cmp);
        let default = gap_ms(&format!("default-{tasks}"));
        let what = format!("longest gap of {tasks} in any run [ms] | {gaps:.1?}, default {default:.1}");
        expect.at_most(&what, gaps.last().copied().unwrap_or(f64::NAN), 5.0);
    }
    expect.lasts(&results);
    expect.judge();
}

/// Scenarios of `cargo xtask test --full`.
mod full {
    use super::*;

    #[test]
    fn servers_leave_no_gap_in_busy_tasks() {
        servers("6.12", "240:96x3", &[1, 3], 5, 1);
    }

    #[test]
    fn waiters_are_as_early_as_under_the_default_at_1000_hz() {
        waiters_are_early("6.12-1000", "600x4,quantum_us=20");
    }

    #[test]
    fn frames_are_in_time_at_1000_hz() {
        frames_are_in_time("6.12-1000", "600:600:240:240", 100, [1, 11]);
    }

    #[test]
    fn servers_leave_no_gap_in_busy_tasks_at_1000_hz() {
        servers("6.12-1000", "600:240x3", &[1, 3], 5, 1);
    }

    /// A target that is missed: the mean is 1.05 of the default's. It is 3.6 us above its 66.7 us,
    /// which is 870 instructions.
    #[test]
    fn timers_are_on_average_as_early_as_under_the_default() {
        let results = Scenario::emulated("6.12", TIMED, 3).compared(timers);
        let mean_us = |under: &str| results.of_runs(&format!("{under}-timers"), "/mean_us");
        let (default, bias) = (mean_us("default"), mean_us("bias"));
        let mut expect = Expectations::default();
        let what = format!("median of means against default | {bias:?}, {default:?} [us]");
        expect.at_most(&what, median(&bias) / median(&default), 1.0);
        expect.judge_missed();
    }

    #[test]
    fn many_frames_are_in_time_on_unequal_cpus() {
        frames_are_in_time("6.12", "240:240:96:96", 180, [2, 20]);
    }

    #[test]
    fn many_frames_are_in_time_on_equal_cpus() {
        frames_are_in_time("6.12", "240x4", 180, [0, 40]);
    }

    #[test]
    fn servers_leave_no_gap_in_busy_tasks_for_long() {
        servers("6.12", "240:96x3", &[1, 3], 20, 2);
    }
}
