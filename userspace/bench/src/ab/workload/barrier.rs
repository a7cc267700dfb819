// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Parallel loops that end in a barrier: `barrier:4`, `barrier:4:static`, `barrier:4:dynamic`.
//! Based on the idea of EPCC's syncbench and schedbench for OpenMP.
//!
//! # Problem
//! If a scheduler spreads a team over CPUs of unequal speed, all threads wait for the slowest at
//! each barrier.
//!
//! # Approach
//! | schedule | work | model |
//! |---|---|---|
//! | none | short pieces of work with a barrier after each | syncbench |
//! | `static` | a loop, iterations assigned round-robin (chunk 1) | schedbench |
//! | `dynamic` | a loop, each free thread takes the next iteration (chunk 1) | schedbench |
//!
//! # Limits
//! The workload uses threads, not an OpenMP runtime. The protocol is EPCC's, but the figures are
//! not comparable with it.

use super::team::{self, TeamBarrier, TeamWork};
use super::{Description, Env, Measured, Workload, count, measured, series};
use crate::Result;
use crate::spec::WorkKind;
use crate::work::{self, Step};
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Entry of this workload in [`super::list`].
pub const DESCRIPTION: Description = Description {
    name: "barrier",
    syntax: "barrier:THREADS, barrier:THREADS:static or barrier:THREADS:dynamic (1 to 256 threads)",
    measures: "threads that do short pieces of work with a barrier after each, or loops dealt out in turn or taken one \
               by one: time of a repetition, and how much it varies",
    metrics: &["time_ms", "cv_permille", "min_max_permille"],
    with_pmu: &[],
};

/// Barriers in a repetition without a schedule, on hardware: about a millisecond, as in EPCC. A
/// machine that is n times slower gets an n-th of them.
const BARRIERS: f64 = 4000.0;
/// Minimum number of barriers. A repetition must be long compared with its start.
const MIN_BARRIERS: usize = 40;
/// Iterations of a loop per thread. An iteration is one step, about 20 000 cycles. EPCC's
/// iterations take 15 microseconds.
const ITERATIONS_PER_THREAD: usize = 64;

/// Distribution of a loop's iterations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Schedule {
    /// No loop, barriers only.
    None,
    /// Round-robin.
    Static,
    /// To the next free thread.
    Dynamic,
}

/// The workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Barrier {
    threads: usize,
    schedule: Schedule,
}

impl Barrier {
    /// Parse the text after the name.
    pub(super) fn parse(rest: &str) -> Option<Self> {
        let rest = rest.strip_prefix(':')?;
        let (threads, schedule) = match rest.split_once(':') {
            None => (rest, Schedule::None),
            Some((threads, "static")) => (threads, Schedule::Static),
            Some((threads, "dynamic")) => (threads, Schedule::Dynamic),
            Some(_) => return None,
        };
        Some(Barrier { threads: count(threads, 1..=256)?, schedule })
    }
}

impl Workload for Barrier {
    fn name(&self) -> String {
        let schedule = match self.schedule {
            Schedule::None => "",
            Schedule::Static => ":static",
            Schedule::Dynamic => ":dynamic",
        };
        format!("barrier:{}{schedule}", self.threads)
    }

    fn run(&self, env: &Env) -> Result<Measured> {
        let region = Loop {
            schedule: self.schedule,
            threads: self.threads,
            barriers: ((BARRIERS / env.stretch) as usize).clamp(MIN_BARRIERS, BARRIERS as usize),
            next: AtomicUsize::new(0),
        };
        let (times, dropped) = team::run(&region, self.threads, env.warmup, env.window)?;
        let mut detail = series::detail(&times, dropped);
        detail["barriers"] = json!(if self.schedule == Schedule::None { region.barriers } else { 1 });
        measured(series::spread(&times)?, detail)
    }
}

/// The loop that all threads work on.
struct Loop {
    schedule: Schedule,
    threads: usize,
    barriers: usize,
    /// The next iteration that no thread has taken.
    next: AtomicUsize,
}

/// State of one thread.
struct Waiter {
    number: usize,
    work: Box<dyn Step>,
}

impl Loop {
    /// Call `iterate` with each iteration of the thread with index `number`.
    fn share(&self, number: usize, mut iterate: impl FnMut(usize)) {
        let all = self.threads * ITERATIONS_PER_THREAD;
        match self.schedule {
            Schedule::None => {}
            Schedule::Static => (number..all).step_by(self.threads).for_each(iterate),
            Schedule::Dynamic => loop {
                match self.next.fetch_add(1, Relaxed) {
                    iteration if iteration < all => iterate(iteration),
                    _ => return,
                }
            },
        }
    }
}

impl TeamWork for Loop {
    type Member = Waiter;

    fn join(&self, number: usize) -> Waiter {
        Waiter { number, work: work::build(&WorkKind::Compute) }
    }

    fn repeat(&self, member: &mut Waiter, barrier: &TeamBarrier) {
        let Waiter { number, work } = member;
        if self.schedule == Schedule::None {
            for _ in 0..self.barriers {
                short_delay();
                barrier.wait();
            }
        }
        self.share(*number, |_| {
            work.step();
        });
    }

    fn between(&self) {
        self.next.store(0, Relaxed);
    }
}

/// Spend about 300 cycles: a tenth of a microsecond, EPCC's delay between two constructs.
fn short_delay() {
    let mut x = 1;
    for _ in 0..60 {
        x = work::opaque(x + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_iteration_goes_to_exactly_one_thread() {
        for schedule in [Schedule::Static, Schedule::Dynamic] {
            let region = Loop { schedule, threads: 3, barriers: 0, next: AtomicUsize::new(0) };
            let mut done = Vec::new();
            (0..3).for_each(|number| region.share(number, |iteration| done.push(iteration)));
            done.sort_unstable();
            assert_eq!(done, (0..3 * ITERATIONS_PER_THREAD).collect::<Vec<_>>());
        }
    }
}
