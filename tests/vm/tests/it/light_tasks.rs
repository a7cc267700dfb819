// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The longest wait of a light task: of nice 19 beside crowds, of weight 1 beside 10 000.
//!
//! All figures are of one boot in virtual time.

use crate::common::{Expectations, Scenario};

/// Run `loads NAME spin 1 10` in a cgroup of weight 1 beside `loads spin 4 10` in one of 10 000.
const WEIGHTS: &str = r#"
mount_cgroups
echo +cpu >/sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/light /sys/fs/cgroup/heavy
echo 1 >/sys/fs/cgroup/light/cpu.weight
echo 10000 >/sys/fs/cgroup/heavy/cpu.weight
sh -c 'echo 0 >/sys/fs/cgroup/heavy/cgroup.procs; exec /run/loads spin 4 12' >/dev/null & heavy=$!
sh -c 'echo 0 >/sys/fs/cgroup/light/cgroup.procs; exec /run/loads spin 1 10' >$OUT/weights.json || exit
wait $heavy
"#;

fn light_tasks(kernel: &str) {
    let crowds = "loads crowd light 160 0 10\nloads heavy light 4 -20 10\n";
    let results = Scenario::emulated(kernel, "60x2", 6).loads("", &format!("{crowds}{WEIGHTS}"));
    let mut expect = Expectations::default();
    for (name, what) in [
        ("crowd", "nice 19 beside 80 tasks of nice 0 a CPU"),
        ("heavy", "nice 19 beside two tasks of nice -20 a CPU"),
        ("weights", "weight 1 beside 10 000"),
    ] {
        let longest_s = results.number(name, "/wait_most_us") / 1e6;
        expect.at_most(&format!("{what}: longest wait [s]"), longest_s, 4.0);
        // It waits at all, so the load is what it should be.
        expect.at_least(&format!("{what}: longest wait [s]"), longest_s, 0.1);
    }
    expect.lasts(&results);
    expect.judge();
}

#[test]
fn light_tasks_wait_for_four_seconds_at_most_on_6_12() {
    light_tasks("6.12");
}

/// Scenarios of `cargo xtask test --full`.
mod full {
    use super::*;

    #[test]
    fn light_tasks_wait_for_four_seconds_at_most_on_7_3() {
        light_tasks("7.3");
    }
}
