// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Scenarios of marked programs ([Werling18]): a hint brings a section to the right CPUs at its
//! mark, and nothing is lost where something is missing.

use crate::common::{Expectations, Results, Scenario};

/// Return a figure of the `nth` kind: 0 computes, 1 waits for memory.
fn figure(results: &Results, run: &str, nth: usize, name: &str) -> f64 {
    results.number(run, &format!("/kinds/{nth}/{name}"))
}

#[test]
fn hints_bring_sections_to_the_right_cpus() {
    let results = Scenario::emulated("6.12", "2F2S", 6).run("marks", &[]);
    let mut expect = Expectations::default();
    for run in ["unmarked", "hinted"] {
        eprintln!("{run}: {:#}", results.json(run));
    }
    let profile: toml::Table = results.text("marks.toml").parse().unwrap();
    let threshold = profile["threshold"].as_float().unwrap();
    for section in profile["section"].as_array().unwrap() {
        let misses = section["misses_per_instruction"].as_float().unwrap();
        let waits = section["name"].as_str().unwrap().starts_with("swpmem");
        expect.holds(&format!("{section:?}: {threshold}"), (misses > threshold) == waits);
    }
    expect.holds("the graph is drawn", results.text("marks.svg").contains("<path"));

    let at_mark = |run| figure(&results, run, 0, "at_mark_permille");
    let right = |run| figure(&results, run, 0, "right_permille");
    // A section computes for 0.4 of a thread's time. If threads were independent, a fast CPU would
    // be left for 0.63 of the sections: at most one of the three other threads computes.
    expect.at_least("computing sections on fast CPUs at the mark, hinted", at_mark("hinted"), 630.0);
    expect.at_least("time of computing sections on fast CPUs, hinted", right("hinted"), 900.0);
    expect.at_least("that, over the time without hints", right("hinted") / right("unmarked"), 1.2);
    let speed = |run| results.number(run, "/steps_per_second");
    expect.at_least("steps with hints over those without", speed("hinted") / speed("unmarked"), 1.05);
    expect.at_least("hints", results.number("status", "/statistics/hints"), 10.0);
    expect.judge();
    lost_nothing(&results);
}

/// Check the runs in which marks can announce nothing.
fn lost_nothing(results: &Results) {
    let mut expect = Expectations::default();
    for (run, cause) in [
        ("alone", "is it running"),
        ("foreign", "another build of the program"),
        ("damaged", "it is damaged"),
        ("orphan", "scx_bias has ended"),
    ] {
        let said = results.text(&format!("{run}.err"));
        let one_line = said.lines().filter(|line| line.starts_with("libbias_mark")).count() == 1;
        expect.holds(&format!("{run}: one line with the cause: {said}"), one_line && said.contains(cause));
        expect.at_least(&format!("{run}: sections"), figure(results, run, 0, "sections"), 1.0);
    }
    expect.holds("the kernel does not complain", results.text("complaints").is_empty());
    expect.judge();
}
