// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! A mix: tasks that run at the same time, and the progress of each.

use crate::options::{Printable, rounds, seconds};
use crate::solo::{self, Solo};
use crate::spec::{CpuList, Mix, WorkKind};
use crate::task::{Group, Stay, TaskWindow};
use crate::{Error, Result, metrics, sched::SchedExt};
use clap::Args;
use serde::Serialize;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

/// Tasks of a run, and how they are measured.
#[derive(Debug, Clone, Args)]
pub struct MixOptions {
    /// Tasks, e.g. 2compute+2chase; a missing count means 1
    #[arg(long)]
    pub tasks: Mix,
    /// Times and repetitions.
    #[command(flatten)]
    pub rounds: RoundOptions,
    /// File of solo rates: read if it exists, else measured and written. Share it between the runs
    /// of one boot, so that all are relative to the same rates. Without it every run measures its
    /// own (about 2 s)
    #[arg(long)]
    pub solo: Option<PathBuf>,
}

/// Times and repetitions of a mix.
#[derive(Debug, Clone, Args)]
pub struct RoundOptions {
    /// Seconds measured per round. Fairness shows only over a time that is many times the
    /// scheduler's slice
    #[arg(long = "seconds", value_name = "SECONDS", value_parser = seconds, default_value = "4")]
    pub window: Duration,
    /// Seconds before each measurement. Raise it for schedulers that have to learn how tasks behave
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "0.5")]
    pub warmup: Duration,
    /// Repetitions, each with new processes; medians are reported. Placement varies by chance, so
    /// use several
    #[arg(long, default_value = "1", value_parser = rounds)]
    pub rounds: u16,
    /// CPUs that count as fast; found by probing unless given
    #[arg(long)]
    pub fast_cpus: Option<CpuList>,
}

/// One task of one round.
#[derive(Debug, Clone, Serialize)]
pub struct TaskReport {
    /// Kind of work.
    pub kind: String,
    /// Units of work in the window.
    pub units: u64,
    /// Rate of work relative to the rate alone on a fast CPU.
    pub progress: f64,
    /// Reciprocal of progress; null for a task that did nothing.
    pub slowdown: f64,
    /// CPU time in the window, seconds.
    pub cpu_s: f64,
    /// Share of that CPU time spent on fast CPUs, 0 to 1.
    pub fast_share: f64,
    /// For a task with phases: the share of its CPU time in which it computed on fast CPUs or
    /// stalled on slow ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub right_share: Option<f64>,
    /// For a task with phases: CPU time on CPUs of the wrong class after each phase change [ms],
    /// until it runs on a CPU of the matching class.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub settled_ms: Vec<f64>,
    /// Share of the task's CPU time by CPU.
    pub cpu_share: Vec<f64>,
    /// Changes of CPU observed between steps of work.
    pub cpu_changes: u64,
    /// Context switches in which the task blocked.
    pub voluntary_switches: u64,
    /// Context switches in which the task was preempted.
    pub involuntary_switches: u64,
}

/// One round.
#[derive(Debug, Clone, Serialize)]
pub struct MixRound {
    /// Length of the window, seconds of wall clock.
    pub wall_s: f64,
    /// Sum of progress.
    pub stp: f64,
    /// Mean slowdown.
    pub antt: f64,
    /// Largest over smallest slowdown.
    pub unfairness: f64,
    /// Share of all tasks' CPU time spent on fast CPUs, 0 to 1.
    pub fast_share: f64,
    /// Mean `right_share` of the tasks with phases, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub right_share: Option<f64>,
    /// Each task.
    pub tasks: Vec<TaskReport>,
}

/// All rounds of a mix under one scheduler.
#[derive(Debug, Clone, Serialize)]
pub struct MixReport {
    /// Format of this report.
    pub schema: &'static str,
    /// The mix.
    pub mix: String,
    /// The sched_ext scheduler that was active, or "default".
    pub scheduler: String,
    /// CPUs counted as fast.
    pub fast_cpus: Vec<usize>,
    /// Solo rates that progress refers to.
    pub solo: Solo,
    /// Every round.
    pub rounds: Vec<MixRound>,
    /// Median over the rounds of the sum of progress.
    pub stp: f64,
    /// Median over the rounds of the mean slowdown.
    pub antt: f64,
    /// Median over the rounds of largest over smallest slowdown.
    pub unfairness: f64,
    /// Median over the rounds of the share of CPU time on fast CPUs.
    pub fast_share: f64,
}

/// Measure solo rates where they are missing, then run the rounds.
pub fn run(options: &MixOptions) -> Result<MixReport> {
    let kinds = options.tasks.kinds();
    let fast_cpus = options.rounds.fast_cpus.as_ref();
    let solo = solo::load_or_measure(options.solo.as_deref(), &kinds, fast_cpus)?;
    run_with(&options.tasks, &options.rounds, &solo)
}

/// Run the rounds with known solo rates, which also name the fast CPUs.
pub fn run_with(mix: &Mix, options: &RoundOptions, solo: &Solo) -> Result<MixReport> {
    let kinds = mix.tasks();
    let scheduler = SchedExt::system().active().unwrap_or_else(|| "default".into());
    let mut rounds = Vec::new();
    for _ in 0..options.rounds {
        let window = Group::start(&kinds, &[])?.measure(options.warmup, options.window)?;
        let wall_s = window.wall_ns as f64 / 1e9;
        rounds.push(evaluate(&kinds, &window.tasks, wall_s, solo)?);
    }
    let median = |of: fn(&MixRound) -> f64| {
        let values: Vec<f64> = rounds.iter().map(of).collect();
        metrics::median(&values).unwrap_or(f64::NAN)
    };
    Ok(MixReport {
        schema: "bias-bench.mix/1",
        mix: mix.to_string(),
        scheduler,
        fast_cpus: solo.fast_cpus.clone(),
        solo: solo.clone(),
        stp: median(|r| r.stp),
        antt: median(|r| r.antt),
        unfairness: median(|r| r.unfairness),
        fast_share: median(|r| r.fast_share),
        rounds,
    })
}

/// Compute a round's figures from the work of the tasks in `wall_s` seconds.
pub(crate) fn evaluate(
    kinds: &[WorkKind],
    tasks: &[TaskWindow],
    wall_s: f64,
    solo: &Solo,
) -> Result<MixRound> {
    let mut reports = Vec::new();
    for (kind, task) in kinds.iter().zip(tasks) {
        let progress = metrics::progress(task.units as f64 / wall_s, solo.rate(kind)?);
        let progress = progress.ok_or_else(|| Error::failed("progress", "the window has no length"))?;
        let ns = |cpu: usize| task.cpu_ns.get(cpu).map_or(0.0, |&ns| ns as f64);
        let total = metrics::sum((0..task.cpu_ns.len()).map(ns));
        let on_fast = metrics::sum(solo.fast_cpus.iter().map(|&cpu| ns(cpu)));
        let stalled = |cpu: usize| task.stalled_ns.get(cpu).map_or(0.0, |&ns| ns as f64);
        let all_stalled = metrics::sum((0..task.stalled_ns.len()).map(stalled));
        let stalled_on_fast = metrics::sum(solo.fast_cpus.iter().map(|&cpu| stalled(cpu)));
        // Computed on fast CPUs, plus stalled on slow ones.
        let right = (on_fast - stalled_on_fast) + (all_stalled - stalled_on_fast);
        reports.push(TaskReport {
            kind: kind.to_string(),
            units: task.units,
            progress,
            slowdown: metrics::slowdown(progress),
            cpu_s: total / 1e9,
            fast_share: metrics::share(on_fast, total),
            right_share: (!kind.period().is_zero()).then(|| metrics::share(right, total)),
            settled_ms: settled_ms(&task.stays, &solo.fast_cpus),
            cpu_share: task.cpu_ns.iter().map(|&ns| metrics::share(ns as f64, total)).collect(),
            cpu_changes: task.cpu_changes,
            voluntary_switches: task.voluntary,
            involuntary_switches: task.involuntary,
        });
    }
    let progress: Vec<f64> = reports.iter().map(|task| task.progress).collect();
    let cpu_s = metrics::sum(reports.iter().map(|task| task.cpu_s));
    let fast_s = metrics::sum(reports.iter().map(|task| task.cpu_s * task.fast_share));
    let right: Vec<f64> = reports.iter().filter_map(|task| task.right_share).collect();
    Ok(MixRound {
        wall_s,
        stp: metrics::stp(&progress),
        antt: metrics::antt(&progress).unwrap_or(f64::NAN),
        unfairness: metrics::unfairness(&progress).unwrap_or(f64::NAN),
        fast_share: metrics::share(fast_s, cpu_s),
        right_share: (!right.is_empty()).then(|| metrics::sum(right.iter().copied()) / right.len() as f64),
        tasks: reports,
    })
}

/// Return the CPU time [ms] that a task spent on CPUs of the wrong class after each phase change.
/// The time ends when the task runs on a CPU of the matching class, or changes again. The first
/// stay does not count, because it began before the window. Neither does a change that the end of
/// the window cuts off.
fn settled_ms(stays: &[Stay], fast_cpus: &[usize]) -> Vec<f64> {
    let changes = stays.windows(2).enumerate().filter(|(_, pair)| pair[0].stalled != pair[1].stalled);
    let settled = |(at, _): (usize, _)| {
        let mut wrong_ns = 0;
        for stay in &stays[at + 1..] {
            if stay.stalled != stays[at + 1].stalled || fast_cpus.contains(&stay.cpu) != stay.stalled {
                return Some(wrong_ns as f64 / 1e6);
            }
            wrong_ns += stay.ns;
        }
        None
    };
    changes.filter_map(settled).collect()
}

impl Printable for MixReport {
    fn text(&self) -> String {
        let mut out = format!("{} under {}, fast CPUs {:?}\n", self.mix, self.scheduler, self.fast_cpus);
        for round in &self.rounds {
            let _ = writeln!(out, "  task         progress  slowdown  on fast  CPU s  moves  switches");
            for task in &round.tasks {
                let switches = task.voluntary_switches + task.involuntary_switches;
                let _ = writeln!(
                    out,
                    "  {:12} {:8.3} {:9.2} {:7.1}% {:6.2} {:6} {:9}",
                    task.kind,
                    task.progress,
                    task.slowdown,
                    task.fast_share * 100.0,
                    task.cpu_s,
                    task.cpu_changes,
                    switches
                );
            }
            let right = round.right_share.map(|share| format!("  on the right CPUs {:.1}%", share * 100.0));
            let _ = writeln!(
                out,
                "  STP {:.3}  ANTT {:.3}  unfairness {:.2}  on fast CPUs {:.1}%{}",
                round.stp,
                round.antt,
                round.unfairness,
                round.fast_share * 100.0,
                right.unwrap_or_default()
            );
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solo::example::unequal;
    use crate::task::example::task;

    fn solo() -> Solo {
        unequal(&[("compute", 100.0), ("chase", 10.0)])
    }

    #[test]
    fn figures_of_a_round_follow_from_units_and_times() {
        let kinds = [WorkKind::Compute, "chase".parse().unwrap()];
        let tasks = [task(200, &[2_000_000_000]), task(18, &[500_000_000, 1_500_000_000])];
        let round = evaluate(&kinds, &tasks, 2.0, &solo()).unwrap();
        assert!((round.tasks[0].progress - 1.0).abs() < 1e-12);
        assert!((round.tasks[1].progress - 0.9).abs() < 1e-12);
        assert!((round.stp - 1.9).abs() < 1e-12);
        assert!((round.unfairness - 1.0 / 0.9).abs() < 1e-12);
        assert!((round.tasks[1].fast_share - 0.25).abs() < 1e-12);
        assert!((round.fast_share - 2.5 / 4.0).abs() < 1e-12);
    }

    #[test]
    fn a_task_is_right_if_it_computes_on_fast_or_stalls_on_slow_cpus() {
        let kinds: Vec<WorkKind> = vec!["phases:100".parse().unwrap(), "chase".parse().unwrap()];
        let mut changing = task(10, &[600, 400]);
        changing.stalled_ns = vec![200, 300];
        let solo = unequal(&[("phases:100", 10.0), ("chase", 10.0)]);
        let round = evaluate(&kinds, &[changing, task(10, &[500, 500])], 1.0, &solo).unwrap();
        // 400 of computing on the fast CPU 0, 300 of stalls on the slow CPU 1.
        assert!((round.tasks[0].right_share.unwrap() - 0.7).abs() < 1e-12);
        assert_eq!(round.tasks[1].right_share, None, "a task without phases");
        assert_eq!(round.right_share, round.tasks[0].right_share);
    }

    #[test]
    fn a_phase_change_settles_on_the_right_cpu_or_at_the_next_change() {
        let stay = |cpu, stalled, ms: u64| Stay { cpu, stalled, ns: ms * 1_000_000 };
        let stays = [
            stay(1, false, 500), // of unknown length: it began before the window
            stay(1, true, 700),  // stalls on the slow CPU immediately
            stay(1, false, 30),
            stay(2, false, 20),
            stay(0, false, 600), // on the fast CPU after 50 ms
            stay(0, true, 400),  // never on a slow CPU
            stay(0, false, 10),
            stay(0, true, 90), // cut off
        ];
        assert_eq!(settled_ms(&stays, &[0]), [0.0, 50.0, 400.0, 0.0]);
        assert!(settled_ms(&[], &[0]).is_empty());
    }

    #[test]
    fn a_task_that_never_ran_is_infinitely_slow_and_null_in_json() {
        let round = evaluate(&[WorkKind::Compute], &[task(0, &[])], 1.0, &solo()).unwrap();
        assert_eq!(round.tasks[0].slowdown, f64::INFINITY);
        assert!(serde_json::to_string(&round).unwrap().contains("\"slowdown\":null"));
    }

    #[test]
    fn a_kind_without_solo_rate_is_an_error() {
        assert!(evaluate(&[WorkKind::Branchy], &[task(1, &[1])], 1.0, &solo()).is_err());
    }
}
