// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The lines of `cargo xtask test` after nextest's summary: skipped tests and repeated boots.

use std::collections::BTreeMap;

use bias_vm::boots::Boots;

use crate::outcome::TestOutcome;

/// Print the summary. `unchanged` are the scenarios that did not run, each with the commit at which
/// it passed with equal inputs. `unclean` are the scenarios that left something in a shared guest.
pub fn print(
    unchanged: &BTreeMap<String, String>,
    outcomes: &[TestOutcome],
    boots: &Boots,
    unclean: &[(String, String)],
) {
    for line in lines(unchanged, outcomes, boots, unclean) {
        eprintln!("xtask: {line}");
    }
}

fn lines(
    unchanged: &BTreeMap<String, String>,
    outcomes: &[TestOutcome],
    boots: &Boots,
    unclean: &[(String, String)],
) -> Vec<String> {
    let mut lines = Vec::new();
    if !unchanged.is_empty() {
        let mut commits = BTreeMap::<&str, usize>::new();
        unchanged.values().for_each(|commit| *commits.entry(commit).or_default() += 1);
        let commits: Vec<_> = commits.iter().map(|(commit, tests)| format!("{tests} at {commit}")).collect();
        lines.push(format!(
            "{} scenarios did not run: same inputs, passed ({}); --fresh runs them",
            unchanged.len(),
            commits.join(", ")
        ));
    }
    let skipped = outcomes.iter().filter_map(|test| Some((test, test.skipped.as_ref()?)));
    let skipped: Vec<_> =
        skipped.map(|(test, why)| format!("  {} {}: {why}", test.program, test.name)).collect();
    if !skipped.is_empty() {
        lines.push(format!(
            "{} tests checked nothing on this machine:\n{}",
            skipped.len(),
            skipped.join("\n")
        ));
    }
    lines.extend(unclean.iter().map(|(test, left)| {
        let left = left.lines().collect::<Vec<_>>().join("; ");
        format!("{test} did not leave its guest clean ({left}), so the next scenario boots a new one")
    }));
    if boots.boots > 0 {
        let Boots { boots, repeated, loads } = boots;
        lines.push(format!(
            "{repeated} of {boots} boots of the VM were repeated; the guests loaded {loads} schedulers"
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_tests_and_repeated_boots_are_counted() {
        let unchanged = [("a::b", "1a"), ("a::c", "1a"), ("a::d", "2b")];
        let unchanged = unchanged.map(|(test, commit)| (test.to_string(), commit.to_string())).into();
        let test = |name: &str, skipped: Option<&str>| TestOutcome {
            program: "p".into(),
            name: name.into(),
            passed: true,
            skipped: skipped.map(String::from),
        };
        let outcomes = [test("x", None), test("y", Some("needs root"))];
        let boots = Boots { boots: 9, repeated: 1, loads: 7 };
        assert_eq!(
            lines(&unchanged, &outcomes, &boots, &[("a::e".into(), "sched_ext is enabled\na taint".into())]),
            [
                "3 scenarios did not run: same inputs, passed (2 at 1a, 1 at 2b); --fresh runs them",
                "1 tests checked nothing on this machine:\n  p y: needs root",
                "a::e did not leave its guest clean (sched_ext is enabled; a taint), so the next scenario boots a new one",
                "1 of 9 boots of the VM were repeated; the guests loaded 7 schedulers",
            ]
        );
        assert!(lines(&BTreeMap::new(), &[], &Boots::default(), &[]).is_empty());
    }
}
