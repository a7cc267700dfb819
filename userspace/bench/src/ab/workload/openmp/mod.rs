// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Teams of an OpenMP runtime: `omp:4:static`, `omp:4:dynamic:16`, `omp:4:reduction@pinned`.
//!
//! # Problem
//! \[Cui23] measured programs of an OpenMP runtime. `barrier` and `triad` have its protocol, but
//! their threads wait and start as this project wrote them.
//!
//! # Approach
//! [`libgomp`] runs one benchmark of [`benchmark`] in a process of its own, with a team of the
//! given size. `@pinned` gives each thread a CPU of its own, as `OMP_PLACES=threads` with
//! `OMP_PROC_BIND=close` does.
//!
//! # Limits
//! The sizes suit the asymmetric VM. `bias-replay omp` has options for them. libgomp's threads
//! spin long before they sleep, so a waiting thread looks like one that computes.

pub mod benchmark;
pub mod libgomp;

use super::{Description, Env, Measured, Workload, count, measured, series};
use crate::Result;
use crate::spec::DEFAULT_CHASE_BYTES;
use benchmark::{Benchmark, Family};
use libgomp::TeamRun;

/// Entry of this workload in [`super::list`].
pub const DESCRIPTION: Description = Description {
    name: "omp",
    syntax: "omp:THREADS:BENCHMARK[:CHUNK][@pinned], such as omp:4:dynamic:16 (1 to 256 threads)",
    measures: "a construct, a loop or an array kernel of the OpenMP runtime (`bias-replay omp --help` lists them): time \
               of a repetition, and how much it varies",
    metrics: &["time_ms", "cv_permille", "min_max_permille"],
    with_pmu: &[],
};

/// Minimum number of measured repetitions, also after the window.
const MIN_REPETITIONS: usize = 3;
/// Constructs in a repetition on hardware. A machine that is n times slower gets an n-th of them.
const CONSTRUCTS: f64 = 4000.0;
/// Minimum of these constructs.
const MIN_CONSTRUCTS: usize = 40;
/// Rounds of four cycles in a construct: a tenth of a microsecond, EPCC's delay.
pub const CONSTRUCT_ROUNDS: usize = 75;
/// Iterations of a loop per thread.
const ITERATIONS: usize = 64;
/// Rounds of four cycles in an iteration, which then takes 20 000 cycles. EPCC's iterations take 15
/// microseconds.
pub const ITERATION_ROUNDS: usize = 5000;

/// The workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Omp {
    threads: usize,
    benchmark: Benchmark,
    pinned: bool,
}

impl Omp {
    /// Parse the text after the name.
    pub(super) fn parse(rest: &str) -> Option<Self> {
        let (team, pinned) = match rest.strip_prefix(':')?.split_once('@') {
            None => (&rest[1..], false),
            Some((team, "pinned")) => (team, true),
            Some(_) => return None,
        };
        let (threads, benchmark) = team.split_once(':')?;
        Some(Omp { threads: count(threads, 1..=256)?, benchmark: benchmark.parse().ok()?, pinned })
    }
}

impl Workload for Omp {
    fn name(&self) -> String {
        let pinned = if self.pinned { "@pinned" } else { "" };
        format!("omp:{}:{}{pinned}", self.threads, self.benchmark)
    }

    fn missing(&self) -> Option<String> {
        libgomp::missing()
    }

    fn run(&self, env: &Env) -> Result<Measured> {
        let constructs = ((CONSTRUCTS / env.stretch) as usize).clamp(MIN_CONSTRUCTS, CONSTRUCTS as usize);
        let (size, work) = match self.benchmark.family {
            Family::Sync => (constructs, CONSTRUCT_ROUNDS),
            Family::Sched => (ITERATIONS, ITERATION_ROUNDS),
            Family::Stream => (DEFAULT_CHASE_BYTES / 3 / size_of::<f64>(), 0),
        };
        let pin = [("OMP_PLACES", "threads"), ("OMP_PROC_BIND", "close")];
        let variables: Vec<_> = pin
            .iter()
            .filter(|_| self.pinned)
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect();
        let times = libgomp::run(&TeamRun {
            benchmark: self.benchmark.name,
            chunk: self.benchmark.chunk,
            size,
            work,
            threads: self.threads,
            variables: &variables,
            repetitions: MIN_REPETITIONS,
            warmup: env.warmup,
            window: env.window,
        })?;
        let mut detail = series::detail(&times, 0);
        detail["size"] = size.into();
        measured(series::spread(&times)?, detail)
    }
}
