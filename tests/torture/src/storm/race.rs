// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Threads whose scheduling attributes other threads change while they run, wake, fork and exit.
//!
//! # Problem
//! A scheduler decides about a task on one CPU while another CPU changes the task's affinity, nice
//! value or policy. A decision that was right a moment ago may now name a CPU that the task must
//! not use, or a class that it has left. The kernel ends a scheduler that acts on such a decision.
//!
//! # Approach
//! A few places hold one short-lived thread each. A life is a random series of [`Act`]s: work,
//! sleeps, wakeups from one place to another, forks. When it ends, the next thread takes the place.
//! Meanwhile other threads pick random places and change the attributes of their threads, in
//! bursts. A thread keeps its place until it is joined, so that changes also meet its exit.
//!
//! # Invariants
//! The acts of every life and the order of every thread's changes follow from the seed. A life has
//! at most [`MAX_ACTS`] acts, each of a few milliseconds. At the end all attributes are reset, so
//! that no thread waits with the weight of SCHED_IDLE.
//!
//! # Limits
//! The seed does not repeat the timing. A change may come after its thread has ended; the kernel
//! then refuses it.

use super::slots::WorkerSlot;
use super::{children, futex};
use crate::attributes::{self, Policy};
use bias_bench::cpus;
use bias_bench::spec::WorkKind;
use bias_bench::work;
use nix::unistd::{Pid, gettid};
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering::Relaxed, Ordering::SeqCst};
use std::thread::{Builder, Scope, ScopedJoinHandle, sleep, yield_now};
use std::time::Duration;

/// Threads that live at the same time, and threads that change them.
const PLACES: usize = 6;
const CHANGERS: usize = 2;
/// Maximum number of acts in a life, and of changes in a burst.
const MAX_ACTS: usize = 12;
const MAX_BURST: u32 = 8;
/// Pause between two bursts, and between two checks of the places.
const PAUSE: Duration = Duration::from_micros(300);
/// Maximum time for which an act waits for a wakeup.
const MAX_WAIT: Duration = Duration::from_millis(2);

/// One act in the life of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    /// Work for this many steps.
    Work(u32),
    Sleep(Duration),
    /// Wait to be woken.
    Wait,
    /// Wake the thread in this place.
    Wake(usize),
    /// Fork a child that ends with this code.
    Fork(u8),
    Yield,
}

/// A change of one thread's attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Attribute {
    Affinity(Vec<usize>),
    Nice(i32),
    Policy(Policy),
}

/// A place for one thread at a time.
#[derive(Default)]
struct Place {
    /// Thread that has the place, 0 for none.
    tid: AtomicI32,
    /// Futex that the thread waits on.
    bell: AtomicU32,
}

/// Return the acts of the `nth` life in a place.
fn life(seed: u64, place: usize, nth: u64) -> Vec<Act> {
    let mut random = source(seed, place as u64, nth);
    let act = |random: &mut ChaCha8Rng| match random.random_range(0..8) {
        0 | 1 => Act::Work(random.random_range(1..=3)),
        2 => Act::Sleep(Duration::from_micros(random.random_range(0..=500))),
        3 => Act::Wait,
        4 | 5 => Act::Wake(random.random_range(0..PLACES)),
        6 => Act::Fork(random.random_range(1..=100)),
        _ => Act::Yield,
    };
    (0..random.random_range(1..=MAX_ACTS)).map(|_| act(&mut random)).collect()
}

/// Return a random place and a change for its thread.
fn change(random: &mut ChaCha8Rng, online: &[usize]) -> (usize, Attribute) {
    let place = random.random_range(0..PLACES);
    let attribute = match random.random_range(0..8) {
        0..=3 => Attribute::Affinity(attributes::some_cpus(random, online)),
        4 => Attribute::Nice(random.random_range(-10..=19)),
        _ => Attribute::Policy(match random.random_range(0..8) {
            0 => Policy::Fifo,
            1 | 2 => Policy::Idle,
            3 | 4 => Policy::Batch,
            _ => Policy::Other,
        }),
    };
    (place, attribute)
}

/// Return a source of random numbers, seeded with these three numbers only.
fn source(seed: u64, a: u64, b: u64) -> ChaCha8Rng {
    let mut key = [0; 32];
    for (bytes, number) in key.chunks_exact_mut(8).zip([seed, a, b]) {
        bytes.copy_from_slice(&number.to_le_bytes());
    }
    ChaCha8Rng::from_seed(key)
}

/// Race until `is_over`. Return the exit code of the process: 0 unless no thread can be started.
pub(super) fn run(seed: u64, slot: &WorkerSlot, is_over: &(dyn Fn() -> bool + Sync)) -> u8 {
    let Ok(online) = cpus::online() else { return 1 };
    let places: [Place; PLACES] = Default::default();
    let (places, online) = (places.as_slice(), online.0.as_slice());
    std::thread::scope(|scope| {
        let changers: std::io::Result<Vec<_>> = (0..CHANGERS as u64)
            .map(|at| {
                let random = source(seed, u64::MAX, at);
                Builder::new()
                    .spawn_scoped(scope, move || keep_changing(random, online, places, slot, is_over))
            })
            .collect();
        let mut living: Vec<_> = places.iter().map(|_| None).collect();
        let mut nth = 0;
        let mut is_well = changers.is_ok();
        while is_well && !is_over() {
            for (at, living) in living.iter_mut().enumerate() {
                if living.as_ref().is_none_or(ScopedJoinHandle::is_finished) {
                    is_well &= end(living.take(), &places[at], slot);
                    *living = begin(scope, seed, at, nth, places, slot).inspect_err(|_| is_well = false).ok();
                }
            }
            nth += 1;
            sleep(PAUSE);
        }
        for changer in changers.into_iter().flatten() {
            is_well &= changer.join().is_ok();
        }
        for (living, place) in living.into_iter().zip(places) {
            attributes::reset(Pid::from_raw(place.tid.load(SeqCst)), online);
            is_well &= end(living, place, slot);
        }
        u8::from(!is_well)
    })
}

/// Start a life in a place.
fn begin<'scope>(
    scope: &'scope Scope<'scope, '_>,
    seed: u64,
    at: usize,
    nth: u64,
    places: &'scope [Place],
    slot: &'scope WorkerSlot,
) -> std::io::Result<ScopedJoinHandle<'scope, ()>> {
    Builder::new().spawn_scoped(scope, move || {
        places[at].tid.store(gettid().as_raw(), SeqCst);
        slot.lives.fetch_add(1, Relaxed);
        for act in life(seed, at, nth) {
            perform(act, &places[at], places, slot);
        }
    })
}

/// Wait for the end of a life, and free its place. Return true unless the thread panicked.
fn end(living: Option<ScopedJoinHandle<'_, ()>>, place: &Place, slot: &WorkerSlot) -> bool {
    let is_well = living.is_none_or(|living| {
        slot.progress.fetch_add(1, Relaxed);
        living.join().is_ok()
    });
    place.tid.store(0, SeqCst);
    is_well
}

fn perform(act: Act, own: &Place, places: &[Place], slot: &WorkerSlot) {
    match act {
        Act::Work(steps) => {
            let mut work = work::build(&WorkKind::Compute);
            for _ in 0..steps {
                work.step();
            }
        }
        Act::Sleep(time) => sleep(time),
        Act::Wait => futex::wait(&own.bell, own.bell.load(SeqCst), MAX_WAIT),
        Act::Wake(place) => {
            places[place].bell.fetch_add(1, SeqCst);
            futex::wake(&places[place].bell);
            slot.wakes.fetch_add(1, Relaxed);
        }
        Act::Fork(code) => {
            slot.forks.fetch_add(1, Relaxed);
            slot.errors.fetch_add(u64::from(!children::ends_with(code)), Relaxed);
        }
        Act::Yield => yield_now(),
    }
}

/// Change the threads in the places until `is_over`.
fn keep_changing(
    mut random: ChaCha8Rng,
    online: &[usize],
    places: &[Place],
    slot: &WorkerSlot,
    is_over: &(dyn Fn() -> bool + Sync),
) {
    while !is_over() {
        for _ in 0..random.random_range(1..=MAX_BURST) {
            let (place, attribute) = change(&mut random, online);
            let tid = places[place].tid.load(SeqCst);
            let done = tid != 0 && attribute.set(Pid::from_raw(tid));
            slot.races.fetch_add(u64::from(done), Relaxed);
        }
        sleep(PAUSE);
    }
}

impl Attribute {
    /// Set the attribute of a thread. Return false if the kernel refuses.
    fn set(&self, tid: Pid) -> bool {
        match self {
            Attribute::Affinity(cpus) => cpus::set_affinity(tid, cpus).is_ok(),
            Attribute::Nice(nice) => attributes::set_nice(tid, *nice),
            Attribute::Policy(policy) => attributes::set_policy(tid, *policy),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_lives_and_changes() {
        let lives = |seed| (0..50).flat_map(|nth| life(seed, 3, nth)).collect::<Vec<_>>();
        assert_eq!(lives(7), lives(7));
        assert_ne!(lives(7), lives(8));
        assert_ne!(life(7, 0, 1), life(7, 1, 0));
        let changes = |seed| {
            let mut random = source(seed, u64::MAX, 0);
            (0..50).map(|_| change(&mut random, &[0, 1, 5])).collect::<Vec<_>>()
        };
        assert_eq!(changes(7), changes(7));
        assert_ne!(changes(7), changes(8));
    }

    #[test]
    fn lives_are_bounded_and_have_acts_of_every_kind() {
        let mut kinds = std::collections::HashSet::new();
        for nth in 0..200 {
            let life = life(1, 0, nth);
            assert!((1..=MAX_ACTS).contains(&life.len()));
            kinds.extend(life.iter().map(std::mem::discriminant));
        }
        assert_eq!(kinds.len(), 6);
    }

    #[test]
    fn changes_name_online_cpus_and_all_policies() {
        let (mut random, mut policies) = (source(1, 2, 3), Vec::new());
        for _ in 0..2000 {
            match change(&mut random, &[2, 5]) {
                (_, Attribute::Affinity(cpus)) => {
                    assert!(!cpus.is_empty() && cpus.iter().all(|cpu| [2, 5].contains(cpu)));
                }
                (_, Attribute::Nice(nice)) => assert!((-10..=19).contains(&nice)),
                (_, Attribute::Policy(policy)) if !policies.contains(&policy) => policies.push(policy),
                _ => {}
            }
        }
        assert_eq!(policies.len(), 4);
    }

    #[test]
    fn a_race_changes_threads_and_joins_them_all() {
        let slot = WorkerSlot::default();
        let is_over = || slot.progress.load(Relaxed) >= 60 && slot.races.load(Relaxed) > 0;
        assert_eq!(run(5, &slot, &is_over), 0);
        assert_eq!(slot.lives.load(Relaxed), slot.progress.load(Relaxed), "every thread was joined");
        assert!(slot.forks.load(Relaxed) > 0 && slot.wakes.load(Relaxed) > 0);
        assert_eq!(slot.errors.load(Relaxed), 0);
    }
}
