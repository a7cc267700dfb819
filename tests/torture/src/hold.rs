// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! A program that uses performance counters at the same time as a scheduler, like a profiler.

use bias_bench::{Error, Result, counters, cpus};
use clap::Args;

/// Counters to hold.
#[derive(Debug, Args)]
pub struct HoldOptions {
    /// Groups of four events on each CPU. With few counters, more groups leave a smaller share to
    /// other users
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    groups: u16,
    /// Pin the groups to their counters, so that other users cannot use these counters
    #[arg(long)]
    pinned: bool,
}

/// Hold the counters until standard input ends, at the latest when the parent process exits.
pub fn run(options: &HoldOptions) -> Result<()> {
    let cpus = cpus::online()?.0;
    let Some(_held) = counters::hold(&cpus, options.groups.into(), options.pinned)? else {
        return Err(Error::Kernel("there is no PMU named amp; run this in the asymmetric VM".into()));
    };
    eprintln!("bias-torture: holding {} group(s) of counters on {} CPUs", options.groups, cpus.len());
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())
        .map(drop)
        .map_err(|e| Error::failed("waiting for the end of the input", e))
}
