// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Comparison of a stored run with the one that is to continue it.
//!
//! # Problem
//! A run that continues with other settings mixes samples of two experiments, and its report shows
//! only one of them.
//!
//! # Approach
//! Both runs are lists of settings, each with its value as text. The first setting that differs is
//! the reason for a refusal. The text of an arm counts, not only its name.
//!
//! # Limits
//! More boots or blocks than before extend a run without a change of its samples, so they are no
//! difference. The gate is none either, because it judges a report and not samples.

use super::plan::Plan;
use super::sample::Run;

/// Return the first setting that makes the new run a different one from the old, with both values.
/// Each pair is (old, new). `plans` is None for a run without a stored plan.
pub(super) fn difference(runs: (&Run, &Run), plans: Option<(&Plan, &Plan)>) -> Option<String> {
    let (old, new) = runs;
    let fewer = [("boots", old.boots, new.boots), ("blocks", old.blocks, new.blocks)];
    let fewer = fewer.into_iter().filter(|(_, old, new)| new < old);
    let fewer = fewer.map(|(what, old, new)| (what, old.to_string(), new.to_string()));
    let of_runs = pairs(of_run(old), of_run(new));
    let of_plans = plans.into_iter().flat_map(|(old, new)| pairs(of_plan(old), of_plan(new)));
    of_runs
        .chain(of_plans)
        .chain(fewer)
        .find(|(_, old, new)| old != new)
        .map(|(what, old, new)| format!("{what} {old}, and this one has {new}"))
}

/// Return the settings with their old and new values.
fn pairs(old: Vec<Named>, new: Vec<Named>) -> impl Iterator<Item = (&'static str, String, String)> {
    old.into_iter().zip(new).map(|((what, old), (_, new))| (what, old, new))
}

/// Name of a setting and its value.
type Named = (&'static str, String);

/// Return the settings of a run that its samples depend on.
fn of_run(run: &Run) -> Vec<Named> {
    let cells = run.cells.iter().map(|cell| {
        cell.name.clone() + &cell.diversity.map_or_else(String::new, |d| format!(" (diversity {d})"))
    });
    vec![
        ("suite", run.suite.clone()),
        ("arms", run.arms.join(", ")),
        ("workloads", cells.collect::<Vec<_>>().join(", ")),
        ("machine", run.machine.clone()),
        ("emulation", run.emulated.to_string()),
        ("kernel", run.kernel.clone()),
        ("seed", run.seed.to_string()),
        ("stretch", run.stretch.to_string()),
        ("dead zone", run.dead_zone.to_string()),
    ]
}

/// Return the settings that only the plan holds.
fn of_plan(plan: &Plan) -> Vec<Named> {
    let windows: Vec<String> = (0..plan.cells.len()).map(|cell| seconds(plan.window(cell))).collect();
    vec![
        ("arms", plan.arms.join(", ")),
        ("warm-up", seconds(plan.warmup())),
        ("window", windows.join(", ")),
        ("bpf_stats", plan.bpf_stats.to_string()),
        ("energy", plan.energy.to_string()),
    ]
}

fn seconds(time: std::time::Duration) -> String {
    format!("{} s", time.as_secs_f64())
}
