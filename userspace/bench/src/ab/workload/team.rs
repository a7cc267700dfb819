// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! A team of threads that repeats the same work, with a barrier after each repetition.
//!
//! # Problem
//! Parallel loops wait for their slowest thread. The interesting figures are the time of a
//! repetition and its variation. [Cui23] follows the protocol of EPCC's benchmarks: repetitions
//! within a run, their mean, coefficient of variation, and fastest over slowest.
//!
//! # Approach
//! The threads live in a forked child. The first thread leads: it decides on the number of
//! repetitions. It measures the time from the end of one repetition to the end of the next, so no
//! time between them is lost.
//!
//! # Invariants
//! All threads do the same number of repetitions. At least [`MIN_REPETITIONS`] are measured, for
//! any window.
//!
//! # Limits
//! A run can exceed its window by one repetition.

use super::child::{Child, Fault};
use super::series::SharedSeries;
use crate::Result;
use std::sync::atomic::{
    AtomicBool, AtomicU32, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{self, Builder};
use std::time::{Duration, Instant};

/// Minimum number of measured repetitions, even beyond the window. A spread needs a few.
pub const MIN_REPETITIONS: u64 = 3;
/// Maximum number of stored times of repetitions.
const CAPACITY: usize = 1 << 16;
/// Number of times that a waiting thread spins before it sleeps. This is about 140 000 cycles if a
/// pause takes 140, the time of a few context switches. OpenMP runtimes also spin before they
/// sleep.
const SPINS: u32 = 1000;

/// A barrier that spins for a short time, then sleeps.
pub struct TeamBarrier {
    size: u32,
    arrived: AtomicU32,
    generation: AtomicU32,
    lock: Mutex<()>,
    released: Condvar,
}

impl TeamBarrier {
    /// Make a barrier for `size` threads.
    pub fn new(size: usize) -> Self {
        TeamBarrier {
            size: u32::try_from(size).unwrap_or(u32::MAX),
            arrived: AtomicU32::new(0),
            generation: AtomicU32::new(0),
            lock: Mutex::new(()),
            released: Condvar::new(),
        }
    }

    /// Wait until all threads have arrived.
    pub fn wait(&self) {
        let generation = self.generation.load(Acquire);
        if self.arrived.fetch_add(1, AcqRel) + 1 == self.size {
            // Reset before the other threads are released, because the first of them may arrive
            // again immediately.
            self.arrived.store(0, Relaxed);
            // Hold the lock: a thread that has read the old generation and is about to sleep must
            // not miss the change.
            let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
            self.generation.store(generation.wrapping_add(1), Release);
            drop(guard);
            self.released.notify_all();
            return;
        }
        for _ in 0..SPINS {
            if self.generation.load(Acquire) != generation {
                return;
            }
            std::hint::spin_loop();
        }
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        while self.generation.load(Acquire) == generation {
            guard = self.released.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Work of the threads.
pub(super) trait TeamWork: Sync {
    /// State that a thread keeps between repetitions.
    type Member;

    /// Build the state of the thread with index `number`, in that thread.
    fn join(&self, number: usize) -> Self::Member;

    /// Do one thread's share of a repetition, which may wait at the barrier. The caller waits at
    /// the barrier again after all threads have finished.
    fn repeat(&self, member: &mut Self::Member, barrier: &TeamBarrier);

    /// Prepare the next repetition. The leading thread calls this while the others wait.
    fn between(&self) {}
}

/// Run a team of `threads` in a child. Return the times of its repetitions in the window [ns], and
/// the number of further times that were not stored.
pub fn run(
    work: &impl TeamWork,
    threads: usize,
    warmup: Duration,
    window: Duration,
) -> Result<(Vec<u64>, u64)> {
    let times = SharedSeries::new(CAPACITY)?;
    Child::start(|| team(work, threads, warmup, window, &times))?.wait(warmup + window)?;
    Ok((times.values(), times.dropped()))
}

/// State that the threads of a team share.
struct Team<'a, W> {
    work: &'a W,
    barrier: TeamBarrier,
    stop: AtomicBool,
}

/// Run the child, whose main thread leads the team.
fn team<W: TeamWork>(
    work: &W,
    threads: usize,
    warmup: Duration,
    window: Duration,
    times: &SharedSeries,
) -> std::result::Result<(), Fault> {
    let team = Team { work, barrier: TeamBarrier::new(threads), stop: AtomicBool::new(false) };
    // Threads pass this gate only if all of them could be started. Otherwise the barrier would wait
    // for the missing ones.
    let (gate, complete) = (Mutex::new(()), AtomicBool::new(false));
    let pass = &|number| {
        drop(gate.lock().unwrap_or_else(PoisonError::into_inner));
        if complete.load(Relaxed) {
            follow(&team, number);
        }
    };
    thread::scope(|scope| {
        let closed = gate.lock().unwrap_or_else(PoisonError::into_inner);
        for number in 1..threads {
            Builder::new().spawn_scoped(scope, move || pass(number)).map_err(|_| Fault::Start)?;
        }
        complete.store(true, Relaxed);
        drop(closed);
        lead(&team, warmup, window, times);
        Ok(())
    })
}

/// Run the leading thread: repeat until the window is over.
fn lead<W: TeamWork>(team: &Team<W>, warmup: Duration, window: Duration, times: &SharedSeries) {
    let mut member = team.work.join(0);
    let mut repeat = || {
        team.barrier.wait();
        team.work.repeat(&mut member, &team.barrier);
        team.barrier.wait();
        team.work.between();
        Instant::now()
    };
    let start = Instant::now();
    let mut last = repeat();
    while last - start < warmup {
        last = repeat();
    }
    let start = last;
    while last - start < window || times.seen() < MIN_REPETITIONS {
        let end = repeat();
        times.push((end - last).as_nanos() as u64);
        last = end;
    }
    team.stop.store(true, Relaxed);
    team.barrier.wait();
}

/// Run any other thread.
fn follow<W: TeamWork>(team: &Team<W>, number: usize) {
    let mut member = team.work.join(number);
    loop {
        team.barrier.wait();
        if team.stop.load(Relaxed) {
            return;
        }
        team.work.repeat(&mut member, &team.barrier);
        team.barrier.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn no_thread_passes_the_barrier_before_the_last_arrives() {
        const THREADS: u64 = 3;
        const ROUNDS: u64 = 200;
        let (barrier, arrivals) = (TeamBarrier::new(THREADS as usize), AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for round in 1..=ROUNDS {
                        arrivals.fetch_add(1, Relaxed);
                        barrier.wait();
                        assert!(arrivals.load(Relaxed) >= round * THREADS);
                    }
                });
            }
        });
        assert_eq!(arrivals.load(Relaxed), THREADS * ROUNDS);
    }

    struct Count(crate::shared::Shared<AtomicU64>);

    impl TeamWork for Count {
        type Member = usize;

        fn join(&self, number: usize) -> usize {
            number
        }

        fn repeat(&self, member: &mut usize, _: &TeamBarrier) {
            self.0.all()[*member].fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn all_threads_do_the_same_number_of_repetitions() {
        let count = Count(crate::shared::Shared::new(3).unwrap());
        let (times, dropped) = run(&count, 3, Duration::ZERO, Duration::ZERO).unwrap();
        assert_eq!((times.len() as u64, dropped), (MIN_REPETITIONS, 0));
        // The warm-up adds one.
        assert!(count.0.all().iter().all(|n| n.load(Relaxed) == MIN_REPETITIONS + 1));
    }
}
