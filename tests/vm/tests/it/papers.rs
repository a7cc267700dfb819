// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Experiments of the papers in the emulated machine (`docs/papers.md`).

use crate::common::{Expectations, Results, Scenario};

/// Times that each CPU runs each kind.
const RUNS: usize = 20;

/// Run the work of these kinds on each CPU of `machine`, for 50 ms each time. A run contains five
/// ticks on any CPU: of runs shorter than a tick, more would contain one where the CPU is slower.
fn percore(machine: &str, kinds: &str) -> Results {
    let command = format!("$REPLAY percore --json --kinds {kinds} --runs {RUNS} --warmups 2 --seconds 0.05");
    Scenario::without_scheduler(machine, 3).shell(&format!("{command} >$OUT/percore.json\n"))
}

/// Return the median time of each CPU over the least of them, for the `nth` kind.
fn relative(results: &Results, nth: usize) -> Vec<f64> {
    let document = results.json("percore");
    let cpus = document["kinds"][nth]["cpus"].as_array().unwrap();
    let of = |cpu: usize| {
        results.numbers("percore", &format!("/kinds/{nth}/cpus"), "times_ns")[cpu * RUNS..][..RUNS].to_vec()
    };
    let median = |mut times: Vec<f64>| {
        times.sort_unstable_by(f64::total_cmp);
        times[RUNS / 2]
    };
    let medians: Vec<f64> = (0..cpus.len()).map(|cpu| median(of(cpu))).collect();
    let least = medians.iter().copied().fold(f64::INFINITY, f64::min);
    medians.iter().map(|median| median / least).collect()
}

/// Fig 1 of [Reif20]: cores that differ by some percent.
#[test]
fn nearly_symmetric_cores_are_distinguished() {
    let results = percore("NEAR", "compute");
    let mut expect = Expectations::default();
    for (cpu, (found, due)) in relative(&results, 0).into_iter().zip([60, 58, 56, 54]).enumerate() {
        expect.within(&format!("time on CPU {cpu}"), found, 60.0 / f64::from(due), 0.005);
    }
    expect.judge();
}

/// Fig 3 of [Reif20]: one program is sensitive, the others are not. The cores differ in their L2.
#[test]
fn only_a_program_that_needs_what_differs_is_sensitive() {
    let results = percore("60:60:60:60,l2_ns=50:53:56:59", "chase:32K,compute,branchy");
    let mut expect = Expectations::default();
    let [sensitive, others @ ..] = [0, 1, 2].map(|kind| relative(&results, kind));
    expect.holds(&format!("chase:32K {sensitive:.3?} rises"), sensitive.is_sorted_by(|a, b| a < b));
    expect.at_least("chase:32K: slowest over fastest", sensitive[3], 1.1);
    for other in others {
        expect.at_most("another kind: slowest over fastest", other.into_iter().fold(1.0, f64::max), 1.005);
    }
    expect.judge();
}

/// Loops of [Cui23] by the host's OpenMP runtime: with equal parts the team waits for the slow
/// CPUs, and with dynamic ones it does not. Pinned threads do the same in each repetition.
#[test]
fn a_pinned_team_waits_for_its_slowest_thread() {
    let command = "$REPLAY omp --json --benchmarks static,dynamic --bind close --runs 3 --repetitions 4 --iterations 64";
    let results = Scenario::without_scheduler("2F2S", 3).shell(&format!("{command} >$OUT/omp.json\n"));
    let mean = |nth: usize| results.number("omp", &format!("/cases/{nth}/variation/mean_ns"));
    let mut expect = Expectations::default();
    // A slow CPU does a quarter of the loop, or all CPUs together do all of it.
    let due = 24.0 * 4.0 / f64::from(60 + 60 + 24 + 24);
    expect.within("time of a dynamic loop over a static one", mean(1) / mean(0), due, 0.06);
    expect.at_most(
        "CV of a static loop [permille]",
        results.number("omp", "/cases/0/variation/cv_within_permille"),
        30.0,
    );
    expect.judge();
}

/// Scenarios of `cargo xtask test --full`.
mod full {
    use super::*;

    /// Sections 4.2 and 5.2 of [Grant06]: a team of three beside noise, which one CPU takes.
    #[test]
    fn a_slow_housekeeping_cpu_saves_energy_and_does_not_delay_the_team() {
        let command = "$REPLAY amp --json --benchmarks static --duties 8,4 --runs 1 --seconds 0.5 \
                       --unpaced-load --scheduler-cmd \"$SCHED\"";
        let text = format!("calibrate\nmount_cgroups\n{command} >$OUT/amp.json\n");
        let results = Scenario::emulated("6.12", "SYM", 4).shell(&text);
        let over =
            |nth: usize, figure: &str| results.number("amp", &format!("/cases/{nth}/over_smp/{figure}"));
        let mut expect = Expectations::default();
        // Three threads do the work of four. Noise delays the four, and loops have equal work.
        expect.at_most("time of three threads over that of four", over(2, "time"), 4.0 / 3.0 * 1.05);
        expect.within(
            "time with a housekeeping CPU of half speed",
            over(3, "time") / over(2, "time"),
            1.0,
            0.05,
        );
        expect.at_most("energy with it", over(3, "energy") / over(2, "energy"), 0.97);
        expect.judge();
    }

    /// Section 5.2 of [Reif20]: a program that waits for memory is pinned to the fastest core.
    #[test]
    fn a_task_that_occupies_a_fast_cpu_for_nothing_is_named() {
        let pinned =
            |kind: &str, cpu: u32| format!("$BENCH work {kind} --cpu {cpu} --seconds 9 >/dev/null &\n");
        let text = format!(
            "calibrate\nload $SCHED\n{}{}sleep 6\n$BIAS status --json >$OUT/status.json\n$BIAS status\nkill $LOADED\n",
            pinned("chase", 0),
            pinned("compute", 1)
        );
        let results = Scenario::emulated("6.12", "2F2S", 3).shell(&text);
        let status = results.json("status");
        let named: Vec<&str> = status["tasks"]["confined"]
            .as_array()
            .unwrap()
            .iter()
            .map(|task| task["name"].as_str().unwrap())
            .collect();
        assert_eq!(named.len(), 1, "{:#}", status["tasks"]);
        let gain = status["tasks"]["confined"][0]["speedup_permille"].as_u64().unwrap();
        assert!(
            (1000..=1100).contains(&gain) && results.outcome.stdout.contains("may use fast CPUs only"),
            "{gain}"
        );
    }
}
