// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Spot checks: a moment of the calibration's execute loop on an idle CPU.
//!
//! # Problem
//! Where nothing is counted, a CPU's speed shows only in the time that known work takes there. But
//! such work takes the CPU from other tasks, and an idle CPU has a low clock.
//!
//! # Approach
//! Each check has a thread of its own, with SCHED_IDLE and pinned to the CPU, so that every task
//! that wakes there goes first. It runs chunks of some 100 us, or longer where reading the clock is
//! slow. The time of a reading is subtracted.
//!
//! The check stops as soon as the median of the last [`ENOUGH`] chunks agrees with the expected
//! time. Otherwise it continues until the CPU has had [`PATIENCE`] to raise its clock, and twice as
//! long each time while the clock still rises. A governor that follows the kernel's load tracking
//! (schedutil, half-life 32 ms) takes a tenth of a second to reach full speed. Then the later half
//! counts.
//!
//! Time is the thread's own CPU time, so that preemptions cost nothing. It includes interrupts,
//! which lengthen few chunks: the median of the chunks counts, as in the calibration. But a
//! hypervisor may run a CPU in bursts, which only a sum shows. If the mean is longer by more than a
//! tenth, it counts instead.
//!
//! On virtual CPUs of a busy host no check agrees with the one before. Checks therefore have a
//! [`Budget`].
//!
//! # Invariants
//! After the first seconds, checks take a twentieth of a CPU at most. A CPU of which nothing is
//! known is measured in any case.
//!
//! A check that other tasks or the CPU's going offline disturbed gives no result. A CPU has at most
//! one check at a time. A check that waits for long leaves its CPU: a real-time task may hold that
//! CPU, and the kernel would end the scheduler because the check does not run.

use crate::affinity;
use crate::budget::Budget;
use crate::loops::kernels::execute;
use crate::loops::thread;
use bias_policy::samples::median;
use crossbeam::channel::{Receiver, Sender, unbounded};
use nix::libc;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::gettid;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Chunks that suffice if the CPU has the expected speed.
const ENOUGH: usize = 3;
/// Largest relative deviation that agrees.
const AGREES: f64 = 0.03;
/// Time for a CPU that seems slow to raise its clock: at first, and at most.
const PATIENCE: Duration = Duration::from_millis(40);
const LONGEST: Duration = Duration::from_millis(320);
/// The clock still rises if the time per step of the later half is below this share of the earlier
/// half's.
const SPEEDS_UP: f64 = 0.97;
/// Most by which interrupts lengthen the mean of chunks over their median.
const INTERRUPTS: f64 = 1.1;
/// Most by which chunks get more or fewer steps on a CPU that is not as fast as expected. A clock
/// that stands still must not make them endless.
const MOST_CHANGED: u64 = 8;
/// Most chunks, many times the usual number: a clock that stands still must end the check, too.
const MAX_CHUNKS: usize = 20_000;
/// A check is disturbed if it waited this long.
const DISTURBED: Duration = Duration::from_millis(80);
/// A check that takes longer than this may leave its CPU. It is disturbed then in any case, and the
/// time is well below the scheduler's timeout of 30 s.
const STARVED: Duration = Duration::from_secs(1);
/// Length of a chunk: this many readings of the clock, within these bounds.
const CLOCK_READINGS: u32 = 200;
const CHUNK: (Duration, Duration) = (Duration::from_micros(100), Duration::from_millis(1));
/// Readings of the clock to know how long one takes. A hypervisor's clock may stand still for
/// hundreds of microseconds and then jump, so they take as long where reading is slow.
const READINGS: u32 = 30;
/// Steps of the first chunk where no time is expected.
const FIRST_STEPS: u64 = 1000;

/// A maker of spot checks.
pub trait Spots {
    /// Begin a check of `cpu`, where a step should take `expected_ns`. Return false if one is under
    /// way or none may begin.
    fn ask(&mut self, cpu: u32, expected_ns: Option<f64>) -> bool;

    /// Begin a check of `cpu`, of which nothing is known, ahead of other tasks there. Return false
    /// as [`Self::ask`] does.
    fn measure(&mut self, cpu: u32) -> bool;

    /// Return the results of the checks that ended: CPU and time of a step [ns].
    fn collect(&mut self) -> Vec<(u32, f64)>;
}

/// CPU of a check, time of a step [ns] if it gave a result, and the CPU time that it took.
type Ended = (u32, Option<f64>, Duration);

/// Spot checks on threads.
pub struct Threads {
    sender: Sender<Ended>,
    results: Receiver<Ended>,
    under_way: Vec<UnderWay>,
    budget: Budget,
}

/// A check that has not ended.
struct UnderWay {
    cpu: u32,
    since: Instant,
    /// Its thread; 0 before the check begins and after it has ended.
    tid: Arc<AtomicI32>,
}

/// Return the budget of checks: a twentieth of a CPU, after a burst that is enough for a change of
/// each CPU's speed.
fn budget(now: Instant) -> Budget {
    Budget::new(20, Duration::from_secs(3), now)
}

/// Name of the threads that run a check. They limit themselves to its CPU.
pub const SPOT_THREAD: &str = "scx_bias-spot";

impl Default for Threads {
    fn default() -> Self {
        let (sender, results) = unbounded();
        Self { sender, results, under_way: Vec::new(), budget: budget(Instant::now()) }
    }
}

impl Threads {
    fn begin(&mut self, cpu: u32, check: impl FnOnce() -> Option<f64> + Send + 'static) -> bool {
        if self.under_way.iter().any(|other| other.cpu == cpu) {
            return false;
        }
        let sender = self.sender.clone();
        let check_of = UnderWay { cpu, since: Instant::now(), tid: Arc::default() };
        let tid = Arc::clone(&check_of.tid);
        let thread = std::thread::Builder::new().name(SPOT_THREAD.to_owned());
        let begun = thread.spawn(move || {
            tid.store(gettid().as_raw(), Relaxed);
            let result = check();
            tid.store(0, Relaxed);
            // Sending fails if the receiver is gone; then no result is needed.
            let _ = sender.send((cpu, result, own_time().unwrap_or_default()));
        });
        if begun.is_ok() {
            self.under_way.push(check_of);
        }
        begun.is_ok()
    }

    /// Let the checks that began more than `limit` ago use every CPU.
    fn release(&self, limit: Duration) {
        for check in self.under_way.iter().filter(|check| check.since.elapsed() > limit) {
            let tid = check.tid.load(Relaxed);
            if let (1.., Ok(all)) = (tid, affinity::allowed()) {
                // This fails if the thread has just ended.
                let _ = affinity::restrict_thread(tid, &all);
            }
        }
    }
}

impl Spots for Threads {
    fn ask(&mut self, cpu: u32, expected_ns: Option<f64>) -> bool {
        if self.budget.pause(Instant::now()).is_some() {
            return false;
        }
        self.begin(cpu, move || {
            // Behind all other tasks of the CPU. A thread may always lower itself.
            thread::set_policy(libc::SCHED_IDLE, 0);
            check(cpu, expected_ns)
        })
    }

    fn measure(&mut self, cpu: u32) -> bool {
        self.begin(cpu, move || {
            thread::realtime();
            check(cpu, None)
        })
    }

    fn collect(&mut self) -> Vec<(u32, f64)> {
        let mut results = Vec::new();
        for (cpu, result, spent) in self.results.try_iter() {
            self.budget.charge(spent);
            self.under_way.retain(|other| other.cpu != cpu);
            results.extend(result.map(|step_ns| (cpu, step_ns)));
        }
        self.release(STARVED);
        results
    }
}

/// Return the time of a step of the execute loop on `cpu` [ns], measured on the calling thread;
/// None if the check was disturbed.
fn check(cpu: u32, expected_ns: Option<f64>) -> Option<f64> {
    thread::pin(cpu).ok()?;
    let (start, run) = (Instant::now(), own_time()?);
    let reading = reading_time(own_time)?;
    let chunk = if reading.is_zero() { CHUNK.1 } else { reading * CLOCK_READINGS };
    let chunk = chunk.clamp(CHUNK.0, CHUNK.1);
    let step_ns = measure(chunk, expected_ns, |steps| {
        let start = own_time()?;
        execute(steps);
        Some(own_time()?.saturating_sub(start + reading))
    });
    // The kernel migrates the threads of a CPU that goes offline.
    let stayed = nix::sched::sched_getcpu().is_ok_and(|at| u32::try_from(at) == Ok(cpu));
    let waited = start.elapsed().saturating_sub(own_time()?.saturating_sub(run));
    (stayed && waited < DISTURBED).then_some(step_ns?)
}

/// Return the CPU time of this thread.
fn own_time() -> Option<Duration> {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).ok().map(Duration::from)
}

/// Run the chunks of a check. `time` runs the given number of steps and returns their duration.
fn measure(
    chunk: Duration,
    expected_ns: Option<f64>,
    mut time: impl FnMut(u64) -> Option<Duration>,
) -> Option<f64> {
    let step_ns = |steps: u64, took: Duration| took.as_nanos() as f64 / steps as f64;
    let chunk_ns = chunk.as_nanos() as f64;
    let fitting = |step_ns: f64| ((chunk_ns / step_ns.max(1e-3)) as u64).clamp(1, 1 << 40);
    let mut steps = expected_ns.map_or(FIRST_STEPS, fitting);
    // The first chunk is cold. It sets the pace. In shorter chunks, reading the clock would count
    // too much, and in longer ones each would contain a tick.
    let mut spent = time(steps)?;
    let fits = fitting(step_ns(steps, spent));
    if expected_ns.is_some() {
        steps = fits.clamp((steps / MOST_CHANGED).max(1), steps * MOST_CHANGED);
    } else {
        steps = fits;
    }
    let mut samples = Vec::new();
    let mut patience = PATIENCE;
    loop {
        let took = time(steps)?;
        spent += took;
        samples.push(step_ns(steps, took));
        let last = median(samples.get(samples.len().saturating_sub(ENOUGH)..)?)?;
        if samples.len() < ENOUGH {
            continue;
        }
        if expected_ns.is_some_and(|expected| (last / expected - 1.0).abs() <= AGREES) {
            return Some(last);
        }
        if samples.len() >= MAX_CHUNKS {
            return None;
        }
        if spent >= patience {
            let (earlier, later) = samples.split_at(samples.len() / 2);
            let (earlier, later) = (average(earlier)?, average(later)?);
            if later >= earlier * SPEEDS_UP || patience >= LONGEST {
                return Some(later);
            }
            patience *= 2;
        }
    }
}

/// Return the median of chunks, or their mean if that is longer by more than [`INTERRUPTS`].
fn average(samples: &[f64]) -> Option<f64> {
    let (median, mean) = (median(samples)?, samples.iter().sum::<f64>() / samples.len() as f64);
    Some(if mean > median * INTERRUPTS { mean } else { median })
}

/// Return the time that reading the clock takes.
fn reading_time(mut clock: impl FnMut() -> Option<Duration>) -> Option<Duration> {
    let start = clock()?;
    let end = (0..READINGS).try_fold(start, |_, _| clock())?;
    Some(end.saturating_sub(start) / READINGS)
}

#[cfg(test)]
#[path = "spot_tests.rs"]
mod tests;
