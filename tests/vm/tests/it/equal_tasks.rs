// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Equal busy tasks on machines whose CPUs share cores and caches: their throughput and their
//! fairness.
//!
//! All figures are of one boot in virtual time: rates relative to the default scheduler, or to each
//! other.

use crate::common::loads::{RUNS, median, repeated};
use crate::common::{Expectations, Scenario};

/// Return a `loads spin` for each number of tasks.
fn spin(under: &str, tasks: &[u32], seconds: u32) -> String {
    tasks.iter().map(|n| format!("loads {under}-{n} spin {n} {seconds}\n")).collect()
}

/// Check two fast cores of two threads and four slow cores. Tasks leave a class only when all of
/// its whole cores are taken.
///
/// Progress in a window of 2 s depends on the tasks' lags at its start, and on threads of the
/// system that take a CPU. The median of three runs counts where many tasks rotate.
fn threads_and_slow_cores(kernel: &str, machine: &str, tasks: &[u32]) {
    let runs = |n: u32| if n < 5 { 1 } else { RUNS };
    let all = |under: &str| {
        let load = |n: &u32| repeated(runs(*n), |run| format!("loads {under}-{n}-{run} spin {n} 2\n"));
        tasks.iter().map(load).collect()
    };
    let results = Scenario::emulated(kernel, machine, 8).compared(all);
    let mut expect = Expectations::default();
    for n in tasks {
        let median = |under: &str, figure: &str| median(&results.of_runs(&format!("{under}-{n}-"), figure));
        let sum = |under: &str| median(under, "/sum_per_s");
        expect.at_least(
            &format!("{n} tasks, {machine}: sum against default"),
            sum("bias") / sum("default"),
            0.98,
        );
        let fairness = 1.0 / median("bias", "/most_over_least");
        expect.at_least(&format!("{n} tasks, {machine}: slowest over fastest"), fairness, 0.87);
    }
    expect.lasts(&results);
    expect.judge();
}

#[test]
fn tasks_fill_threads_and_slow_cores_in_order() {
    threads_and_slow_cores("6.12", "P2E4", &[2, 3, 5, 8]);
}

/// Check four equal cores of two threads.
fn threads(tasks: &[u32]) {
    let results = Scenario::emulated("6.12", "60x8,threads=2", 5).compared(|under| spin(under, tasks, 2));
    let mut expect = Expectations::default();
    for n in tasks {
        expect.at_least_default(&results, &n.to_string(), "/sum_per_s", 0.98);
    }
    expect.lasts(&results);
    expect.judge();
}

/// Check two caches of four equal CPUs each. A fixed placement of nine tasks cannot be even.
fn caches_of_equal_cpus(kernel: &str, machine: &str) {
    let results = Scenario::emulated(kernel, machine, 3).loads("", "loads nine spin 9 3");
    let mut expect = Expectations::default();
    expect.at_most("9 tasks: most over least", results.number("nine", "/most_over_least"), 1.05);
    expect.lasts(&results);
    expect.judge();
}

#[test]
fn caches_of_equal_cpus_share_fairly() {
    caches_of_equal_cpus("6.12", "30x8,llcs=2");
}

/// Check fast and slow CPUs in caches of their own. `tasks` lists numbers of tasks and a reference
/// for their throughput, in tasks alone on a fast CPU. The reference was measured without balancing
/// between caches.
fn caches_of_unequal_cpus(kernel: &str, machine: &str, tasks: &[(u32, f64)]) {
    let numbers: Vec<u32> = tasks.iter().map(|(n, _)| *n).collect();
    let results =
        Scenario::emulated(kernel, machine, 6).loads("loads alone spin 1 1 0", &spin("bias", &numbers, 3));
    let mut expect = Expectations::default();
    let alone = results.number("alone", "/sum_per_s");
    for (n, throughput) in tasks {
        let name = format!("bias-{n}");
        expect.at_most(
            &format!("{n} tasks: most over least"),
            results.number(&name, "/most_over_least"),
            1.15,
        );
        let sum = results.number(&name, "/sum_per_s") / alone;
        expect.at_least(&format!("{n} tasks: throughput"), sum, 0.98 * throughput);
    }
    expect.lasts(&results);
    expect.judge();
}

/// Check tasks on other shapes: three types of core, and two nodes. The CPUs are four times as fast
/// as those of the presets, so that ticks and switches weigh less.
fn progress(machine: &str, tasks: &[u32]) {
    let results = Scenario::emulated("6.12", machine, 15).compared(|under| spin(under, tasks, 10));
    let mut expect = Expectations::default();
    for n in tasks {
        expect.at_least_default(&results, &n.to_string(), "/sum_per_s", 0.99);
        let most = results.number(&format!("bias-{n}"), "/most_over_least");
        expect.at_most(&format!("{machine}, {n} tasks: most over least"), most, 1.15);
    }
    expect.lasts(&results);
    expect.judge();
}

/// Scenarios of `cargo xtask test --full`.
mod full {
    use super::*;

    /// Check 24 tasks forked by one parent on two nodes.
    #[test]
    fn nodes_share_fairly() {
        let results = Scenario::emulated("6.12", "2S", 4).loads("", &spin("bias", &[24], 10));
        let mut expect = Expectations::default();
        expect.at_most("24 tasks: most over least", results.number("bias-24", "/most_over_least"), 1.15);
        expect.lasts(&results);
        expect.judge();
    }

    #[test]
    fn tasks_fill_threads_and_slow_cores_at_1000_hz() {
        let machine = "600x4:240:-:240:-:240:-:240:-,threads=2";
        threads_and_slow_cores("6.12-1000", machine, &[2, 5]);
    }

    #[test]
    fn caches_of_equal_cpus_share_fairly_at_1000_hz() {
        caches_of_equal_cpus("6.12-1000", "300x8,llcs=2");
    }

    #[test]
    fn caches_of_unequal_cpus_share_fairly_at_1000_hz() {
        caches_of_unequal_cpus("6.12-1000", "600x4:240x4,llcs=2", &[(5, 4.38), (12, 5.53)]);
    }

    #[test]
    fn tasks_fill_threads_and_slow_cores_in_order_at_any_number() {
        threads_and_slow_cores("6.12", "P2E4", &[1, 2, 3, 4, 5, 6, 8]);
    }

    #[test]
    fn tasks_take_whole_cores_first_at_any_number() {
        threads(&[1, 2, 3, 4, 6]);
    }

    #[test]
    fn caches_of_unequal_cpus_share_fairly_at_any_number() {
        caches_of_unequal_cpus(
            "6.12",
            "SPLIT",
            &[(2, 1.99), (4, 3.99), (5, 4.38), (8, 5.56), (10, 5.54), (12, 5.53)],
        );
    }

    #[test]
    fn three_types_of_cores_share_fairly() {
        progress("240x2:144x4:72x2", &[1, 8, 12]);
    }

    #[test]
    fn nodes_lose_no_throughput() {
        progress("240x8,nodes=2,remote_ns=360", &[4, 24]);
    }
}
