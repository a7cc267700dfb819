// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Kernels over long arrays: `triad:4`, `triad:4:6M`. Based on the idea of BabelStream.
//!
//! # Problem
//! Memory-bound threads gain little from a fast CPU, and all of them wait for the last one.
//!
//! # Approach
//! The five kernels are copy, mul, add, triad and dot. They run one after the other with a barrier
//! between them. Every thread works on its part of three arrays of floating-point numbers. A
//! repetition is all five kernels.
//!
//! # Invariants
//! After every repetition the arrays hold the values that arithmetic predicts (tested).
//!
//! # Limits
//! The default size suits the asymmetric VM. On hardware, use a size above that of the last-level
//! cache. BabelStream's own size is `triad:4:768M` (three arrays of 2^25 numbers). The parts of the
//! threads are separate allocations.

use super::team::{self, TeamBarrier, TeamWork};
use super::{Description, Env, Measured, Workload, count, measured, series};
use crate::Result;
use crate::spec::{DEFAULT_CHASE_BYTES, parse_bytes};
use crate::work::opaque_f64;
use serde_json::json;

/// Entry of this workload in [`super::list`].
pub const DESCRIPTION: Description = Description {
    name: "triad",
    syntax: "triad:THREADS[:SIZE] such as triad:4, triad:4:6M (1 to 256 threads; three arrays together)",
    measures: "threads that run copy, mul, add, triad and dot over long arrays, with a barrier after each: time of a \
               repetition, and how much it varies",
    metrics: &["time_ms", "cv_permille", "min_max_permille"],
    with_pmu: &[],
};

/// Arrays that the five kernels touch, added up: two, two, three, three, two.
const ARRAYS_TOUCHED: usize = 12;
/// Factor in mul and triad, and the initial values, as in BabelStream.
const SCALAR: f64 = 0.4;
const FIRST: [f64; 3] = [0.1, 0.2, 0.0];

/// The workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Triad {
    threads: usize,
    /// Size of the three arrays together.
    bytes: usize,
}

impl Triad {
    /// Parse the text after the name.
    pub(super) fn parse(rest: &str) -> Option<Self> {
        let rest = rest.strip_prefix(':')?;
        let (threads, bytes) = match rest.split_once(':') {
            Some((threads, size)) => (threads, parse_bytes(size).ok()?),
            None => (rest, DEFAULT_CHASE_BYTES),
        };
        Some(Triad { threads: count(threads, 1..=256)?, bytes })
    }

    /// Return the length of one thread's part of one array.
    fn part(&self) -> usize {
        (self.bytes / 3 / size_of::<f64>() / self.threads).max(1)
    }
}

impl Workload for Triad {
    fn name(&self) -> String {
        match self.bytes {
            DEFAULT_CHASE_BYTES => format!("triad:{}", self.threads),
            bytes => format!("triad:{}:{bytes}", self.threads),
        }
    }

    fn run(&self, env: &Env) -> Result<Measured> {
        let (times, dropped) = team::run(self, self.threads, env.warmup, env.window)?;
        let metrics = series::spread(&times)?;
        let bytes = ARRAYS_TOUCHED * self.threads * self.part() * size_of::<f64>();
        let mut detail = series::detail(&times, dropped);
        detail["megabytes_per_s"] = json!(bytes as f64 / 1e3 / metrics["time_ms"]);
        measured(metrics, detail)
    }
}

/// One thread's part of the arrays, and its last dot product.
pub(super) struct Part {
    a: Vec<f64>,
    b: Vec<f64>,
    c: Vec<f64>,
    dot: f64,
}

impl Part {
    fn new(len: usize) -> Self {
        let [a, b, c] = FIRST.map(|first| vec![first; len]);
        Part { a, b, c, dot: 0.0 }
    }

    /// Compute c = a.
    fn copy(&mut self) {
        for (c, a) in self.c.iter_mut().zip(&self.a) {
            // Here and below, process one number at a time. With vector instructions the work would
            // depend on the build.
            *c = opaque_f64(*a);
        }
    }

    /// Compute b = s c.
    fn mul(&mut self) {
        for (b, c) in self.b.iter_mut().zip(&self.c) {
            *b = opaque_f64(SCALAR * c);
        }
    }

    /// Compute c = a + b.
    fn add(&mut self) {
        for ((c, a), b) in self.c.iter_mut().zip(&self.a).zip(&self.b) {
            *c = opaque_f64(a + b);
        }
    }

    /// Compute a = b + s c.
    fn triad(&mut self) {
        for ((a, b), c) in self.a.iter_mut().zip(&self.b).zip(&self.c) {
            *a = opaque_f64(b + SCALAR * c);
        }
    }

    /// Compute the sum of a b.
    fn dot(&mut self) {
        self.dot = self.a.iter().zip(&self.b).fold(0.0, |sum, (a, b)| opaque_f64(sum + a * b));
    }
}

impl TeamWork for Triad {
    type Member = Part;

    fn join(&self, _: usize) -> Part {
        Part::new(self.part())
    }

    fn repeat(&self, part: &mut Part, barrier: &TeamBarrier) {
        let kernels = [Part::copy, Part::mul, Part::add, Part::triad];
        for kernel in kernels {
            kernel(part);
            barrier.wait();
        }
        part.dot();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arrays_hold_the_computed_values() {
        let triad = Triad::parse(":1:384").unwrap();
        let (mut part, barrier) = (triad.join(0), TeamBarrier::new(1));
        let [mut a, _, _] = FIRST;
        for _ in 0..3 {
            triad.repeat(&mut part, &barrier);
            let b = SCALAR * a;
            let c = a + b;
            a = b + SCALAR * c;
            assert!(part.a.iter().all(|x| (x - a).abs() < 1e-15), "{:?} is not {a}", part.a);
            assert!((part.dot - 16.0 * a * b).abs() < 1e-12);
        }
        assert_eq!(part.a.len(), 16);
    }

    #[test]
    fn the_parts_add_up_to_the_given_size() {
        for text in [":1", ":4", ":4:6M"] {
            let triad = Triad::parse(text).unwrap();
            assert_eq!(triad.part() * triad.threads * 3 * 8, triad.bytes);
        }
    }
}
