// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! A CPU goes offline while tasks wait that only it may run: pinned ones, tasks that have disabled
//! their migration, and bound kernel threads.

use crate::common::{Expectations, Scenario};

/// Times that the CPU goes offline and comes back.
const TIMES: u32 = 100;

fn goes_offline(kernel: &str) {
    let results =
        Scenario::emulated(kernel, "600x4", 12).loads("", &format!("loads offline offline 1 {TIMES}"));
    let mut expect = Expectations::default();
    expect.at_least("times offline", results.number("offline", "/times"), f64::from(TIMES));
    expect.at_most("the longest time to go offline [s]", results.number("offline", "/most_ms") / 1e3, 1.0);
    expect.lasts(&results);
    expect.judge();
}

/// Scenarios of `cargo xtask test --full`.
mod full {
    use super::*;

    #[test]
    fn a_cpu_that_tasks_wait_for_goes_offline_on_6_12() {
        goes_offline("6.12");
    }

    #[test]
    fn a_cpu_that_tasks_wait_for_goes_offline_on_6_18() {
        goes_offline("6.18");
    }

    #[test]
    fn a_cpu_that_tasks_wait_for_goes_offline_on_7_3() {
        goes_offline("7.3");
    }
}
