// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Light tasks: how long one of nice 19 waits beside a crowd, or of weight 1 beside 10 000, and how
//! much many of them take.
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

/// Return the commands that measure shares. NAME-groups is the CPU time of two cgroups of equal
/// weight, with 2 and 80 tasks, NAME-sleepers how many CPUs 14 sleepers of nice 19 use beside two
/// busy tasks, and NAME-zero and NAME-nineteen the work of nice 0 and 19 on one CPU.
fn shares(name: &str) -> String {
    format!(
        r#"
. "${{0%/*}}/groups.sh"
group two; group many; spin two 2; spin many 40; spin many 40
sleep "$(span 3)"; usage {name}-groups 8 two many; calm; rmdir two many
loads {name}-sleepers sleepers 14 19 900 6000 2 8
/run/loads spin 1 21 1 >$OUT/{name}-zero.json & zero=$!
sleep 0.3; nice -n 19 /run/loads spin 1 20 1 >$OUT/{name}-nineteen.json; wait $zero
"#
    )
}

fn light_tasks(kernel: &str, machine: &str) {
    let crowds = "loads crowd light 160 0 10\nloads heavy light 4 -20 10\n";
    let under = format!("{crowds}{WEIGHTS}{}", shares("bias"));
    let results = Scenario::emulated(kernel, machine, 6).loads(&shares("default"), &under);
    let mut expect = Expectations::default();
    let ratio = |name: &str| results.number(name, "/us/0") / results.number(name, "/us/1");
    expect.within("2 tasks beside 80 of a cgroup of equal weight", ratio("bias-groups"), 1.0, 0.05);
    expect.at_most("CPUs of 14 sleepers of nice 19", results.number("bias-sleepers", "/cpus"), 0.2);
    let work = |nice: &str| results.number(&format!("bias-{nice}"), "/sum_per_s");
    expect.within("work of nice 0 over that of nice 19", work("zero") / work("nineteen"), 100.0, 0.1);
    for (name, what) in [
        ("crowd", "nice 19 beside 80 tasks of nice 0 a CPU"),
        ("heavy", "nice 19 beside two tasks of nice -20 a CPU"),
        ("weights", "weight 1 beside 10 000"),
    ] {
        let longest_s = results.number(name, "/wait_most_us") / 1e6;
        expect.at_most(&format!("{what}: longest wait [s]"), longest_s, 3.0);
        // It waits at all, so the load is what it should be.
        expect.at_least(&format!("{what}: longest wait [s]"), longest_s, 0.1);
    }
    expect.lasts(&results);
    expect.judge();
}

#[test]
fn light_tasks_wait_for_three_seconds_at_most_on_6_12() {
    light_tasks("6.12", "60x2");
}

/// Scenarios of `cargo xtask test --full`.
mod full {
    use super::*;

    #[test]
    fn light_tasks_wait_for_three_seconds_at_most_on_7_3() {
        light_tasks("7.3", "60x2");
    }

    #[test]
    fn light_tasks_wait_for_three_seconds_at_most_at_250_hz() {
        light_tasks("6.12-250", "240x2");
    }

    #[test]
    fn light_tasks_wait_for_three_seconds_at_most_at_1000_hz() {
        light_tasks("6.12-1000", "600x2");
    }
}
