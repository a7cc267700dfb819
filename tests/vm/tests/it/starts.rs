// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Programs that start beside light servers: how long a new task waits until it runs, and a parent
//! for the end of its child.

use crate::common::{Expectations, Scenario};

/// P2E4, fast enough for thousands of forks.
const MACHINE: &str = "240x4:96:-:96:-:96:-:96:-,threads=2";

fn programs_start(kernel: &str) {
    let results = Scenario::emulated(kernel, MACHINE, 12).loads("", "loads starts starts 5000 5000 8");
    let mut expect = Expectations::default();
    expect.at_least("programs", results.number("starts", "/starts"), 5000.0);
    let most = |what: &str| results.number("starts", &format!("/{what}_most_us")) / 1e3;
    expect.at_most("longest from fork to first run [ms]", most("first"), 20.0);
    expect.at_most("longest from the end of a child to its parent [ms]", most("reaped"), 20.0);
    expect.lasts(&results);
    expect.judge();
}

/// Scenarios of `cargo xtask test --full`.
mod full {
    use super::*;

    #[test]
    fn new_tasks_run_soon_on_6_12() {
        programs_start("6.12");
    }

    #[test]
    fn new_tasks_run_soon_on_7_3() {
        programs_start("7.3");
    }
}
