// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! A storm of changes, to test that every task survives it.
//!
//! # Problem
//! A task may be created, die, be stopped, or change its affinity, weight, policy or cgroup just as
//! the scheduler handles it. Such races can break the scheduler's bookkeeping. The damage shows
//! late, as a task that is never picked again.
//!
//! # Approach
//! Workers of several kinds (see [`workers`]) publish their progress. The driver picks a random
//! worker and a random change, hundreds of times a second, and watches that every worker still
//! makes progress. Some workers also change the attributes of their own threads (see [`race`]). At
//! the end the driver undoes all changes and asks the workers to stop, and every worker must end.
//! The random seed is printed and can be given. It repeats the order of changes, but not their
//! timing.
//!
//! A storm fails if a worker makes no progress for the stall limit, does not end, or reports an
//! error: a lost grandchild or a wrong exit code.
//!
//! # Limits
//! Nice values stay between -5 and 10. Otherwise a worker's fair share on a busy machine could be
//! so small that its wait looks like a stall. Kinds of change that the machine forbids (missing
//! permission, no cgroup v2) count as 0, and the report names them.

mod changes;
mod children;
mod futex;
mod outcome;
mod race;
mod slots;
mod stress_ng;
mod workers;

use crate::attributes;
use crate::cgroup::Pair;
use bias_bench::options::{SchedulerOptions, seconds};
use bias_bench::sched::{self, SchedExt};
use bias_bench::shared::Shared;
use bias_bench::task::{end, spawn};
use bias_bench::{Error, Result, cpus};
use changes::Changes;
use clap::Args;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use outcome::{StormReport, WorkerReport};
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use slots::{Control, WorkerSlot};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use workers::Role;

/// Pause between two changes.
const PAUSE: Duration = Duration::from_micros(500);
/// Time between two reads of the workers' progress.
const WATCH: Duration = Duration::from_millis(250);
/// Nice value of the driver, where permitted.
const DRIVER_NICE: i32 = -15;
/// Longest time for all workers to end on request.
const END_TIMEOUT: Duration = Duration::from_secs(20);

/// Length and settings of a storm.
#[derive(Debug, Clone, Args)]
pub struct StormOptions {
    /// Command that loads a scheduler for the storm, as for `survive`. Without it the storm runs
    /// under the active scheduler
    #[arg(long, value_name = "COMMAND")]
    scheduler_cmd: Option<String>,
    /// Seconds until the kernel must report that scheduler enabled
    #[arg(long, value_parser = seconds, default_value = "60", value_name = "SECONDS")]
    load_timeout: Duration,
    /// Seconds of churn
    #[arg(long = "seconds", value_name = "SECONDS", value_parser = seconds, default_value = "10")]
    time: Duration,
    /// Seed of the order of changes, to repeat a run; 0 takes one from the clock
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Seconds without progress after which a task counts as lost. A lower limit finds shorter
    /// stalls, but on a slow or overloaded machine it also reports harmless waits
    #[arg(long, value_parser = seconds, default_value = "10", value_name = "SECONDS")]
    stall_limit: Duration,
    /// Do not run stress-ng at the same time (it runs where it is installed)
    #[arg(long)]
    no_stress_ng: bool,
}

/// The workers and the figures about them. Dropping it kills and reaps those that still run.
struct Storm {
    control: Shared<Control>,
    slots: Shared<WorkerSlot>,
    workers: Vec<Worker>,
    pids: Vec<Pid>,
    changes: Changes,
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

/// Run a storm, under the scheduler of the options if there is one. It passed if the report's
/// `failures` are empty.
pub fn run(options: &StormOptions) -> Result<StormReport> {
    let Some(scheduler_cmd) = options.scheduler_cmd.clone() else { return rage(options) };
    let scheduler = SchedulerOptions { scheduler_cmd, load_timeout: options.load_timeout };
    sched::under(SchedExt::system(), &scheduler, false, |_| rage(options))
}

fn rage(options: &StormOptions) -> Result<StormReport> {
    let seed = if options.seed == 0 { clock_seed() } else { options.seed };
    let mut storm = Storm::start(seed)?;
    let stress = if options.no_stress_ng { None } else { stress_ng::start(options.time)? };
    if !options.no_stress_ng && stress.is_none() {
        storm.skipped.push("stress-ng: not installed".into());
    }
    // With nice 0 the driver would rarely run beside the busy workers.
    let me = nix::unistd::getpid();
    attributes::set_nice(me, DRIVER_NICE);
    let start = Instant::now();
    let mut watched = start;
    while start.elapsed() < options.time && storm.failures.is_empty() {
        let (name, done) = storm.changes.make(&storm.pids);
        storm.count(name, u64::from(done));
        std::thread::sleep(PAUSE);
        if watched.elapsed() > WATCH {
            storm.watch(options.stall_limit);
            watched = Instant::now();
        }
    }
    attributes::set_nice(me, 0);
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
            pids: Vec::new(),
            changes: Changes { random: ChaCha8Rng::seed_from_u64(seed), online, cgroups: None },
            counts: BTreeMap::new(),
            skipped: Vec::new(),
            failures: Vec::new(),
        };
        match Pair::create() {
            Ok(pair) => storm.changes.cgroups = Some(pair),
            Err(why) => storm.skipped.push(format!("cgroup moves: {why}")),
        }
        for (i, &role) in roles.iter().enumerate() {
            let (control, slots) = (&storm.control.all()[0], storm.slots.all());
            let pid = spawn(|| workers::live(role, i, seed, control, slots))?;
            storm.pids.push(pid);
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
            self.changes.undo(worker.pid);
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
                    end(&[worker.pid]);
                }
            }
            worker.ended = true;
            if slot.progress.load(Relaxed) == 0 {
                self.failures.push(format!("{} {} never made progress", worker.role.name(), worker.pid));
            }
        }
    }

    fn report(mut self, seed: u64, time: Duration) -> StormReport {
        let slots = self.slots.all();
        let sum = |of: fn(&WorkerSlot) -> &AtomicU64| slots.iter().map(|s| of(s).load(Relaxed)).sum::<u64>();
        let counts = [
            ("forks", sum(|s| &s.forks)),
            ("execs", sum(|s| &s.execs)),
            ("futex wake-ups", sum(|s| &s.wakes)),
            ("signals handled", sum(|s| &s.signals)),
            ("thread lives", sum(|s| &s.lives)),
            ("changes of threads", sum(|s| &s.races)),
        ];
        let errors = sum(|s| &s.errors);
        let worker = |(w, slot): (&Worker, &WorkerSlot)| WorkerReport {
            role: w.role.name(),
            pid: w.pid.as_raw(),
            progress: slot.progress.load(Relaxed),
            longest_gap_s: w.longest_gap.as_secs_f64(),
        };
        let workers = self.workers.iter().zip(slots).map(worker).collect();
        for (name, n) in counts {
            self.count(name, n);
        }
        if errors > 0 {
            self.failures
                .push(format!("{errors} grandchildren failed, or were reaped with a wrong exit code"));
        }
        StormReport {
            schema: "bias-torture.storm/1",
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
        let left = self.workers.iter().filter(|worker| !worker.ended);
        end(&left.map(|worker| worker.pid).collect::<Vec<_>>());
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

/// Return the state of a process and the kernel function that it waits in, for a failure message.
fn describe(pid: Pid) -> String {
    let read = |name| std::fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let status = read("status");
    let wanted =
        |line: &&str| ["State", "Cpus_allowed_list", "voluntary"].iter().any(|w| line.starts_with(w));
    let lines: Vec<&str> = status.lines().filter(wanted).collect();
    format!("{}, wchan {}", lines.join(", ").replace('\t', " "), read("wchan"))
}

#[cfg(test)]
mod tests;
