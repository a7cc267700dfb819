// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! CPUs that sched_ext loses for a while: to real-time threads, and to busy kernel threads.
//!
//! All figures are of one boot in virtual time.

use crate::common::loads::{median, repeated};
use crate::common::{Expectations, Results, Scenario};

fn expect_thirds(results: &Results, expect: &mut Expectations) {
    let ran = |at: usize| results.number("thirds", &format!("/ran_ns/{at}"));
    let all: f64 = (0..3).map(ran).sum();
    for (at, name) in ["user task", "kernel thread", "other kernel thread"].iter().enumerate() {
        expect.within(&format!("{name}: share of CPU 1"), ran(at) / all, 1.0 / 3.0, 0.1);
    }
    expect.at_least("all three: seconds of 3", all / 1e9, 2.7);
}

/// Compare runs of bursts under each scheduler. The longest waits of a run are those of a burst
/// (5.4 ms) or of a tick (10.2 ms), depending on the phase of the ticks. The default has ticks in
/// most runs but not in all, so several of its runs are needed and their worst is the bound.
fn expect_short_waits(results: &Results, expect: &mut Expectations) {
    let waits = |under: &str| results.of_runs(&format!("{under}-bursts"), "/wait_p999_us");
    let (default, bias) = (waits("default"), waits("bias"));
    let what =
        format!("bursts: median p99.9 of waits over the worst of the default's | {bias:?}, {default:?} [us]");
    // A waiter of a burst is preempted once more than under the default: some 0.1 ms at 60 MIPS.
    expect.at_most(&what, median(&bias) / default.last().unwrap_or(&f64::NAN), 1.05);
}

/// Check the shares of tasks when a real-time thread stays on CPU 1, or comes in bursts of 5 ms
/// every 20 ms. Then kernel threads take the CPU.
fn threads_take_a_cpu(kernel: &str) {
    let bursts =
        |under: &str, runs| repeated(runs, |run| format!("loads {under}-bursts{run} fifo 4 2 1 5 15\n"));
    let under = format!("loads spinning fifo 4 5 1 1 0\n{}. \"${{0%/*}}/kthreads.sh\"", bursts("bias", 3));
    let results = Scenario::emulated(kernel, "60x4", 5).loads(&bursts("default", 6), &under);
    let mut expect = Expectations::default();
    let spinning = results.number("spinning", "/least_over_mean");
    expect.at_least("a real-time thread spins: slowest task over mean", spinning, 0.9);
    expect_short_waits(&results, &mut expect);
    expect_thirds(&results, &mut expect);
    expect.lasts(&results);
    expect.judge();
}

#[test]
fn real_time_and_kernel_threads_take_a_cpu() {
    threads_take_a_cpu("6.12");
}

/// Check a spin that is longer than the kernel's watchdog of tasks (30 s).
///
/// It takes CPU 0. The kernel creates deadline servers for the CPUs that are online at the end of
/// its boot, and the guest boots with this one only.
fn spins_for_long(kernel: &str) {
    let results = Scenario::emulated(kernel, "60x4", 5).loads("", "loads spinning fifo 4 38 0 1 0");
    let mut expect = Expectations::default();
    expect.at_least("slowest task over mean", results.number("spinning", "/least_over_mean"), 0.9);
    expect.lasts(&results);
    expect.judge();
}

/// Scenarios of `cargo xtask test --full`.
mod full {
    use super::*;

    #[test]
    fn real_time_and_kernel_threads_take_a_cpu_on_7_3() {
        threads_take_a_cpu("7.3");
    }

    #[test]
    fn a_real_time_thread_spins_for_long_on_6_12() {
        spins_for_long("6.12");
    }

    #[test]
    fn a_real_time_thread_spins_for_long_on_7_3() {
        spins_for_long("7.3");
    }
}
