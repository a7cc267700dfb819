// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! A mix of concurrent batch tasks, e.g. `2compute+2chase`.
//!
//! # Problem
//! On CPUs of unequal speed, the placement of tasks decides the amount of work done. A mix of tasks
//! with known demands shows it.
//!
//! # Approach
//! The tasks of [`crate::task`] and the figures of [`crate::mix`], one metric per figure.
//!
//! # Invariants
//! All metrics are finite. A task that did nothing in the window counts as one that did half a
//! unit, the largest value that its record cannot exclude. Its slowdown is then a lower bound. It
//! is still enormous, and has a logarithm.
//!
//! # Limits
//! The window is rounded up to whole periods of `phases` tasks.

use super::{Description, Env, Measured, Workload, measured};
use crate::solo::Solo;
use crate::spec::{self, WorkKind};
use crate::task::{Group, Window};
use crate::{Error, Result, metrics, mix, work};
use std::collections::BTreeMap;
use std::time::Duration;

/// Entry of this workload in [`super::list`].
pub const DESCRIPTION: Description = Description {
    name: "mix",
    syntax: "TASKS such as 2compute+2chase",
    measures: "batch tasks side by side, each relative to itself alone on a fast CPU: placement and fairness; \
               throughput is in steps of about 20 000 cycles",
    metrics: &[
        "stp",
        "antt",
        "unfairness",
        "progress_min",
        "throughput_per_s",
        "fast_share",
        "fast_share_<kind>",
        "progress_<kind>",
        "migrations_per_s",
        "switches_per_s",
    ],
    with_pmu: &[],
};

/// The workload.
#[derive(Debug, Clone, PartialEq)]
pub struct MixCell(pub spec::Mix);

impl MixCell {
    /// Parse the text form.
    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        text.parse().map(MixCell)
    }
}

impl Workload for MixCell {
    fn name(&self) -> String {
        self.0.to_string()
    }

    fn kinds(&self) -> Vec<WorkKind> {
        self.0.kinds()
    }

    fn batch(&self) -> Option<&spec::Mix> {
        Some(&self.0)
    }

    fn run(&self, env: &Env) -> Result<Measured> {
        let kinds = self.0.tasks();
        let group = start(&kinds, env)?;
        let window = group.measure(env.warmup, whole_periods(env.window, &kinds))?;
        figures(&kinds, &window, env.solo)
    }
}

/// Start the tasks with the placement of the environment.
pub(super) fn start(kinds: &[WorkKind], env: &Env) -> Result<Group> {
    let pins = env.pins.unwrap_or(&[]);
    if env.pins.is_some() && pins.len() != kinds.len() {
        let why = format!("a placement of {} tasks does not fit a mix of {}", pins.len(), kinds.len());
        return Err(Error::Usage(format!("{why}; give one CPU, or none, for each task")));
    }
    Group::start(kinds, pins)
}

/// Return the window, extended to whole periods of the kind with the longest period.
pub(super) fn whole_periods(window: Duration, kinds: &[WorkKind]) -> Duration {
    let period = kinds.iter().map(WorkKind::period).max().unwrap_or_default();
    if period.is_zero() {
        return window;
    }
    let periods = window.as_nanos().div_ceil(period.as_nanos()).max(1);
    period.saturating_mul(u32::try_from(periods).unwrap_or(u32::MAX))
}

/// Return the metrics of the tasks' work in a window.
pub(super) fn figures(kinds: &[WorkKind], window: &Window, solo: &Solo) -> Result<Measured> {
    let wall_s = window.wall_ns as f64 / 1e9;
    let round = mix::evaluate(kinds, &window.tasks, wall_s, solo)?;
    let mut progress = Vec::new();
    let mut steps = 0.0;
    for (kind, task) in kinds.iter().zip(&window.tasks) {
        let units = (task.units as f64).max(0.5);
        let of_solo = metrics::progress(units / wall_s, solo.rate(kind)?);
        progress.push(of_solo.ok_or_else(|| Error::failed("progress", "the window has no length"))?);
        steps += task.units as f64 / work::build(kind).step() as f64;
    }
    let per_s =
        |count: fn(&mix::TaskReport) -> u64| round.tasks.iter().map(count).sum::<u64>() as f64 / wall_s;
    let mut metrics: BTreeMap<String, f64> = [
        ("stp", round.stp),
        ("antt", metrics::antt(&progress).unwrap_or(f64::NAN)),
        ("unfairness", metrics::unfairness(&progress).unwrap_or(f64::NAN)),
        ("progress_min", progress.iter().copied().fold(f64::INFINITY, f64::min)),
        ("throughput_per_s", steps / wall_s),
        ("fast_share", round.fast_share),
        ("migrations_per_s", per_s(|task| task.cpu_changes)),
        ("switches_per_s", per_s(|task| task.voluntary_switches + task.involuntary_switches)),
    ]
    .map(|(name, value)| (name.to_string(), value))
    .into();
    for kind in kinds {
        let of_kind = || round.tasks.iter().filter(|task| task.kind == kind.to_string());
        let cpu_s = metrics::sum(of_kind().map(|task| task.cpu_s));
        let fast_s = metrics::sum(of_kind().map(|task| task.cpu_s * task.fast_share));
        metrics.insert(format!("fast_share_{kind}"), metrics::share(fast_s, cpu_s));
        let of_kind = || kinds.iter().zip(&progress).filter(|(other, _)| *other == kind).map(|(_, p)| *p);
        let mean = metrics::sum(of_kind()) / of_kind().count() as f64;
        metrics.insert(format!("progress_{kind}"), mean);
    }
    let detail = serde_json::to_value(&round).map_err(|e| Error::failed("the detail of a mix", e))?;
    measured(metrics, detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solo::example::unequal;
    use crate::task::example::task;

    fn solo() -> Solo {
        unequal(&[("compute", 4000.0), ("branchy", 1500.0)])
    }

    #[test]
    fn metrics_follow_from_units_and_times() {
        let kinds = [WorkKind::Compute, WorkKind::Branchy, WorkKind::Branchy];
        let tasks =
            vec![task(8000, &[2_000_000_000]), task(1500, &[1_000_000_000]), task(750, &[0, 1_000_000_000])];
        let m = figures(&kinds, &Window { wall_ns: 2_000_000_000, tasks }, &solo()).unwrap().metrics;
        for (name, expected) in [
            ("stp", 1.0 + 0.5 + 0.25),
            ("antt", (1.0 + 2.0 + 4.0) / 3.0),
            ("unfairness", 4.0),
            ("progress_min", 0.25),
            ("throughput_per_s", (2.0 + 1.0 + 0.5) / 2.0),
            ("fast_share", 0.75),
            ("fast_share_compute", 1.0),
            ("fast_share_branchy", 0.5),
            ("progress_compute", 1.0),
            ("progress_branchy", 0.375),
            ("migrations_per_s", 6.0),
            ("switches_per_s", 7.5),
        ] {
            assert!((m[name] - expected).abs() < 1e-9, "{name}: {}", m[name]);
        }
        assert_eq!(m.len(), 12);
    }

    #[test]
    fn a_starved_task_is_bad_but_finite() {
        let tasks = vec![task(4000, &[1_000_000_000]), task(0, &[])];
        let window = Window { wall_ns: 1_000_000_000, tasks };
        let m = figures(&[WorkKind::Compute, WorkKind::Branchy], &window, &solo()).unwrap().metrics;
        assert_eq!(m["stp"], 1.0);
        assert!((m["unfairness"] - 3000.0).abs() < 1e-6 && m["antt"] > 1000.0);
    }

    #[test]
    fn windows_hold_whole_periods() {
        let ms = Duration::from_millis;
        let kinds = |text: &str| text.parse::<spec::Mix>().unwrap().tasks();
        assert_eq!(whole_periods(ms(300), &kinds("2compute+chase")), ms(300));
        assert_eq!(whole_periods(ms(300), &kinds("compute+phases:200")), ms(400));
        assert_eq!(whole_periods(ms(400), &kinds("phases:100+phases:200")), ms(400));
        assert_eq!(whole_periods(ms(1), &kinds("phases:50")), ms(50));
    }
}
