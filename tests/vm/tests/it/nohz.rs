// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! CPUs of nohz_full: no tick for a single task, and ticks as soon as another one waits.

use crate::common::{Expectations, Scenario};

/// The kernel of 7.3 can stop ticks; that of 6.12 is built without.
#[test]
fn a_single_task_runs_without_ticks() {
    let mut scenario = Scenario::emulated("7.3", "60x4", 3);
    scenario.kernel_args(&["nohz_full=1-3"]);
    let results = scenario.run("nohz", &[]);
    let number = |name: &str| results.number("nohz", &format!("/{name}"));
    let mut expect = Expectations::default();
    // Timers of the kernel remain; HZ is 250.
    expect.at_most("timer interrupts a second, one task", number("alone"), 10.0);
    expect.at_least("timer interrupts a second, two tasks", number("shared"), 200.0);
    expect.at_most("timer interrupts a second, one task again", number("again"), 10.0);
    expect.within(
        "CPU time of the second task over the first's",
        number("second_ns") / number("first_ns"),
        1.0,
        0.1,
    );
    expect.lasts(&results);
    expect.judge();
}
