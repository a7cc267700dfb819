//! Test that tasks survive when their scheduler is killed, or a CPU goes away.
//!
//! # Approach
//! The tasks work all the time. By default there are eight, of four kinds. The scheduler is loaded
//! and killed with SIGKILL several times. Then it is loaded once more, while a CPU is taken offline
//! and brought back. After every such event each task must make progress within the stall limit. At
//! the end each task must still exist.
//!
//! A scheduler may restart itself when a CPU comes or goes, but it must be enabled again in time.

use crate::progress::Progress;
use crate::sched::{Loaded, SchedExt};
use crate::spec::Mix;
use crate::task::Group;
use crate::{Error, Result, cpus};
use serde::Serialize;
use std::time::{Duration, Instant};

/// Pause between two reads of the tasks' progress.
const POLL: Duration = Duration::from_millis(20);

/// Scheduler, tasks and events of a test.
#[derive(Debug, Clone)]
pub struct Options {
    /// Command that loads the scheduler and stays in the foreground.
    pub scheduler: String,
    /// Longest time that the scheduler may take to load, or to return after hotplug.
    pub timeout: Duration,
    /// Number of times to load and kill the scheduler.
    pub kills: u32,
    /// CPU to take offline and bring back under load.
    pub hotplug: Option<usize>,
    /// Number of times to take the CPU offline.
    pub hotplugs: u32,
    /// Longest time without progress of a task after an event. More is a failure.
    pub stall_limit: Duration,
    /// The tasks.
    pub tasks: Mix,
}

/// Figures of a test without failures. A failed test has no report.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
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
pub fn run(options: &Options) -> Result<Report> {
    let kinds = options.tasks.tasks();
    let group = Group::start(&kinds, &[])?;
    group.work();
    let mut report = Report {
        schema: "bias-bench.survive/1",
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
            loaded.wait_enabled(options.timeout)?;
            all_progress(&group, options, &mut report, "taking a CPU offline under")?;
            drop(offline);
            cpus::require_online(&[cpu])?;
            loaded.wait_enabled(options.timeout)?;
            all_progress(&group, options, &mut report, "bringing a CPU back under")?;
            report.hotplugs += 1;
        }
        loaded.stop()?;
    }
    group.finish()?;
    Ok(report)
}

fn load(options: &Options, report: &mut Report) -> Result<Loaded> {
    let start = Instant::now();
    let loaded = Loaded::start(SchedExt::system(), &options.scheduler, options.timeout)?;
    report.longest_load_s = report.longest_load_s.max(start.elapsed().as_secs_f64());
    Ok(loaded)
}

/// Wait until every task has done some work since the call.
fn all_progress(group: &Group, options: &Options, report: &mut Report, after: &str) -> Result<()> {
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

impl Report {
    /// Return the report as a line of text.
    pub fn text(&self) -> String {
        format!(
            "{} tasks survived {} kills of the scheduler and {} times hotplug; longest wait for progress {:.2} s, \
             longest load {:.2} s\n",
            self.tasks, self.kills, self.hotplugs, self.longest_gap_s, self.longest_load_s
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(stall_limit: Duration) -> Options {
        Options {
            scheduler: String::new(),
            timeout: Duration::from_secs(1),
            kills: 0,
            hotplug: None,
            hotplugs: 0,
            stall_limit,
            tasks: "2compute+chase".parse().unwrap(),
        }
    }

    fn report() -> Report {
        Report { schema: "", kills: 0, hotplugs: 0, tasks: 0, longest_gap_s: 0.0, longest_load_s: 0.0 }
    }

    #[test]
    fn working_tasks_make_progress_and_waiting_ones_do_not() {
        let options = options(Duration::from_millis(300));
        let group = Group::start(&options.tasks.tasks(), &[]).unwrap();
        // The tasks have not been started yet, so none may progress.
        let error = all_progress(&group, &options, &mut report(), "nothing").unwrap_err();
        assert!(error.to_string().contains("task 0 made no progress"), "{error}");
        group.work();
        let patient = Options { stall_limit: Duration::from_secs(30), ..options };
        all_progress(&group, &patient, &mut report(), "start").unwrap();
        group.finish().unwrap();
    }

    #[test]
    fn nothing_to_survive_is_survived() {
        assert_eq!(run(&options(Duration::from_secs(30))).unwrap().tasks, 3);
    }
}
