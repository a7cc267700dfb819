// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Counters that are few, in use, or not the same on every CPU. The scheduler reports it, uses the
//! ones that it has, and places tasks no worse than without counters.
//!
//! The guest loads its PMU module again with parameters that limit it
//! (`tests/ampvm/guest/amp_main.c`).

use crate::common::{Expectations, Results, Scenario};
use serde_json::Value;

/// Return the CPUs whose tasks were counted, and the reasons for the others.
fn counted(results: &Results, name: &str) -> (Vec<u64>, Vec<String>) {
    let status = results.json(&format!("{name}.status"));
    let cpus = status["counters"].as_array().cloned().unwrap_or_default();
    let (yes, no): (Vec<_>, Vec<_>) = cpus.iter().partition(|cpu| cpu["counted"].as_bool() == Some(true));
    let number = |cpu: &&Value| cpu["cpu"].as_u64();
    (yes.iter().filter_map(number).collect(), no.iter().map(|cpu| cpu["reason"].to_string()).collect())
}

fn expect(results: &Results, expect: &mut Expectations, name: &str, cpus: &[u64], reason: &str, stp: f64) {
    for file in ["mix", "code"] {
        let code = results.text(&format!("{name}.{file}"));
        expect.holds(&format!("{name}: {file} ends with {}", code.trim()), code.trim() == "0");
    }
    let (yes, no) = counted(results, name);
    expect.holds(&format!("{name}: CPUs counted {yes:?}, expected {cpus:?}"), yes == cpus);
    let told = no.iter().all(|why| why.contains(reason));
    expect.holds(&format!("{name}: the reason of the others is {reason:?}: {no:?}"), told);
    expect.at_least(&format!("{name}: STP of 2 compute + 2 chase"), results.number(name, "/stp"), stp);
}

/// Scenarios of `cargo xtask test --full`.
mod full {
    use super::*;

    #[test]
    fn poor_counters_cost_their_benefit_and_nothing_else() {
        let results = Scenario::emulated("6.12", "2F2S", 6).alone().run("counters", &[]);
        let mut all = Expectations::default();
        // Equal treatment gives 3.3, full knowledge 3.9. The default has 2.8 to 3.9, by chance.
        expect(&results, &mut all, "one_cpu", &[0], "CPU", 2.9);
        // Misses in place of stalls are not used before a calibration has found the cycles that one
        // stands for.
        expect(&results, &mut all, "hybrid", &[0, 1], "does not accept", 3.3);
        expect(&results, &mut all, "taken", &[], "never gave its counters time", 2.9);
        // A quarter of the time is enough.
        expect(&results, &mut all, "shared", &[0, 1, 2, 3], "", 3.6);
        let complaints = results.text("complaints");
        all.holds(&format!("the kernel does not complain: {complaints:?}"), complaints.is_empty());
        all.judge();
    }
}
