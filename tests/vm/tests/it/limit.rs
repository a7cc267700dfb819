// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Scheduling of the whole system, with a bias for the tasks of some cgroups only, through all
//! changes of these cgroups.

use crate::common::{Expectations, Results, Scenario};

/// Return true if the speedup of this task is known.
fn is_known(results: &Results, look: &str, task: &str) -> Option<bool> {
    let pid: u64 = results.text(&format!("{task}.pid")).trim().parse().ok()?;
    let top = results.json(look);
    let rows = top["tasks"].as_array()?;
    let row = rows.iter().find(|row| row["tgid"] == pid)?;
    Some(!row["speedup_permille"].is_null())
}

fn limits_bias(kernel: &str) {
    let results = Scenario::emulated(kernel, "2F2S", 6).run("limit", &[]);
    let mut expect = Expectations::default();
    for (look, known) in [
        ("begun", [true, true, false]),
        ("moved", [true, false, true]),
        ("removed", [false, false, false]),
        ("added", [false, true, false]),
        ("back", [false, true, false]),
    ] {
        for (task, known) in ["inside", "below", "outside"].into_iter().zip(known) {
            let seen = is_known(&results, look, task);
            expect
                .holds(&format!("{look}: {task} is known: {seen:?}, expected {known}"), seen == Some(known));
        }
    }
    let status = results.json("status");
    let mode = &status["scope"]["mode"];
    expect.holds(&format!("the mode is {mode}"), mode == "bias-in-cgroups");
    expect.holds("two threads have a bias", status["scope"]["cgroups"][0]["threads"] == 2);
    for policies in ["begun", "end"] {
        let text = results.text(&format!("{policies}.policies"));
        expect.holds(&format!("{policies}: no task's policy changes: {text:?}"), text == "0\n0\n0\n");
    }
    let refused = (results.text("refused"), results.text("refused.code"));
    expect.holds(
        &format!("a cgroup that is not opted in cannot be removed: {refused:?}"),
        refused.0.contains("is not opted in") && refused.1.trim() == "2",
    );
    let gone = results.text("gone");
    expect.holds(
        &format!("a message names a cgroup that is gone: {gone:?}"),
        gone.contains("/out: does not exist; it is opted in when it appears"),
    );
    let back = results.text("back");
    expect.holds(&format!("created again it is opted in again: {back:?}"), back.contains("/out: 1 thread"));
    let code = results.text("code");
    expect.holds(&format!("it ends with {code:?}"), code.trim() == "0");
    let complaints = results.text("complaints");
    expect.holds(&format!("the kernel does not complain: {complaints:?}"), complaints.is_empty());
    expect.judge();
}

/// Scenarios of `cargo xtask test --full`.
mod full {
    use super::*;

    #[test]
    fn only_chosen_cgroups_have_a_bias_on_6_12() {
        limits_bias("6.12");
    }

    #[test]
    fn only_chosen_cgroups_have_a_bias_on_7_3() {
        limits_bias("7.3");
    }
}
