// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Weights and limits of nested cgroups: CPU time within one boot, in virtual time.

use crate::common::{Expectations, Results, Scenario};

fn share(results: &Results, name: &str, of: u32, and: u32) -> f64 {
    let us = |at: u32| results.number(name, &format!("/us/{at}"));
    us(of) / (us(of) + us(and))
}

fn groups_keep_their_weight(kernel: &str, machine: &str) {
    let results = Scenario::emulated(kernel, machine, 4).loads("", ". \"${0%/*}/hierarchy.sh\"");
    let mut expect = Expectations::default();
    for nr in [2, 4] {
        let deep = share(&results, &format!("deep{nr}"), 0, 1);
        expect.within(&format!("{nr} tasks 14 levels down: share"), deep, 0.5, 0.04);
    }
    for name in ["equal", "changed"] {
        let parent = share(&results, name, 2, 3);
        expect.within(&format!("{name}: share of the parent beside another group"), parent, 0.5, 0.06);
    }
    let a_to_b = |name: &str| results.number(name, "/us/0") / results.number(name, "/us/1");
    expect.within("equal: a to b", a_to_b("equal"), 1.0, 0.1);
    expect.within("changed: a to b", a_to_b("changed"), 10.0, 0.1);
    expect.holds("the kernel does not deny cpu.weight", !results.text("complaints").contains("cpu.weight"));
    expect.lasts(&results);
    expect.judge();
}

#[test]
fn groups_keep_their_weight_at_any_depth_and_time() {
    groups_keep_their_weight("6.12", "60x2");
}

/// Return the commands that measure four free tasks beside 120 that may use two of the four CPUs.
fn confined(name: &str) -> String {
    let crowd = "taskset -c 0,1 /run/loads spin 60 1000 >/dev/null & crowd=\"$crowd $!\"";
    format!("crowd=; {crowd}; {crowd}; loads {name}-confined spin 4 6; kill $crowd; wait $crowd\n")
}

/// Check cpusets of unequal load, and that free tasks wait at most `wait_ms` beside confined ones.
fn expect_cpusets(results: &Results, expect: &mut Expectations, wait_ms: f64) {
    let free = |figure: &str| results.number("bias-confined", figure);
    let most_ms = free("/wait_most_us") / 1e3;
    expect.at_most("4 tasks beside 120 confined ones: longest wait [ms]", most_ms, wait_ms);
    expect.at_most("the same: most work over least", free("/most_over_least"), 1.1);
    for (at, cpuset) in ["few", "many"].into_iter().enumerate() {
        let us = |name: &str, group: usize| results.number(name, &format!("/us/{}", at * 2 + group));
        for (name, due) in [("weighted", 3.0), ("equal-weights", 1.0)] {
            expect.within(&format!("{cpuset}, {name}: heavy to light"), us(name, 0) / us(name, 1), due, 0.1);
        }
        let cpus = (us("weighted", 0) + us("weighted", 1)) / results.number("weighted", "/seconds") / 1e6;
        expect.at_least(&format!("{cpuset}: busy CPUs"), cpus, 1.95);
    }
}

/// Check the CPU time of groups with a `cpu.max`. Print that under the default scheduler.
fn expect_limits(results: &Results, expect: &mut Expectations) {
    let cpus = |name: &str, at: u32| {
        results.number(name, &format!("/us/{at}")) / (results.number(name, "/seconds") * 1e6)
    };
    println!("default: {:?}", [0, 1, 2, 3].map(|at| cpus("default-beside", at)));
    let mut near = |what: &str, cpus: f64, due: f64, off: f64| {
        expect.within(&format!("CPUs: {what}"), cpus, due, off / due);
    };
    near("one task of a group with 20 %", cpus("bias-alone", 0), 0.2, 0.01);
    near("four tasks of it", cpus("bias-crowded", 0), 0.2, 0.01);
    near("two tasks of it beside others", cpus("bias-beside", 0), 0.2, 0.01);
    near("a group with 30 % inside of another", cpus("bias-beside", 1), 0.3, 0.015);
    near("that one, which has 150 %", cpus("bias-beside", 2), 1.5, 0.05);
    near("a group without a limit has the rest", cpus("bias-beside", 3), 2.3, 0.1);
    expect.at_least("CPUs: the group without its limit", cpus("bias-lifted", 0), 0.9);
}

/// Check cpusets and limits on a machine of four equal CPUs, in one boot.
fn cpusets_and_limits(kernel: &str, machine: &str, wait_ms: f64) {
    let limits = |name: &str| format!(". \"${{0%/*}}/limits.sh\"; limits {name}\n");
    let before = confined("default") + &limits("default");
    let under = confined("bias") + ". \"${0%/*}/cpusets.sh\"\n" + &limits("bias");
    let results = Scenario::emulated(kernel, machine, 8).loads(&before, &under);
    let mut expect = Expectations::default();
    expect_cpusets(&results, &mut expect, wait_ms);
    expect_limits(&results, &mut expect);
    expect.lasts(&results);
    expect.judge();
}

#[test]
fn groups_in_cpusets_keep_weights_and_limits_on_6_12() {
    // Ticks come every 10 ms, and slices are 50 ms long.
    cpusets_and_limits("6.12", "60x4", 40.0);
}

/// Scenarios of `cargo xtask test --full`.
mod full {
    use super::*;

    #[test]
    fn groups_keep_their_weight_at_1000_hz() {
        groups_keep_their_weight("6.12-1000", "600x2");
    }

    #[test]
    fn groups_in_cpusets_keep_weights_and_limits_on_7_3() {
        cpusets_and_limits("7.3", "60x4", 40.0);
    }

    #[test]
    fn groups_in_cpusets_keep_weights_and_limits_at_1000_hz() {
        cpusets_and_limits("6.12-1000", "600x4", 30.0);
    }
}
