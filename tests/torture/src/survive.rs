// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Test that tasks survive when their scheduler is killed, or a CPU goes offline.
//!
//! # Approach
//! The tasks work all the time. By default there are eight, of four kinds. The scheduler is loaded
//! and killed with SIGKILL several times. Then it is loaded again, and a CPU is taken offline and
//! brought back. After every such event each task must make progress within the stall limit. At the
//! end each task must still exist.
//!
//! A scheduler may restart itself when a CPU comes or goes, but it must be enabled again in time.

use bias_bench::options::{Printable, SchedulerOptions, seconds};
use bias_bench::progress::Progress;
use bias_bench::sched::{Loaded, SchedExt};
use bias_bench::spec::Mix;
use bias_bench::task::Group;
use bias_bench::{Error, Result, cpus};
use clap::Args;
use serde::Serialize;
use std::time::{Duration, Instant};

/// Pause between two reads of the tasks' progress.
const POLL: Duration = Duration::from_millis(20);

/// Scheduler, tasks and events of a test.
#[derive(Debug, Clone, Args)]
pub struct SurviveOptions {
    #[command(flatten)]
    scheduler: SchedulerOptions,
    /// Times to load the scheduler and kill it with SIGKILL. Each costs the time that loading takes
    #[arg(long, default_value_t = 20)]
    kills: u32,
    /// CPU to take offline and bring back under load; none unless given. CPU 0 often cannot go
    /// offline
    #[arg(long, value_name = "CPU")]
    hotplug: Option<usize>,
    /// Times to take it offline
    #[arg(long, default_value_t = 3)]
    hotplugs: u32,
    /// The tasks that must survive. More tasks reach more DSQs and states
    #[arg(long, default_value = "4compute+2chase+1branchy+1stream")]
    tasks: Mix,
    /// Seconds without progress after an event that count as a failure
    #[arg(long, value_parser = seconds, default_value = "10", value_name = "SECONDS")]
    stall_limit: Duration,
}

/// Figures of a test without failures. A failed test has no report.
#[derive(Debug, Clone, Serialize)]
pub struct SurviveReport {
    /// Format of this report.
    pub schema: &'static str,
    /// Number of times that the scheduler was killed.
    pub kills: u32,
    /// Number of times that the CPU was taken offline and brought back.
    pub hotplugs: u32,
    /// Number of tasks that worked all the time.
    pub tasks: usize,
    /// Longest time after an event until every task had made progress, seconds.
    pub longest_gap_s: f64,
    /// Longest time from starting the scheduler until it was enabled, seconds.
    pub longest_load_s: f64,
}

/// Run all kills and hotplugs. Fail at the first error.
pub fn run(options: &SurviveOptions) -> Result<SurviveReport> {
    let kinds = options.tasks.tasks();
    let group = Group::start(&kinds, &[])?;
    group.work();
    let mut report = SurviveReport {
        schema: "bias-torture.survive/1",
        kills: 0,
        hotplugs: 0,
        tasks: kinds.len(),
        longest_gap_s: 0.0,
        longest_load_s: 0.0,
    };
    let mut progress =
        Progress::new(u64::from(options.kills + options.hotplug.map_or(0, |_| options.hotplugs)));
    for _ in 0..options.kills {
        progress.stage("loading the scheduler and killing it");
        let loaded = load(options, &mut report)?;
        all_progress(&group, options, &mut report, "loading")?;
        loaded.crash()?;
        report.kills += 1;
        all_progress(&group, options, &mut report, "killing")?;
    }
    if let Some(cpu) = options.hotplug {
        cpus::require_online(&[cpu])?;
        let mut loaded = load(options, &mut report)?;
        for _ in 0..options.hotplugs {
            progress.stage("taking a CPU offline and bringing it back");
            let offline = Offline::take(cpu)?;
            loaded.wait_enabled(options.scheduler.load_timeout)?;
            all_progress(&group, options, &mut report, "taking a CPU offline under")?;
            drop(offline);
            cpus::require_online(&[cpu])?;
            loaded.wait_enabled(options.scheduler.load_timeout)?;
            all_progress(&group, options, &mut report, "bringing a CPU back under")?;
            report.hotplugs += 1;
        }
        loaded.stop()?;
    }
    group.finish()?;
    Ok(report)
}

fn load(options: &SurviveOptions, report: &mut SurviveReport) -> Result<Loaded> {
    let (scheduler, start) = (&options.scheduler, Instant::now());
    let loaded = Loaded::start(SchedExt::system(), &scheduler.scheduler_cmd, scheduler.load_timeout)?;
    report.longest_load_s = report.longest_load_s.max(start.elapsed().as_secs_f64());
    Ok(loaded)
}

/// Wait until every task has done some work since the call.
fn all_progress(
    group: &Group,
    options: &SurviveOptions,
    report: &mut SurviveReport,
    after: &str,
) -> Result<()> {
    let before = group.units();
    let start = Instant::now();
    loop {
        let now = group.units();
        let Some(stuck) = now.iter().zip(&before).position(|(now, before)| now == before) else { break };
        group.check_alive()?;
        if start.elapsed() > options.stall_limit {
            let limit = options.stall_limit.as_secs_f64();
            return Err(Error::Runtime(format!(
                "task {stuck} made no progress for {limit} s after {after} the scheduler (kill {}, hotplug {})",
                report.kills, report.hotplugs
            )));
        }
        std::thread::sleep(POLL);
    }
    report.longest_gap_s = report.longest_gap_s.max(start.elapsed().as_secs_f64());
    Ok(())
}

/// A CPU that is offline until this is dropped.
struct Offline {
    path: String,
}

impl Offline {
    fn take(cpu: usize) -> Result<Self> {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/online");
        std::fs::write(&path, "0").map_err(|e| Error::Kernel(format!("taking CPU {cpu} offline: {e}")))?;
        Ok(Offline { path })
    }
}

impl Drop for Offline {
    fn drop(&mut self) {
        // The caller checks whether the CPU is online again.
        let _ = std::fs::write(&self.path, "1");
    }
}

impl Printable for SurviveReport {
    fn text(&self) -> String {
        format!(
            "{} tasks survived {} kills of the scheduler and {} hotplugs; longest wait for progress {:.2} s, \
             longest load {:.2} s\n",
            self.tasks, self.kills, self.hotplugs, self.longest_gap_s, self.longest_load_s
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(stall_limit: Duration) -> SurviveOptions {
        SurviveOptions {
            scheduler: SchedulerOptions {
                scheduler_cmd: String::new(),
                load_timeout: Duration::from_secs(1),
            },
            kills: 0,
            hotplug: None,
            hotplugs: 0,
            stall_limit,
            tasks: "2compute+chase".parse().unwrap(),
        }
    }

    fn report() -> SurviveReport {
        SurviveReport { schema: "", kills: 0, hotplugs: 0, tasks: 0, longest_gap_s: 0.0, longest_load_s: 0.0 }
    }

    #[test]
    fn working_tasks_make_progress_and_waiting_ones_do_not() {
        let options = options(Duration::from_millis(300));
        let group = Group::start(&options.tasks.tasks(), &[]).unwrap();
        // The tasks have not been started yet, so none may progress.
        let error = all_progress(&group, &options, &mut report(), "nothing").unwrap_err();
        assert!(error.to_string().contains("task 0 made no progress"), "{error}");
        group.work();
        let patient = SurviveOptions { stall_limit: Duration::from_secs(30), ..options };
        all_progress(&group, &patient, &mut report(), "start").unwrap();
        group.finish().unwrap();
    }

    #[test]
    fn a_test_without_events_succeeds() {
        assert_eq!(run(&options(Duration::from_secs(30))).unwrap().tasks, 3);
    }
}
