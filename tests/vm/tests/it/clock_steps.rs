// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Steps of the wall clock while tasks run: scheduling continues, and ages stay right.

use crate::common::{Expectations, Results, Scenario};

/// The steps are hours. No scenario takes half of one.
const LONGEST_S: f64 = 1800.0;

/// Return the age of the newest change that `status` shows [s], by the guest's wall clock.
fn age_s(results: &Results, step: &str) -> f64 {
    let document = results.json(step);
    let changes = document["recalibration"]["changes"].as_array().unwrap();
    let at_ms = changes.last().unwrap()["at_ms"].as_f64().unwrap();
    (results.text(&format!("{step}.now")).trim().parse::<f64>().unwrap() - at_ms) / 1000.0
}

/// Scenarios of `cargo xtask test --full`.
mod full {
    use super::*;

    #[test]
    fn scheduling_continues_and_ages_are_right_when_the_clock_is_set() {
        let results = Scenario::plain("6.12", "SYM", 8, "").alone().run("clock_steps", &[]);
        let mut expect = Expectations::default();
        let mut earliest = 0.0;
        for step in ["unset", "forth", "back"] {
            let age = age_s(&results, step);
            expect.at_least(&format!("{step}: age of the change [s]"), age, earliest);
            expect.at_most(&format!("{step}: age of the change [s]"), age, LONGEST_S);
            earliest = age;
            let uptime = results.number(step, "/uptime_s");
            expect.at_most(&format!("{step}: time since the start [s]"), uptime, LONGEST_S);
            expect.kept_running(&results, step);
        }
        let complaints = results.text("complaints");
        expect.holds(&format!("the kernel does not complain: {complaints}"), complaints.is_empty());
        expect.judge();
    }
}
