// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! nice and cpu.weight: shares of overloaded CPUs, within one run and in virtual time.

use crate::common::{Expectations, Scenario};

fn shares(kernel: &str, machine: &str) {
    let results = Scenario::emulated(kernel, machine, 5).run("fairness", &[]);
    let mut expect = Expectations::default();
    for name in ["pinned", "free"] {
        let ratio = results.number(name, "/heavy") / results.number(name, "/light");
        // Without cgroup weights it would be 2 (pinned) and 1 (free), by the number of tasks.
        expect.within(&format!("{name}: weight 300 against weight 100"), ratio, 3.0, 0.2);
    }
    for name in ["quiet", "beside"] {
        let cpu_ns = |nice: u32| results.number(&format!("{name}-{nice}"), "/cpu_ns");
        expect.within(
            &format!("{name}: nice 0 against nice 5 (1024/335)"),
            cpu_ns(0) / cpu_ns(5),
            1024.0 / 335.0,
            0.2,
        );
    }
    expect.keeps_costs(&results);
    expect.holds("sched_ext is disabled afterwards", results.text("state").trim() == "disabled");
    expect.judge();
}

#[test]
fn weights_are_honoured_on_6_12() {
    shares("6.12", "SYM");
}

/// Scenarios of `cargo xtask test --full`.
mod full {
    use super::*;

    #[test]
    fn weights_are_honoured_at_1000_hz() {
        shares("6.12-1000", "600x4");
    }

    #[test]
    fn weights_are_honoured_at_250_hz() {
        shares("6.12-250", "240x4");
    }

    #[test]
    fn weights_are_honoured_on_7_3() {
        shares("7.3", "SYM");
    }
}
