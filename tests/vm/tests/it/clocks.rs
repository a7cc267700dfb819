// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Clocks under the governor schedutil: classes of a calibration from cold, and clocks that follow
//! the load.

use crate::common::{Expectations, Results, Scenario};
use serde_json::Value;

/// Speed of the VM's CPUs [kHz].
const NOMINAL_KHZ: [f64; 4] = [60_000.0, 60_000.0, 24_000.0, 24_000.0];

/// Return the clocks recorded as `name`, of the nominal ones.
fn clocks(results: &Results, name: &str) -> Vec<f64> {
    let text = results.text(&format!("{name}.khz"));
    let khz = text.split_whitespace().filter_map(|khz| khz.parse::<f64>().ok());
    khz.zip(NOMINAL_KHZ).map(|(khz, nominal)| khz / nominal).collect()
}

fn expect_clocks(results: &Results, expect: &mut Expectations) {
    let start = results.json("start");
    for (cpu, class) in ["fast", "fast", "slow", "slow"].into_iter().enumerate() {
        let pointer = format!("/recalibration/cpus/{cpu}/class");
        let seen = start.pointer(&pointer).and_then(|class| class.as_str()).unwrap_or("?");
        expect.holds(&format!("CPU {cpu} is {seen}"), seen == class);
    }
    let busy = clocks(results, "busy");
    expect.holds(&format!("busy CPUs have their maximum: {busy:?}"), busy.iter().all(|clock| *clock > 0.99));
    let looks: Vec<_> = (1..=5).map(|look| clocks(results, &format!("idle{look}"))).collect();
    // The script runs on CPU 0.
    for cpu in 1..NOMINAL_KHZ.len() {
        let seen: Vec<f64> = looks.iter().filter_map(|look| look.get(cpu).copied()).collect();
        let low = seen.iter().copied().fold(1.0, f64::min);
        expect.at_most(&format!("CPU {cpu} idles: lowest clock of its maximum | {seen:?}"), low, 0.2);
    }
    let stp = |name| results.number(name, "/stp");
    expect.at_least("4 compute tasks: throughput against default", stp("four") / stp("four_default"), 0.96);
}

fn clocks_follow_load(kernel: &str) {
    let results = Scenario::emulated(kernel, "2F2S", 4).run("clocks", &[]);
    let mut expect = Expectations::default();
    expect_clocks(&results, &mut expect);
    expect.judge();
}

#[test]
fn clocks_follow_load_on_6_12() {
    clocks_follow_load("6.12");
}

/// Scenarios of `cargo xtask test --full`.
mod full {
    use super::*;

    #[test]
    fn clocks_follow_load_on_7_3() {
        clocks_follow_load("7.3");
    }

    /// Text that gives all CPUs the governor schedutil and clocks that differ by core.
    const SCHEDUTIL: &str = "
        echo 1 >/sys/module/amp_pmu/parameters/hybrid || exit
        for governor in /sys/devices/system/cpu/cpufreq/policy*/scaling_governor; do
            echo schedutil >$governor || exit
        done
    ";

    fn clocks_are_in_time(kernel: &str, machine: &str) {
        // A spot check keeps an idle CPU busy for a while.
        let before = format!("{SCHEDUTIL}\nMORE_OPTIONS=--no-recalibrate\n");
        let load = "taskset -p 1 $$ >/dev/null\nloads fast clocks 1 20\nloads slow clocks 3 20\n";
        let results = Scenario::emulated(kernel, machine, 5).alone().loads(&before, load);
        let mut expect = Expectations::default();
        for name in ["fast", "slow"] {
            expect.at_most(&format!("{name}: up [ms]"), results.number(name, "/up_most_ms"), 20.0);
            expect.at_most(&format!("{name}: down [ms]"), results.number(name, "/down_most_ms"), 200.0);
        }
        expect.judge();
    }

    #[test]
    fn clocks_change_in_time_on_6_12() {
        clocks_are_in_time("6.12", "240:240:96:96");
    }

    #[test]
    fn clocks_change_in_time_on_7_3() {
        clocks_are_in_time("7.3", "600:600:240:240");
    }

    /// The CPUs idle before each start, and so have their lowest clocks.
    #[test]
    fn classes_are_right_after_each_cold_start() {
        let starts = (1..=10).map(|start| {
            format!("sleep 1; $BIAS calibrate --output $OUT/cold{start}.json >/dev/null || exit\n")
        });
        let text = format!("{SCHEDUTIL}\n{}", starts.collect::<String>());
        let results = Scenario::emulated("7.3", "240:240:96:96", 6).alone().shell(&text);
        let mut expect = Expectations::default();
        for start in 1..=10 {
            let table = results.json(&format!("cold{start}"));
            let cost =
                |cpu: usize| table.pointer(&format!("/cpus/{cpu}/cost_permille/0")).and_then(Value::as_f64);
            for (cpu, cost_permille) in [1000.0, 1000.0, 2500.0, 2500.0].into_iter().enumerate() {
                expect.within(
                    &format!("start {start}: cost of CPU {cpu}"),
                    cost(cpu).unwrap_or(0.0),
                    cost_permille,
                    0.05,
                );
            }
        }
        expect.judge();
    }
}
