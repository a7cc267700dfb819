// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The command work: one workload alone.

use crate::measure::{self, Until, WorkSample};
use crate::options::{Printable, seconds};
use crate::spec::WorkKind;
use crate::{Result, cpus, metrics};
use clap::Args;
use serde::Serialize;
use std::time::Duration;

/// Workload and length of a measurement.
#[derive(Debug, Args)]
pub(super) struct WorkOptions {
    /// Workload: compute, float, chase[:SIZE], stalled[:MULTIPLIES], branchy, stream[:SIZE],
    /// mixed[:PERCENT], phases[:MS], cachestress[:SIZE], swpcpu, swpmem[:SIZE] or swp[:PERCENT]. A
    /// larger size misses larger caches. More multiplications per load mean a smaller share of
    /// stalls. A percentage is the share of computing. A period is the time of one change and the
    /// change back
    kind: WorkKind,
    /// Seconds to run. A longer run averages over more interrupts
    #[arg(long, value_parser = seconds, default_value = "1", conflicts_with = "steps")]
    seconds: Duration,
    /// Steps to run instead of a time (a step is about 20 000 cycles)
    #[arg(long)]
    steps: Option<u64>,
    /// CPU to run on; the scheduler decides unless given
    #[arg(long)]
    cpu: Option<usize>,
}

/// Speed of the workload.
#[derive(Serialize)]
pub(super) struct WorkReport {
    schema: &'static str,
    kind: String,
    units_per_s: f64,
    ns_per_unit: f64,
    #[serde(flatten)]
    sample: WorkSample,
}

/// Run the workload.
pub(super) fn run(options: &WorkOptions) -> Result<WorkReport> {
    if let Some(cpu) = options.cpu {
        cpus::require_online(&[cpu])?;
    }
    let until = options.steps.map_or(Until::Elapsed(options.seconds), Until::Steps);
    let sample = measure::run(&options.kind, options.cpu, until)?;
    Ok(WorkReport {
        schema: "bias-bench.work/1",
        kind: options.kind.to_string(),
        units_per_s: sample.units_per_s(),
        ns_per_unit: sample.ns_per_unit(),
        sample,
    })
}

impl Printable for WorkReport {
    fn text(&self) -> String {
        let s = &self.sample;
        let mut out = format!(
            "{} on CPU {}: {} units in {:.3} s ({:.3} s of CPU time), {:.0} units/s, {:.2} ns CPU time each\n",
            self.kind,
            s.cpu,
            s.units,
            s.wall_ns as f64 / 1e9,
            s.cpu_ns as f64 / 1e9,
            self.units_per_s,
            self.ns_per_unit
        );
        if let Some(c) = &s.counters {
            let percent = |part: u64| metrics::share(part as f64, c.cycles as f64) * 100.0;
            out += &format!(
                "{} instructions, {} cycles, stalled {:.1}% outside and {:.1}% inside the core, {} LLC misses\n",
                c.instructions,
                c.cycles,
                percent(c.stall_external),
                percent(c.stall_internal),
                c.llc_misses
            );
        }
        out
    }
}
