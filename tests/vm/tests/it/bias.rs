// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Placement of tasks by their stalls, and continued scheduling while counters, CPUs and tasks
//! change.
//!
//! Figures are shares and ratios within one boot. A scheduler that cannot distinguish tasks does
//! not reach them.

use crate::common::{Expectations, Scenario};

#[test]
fn tasks_are_placed_by_what_they_stall_on() {
    let results = Scenario::emulated("6.12", "2F2S", 8).run("bias_mixes", &[]);
    let mut expect = Expectations::default();
    let stp = |name| results.number(name, "/stp");
    // Compute on fast and chase on slow CPUs gives 3.90. The default's mean is 3.4, and equal
    // treatment gives 3.3.
    expect.at_least("2 compute + 2 chase: STP", stp("four"), 3.7);
    expect.at_least("and over the same without counting", stp("four") / stp("blind"), 1.08);
    expect.at_least("4 compute + 4 chase: STP", stp("eight"), 3.6);
    // Equal treatment gives 1.38. A chase loses less on a slow CPU than a compute task, and only a
    // scheduler that distinguishes them can compensate for that.
    expect.at_most("4 compute + 4 chase: unfairness", results.number("eight", "/unfairness"), 1.3);
    // Following the changes gives 3.9, and no fixed placement gives more than 3.3.
    expect.at_least("4 tasks that change every 2 s: STP", stp("phases"), 3.5);
    let right = results.number("phases", "/rounds/0/right_share");
    expect.at_least("and the share of their time on the right CPUs", right, 0.8);
    let mut settled = results.numbers("phases", "/rounds/0/tasks", "settled_ms");
    settled.sort_by(f64::total_cmp);
    expect.at_least("changes seen", settled.len() as f64, 4.0);
    // 200 ms are about 5 million instructions of a slow CPU.
    expect.at_most("half of them are settled within [ms of CPU time]", settled[settled.len() / 2], 200.0);
    println!("settled after [ms]: {settled:?}");
    expect.judge();
}

/// Check two fast cores of two threads and four slow cores. The throughput of the best fixed
/// placement, in tasks alone on a fast CPU, was measured by `bias-bench ab`.
#[test]
fn tasks_are_placed_by_their_stalls_where_cores_have_threads() {
    let best_static = [(1, 2.005), (2, 3.901), (3, 5.249)];
    let text: String = best_static
        .map(|(n, _)| {
            format!(
                "keep {n} $BENCH mix --solo $OUT/solo.json --warmup 1 --tasks {n}compute+{n}chase --seconds 4\n"
            )
        })
        .concat();
    let text = format!("calibrate\nload $SCHED\nwait_answer\n{text}unload\n");
    let results = Scenario::emulated("6.12", "P2E4", 5).shell(&text);
    let mut expect = Expectations::default();
    for (n, stp) in best_static {
        let share = results.number(&n.to_string(), "/stp") / stp;
        expect.at_least(&format!("{n} compute + {n} chase, P2E4: STP of best static"), share, 0.97);
    }
    expect.judge();
}

/// Scenarios of `cargo xtask test --full`.
mod full {
    use super::*;

    /// Check that no task is lost and the scheduler stays, on a machine with three speeds: the only
    /// fast CPU goes offline and returns, many forks run, and tasks are tied to one class.
    #[test]
    fn bad_luck_costs_no_task_and_not_the_scheduler() {
        let results = Scenario::emulated("6.12", "24:60:36:24", 4).run("bias_luck", &[]);
        let mut expect = Expectations::default();
        for (file, state) in [
            ("before", "enabled"),
            ("after", "enabled"),
            ("seq", "same"),
            ("code", "0"),
            ("forks", "0"),
            ("mix.code", "0"),
        ] {
            expect.holds(
                &format!("{file} is {state}: {:?}", results.text(file).trim()),
                results.text(file).trim() == state,
            );
        }
        let during =
            |pointer: &str| results.number("back.after", pointer) - results.number("back.before", pointer);
        let valid = during("/statistics/counted") - during("/statistics/count_invalid");
        expect.at_least("stretches counted on the CPU that was away", valid, 20.0);
        expect.at_most("and not counted for a failure", during("/statistics/count_failed"), 0.0);
        let complaints = results.text("complaints");
        expect.holds(&format!("the kernel does not complain: {complaints:?}"), complaints.is_empty());
        expect.judge();
    }
}
