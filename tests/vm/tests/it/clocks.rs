// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Clocks under the governor schedutil: classes of a calibration from cold, and clocks that follow
//! the load.

use crate::common::{Expectations, Results, Scenario};

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
    // The script runs on CPU 0, and the agent on another one.
    let idle = clocks(results, "idle");
    let low = idle.iter().skip(1).filter(|clock| **clock < 0.2).count();
    expect.at_least(&format!("idle CPUs with a low clock, of {idle:?}"), low as f64, 2.0);
    let stp = |name| results.number(name, "/stp");
    expect.at_least("4 compute tasks: throughput against default", stp("four") / stp("four_default"), 0.96);
}

#[test]
fn clocks_follow_load_on_6_12() {
    let results = Scenario::emulated("6.12", "2F2S", 4).alone().run("clocks", &[]);
    let mut expect = Expectations::default();
    expect_clocks(&results, &mut expect);
    expect.judge();
}
