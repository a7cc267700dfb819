// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Verifier cost of each program of the kernel side, against the budget in `verifier_budget.toml`.

use crate::common::{Expectations, Scenario, tree};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Upper limit of every budget: a tenth of the limit in the kernel.
const LIMIT: u32 = 100_000;

#[derive(Deserialize)]
struct Budget {
    programs: BTreeMap<String, u32>,
}

/// Check the programs on one kernel. `counted` means that the guest has counters, with which the
/// counting programs load, too.
fn stays_within_budget(kernel: &str, counted: bool) {
    let text = tree("tests/vm/tests/verifier_budget.toml");
    let budget: Budget = toml::from_str(&text).unwrap();
    let results = Scenario::emulated(kernel, "2F2S", 3).run("verifier", &[]);
    let mut expect = Expectations::default();
    expect.holds("loaded", results.text("state").trim() == "enabled");
    let log = results.text("bias.log");
    let mut seen = 0;
    for line in log.lines() {
        let Some((_, rest)) = line.split_once("program ") else { continue };
        let Some((name, rest)) = rest.split_once(": ") else { continue };
        let Some(cost) = rest.split(' ').next().and_then(|n| n.parse::<u32>().ok()) else { continue };
        seen += 1;
        let allowed = budget.programs.get(name).copied().unwrap_or(0).min(LIMIT);
        expect.at_most(&format!("{kernel}: {name}"), f64::from(cost), f64::from(allowed));
    }
    let programs = budget.programs.keys().filter(|name| counted || !name.starts_with("bias_count_")).count();
    expect
        .holds(&format!("{kernel}: {seen} programs of {programs} told their cost:\n{log}"), seen == programs);
    expect.judge();
}

#[test]
fn programs_stay_within_their_budget_on_6_12() {
    stays_within_budget("6.12", true);
}

#[test]
fn programs_stay_within_their_budget_on_7_3() {
    stays_within_budget("7.3", true);
}

/// Scenarios of `cargo xtask test --full`.
mod full {
    use super::*;

    #[test]
    fn programs_stay_within_their_budget_on_6_18() {
        stays_within_budget("6.18", false);
    }
}
