// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Requests and responses: `wakeup`, `wakeup:WORKERS`. Based on the idea of schbench.
//!
//! # Problem
//! Servers sleep until a request arrives. The time until a worker then runs depends on the
//! scheduler alone.
//!
//! # Approach
//! A message thread sleeps for a period, then wakes every waiting worker. Each worker measures the
//! time from the wakeup to its first instruction, does one step of work, and waits again.
//!
//! Where the amp PMU exists, the instructions of the whole machine per wakeup are also counted.
//! Those of the idle machine and of the work itself are subtracted. The detail has the cache lines
//! per wakeup that came from another CPU, on machines that track them (`transfer_ns=`).
//!
//! # Invariants
//! A latency begins just before the wakeup is sent, and one clock measures it. Workers and message
//! thread are threads of one child process.
//!
//! # Limits
//! A worker that is still busy at its next request is skipped. The detail shows how often (`busy`).

use super::child::{Child, Fault};
use super::pingpong::InstructionMeter;
use super::series::{self, SharedSeries};
use super::{Description, Env, Measured, Workload, measured, optional_count};
use crate::counters::MachineEvent;
use crate::measure::{self, Until};
use crate::shared::Shared;
use crate::spec::WorkKind;
use crate::{Result, cpus, work};
use serde_json::json;
use std::sync::atomic::{
    AtomicBool, AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use std::thread::{self, Builder};
use std::time::{Duration, Instant};

/// Entry of this workload in [`super::list`].
pub const DESCRIPTION: Description = Description {
    name: "wakeup",
    syntax: "wakeup or wakeup:WORKERS (1 to 256; one per CPU unless given)",
    measures: "a message thread wakes sleeping workers repeatedly: time from the wake-up to the worker's first \
               instruction, and the instructions that a wake-up costs",
    metrics: &["latency_p50_us", "latency_p99_us", "latency_p999_us"],
    with_pmu: &["instructions_per_wakeup"],
};

/// Time between two rounds of wakeups on hardware.
const PERIOD: Duration = Duration::from_micros(200);
/// Maximum number of stored samples per worker.
const CAPACITY: usize = 1 << 16;
/// Maximum extension of the window, on a machine too busy for a single request.
const PATIENCE: Duration = Duration::from_secs(20);
/// Number of steps over which the instructions of one step are averaged.
const WORK_SAMPLE: u64 = 50;

const WARM: u64 = 0;
const MEASURE: u64 = 1;
const STOP: u64 = 2;

/// Stamp that ends a worker. No clock reaches it.
const NO_MORE: u64 = u64::MAX;

/// The workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Wakeup {
    /// Number of workers, or None for one per CPU.
    workers: Option<usize>,
}

impl Wakeup {
    /// Parse the text after the name.
    pub(super) fn parse(rest: &str) -> Option<Self> {
        Some(Wakeup { workers: optional_count(rest, 1..=256)? })
    }
}

/// State that the child shares with the parent.
struct Board {
    /// Phase, wakeups sent, workers skipped.
    cells: Shared<AtomicU64>,
    /// One series per worker.
    latencies: Vec<SharedSeries>,
}

impl Board {
    fn phase(&self) -> &AtomicU64 {
        &self.cells.all()[0]
    }

    fn sent(&self) -> &AtomicU64 {
        &self.cells.all()[1]
    }

    /// Wait until there is at least one latency, usually without delay. Give up after [`PATIENCE`].
    fn await_sample(&self) {
        let deadline = Instant::now() + PATIENCE;
        while self.latencies.iter().all(|series| series.seen() == 0) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn busy(&self) -> &AtomicU64 {
        &self.cells.all()[2]
    }
}

impl Workload for Wakeup {
    fn name(&self) -> String {
        self.workers.map_or("wakeup".into(), |n| format!("wakeup:{n}"))
    }

    fn run(&self, env: &Env) -> Result<Measured> {
        let workers = self.workers.unwrap_or(cpus::online()?.0.len());
        let latencies = (0..workers).map(|_| SharedSeries::new(CAPACITY)).collect::<Result<Vec<_>>>()?;
        let board = Board { cells: Shared::new(3)?, latencies };
        let mut meter = InstructionMeter::open()?;
        let per_step = instructions_per_step()?;
        let mut transfers = MachineEvent::transfers(&cpus::online()?.0)?;
        let mut transferred = || transfers.as_mut().map(MachineEvent::read).transpose();
        let period = env.stretched(PERIOD);
        let child = Child::start(|| message(&board, period))?;
        thread::sleep(env.warmup);
        board.phase().store(MEASURE, Relaxed);
        meter.start()?;
        let transferred_before = transferred()?;
        let sent_before = board.sent().load(Relaxed);
        thread::sleep(env.window);
        board.await_sample();
        let instructions = meter.stop()?;
        let transferred = transferred()?.zip(transferred_before).map(|(after, before)| after - before);
        let sent = board.sent().load(Relaxed) - sent_before;
        board.phase().store(STOP, Relaxed);
        child.wait(period)?;
        let times: Vec<u64> = board.latencies.iter().flat_map(SharedSeries::values).collect();
        let dropped = board.latencies.iter().map(SharedSeries::dropped).sum();
        let (mut metrics, mut detail) = series::latency(&times, dropped)?;
        if let (Some(all), Some(per_step)) = (instructions, per_step) {
            // The minimum is one, which has a logarithm. If the machine was busier before the
            // window than during it, the detail shows this.
            let per_wakeup = (all / sent.max(1) as f64 - per_step).max(1.0);
            metrics.insert("instructions_per_wakeup".into(), per_wakeup);
        }
        detail["transfers_per_wakeup"] = json!(transferred.map(|lines| lines as f64 / sent.max(1) as f64));
        detail["workers"] = json!(workers);
        detail["sent"] = json!(sent);
        detail["busy"] = json!(board.busy().load(Relaxed));
        detail["instructions"] = json!(instructions);
        detail["instructions_per_step"] = json!(per_step);
        measured(metrics, detail)
    }
}

/// Return the instructions of the work of one request. None without the PMU.
fn instructions_per_step() -> Result<Option<f64>> {
    if !crate::counters::available() {
        return Ok(None);
    }
    let sample = measure::run(&WorkKind::Compute, None, Until::Steps(WORK_SAMPLE))?;
    Ok(sample.counters.map(|counts| counts.instructions as f64 / WORK_SAMPLE as f64))
}

/// State through which the message thread reaches a worker.
#[derive(Default)]
struct Mailbox {
    /// True if the worker waits for a request.
    waiting: AtomicBool,
    /// Time at which the request was sent, nanoseconds since the start, from 1. 0 without a
    /// request.
    stamp: AtomicU64,
}

/// Run the child: the message thread, which starts and ends the workers.
fn message(board: &Board, period: Duration) -> std::result::Result<(), Fault> {
    let start = Instant::now();
    let mailboxes: Vec<Mailbox> = board.latencies.iter().map(|_| Mailbox::default()).collect();
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for (mailbox, latencies) in mailboxes.iter().zip(&board.latencies) {
            let worker =
                Builder::new().spawn_scoped(scope, move || serve(mailbox, latencies, board.phase(), start));
            match worker {
                Ok(handle) => threads.push(handle.thread().clone()),
                Err(_) => break,
            }
        }
        let complete = threads.len() == mailboxes.len();
        while complete && board.phase().load(Relaxed) != STOP {
            thread::sleep(period);
            for (mailbox, worker) in mailboxes.iter().zip(&threads) {
                if mailbox.waiting.swap(false, AcqRel) {
                    mailbox.stamp.store(since(start), Release);
                    worker.unpark();
                    board.sent().fetch_add(1, Relaxed);
                } else {
                    board.busy().fetch_add(1, Relaxed);
                }
            }
        }
        for (mailbox, worker) in mailboxes.iter().zip(&threads) {
            mailbox.stamp.store(NO_MORE, Release);
            worker.unpark();
        }
        if complete { Ok(()) } else { Err(Fault::Start) }
    })
}

/// Return the nanoseconds since the start, from 1.
fn since(start: Instant) -> u64 {
    start.elapsed().as_nanos() as u64 + 1
}

/// Run a worker.
fn serve(mailbox: &Mailbox, latencies: &SharedSeries, phase: &AtomicU64, start: Instant) {
    let mut work = work::build(&WorkKind::Compute);
    loop {
        mailbox.waiting.store(true, Release);
        let sent = loop {
            match mailbox.stamp.swap(0, AcqRel) {
                0 => thread::park(),
                stamp => break stamp,
            }
        };
        if sent == NO_MORE {
            return;
        }
        let latency = since(start).saturating_sub(sent);
        if phase.load(Acquire) != WARM {
            latencies.push(latency);
        }
        work.step();
    }
}
