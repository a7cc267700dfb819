// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Refused inputs of scx_bias: the message, the exit code, and an unchanged system afterwards.

use crate::common::{Expectations, Scenario};

#[test]
fn bad_input_gets_one_line_and_its_exit_code() {
    let results = Scenario::plain("6.12", "SYM", 5, "").run("refusals", &[]);
    let mut expect = Expectations::default();
    let codes = results.text("codes");
    expect.at_least("cases", codes.lines().count() as f64, 19.0);
    for line in codes.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [name, want, code] = words[..] else { continue };
        expect.holds(&format!("{name}: exit code {code}, {want} is right"), code == want);
        if name == "first" || name == "check_rights" {
            continue;
        }
        let error = results.text(&format!("{name}.err"));
        // The parser of the command line adds its usage. Every other error is one line.
        let lines = error.lines().filter(|line| !line.is_empty()).count();
        expect.holds(&format!("{name}: says why: {error:?}"), lines == 1 || error.contains("--help"));
        expect.holds(&format!("{name}: no panic"), !error.contains("panicked"));
    }
    for (file, state) in [("while", "enabled"), ("still", "enabled"), ("state", "disabled")] {
        expect.holds(&format!("sched_ext is {state} ({file})"), results.text(file).trim() == state);
    }
    expect.judge();
}

/// Scenarios of `cargo xtask test --full`.
mod full {
    use super::*;

    /// Check that scx_bias names the reason before the verifier reports an incomprehensible error.
    /// Debian's 7.2.12 describes its kernel functions wrongly, so no scheduler that calls them can
    /// load.
    #[test]
    fn a_kernel_with_malformed_type_information_is_named() {
        let results = Scenario::plain("7.2", "SYM", 5, "").run("refusals_kernel", &[]);
        let mut expect = Expectations::default();
        expect.holds("check ends with 3", results.text("check.code").trim() == "3");
        let check = results.json("check").to_string();
        expect.holds(&format!("check says malformed: {check}"), check.contains("malformed BTF"));
        expect.holds("loading ends with 3", results.text("load.code").trim() == "3");
        let error = results.text("load.err");
        expect.holds(
            &format!("loading says where to look: {error:?}"),
            error.contains("malformed") || error.contains("scx_bias check"),
        );
        expect.holds("nothing was loaded", results.text("state").trim() == "disabled");
        expect.judge();
    }

    /// No kernel with PREEMPT_RT has timers of BPF, since its maintainers found them unsafe there.
    #[test]
    fn a_kernel_with_preempt_rt_is_named() {
        let results = Scenario::plain("6.12-rt", "SYM", 5, "").run("refusals_kernel", &[]);
        let mut expect = Expectations::default();
        expect.holds("loading ends with 3", results.text("load.code").trim() == "3");
        let error = results.text("load.err");
        expect.holds(&format!("loading says why: {error:?}"), error.contains("PREEMPT_RT"));
        expect.holds("nothing was loaded", results.text("state").trim() == "disabled");
        expect.judge();
    }
}
