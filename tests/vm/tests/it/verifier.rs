// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Verifier cost of each program of the kernel side, against the budget in `verifier_budget.toml`.

use crate::common::{Expectations, Results, Scenario, tree};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Upper limit of every budget: a tenth of the limit in the kernel.
const LIMIT: u32 = 100_000;

#[derive(Deserialize)]
struct Budget {
    programs: BTreeMap<String, u32>,
    either: BTreeMap<String, u32>,
}

/// Check the programs on one kernel. `counted` means that the guest has counters, with which the
/// counting programs load, too.
fn stays_within_budget(kernel: &str, counted: bool) -> (Results, Expectations) {
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
        let allowed =
            budget.programs.get(name).or_else(|| budget.either.get(name)).copied().unwrap_or(0).min(LIMIT);
        expect.holds(&format!("{kernel}: {name}: {cost}, at most {allowed}"), cost <= allowed);
    }
    let programs = budget.programs.keys().filter(|name| counted || !name.starts_with("bias_count_"));
    let programs = programs.count() + 1;
    expect.holds(&format!("{kernel}: {seen} programs of {programs} have a cost:\n{log}"), seen == programs);
    (results, expect)
}

/// Check that a disabled JIT is named. libbpf would report the number of an unknown error.
fn expect_refusal_without_jit(results: &Results, expect: &mut Expectations) {
    let text = |name: &str| results.text(&format!("no_jit.{name}"));
    expect.holds(
        &format!("without JIT, check and two starts end with 3: {:?}", text("codes")),
        text("codes") == "3\n3\n3\n",
    );
    let (check, error) = (text("check"), text("err"));
    expect.holds(&format!("check names the JIT: {check}"), check.contains("MISSING  jit "));
    // The second start reports its measurements before it fails.
    let errors: Vec<&str> = error.lines().filter(|line| line.starts_with("scx_bias: ")).collect();
    let named = errors.iter().all(|line| line.contains("sysctl net.core.bpf_jit_enable=1"));
    expect.holds(&format!("each start names the setting in one line: {error}"), named && errors.len() == 2);
}

#[test]
fn programs_stay_within_their_budget_on_6_12() {
    stays_within_budget("6.12", true).1.judge();
}

#[test]
fn programs_stay_within_their_budget_and_a_disabled_jit_is_named_on_7_3() {
    let (results, mut expect) = stays_within_budget("7.3", true);
    expect_refusal_without_jit(&results, &mut expect);
    expect.judge();
}

/// Scenarios of `cargo xtask test --full`.
mod full {
    use super::*;

    #[test]
    fn programs_stay_within_their_budget_on_6_18() {
        stays_within_budget("6.18", false).1.judge();
    }
}
