// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Suspend and resume while tasks run, by the kernel's own test of it: scheduling continues, and
//! 5 s later the table and the ages are right.

use crate::common::{Expectations, Results, Scenario};

/// Levels of the kernel's test: stopping tasks; also devices; also CPUs and the system's core.
const LEVELS: [&str; 3] = ["freezer", "devices", "core"];
/// Execute costs of the machine's CPUs, relative to the fastest.
const COSTS: [f64; 4] = [1.0, 1.0, 2.5, 2.5];
const TOLERANCE: f64 = 0.05;
/// No scenario takes half an hour.
const LONGEST_S: f64 = 1800.0;

/// Expect that `name` recorded a right table, tasks that run, and ages that are possible.
fn expect_as_before(expect: &mut Expectations, results: &Results, name: &str) {
    let document = results.json(name);
    let cpus = document["recalibration"]["cpus"].as_array().unwrap();
    for (cpu, cost) in COSTS.iter().enumerate() {
        let seen = cpus[cpu]["cost_permille"][0].as_f64().unwrap_or(0.0) / 1000.0;
        expect.within(&format!("{name}: execute cost of CPU {cpu}"), seen, *cost, TOLERANCE);
    }
    let now_ms: f64 = results.text(&format!("{name}.now")).trim().parse().unwrap();
    for change in document["recalibration"]["changes"].as_array().unwrap() {
        let age_s = (now_ms - change["at_ms"].as_f64().unwrap()) / 1000.0;
        expect.holds(&format!("{name}: a change is {age_s} s old"), (0.0..LONGEST_S).contains(&age_s));
    }
    expect.kept_running(results, name);
}

/// Scenarios of `cargo xtask test --full`.
mod full {
    use super::*;

    #[test]
    fn suspending_twenty_times_changes_nothing() {
        let results = Scenario::emulated("6.12", "2F2S", 8).alone().run("suspend", &LEVELS);
        let mut expect = Expectations::default();
        expect_as_before(&mut expect, &results, "unset");
        for level in LEVELS {
            let resumed = results.text(&format!("{level}.times")).lines().count();
            expect.holds(&format!("{level}: {resumed} of 20 suspends"), resumed == 20);
            expect_as_before(&mut expect, &results, level);
        }
        // A kernel that knows no suspend to memory would not get as far as the core.
        let offline = results.text("offline");
        expect.holds(&format!("CPU 3 was offline {} of 20 times", offline.trim()), offline.trim() == "20");
        let code = results.text("code");
        expect.holds(&format!("scx_bias ended with {code:?}"), code.trim() == "0");
        let complaints = results.text("complaints");
        expect.holds(&format!("the kernel does not complain: {complaints}"), complaints.is_empty());
        expect.judge();
    }
}
