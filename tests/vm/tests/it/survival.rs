// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Survival of changes to tasks, CPUs and the scheduler itself: no task is lost, and the earlier
//! state is restored.

use crate::common::{Expectations, FOR_SERVICES, Results, Scenario, from_environment};

fn scenario(kernel: &str) -> Scenario {
    Scenario::emulated(kernel, FOR_SERVICES, 9)
}

fn storm(kernel: &str) {
    let seconds = from_environment("BIAS_VM_STORM_S", 10);
    let results = scenario(kernel).run("survival", &["storm", &seconds.to_string()]);
    let mut expect = Expectations::default();
    let report = results.json("storm");
    expect.holds("no failure", report["failures"].as_array().is_some_and(Vec::is_empty));
    for what in [
        "cgroup moves",
        "affinity changes",
        "nice changes",
        "forks",
        "execs",
        "futex wake-ups",
        "changes of threads",
        "stress-ng runs",
    ] {
        expect.at_least(what, report["counts"][what].as_f64().unwrap_or(0.0), 1.0);
    }
    expect_clean(&results, &mut expect);
    expect.judge();
}

fn expect_clean(results: &Results, expect: &mut Expectations) {
    expect.holds("sched_ext is disabled afterwards", results.text("state").trim() == "disabled");
    let complaints = results.text("complaints");
    expect.holds(&format!("the kernel does not complain: {complaints:?}"), complaints.is_empty());
    let left = results.text("left");
    expect.holds(&format!("no task is left in SCHED_EXT: {left:?}"), left.is_empty());
}

fn killed_and_unplugged(kernel: &str) {
    // Loading with busy tasks takes 10 s on two host cores, so the default is a few kills.
    let kills = from_environment("BIAS_VM_KILLS", 2);
    let results = scenario(kernel).run("survival", &["survive", &kills.to_string()]);
    let mut expect = Expectations::default();
    let report = results.json("survive");
    expect.holds("every kill was survived", report["kills"].as_u64() == Some(kills));
    expect.holds("every hotplug was survived", report["hotplugs"].as_u64() == Some(3));
    expect.holds("tasks worked", report["tasks"].as_u64().is_some_and(|n| n >= 8));
    expect_clean(&results, &mut expect);
    expect.judge();
}

#[test]
fn a_storm_of_changes_loses_no_task_on_6_12() {
    storm("6.12");
}

#[test]
fn tasks_outlive_killed_schedulers_and_unplugged_cpus_on_6_12() {
    killed_and_unplugged("6.12");
}

/// Check that the one object loads, schedules and unloads.
fn loads(kernel: &str) {
    let results = scenario(kernel).run("survival", &["once"]);
    let mut expect = Expectations::default();
    expect_clean(&results, &mut expect);
    expect.judge();
}

/// Scenarios of `cargo xtask test --full`.
mod full {
    use super::*;

    #[test]
    fn a_storm_of_changes_loses_no_task_on_6_18() {
        storm("6.18");
    }

    #[test]
    fn a_storm_of_changes_loses_no_task_on_7_0() {
        storm("7.0");
    }

    #[test]
    fn a_storm_of_changes_loses_no_task_on_7_3() {
        storm("7.3");
    }

    #[test]
    fn tasks_outlive_killed_schedulers_and_unplugged_cpus_on_7_3() {
        killed_and_unplugged("7.3");
    }

    #[test]
    fn loads_on_6_16() {
        loads("6.16");
    }

    #[test]
    fn loads_on_6_17() {
        loads("6.17");
    }

    #[test]
    fn loads_on_6_18() {
        loads("6.18");
    }

    #[test]
    fn loads_on_6_19() {
        loads("6.19");
    }

    #[test]
    fn loads_on_7_0() {
        loads("7.0");
    }

    #[test]
    fn loads_on_7_3() {
        loads("7.3");
    }
}
