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
//! that wakes there goes first. It measures until the clock has settled
//! ([`crate::calibrate::settle`]).
//!
//! On virtual CPUs of a busy host no check agrees with the previous one. Checks therefore have a
//! [`Budget`].
//!
//! # Invariants
//! After the first seconds, checks take a twentieth of a CPU at most. An unknown CPU is measured in
//! any case.
//!
//! A check that other tasks or hotplug disturbed gives no result. A CPU has at most one check at a
//! time. A check that waits for long leaves its CPU: a real-time task may hold that CPU, and the
//! kernel would end the scheduler because the check does not run.

use crate::affinity::{self, pin};
use crate::budget::Budget;
use crate::calibrate::settle::{self, own_time};
use crossbeam::channel::{Receiver, Sender, unbounded};
use nix::libc;
use nix::unistd::gettid;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A check is disturbed if it waited this long.
const DISTURBED: Duration = Duration::from_millis(80);
/// A check that takes longer than this may leave its CPU. It is disturbed then in any case, and the
/// time is well below the scheduler's timeout of 30 s.
const STARVED: Duration = Duration::from_secs(1);

/// A maker of spot checks.
pub trait Spots {
    /// Begin a check of `cpu`, where a step should take `expected_ns`. Return false if one is under
    /// way or none may begin.
    fn ask(&mut self, cpu: u32, expected_ns: Option<f64>) -> bool;

    /// Begin a check of an unknown `cpu`, ahead of other tasks there. Return false as [`Self::ask`]
    /// does.
    fn measure(&mut self, cpu: u32) -> bool;

    /// Return the checks that ended: CPU and time of a step [ns], None if the check was disturbed.
    fn collect(&mut self) -> Vec<(u32, Option<f64>)>;
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
            affinity::set_policy(libc::SCHED_IDLE, 0);
            check(cpu, expected_ns)
        })
    }

    fn measure(&mut self, cpu: u32) -> bool {
        self.begin(cpu, move || {
            affinity::realtime();
            check(cpu, None)
        })
    }

    fn collect(&mut self) -> Vec<(u32, Option<f64>)> {
        let mut results = Vec::new();
        for (cpu, result, spent) in self.results.try_iter() {
            self.budget.charge(spent);
            self.under_way.retain(|other| other.cpu != cpu);
            results.push((cpu, result));
        }
        self.release(STARVED);
        results
    }
}

/// Return the time of a step of the execute loop on `cpu` [ns], measured on the calling thread;
/// None if the check was disturbed.
fn check(cpu: u32, expected_ns: Option<f64>) -> Option<f64> {
    pin(cpu).ok()?;
    let (start, run) = (Instant::now(), own_time()?);
    let step_ns = settle::step_ns(expected_ns);
    // The kernel migrates the threads of a CPU that goes offline.
    let stayed = nix::sched::sched_getcpu().is_ok_and(|at| u32::try_from(at) == Ok(cpu));
    let waited = start.elapsed().saturating_sub(own_time()?.saturating_sub(run));
    (stayed && waited < DISTURBED).then_some(step_ns?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_thread_measures_a_cpu() {
        let cpu = crate::affinity::allowed().unwrap()[0];
        let mut threads = Threads::default();
        assert!(threads.ask(cpu, None));
        assert!(!threads.ask(cpu, None), "one at a time");
        let deadline = Instant::now() + Duration::from_secs(60);
        while !threads.under_way.is_empty() && Instant::now() < deadline {
            // A disturbed check on a busy machine gives no result, which is correct as well.
            assert!(threads.collect().iter().all(|(of, ns)| *of == cpu && ns.is_none_or(|ns| ns > 0.0)));
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(threads.under_way.is_empty());
        assert!(threads.measure(cpu));
        assert!(!threads.ask(cpu, Some(5.0)), "one at a time, of whatever kind");
    }

    #[test]
    fn a_check_that_waits_for_long_leaves_its_cpu() {
        let all = crate::affinity::allowed().unwrap();
        let mut threads = Threads::default();
        assert!(threads.begin(all[0], {
            let (all, deadline) = (all.clone(), Instant::now() + Duration::from_secs(60));
            move || {
                pin(all[0]).unwrap();
                while crate::affinity::allowed().unwrap() != all && Instant::now() < deadline {
                    std::thread::sleep(Duration::from_millis(1));
                }
                (crate::affinity::allowed().unwrap() == all).then_some(1.0)
            }
        }));
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut results = Vec::new();
        while results.is_empty() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
            threads.release(Duration::from_millis(5));
            results = threads.collect();
        }
        assert_eq!(results, [(all[0], Some(1.0))]);
    }

    #[test]
    fn a_missing_cpu_gives_no_result() {
        assert_eq!(std::thread::spawn(|| check(1023, None)).join().unwrap(), None);
    }

    proptest! {
        /// Checks that never agree, tried ten times a second, take a twentieth of a CPU.
        #[test]
        fn checks_that_never_agree_take_a_twentieth(seconds in 100u32..1000, check_ms in 1u64..640) {
            let start = Instant::now();
            let mut budget = budget(start);
            let mut spent = Duration::ZERO;
            for tenth in 0..seconds * 10 {
                if budget.pause(start + Duration::from_millis(100) * tenth).is_none() {
                    budget.charge(Duration::from_millis(check_ms));
                    spent += Duration::from_millis(check_ms);
                }
            }
            let most = Duration::from_secs(3) + Duration::from_secs(u64::from(seconds)) / 20;
            prop_assert!(spent <= most + Duration::from_millis(check_ms), "{spent:?}");
            // Shorter checks may all run, and take less.
            prop_assert!(check_ms < 20 || spent >= most / 2, "{spent:?}");
        }
    }
}
