// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Swaps that the agent plans. They correct the worst placement, and each gets a verdict. A task
//! that ends before its planned swap does no harm.
//!
//! Pulls, rotations and gain swaps of the CPUs are off (`--no-moves`) where the effect of planned
//! swaps alone is measured. The assertions do not hold without swaps.

use crate::common::{Expectations, Results, Scenario};
use std::collections::BTreeMap;

/// Return the rounds of the worst placement. BIAS_VM_ROUNDS sets more for runs by hand.
fn rounds() -> usize {
    std::env::var("BIAS_VM_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(3)
}

/// Run a part of `guest/swaps.sh`.
fn run(part: &str, minutes: u64) -> Results {
    Scenario::emulated("6.12", "2F2S", minutes).alone().run("swaps", &[part, &rounds().to_string()])
}

/// Time after which a placement counts as stable [ms].
const STAYED_MS: f64 = 300.0;

/// Return the time from the release until the last task that computes had reached a fast CPU for
/// good [ms]. It is 0 if both were there already, None if they do not stay.
fn mended_ms(trace: &str) -> Option<f64> {
    let mut lines = trace.lines();
    let computing: Vec<&str> = lines.next()?.split_whitespace().skip(1).collect();
    assert_eq!(computing.len(), 2, "{trace}");
    let mut on_fast: BTreeMap<&str, bool> = BTreeMap::new();
    let (mut since_ms, mut last_ms, mut free_ms) = (None, 0.0, None);
    for line in lines.filter(|line| !line.starts_with('#')) {
        let Some((place, what)) = line.split_once(": ") else { continue };
        let (Some(cpu), Some(now_ms)) = (cpu_of(place), time_ms(place)) else { continue };
        last_ms = now_ms;
        if what.contains("free") && what.contains("mark_write") {
            free_ms = Some(now_ms);
        }
        let Some(next) = what.split("next_pid=").nth(1).and_then(|rest| rest.split(' ').next()) else {
            continue;
        };
        if !computing.contains(&next) {
            continue;
        }
        on_fast.insert(next, cpu < 2);
        let right = computing.iter().all(|pid| on_fast.get(pid) == Some(&true));
        match since_ms {
            Some(since_ms) if !right && now_ms - since_ms >= STAYED_MS => break,
            _ if !right => since_ms = None,
            None => since_ms = Some(now_ms),
            _ => {}
        }
    }
    let (since_ms, free_ms): (f64, f64) = (since_ms?, free_ms?);
    (last_ms - since_ms >= STAYED_MS).then_some((since_ms - free_ms).max(0.0))
}

/// Return the CPU in the text `TASK-PID [CPU] FLAGS SECONDS`.
fn cpu_of(place: &str) -> Option<u32> {
    place.rsplit_once('[')?.1.split_once(']')?.0.parse().ok()
}

fn time_ms(place: &str) -> Option<f64> {
    place.split_whitespace().next_back()?.parse::<f64>().ok().map(|seconds| seconds * 1000.0)
}

#[test]
fn when_a_placement_is_mended_is_read_from_a_trace() {
    let switch = |ms: u32, cpu: u32, pid: u32| {
        format!(
            "      bias-bench-9     [00{cpu}] d..2. {}.{:03}000: sched_switch: prev_comm=sh prev_pid=9 prev_prio=120 prev_state=R ==> \
             next_comm=bias-bench next_pid={pid} next_prio=120\n",
            ms / 1000,
            ms % 1000
        )
    };
    let mark = "              sh-7     [001] ..... 10.000000: tracing_mark_write: free\n";
    let trace = |switches: &[(u32, u32, u32)]| {
        let text: String = switches.iter().map(|(ms, cpu, pid)| switch(*ms, *cpu, *pid)).collect();
        mended_ms(&format!("computing 21 22\n# tracer: nop\n{mark}{text}"))
    };
    // Task 33 chases. The second task arrives at 200 ms, leaves, and arrives for good.
    let late = [(9950, 0, 21), (10_200, 1, 22), (10_210, 2, 22), (10_230, 1, 22), (10_900, 3, 33)];
    assert_eq!(trace(&late), Some(230.0));
    assert_eq!(trace(&late[..4]), None, "it may not stay");
    assert_eq!(trace(&[(9950, 0, 21), (9960, 1, 22), (11_000, 3, 33)]), Some(0.0));
    assert_eq!(trace(&[(9950, 0, 21), (11_000, 3, 33)]), None);
    // A later move away does not change the result.
    assert_eq!(trace(&[(9950, 0, 21), (10_100, 1, 22), (11_000, 3, 22), (12_000, 3, 33)]), Some(100.0));
}

fn clean(results: &Results, expect: &mut Expectations, name: &str) {
    let text = |file: &str| results.text(&format!("{name}.{file}")).trim().to_owned();
    expect.holds(&format!("{name}: enabled to the end"), text("state") == "enabled");
    expect.holds(&format!("{name}: exit code {}", text("code")), text("code") == "0");
}

#[test]
fn swaps_alone_mend_the_worst_placement() {
    let results = run("alone", 5);
    let mut expect = Expectations::default();
    judge_worst(&results, &mut expect, "alone");
    expect.judge();
}

fn judge_worst(results: &Results, expect: &mut Expectations, name: &str) {
    eprintln!("{name}: {}", results.text(&format!("{name}.swaps.txt")));
    // A task that is preempted for a moment may return to a fast CPU by itself, so one swap can be
    // enough.
    let count = |pointer: &str| results.number(&format!("{name}.swaps"), &format!("/summary{pointer}"));
    expect.at_least(&format!("{name}: swaps, where two a round are needed"), count("/tally/asked"), 1.0);
    let mut mended: Vec<f64> = (1..=rounds())
        .map(|round| mended_ms(&results.text(&format!("{name}.{round}.trace"))).unwrap_or(f64::INFINITY))
        .collect();
    eprintln!("{name}: best placement after so many ms: {mended:.0?}");
    mended.sort_by(f64::total_cmp);
    expect.at_most(
        &format!("{name}: best placement after so many ms, median"),
        mended[mended.len() / 2],
        500.0,
    );
    expect.at_most(&format!("{name}: of these swaps, regretted"), count("/verdicts/regretted"), 0.0);
    for (what, statistic) in [("idle pull", "pull"), ("taking turns", "rotate"), ("for gain", "swap_gain")] {
        let moves = results.number(&format!("{name}.status"), &format!("/statistics/{statistic}"));
        expect.at_most(&format!("{name}: moved by anybody else: {what}"), moves, 0.0);
    }
    clean(results, expect, name);
    let complaints = results.text("complaints");
    expect.holds(&format!("the kernel does not complain: {complaints:?}"), complaints.is_empty());
}

/// Scenarios of `cargo xtask test --full`.
mod full {
    use super::*;

    #[test]
    fn the_worst_placement_is_mended_beside_a_shell_and_never_without_swaps() {
        let results = run("beside", 6);
        let mut expect = Expectations::default();
        judge_worst(&results, &mut expect, "beside");
        let none = results.number("none.status", "/statistics/moved");
        expect.at_most("with neither, moves", none, 0.0);
        let why = results.text("none.swaps.txt");
        expect.holds(&format!("and a message says why: {why:?}"), why.contains("--no-swap"));
        clean(&results, &mut expect, "none");
        expect.judge();
    }

    #[test]
    fn tasks_that_end_before_their_turn_disturb_nothing() {
        let results = run("short", 5);
        let mut expect = Expectations::default();
        eprintln!("{}", results.text("short.swaps.txt"));
        let count = |pointer: &str| results.number("short.swaps", &format!("/summary{pointer}"));
        let verdicts =
            ["paid", "neutral", "regretted", "unjudged"].map(|name| count(&format!("/verdicts/{name}")));
        let (asked, undone) = (count("/tally/asked"), count("/tally/undone"));
        let ended: f64 = verdicts.iter().sum::<f64>() + undone;
        expect.at_least("swaps asked for or refused", asked + count("/tally/refused"), 1.0);
        expect.holds(
            &format!("{asked} were requested and {ended} have ended, {verdicts:?}, {undone} undone"),
            asked == ended,
        );
        expect.holds("the agent keeps planning", results.json("short.swaps")["summary"]["off"].is_null());
        clean(&results, &mut expect, "short");
        let complaints = results.text("complaints");
        expect.holds(&format!("the kernel does not complain: {complaints:?}"), complaints.is_empty());
        expect.judge();
    }

    #[test]
    fn a_steady_mix_is_left_in_peace() {
        let results = run("steady", 5);
        let mut expect = Expectations::default();
        let asked = results.number("steady.swaps", "/summary/tally/asked");
        expect.at_most("swaps a second", asked / 20.0, 2.0);
        let count = |name: &str| results.number("steady.swaps", &format!("/summary/verdicts/{name}"));
        let bad = count("regretted");
        let judged = count("paid") + count("neutral") + bad;
        expect.at_most("of the judged ones, regretted beyond one in five and one", bad, 1.0 + judged / 5.0);
        clean(&results, &mut expect, "steady");
        expect.judge();
    }
}
