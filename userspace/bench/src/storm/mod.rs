//! A storm of changes, to test that every task survives it.
//!
//! # Problem
//! A task may be created, die, be stopped, or change its affinity, weight, policy or cgroup at the
//! very moment that the scheduler handles it. Such races can break the scheduler's bookkeeping. The
//! damage shows late, as a task that is never picked again.
//!
//! # Approach
//! Workers of several kinds (see [`workers`]) publish their progress. The driver picks a random
//! worker and a random change, hundreds of times a second, and watches that every worker still
//! makes progress. At the end it undoes all changes and asks the workers to stop, and every worker
//! must end. The random seed is printed and can be given. It repeats the order of changes, but not
//! their timing.
//!
//! A storm fails if a worker makes no progress for the stall limit, does not end, or reports an
//! error: a lost grandchild or a wrong exit code.
//!
//! # Limits
//! Nice values stay between -5 and 10. Otherwise a worker's fair share on a busy machine could be
//! so small that its wait looks like a stall. Kinds of change that the machine forbids (missing
//! permission, no cgroup v2) count as 0, and the report names them.

mod changes;
mod stress_ng;
mod workers;

use crate::cgroup::Pair;
use crate::shared::Shared;
use crate::task::spawn;
use crate::work::Xorshift;
use crate::{Error, Result, cpus};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use workers::{Control, Role, WorkerSlot};

/// Pause between two changes.
const PAUSE: Duration = Duration::from_micros(500);
/// Time between two reads of the workers' progress.
const WATCH: Duration = Duration::from_millis(250);
/// Nice value of the driver, where permitted.
const DRIVER_NICE: i32 = -15;
/// Longest time for all workers to end on request.
const END_TIMEOUT: Duration = Duration::from_secs(20);

/// Length and settings of a storm.
#[derive(Debug, Clone)]
pub struct Options {
    /// Length of the storm.
    pub time: Duration,
    /// Seed of the order of changes; 0 takes one from the clock.
    pub seed: u64,
    /// Longest time without progress of a worker. More is a failure.
    pub stall_limit: Duration,
    /// Run stress-ng at the same time, if it is installed.
    pub stress_ng: bool,
}

/// Figures of one worker.
#[derive(Debug, Clone, Serialize)]
pub struct WorkerReport {
    /// Role of the worker.
    pub role: &'static str,
    /// Pid of the worker.
    pub pid: i32,
    /// Rounds of its work.
    pub progress: u64,
    /// Longest observed time without progress, seconds.
    pub longest_gap_s: f64,
}

/// Figures of a storm.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Format of this report.
    pub schema: &'static str,
    /// Seed of the order of changes.
    pub seed: u64,
    /// Length, seconds.
    pub seconds: f64,
    /// Successful changes and events by kind.
    pub counts: BTreeMap<&'static str, u64>,
    /// Kinds of change that this machine did not allow, with the reason.
    pub skipped: Vec<String>,
    /// Every worker.
    pub workers: Vec<WorkerReport>,
    /// Failures; empty if the storm passed.
    pub failures: Vec<String>,
}

/// The workers and the figures about them. Dropping it kills and reaps those that still run.
struct Storm {
    control: Shared<Control>,
    slots: Shared<WorkerSlot>,
    workers: Vec<Worker>,
    cgroups: Option<Pair>,
    online: Vec<usize>,
    random: Xorshift,
    counts: BTreeMap<&'static str, u64>,
    skipped: Vec<String>,
    failures: Vec<String>,
}

/// One worker and its observed progress.
struct Worker {
    pid: Pid,
    role: Role,
    last: u64,
    since: Instant,
    longest_gap: Duration,
    ended: bool,
}

/// Run a storm. It passed if the report's `failures` are empty.
pub fn run(options: &Options) -> Result<Report> {
    let seed = if options.seed == 0 { clock_seed() } else { options.seed };
    let mut storm = Storm::start(seed)?;
    let stress = if options.stress_ng { stress_ng::start(options.time)? } else { None };
    if options.stress_ng && stress.is_none() {
        storm.skipped.push("stress-ng: not installed".into());
    }
    // With nice 0 the driver would rarely run among so busy workers.
    let me = nix::unistd::getpid();
    changes::set_nice(me, DRIVER_NICE);
    let start = Instant::now();
    let mut watched = start;
    while start.elapsed() < options.time && storm.failures.is_empty() {
        storm.change();
        std::thread::sleep(PAUSE);
        if watched.elapsed() > WATCH {
            storm.watch(options.stall_limit);
            watched = Instant::now();
        }
    }
    changes::set_nice(me, 0);
    storm.end();
    if let Some(stress) = stress {
        match stress.finish() {
            Ok(()) => storm.count("stress-ng runs", 1),
            Err(why) => storm.failures.push(why),
        }
    }
    Ok(storm.report(seed, start.elapsed()))
}

fn clock_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(1, |t| t.as_nanos() as u64).max(1)
}

impl Storm {
    fn start(seed: u64) -> Result<Self> {
        workers::handle_signals().map_err(|e| Error::failed("handling signals", e))?;
        let online = cpus::online()?.0;
        let roles = workers::roles(online.len());
        let mut storm = Storm {
            control: Shared::new(1)?,
            slots: Shared::new(roles.len())?,
            workers: Vec::new(),
            cgroups: None,
            online,
            random: Xorshift::new(seed),
            counts: BTreeMap::new(),
            skipped: Vec::new(),
            failures: Vec::new(),
        };
        match Pair::create() {
            Ok(pair) => storm.cgroups = Some(pair),
            Err(why) => storm.skipped.push(format!("cgroup moves: {why}")),
        }
        for (i, &role) in roles.iter().enumerate() {
            let (control, slots) = (&storm.control.all()[0], storm.slots.all());
            let pid = spawn(|| workers::live(role, i, control, slots))?;
            let now = Instant::now();
            storm.workers.push(Worker {
                pid,
                role,
                last: 0,
                since: now,
                longest_gap: Duration::ZERO,
                ended: false,
            });
        }
        Ok(storm)
    }

    fn count(&mut self, what: &'static str, n: u64) {
        *self.counts.entry(what).or_default() += n;
    }

    /// Read every worker's progress, and check that the worker still lives.
    fn watch(&mut self, limit: Duration) {
        let now = Instant::now();
        for (worker, slot) in self.workers.iter_mut().zip(self.slots.all()) {
            let progress = slot.progress.load(Relaxed);
            if progress != worker.last {
                (worker.last, worker.since) = (progress, now);
            }
            let gap = now - worker.since;
            worker.longest_gap = worker.longest_gap.max(gap);
            if let Ok(status @ (WaitStatus::Exited(..) | WaitStatus::Signaled(..))) =
                waitpid(worker.pid, Some(WaitPidFlag::WNOHANG))
            {
                worker.ended = true;
                self.failures.push(format!("{} {} ended early: {status:?}", worker.role.name(), worker.pid));
            } else if gap > limit {
                let where_ = describe(worker.pid);
                self.failures.push(format!(
                    "{} {} made no progress for {:.1} s; {where_}",
                    worker.role.name(),
                    worker.pid,
                    gap.as_secs_f64()
                ));
            }
        }
    }

    /// Undo all changes, ask the workers to stop, and reap every one.
    fn end(&mut self) {
        for worker in self.workers.iter().filter(|worker| !worker.ended) {
            // A worker whose changes cannot be undone may still end in time, which is enough.
            let _ = kill(worker.pid, Signal::SIGCONT);
            let _ = cpus::set_affinity(worker.pid, &self.online);
            changes::set_nice(worker.pid, 0);
            changes::set_policy(worker.pid, false);
            if let Some(pair) = &self.cgroups {
                let _ = pair.move_to(worker.pid, 2);
            }
        }
        self.control.all()[0].stop.store(1, Relaxed);
        let deadline = Instant::now() + END_TIMEOUT;
        for (worker, slot) in self.workers.iter_mut().zip(self.slots.all()) {
            if worker.ended {
                continue;
            }
            match reap(worker.pid, deadline) {
                Some(WaitStatus::Exited(_, 0)) => {}
                Some(status) => {
                    self.failures.push(format!("{} {}: {status:?}", worker.role.name(), worker.pid))
                }
                None => {
                    let where_ = describe(worker.pid);
                    self.failures.push(format!("{} {} is lost; {where_}", worker.role.name(), worker.pid));
                    let _ = kill(worker.pid, Signal::SIGKILL);
                    let _ = waitpid(worker.pid, None);
                }
            }
            worker.ended = true;
            if slot.progress.load(Relaxed) == 0 {
                self.failures.push(format!("{} {} never made progress", worker.role.name(), worker.pid));
            }
        }
    }

    fn report(mut self, seed: u64, time: Duration) -> Report {
        let slots = self.slots.all();
        let sum = |of: fn(&WorkerSlot) -> u64| slots.iter().map(of).sum();
        let (forks, execs): (u64, u64) = (sum(|s| s.forks.load(Relaxed)), sum(|s| s.execs.load(Relaxed)));
        let (wakes, errors): (u64, u64) = (sum(|s| s.wakes.load(Relaxed)), sum(|s| s.errors.load(Relaxed)));
        let signals: u64 = sum(|s| s.signals.load(Relaxed));
        let worker = |(w, slot): (&Worker, &WorkerSlot)| WorkerReport {
            role: w.role.name(),
            pid: w.pid.as_raw(),
            progress: slot.progress.load(Relaxed),
            longest_gap_s: w.longest_gap.as_secs_f64(),
        };
        let workers = self.workers.iter().zip(slots).map(worker).collect();
        for (name, n) in
            [("forks", forks), ("execs", execs), ("futex wake-ups", wakes), ("signals handled", signals)]
        {
            self.count(name, n);
        }
        if errors > 0 {
            self.failures
                .push(format!("{errors} grandchildren failed, or ended with a code they did not return"));
        }
        Report {
            schema: "bias-bench.storm/1",
            seed,
            seconds: time.as_secs_f64(),
            counts: std::mem::take(&mut self.counts),
            skipped: std::mem::take(&mut self.skipped),
            workers,
            failures: std::mem::take(&mut self.failures),
        }
    }
}

impl Drop for Storm {
    fn drop(&mut self) {
        for worker in self.workers.iter().filter(|worker| !worker.ended) {
            // An error means that the worker has ended already, as intended.
            let _ = kill(worker.pid, Signal::SIGKILL);
            let _ = waitpid(worker.pid, None);
        }
    }
}

/// Wait for a child until `deadline`.
fn reap(pid: Pid, deadline: Instant) -> Option<WaitStatus> {
    loop {
        match waitpid(pid, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) if Instant::now() > deadline => return None,
            Ok(WaitStatus::StillAlive) => std::thread::sleep(Duration::from_millis(10)),
            Ok(status) => return Some(status),
            Err(_) => return None,
        }
    }
}

/// Return the state of a process and the kernel function that it waits in, for a failure's line.
fn describe(pid: Pid) -> String {
    let read = |name| std::fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let status = read("status");
    let wanted =
        |line: &&str| ["State", "Cpus_allowed_list", "voluntary"].iter().any(|w| line.starts_with(w));
    let lines: Vec<&str> = status.lines().filter(wanted).collect();
    format!("{}, wchan {}", lines.join(", ").replace('\t', " "), read("wchan"))
}

impl Report {
    /// Return true if the storm had no failures.
    pub fn passed(&self) -> bool {
        self.failures.is_empty()
    }

    /// Return an error that names the first failure, if there is one.
    pub fn verdict(&self) -> Result<()> {
        match self.failures.first() {
            None => Ok(()),
            Some(first) => Err(Error::Runtime(format!(
                "{} failure(s), the first: {first}; repeat with --seed {}",
                self.failures.len(),
                self.seed
            ))),
        }
    }

    /// Return the report as text.
    pub fn text(&self) -> String {
        let counts: String = self.counts.iter().map(|(name, n)| format!("  {n:8} {name}\n")).collect();
        let skipped: String = self.skipped.iter().map(|why| format!("  skipped  {why}\n")).collect();
        let failures: String = self.failures.iter().map(|why| format!("  FAILED   {why}\n")).collect();
        let gap = self.workers.iter().map(|w| w.longest_gap_s).fold(0.0, f64::max);
        format!(
            "storm of {:.1} s, seed {}, {} workers, longest time without progress {gap:.1} s\n\
             {counts}{skipped}{failures}",
            self.seconds,
            self.seed,
            self.workers.len()
        )
    }
}

#[cfg(test)]
mod tests;
