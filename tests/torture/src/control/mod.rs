// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Test that tasks keep running while the scheduler's process is stopped, flooded with requests, or
//! killed.
//!
//! # Approach
//! Tasks work all the time, and the test watches how long a task goes without progress. It does the
//! following, in this order:
//!
//! * It loads the scheduler, which must report READY=1 as to a service manager.
//! * It stops the scheduler's process for a while and continues it.
//! * It floods the socket with clients that stay silent, send requests without reading the answers,
//!   send invalid requests, or never end one. Meanwhile a well-behaved client sends requests like a
//!   user's program.
//! * It reads the descriptors and the memory of the process at the end of the flood.
//! * It kills the process, and starts the scheduler again.
//!
//! # Limits
//! The test reads progress every [`POLL`], so it misses shorter waits. Descriptors and memory are
//! those of the started process, so the command must not fork.

mod flood;
mod holdings;

use bias_bench::options::{Printable, SchedulerOptions, seconds};
use bias_bench::sched::{Loaded, SchedExt};
use bias_bench::spec::Mix;
use bias_bench::task::Group;
use bias_bench::{Error, Result};
use clap::Args;
use flood::{Asker, Flood};
use holdings::Holdings;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Serialize;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Longest time of watching before the first event.
const CALM: Duration = Duration::from_secs(5);
/// Time between two reads of the tasks' progress.
const POLL: Duration = Duration::from_millis(20);
/// Threads that share the clients.
const FLOODERS: usize = 4;

/// Scheduler, tasks and times of a test.
#[derive(Debug, Clone, Args)]
pub struct ControlOptions {
    #[command(flatten)]
    scheduler: SchedulerOptions,
    /// Seconds to keep the scheduler's process stopped. Before the stop, the test watches the tasks
    /// for as long, at most 5 s
    #[arg(long, value_parser = seconds, default_value = "3")]
    stop: Duration,
    /// Clients that flood the socket
    #[arg(long, default_value_t = 1000)]
    clients: usize,
    /// Seconds of the flood
    #[arg(long, value_parser = seconds, default_value = "5")]
    flood: Duration,
    /// The tasks that work meanwhile
    #[arg(long, default_value = "4compute")]
    tasks: Mix,
}

/// Figures of a test.
#[derive(Debug, Clone, Serialize)]
pub struct ControlReport {
    /// Format of this report.
    pub schema: &'static str,
    /// First message to the service manager.
    pub told: String,
    /// Time from the start to that message, seconds.
    pub ready_s: f64,
    /// Longest time of a task without progress before the first event, seconds.
    pub calm_gap_s: f64,
    /// Longest time of a task without progress while the process was stopped, seconds.
    pub stopped_gap_s: f64,
    /// Longest time of a task without progress while the socket was flooded, seconds.
    pub flooded_gap_s: f64,
    /// Connections that clients made.
    pub connections: usize,
    /// Requests of the well-behaved client.
    pub asked: u32,
    /// Answered requests among `asked`.
    pub answered: u32,
    /// Longest wait for one of these answers, seconds.
    pub longest_answer_s: f64,
    /// Descriptors of the process before and after the flood.
    pub descriptors: [usize; 2],
    /// Resident memory of the process before and after the flood, kB.
    pub memory_kb: [u64; 2],
    /// Share of a CPU that the process used during the flood.
    pub flooded_cpu_share: f64,
    /// Time from SIGKILL until every task was back on the default scheduler, seconds. None if the
    /// kernel does not report a task's scheduler.
    pub returned_s: Option<f64>,
    /// Time from SIGKILL until the kernel had disabled sched_ext, seconds.
    pub kill_s: f64,
    /// Time that the second load took, seconds.
    pub again_s: f64,
}

/// Run the whole test. Fail at the first error.
pub fn run(options: &ControlOptions) -> Result<ControlReport> {
    let manager = Manager::new(options.scheduler.load_timeout)?;
    let group = Group::start(&options.tasks.tasks(), &[])?;
    group.work();
    let start = Instant::now();
    let mut loaded = start_scheduler(options, &format!("env NOTIFY_SOCKET={} ", manager.path.display()))?;
    let told = manager.first_word()?;
    let ready_s = start.elapsed().as_secs_f64();
    let pid = loaded.pid();
    let calm_gap_s = longest_gap(&group, options.stop.min(CALM))?;

    signal(pid, Signal::SIGSTOP)?;
    let stopped = longest_gap(&group, options.stop);
    signal(pid, Signal::SIGCONT)?;
    let stopped_gap_s = stopped?;
    loaded.check()?;

    let before = Holdings::of(pid)?;
    let flooded = flooded(options, pid, &group)?;
    let after = Holdings::settled(pid, &before)?;
    loaded.check()?;

    let (returned_s, kill_s) = end(pid, &group, options.scheduler.load_timeout)?;
    loaded.crash()?;
    let start = Instant::now();
    let again = start_scheduler(options, "")?;
    let again_s = start.elapsed().as_secs_f64();
    again.stop()?;
    group.finish()?;
    Ok(ControlReport {
        schema: "bias-torture.control/1",
        told,
        ready_s,
        calm_gap_s,
        stopped_gap_s,
        flooded_gap_s: flooded.gap_s,
        connections: flooded.connections,
        asked: flooded.asker.asked,
        answered: flooded.asker.answered,
        longest_answer_s: flooded.asker.longest_s,
        descriptors: [before.descriptors, after.descriptors],
        memory_kb: [before.memory_kb, after.memory_kb],
        flooded_cpu_share: flooded.cpu_share,
        returned_s,
        kill_s,
        again_s,
    })
}

fn start_scheduler(options: &ControlOptions, prefix: &str) -> Result<Loaded> {
    let SchedulerOptions { scheduler_cmd, load_timeout } = &options.scheduler;
    Loaded::start(SchedExt::system(), &format!("{prefix}{scheduler_cmd}"), *load_timeout)
}

/// The service manager that the scheduler notifies. Dropping it removes its socket.
struct Manager {
    path: PathBuf,
    socket: UnixDatagram,
}

impl Manager {
    fn new(timeout: Duration) -> Result<Self> {
        let failed = |e| Error::failed("creating the notification socket", e);
        let path = PathBuf::from(format!("/run/bias-torture-notify-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let socket = UnixDatagram::bind(&path).map_err(failed)?;
        socket.set_read_timeout(Some(timeout)).map_err(failed)?;
        Ok(Manager { path, socket })
    }

    /// Return the first message that the service manager gets.
    fn first_word(&self) -> Result<String> {
        let mut text = [0; 4096];
        let length = self.socket.recv(&mut text).map_err(|e| Error::failed("waiting for READY=1", e))?;
        Ok(String::from_utf8_lossy(&text[..length]).into_owned())
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Figures of the flood.
struct Flooded {
    gap_s: f64,
    connections: usize,
    asker: Asker,
    cpu_share: f64,
}

/// Flood the socket of process `pid` while the tasks work.
fn flooded(options: &ControlOptions, pid: Pid, group: &Group) -> Result<Flooded> {
    let before_s = Holdings::of(pid)?.cpu_s;
    let (over, made, began) = (AtomicBool::new(false), AtomicUsize::new(0), Instant::now());
    let part = options.clients.div_ceil(FLOODERS);
    let (gap_s, asker) = std::thread::scope(|scope| {
        for _ in 0..FLOODERS {
            scope.spawn(|| Flood::default().run(part, &over, &made));
        }
        let asker = scope.spawn(|| Asker::default().run(&over));
        while made.load(Relaxed) < options.clients && began.elapsed() < options.scheduler.load_timeout {
            std::thread::sleep(POLL);
        }
        let gap = longest_gap(group, options.flood);
        over.store(true, Relaxed);
        (gap, asker.join().unwrap_or_default())
    });
    let used_s = Holdings::of(pid)?.cpu_s - before_s;
    let cpu_share = used_s / began.elapsed().as_secs_f64();
    Ok(Flooded { gap_s: gap_s?, connections: made.into_inner(), asker, cpu_share })
}

/// Kill the scheduler's process. Return two times in seconds: until every task was back on the
/// default scheduler (None if the kernel does not report it), and until the kernel had disabled
/// sched_ext.
fn end(pid: Pid, group: &Group, timeout: Duration) -> Result<(Option<f64>, f64)> {
    let tells = group.is_on_ext().is_some();
    let mut returned_s = None;
    let start = Instant::now();
    signal(pid, Signal::SIGKILL)?;
    loop {
        let disabled = SchedExt::system().state()? == "disabled";
        if tells && returned_s.is_none() && group.is_on_ext() == Some(false) {
            returned_s = Some(start.elapsed().as_secs_f64());
        }
        if disabled || start.elapsed() >= timeout {
            return Ok((returned_s, start.elapsed().as_secs_f64()));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn signal(pid: Pid, signal: Signal) -> Result<()> {
    kill(pid, signal).map_err(|e| Error::failed(format!("sending {signal}"), e))
}

/// Return the longest time in seconds that a task made no progress within `window`.
fn longest_gap(group: &Group, window: Duration) -> Result<f64> {
    let start = Instant::now();
    let mut last: Vec<(u64, Instant)> = group.units().into_iter().map(|units| (units, start)).collect();
    let mut longest = Duration::ZERO;
    while start.elapsed() < window {
        std::thread::sleep(POLL);
        let now = Instant::now();
        for (last, units) in last.iter_mut().zip(group.units()) {
            longest = longest.max(now - last.1);
            if last.0 != units {
                *last = (units, now);
            }
        }
    }
    group.check_alive()?;
    Ok(longest.as_secs_f64())
}

impl Printable for ControlReport {
    fn text(&self) -> String {
        let returned =
            self.returned_s.map_or_else(|| "at an unknown time".to_owned(), |s| format!("in {s:.3} s"));
        format!(
            "ready after {:.2} s; longest wait for progress {:.2} s, {:.2} s while it was stopped, {:.2} s while its socket was flooded by {} \
             connections; meanwhile {} of {} requests were answered, the slowest in {:.2} s, and it used {:.1} % of a CPU; descriptors {} -> {}, \
             memory {} -> {} kB; after SIGKILL default scheduler {returned}, sched_ext disabled in {:.3} s, loaded again in {:.2} s\n",
            self.ready_s,
            self.calm_gap_s,
            self.stopped_gap_s,
            self.flooded_gap_s,
            self.connections,
            self.answered,
            self.asked,
            self.longest_answer_s,
            self.flooded_cpu_share * 100.0,
            self.descriptors[0],
            self.descriptors[1],
            self.memory_kb[0],
            self.memory_kb[1],
            self.kill_s,
            self.again_s
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_tasks_have_longer_gaps_than_working_tasks() {
        let tasks: Mix = "2compute".parse().unwrap();
        let group = Group::start(&tasks.tasks(), &[]).unwrap();
        let window = Duration::from_millis(300);
        assert!(longest_gap(&group, window).unwrap() >= 0.3);
        group.work();
        // Even on a busy machine, one of the tasks runs within a minute.
        let mut looks = 0;
        while longest_gap(&group, window).unwrap() >= 0.3 && looks < 200 {
            looks += 1;
        }
        assert!(looks < 200);
        group.finish().unwrap();
    }
}
