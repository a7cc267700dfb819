// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Noise: the work that a system does beside the program that matters.
//!
//! # Approach
//! One process computes for a given part of each [`PERIOD`], as a daemon that wakes up. Its work is
//! fixed, so a slow CPU needs longer for it. At each [`START_PERIOD`] it also starts a short
//! program: work of the kernel (fork, exec, page faults, exit) in a new process.
//!
//! # Limits
//! A period that lasts longer, because the noise does not get its CPU time, delays the next one.
//! The started programs come on top of the given part.

use crate::measure::{self, Until};
use crate::spec::WorkKind;
use crate::task::{end, spawn};
use crate::{Result, work};
use nix::unistd::Pid;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Time between two beginnings of the computing part.
const PERIOD: Duration = Duration::from_millis(100);
/// Periods between two starts of a program.
const START_PERIOD: u32 = 3;
/// Time for which the speed of this machine is measured.
const SAMPLE: Duration = Duration::from_millis(100);
/// The program that is started.
const PROGRAM: &str = "/bin/true";

/// Running noise. It ends when this is dropped, or with this process.
pub(super) struct Background(Vec<Pid>);

impl Background {
    /// Return the steps of a period in which noise needs `permille` thousandths of the CPU that
    /// this process runs on now. 0 for 0.
    pub(super) fn work(permille: u32) -> Result<u64> {
        if permille == 0 {
            return Ok(0);
        }
        let sample = measure::run(&WorkKind::Compute, None, Until::Elapsed(SAMPLE))?;
        Ok(steps_of(permille, sample.cpu_ns as f64 / sample.steps.max(1) as f64))
    }

    /// Start noise of so many steps in a period. None starts for 0.
    pub(super) fn start(steps: u64) -> Result<Self> {
        let pids = if steps == 0 { Vec::new() } else { vec![spawn(|| make_noise(steps))?] };
        Ok(Background(pids))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        end(&self.0);
    }
}

/// Return the steps of a period, at least one.
fn steps_of(permille: u32, ns_per_step: f64) -> u64 {
    let ns = PERIOD.as_nanos() as f64 * f64::from(permille) / 1000.0;
    (ns / ns_per_step.max(1.0)).round().max(1.0) as u64
}

/// Make noise until a signal ends this process.
fn make_noise(steps: u64) -> u8 {
    let mut work = work::build(&WorkKind::Compute);
    for period in 0_u32.. {
        let begun = Instant::now();
        if period % START_PERIOD == 0 {
            // If it cannot be started, the noise has less work.
            let _ = Command::new(PROGRAM).stdin(Stdio::null()).stderr(Stdio::null()).status();
        }
        for _ in 0..steps {
            work.step();
        }
        std::thread::sleep(PERIOD.saturating_sub(begun.elapsed()));
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_computes_for_its_part_of_a_period() {
        assert_eq!(steps_of(100, 1e6), 10);
        assert_eq!(steps_of(1000, 1e6), 100);
        assert_eq!((steps_of(1, 1e9), steps_of(1000, 0.0)), (1, 100_000_000));
    }

    #[test]
    fn noise_ends_when_it_is_dropped() {
        let noise = Background::start(Background::work(10).unwrap()).unwrap();
        let pid = noise.0[0];
        drop(noise);
        assert_eq!(nix::sys::wait::waitpid(pid, None), Err(nix::errno::Errno::ECHILD));
        assert!(Background::start(Background::work(0).unwrap()).unwrap().0.is_empty());
    }
}
