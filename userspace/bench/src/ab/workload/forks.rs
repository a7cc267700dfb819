// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Creation and end of processes: `forks`, `forks:FORKERS`.
//!
//! # Problem
//! Builds and shells start thousands of short processes. The scheduler sees each of them for the
//! first time. It must find a CPU for the process and later forget it.
//!
//! # Approach
//! There is one forker per CPU. Each forks one child after the other and waits for its end. Three
//! children end immediately, and the fourth runs /bin/true.
//!
//! # Limits
//! Most of the result is the cost of fork and exec themselves, which is the same under all
//! schedulers.

use super::child::{Child, Fault};
use super::{Description, Env, Measured, Workload, measured, optional_count};
use crate::shared::Shared;
use crate::{Result, cpus, task};
use nix::sys::wait::{WaitStatus, waitpid};
use serde_json::json;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Entry of this workload in [`super::list`].
pub const DESCRIPTION: Description = Description {
    name: "forks",
    syntax: "forks or forks:FORKERS (1 to 256; one per CPU unless given)",
    measures: "forked processes, three of four end immediately, one runs a program: forks per second",
    metrics: &["throughput_per_s"],
    with_pmu: &[],
};

/// Program that every fourth child runs.
const PROGRAM: &str = "/bin/true";

/// The workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Forks {
    /// Number of forkers, or None for one per CPU.
    forkers: Option<usize>,
}

impl Forks {
    /// Parse the text after the name.
    pub(super) fn parse(rest: &str) -> Option<Self> {
        Some(Forks { forkers: optional_count(rest, 1..=256)? })
    }
}

impl Workload for Forks {
    fn name(&self) -> String {
        self.forkers.map_or("forks".into(), |n| format!("forks:{n}"))
    }

    fn missing(&self) -> Option<String> {
        (!Path::new(PROGRAM).exists()).then(|| format!("{PROGRAM} is missing; install the package coreutils"))
    }

    fn run(&self, env: &Env) -> Result<Measured> {
        let forkers = self.forkers.unwrap_or(cpus::online()?.0.len());
        // The first cell is the request to stop. The others are the numbers of children of each
        // forker.
        let cells: Shared<AtomicU64> = Shared::new(forkers + 1)?;
        let (stop, births) = (&cells.all()[0], &cells.all()[1..]);
        let children: Vec<Child> =
            births.iter().map(|count| Child::start(|| bear(stop, count))).collect::<Result<_>>()?;
        let read = || (Instant::now(), births.iter().map(|count| count.load(Relaxed)).sum::<u64>());
        std::thread::sleep(env.warmup);
        let (start, before) = read();
        std::thread::sleep(env.window);
        let (end, after) = read();
        stop.store(1, Relaxed);
        children.into_iter().try_for_each(|child| child.wait(Duration::ZERO))?;
        let wall_s = (end - start).as_secs_f64();
        let metrics = [("throughput_per_s".to_string(), (after - before) as f64 / wall_s)].into();
        measured(metrics, json!({ "forkers": forkers, "births": after - before, "wall_s": wall_s }))
    }
}

/// Run a forker until the request to stop.
fn bear(stop: &AtomicU64, births: &AtomicU64) -> std::result::Result<(), Fault> {
    let mut round = 0u64;
    while stop.load(Relaxed) == 0 {
        round += 1;
        if round.is_multiple_of(4) {
            let quiet = Stdio::null;
            let status = Command::new(PROGRAM).stdin(quiet()).stdout(quiet()).stderr(quiet()).status();
            status.ok().filter(|status| status.success()).ok_or(Fault::Exec)?;
        } else {
            let pid = task::spawn(|| 0).map_err(|_| Fault::Start)?;
            let ended = matches!(waitpid(pid, None), Ok(WaitStatus::Exited(_, 0)));
            ended.then_some(()).ok_or(Fault::Start)?;
        }
        births.fetch_add(1, Relaxed);
    }
    Ok(())
}
