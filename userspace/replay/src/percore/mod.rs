// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Execution times of each CPU: whether nominally equal cores are equal, and for which programs.
//!
//! # Problem
//! \[Reif20\] found cores of one machine that differ by more than 10 %, for some programs only. To
//! find them in a machine, the same work must run on each CPU many times.
//!
//! # Approach
//! A run is a fixed number of steps of one kind of work, pinned to a CPU. Each CPU warms up, then
//! repeats the run; the paper has 10 warm-ups and 1000 runs. The runs of a CPU come in [`BATCHES`]
//! batches, in turn with those of the other CPUs, so that a drift of the machine affects all alike.
//! [`times`] compares the times, and [`pictures`] draws them.
//!
//! # Invariants
//! All runs of a kind do the same work. A report that was written can be read again and gives the
//! same page.
//!
//! # Limits
//! Times are wall time, so other programs influence them. They hardly change the median of a CPU.
//! CPUs run one after the other, so the report does not show how they disturb each other.

mod pictures;
mod times;

use bias_bench::files::read_small_file;
use bias_bench::options::{Printable, seconds};
use bias_bench::progress::Progress;
use bias_bench::spec::{CpuList, WorkKind};
use bias_bench::work::{self, Step};
use bias_bench::{Error, Result, cpus};
use clap::Args;
use comfy_table::{Table, presets};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use times::{Compared, CpuCost, CpuTimes, KindTimes, PercoreReport, cost_order, groups};

/// Format of the report.
const SCHEMA: &str = "bias-bench.percore/1";
/// Batches of runs per CPU and kind.
const BATCHES: u32 = 10;
/// Time to probe for the number of steps of a run.
const PROBE: Duration = Duration::from_millis(20);
/// Size limit of a report or a table that is read [bytes].
const MAX_BYTES: u64 = 256 << 20;

/// CPUs, kinds and repetitions.
#[derive(Debug, Clone, Args)]
pub struct PercoreOptions {
    /// Kinds of work, separated by commas. `bias-bench work --help` explains them. On hardware give
    /// chase a set larger than the last-level cache, e.g. chase:256M
    #[arg(long, value_delimiter = ',', default_value = "compute,branchy,chase:32K,chase")]
    kinds: Vec<WorkKind>,
    /// CPUs to compare, e.g. 0-3,8 [default: all that this process may use]
    #[arg(long)]
    cpus: Option<CpuList>,
    /// Runs that do not count, for each kind and CPU
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=1000))]
    warmups: u32,
    /// Runs for each kind and CPU. More show rarer delays and finer differences
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(10..=100_000))]
    runs: u32,
    /// Seconds of one run, on the first CPU. Longer runs average over interrupts, shorter ones show
    /// them
    #[arg(long = "seconds", value_name = "SECONDS", value_parser = seconds, default_value = "0.001")]
    time: Duration,
    /// Compare with the costs in this file, which `scx_bias table --json` or `scx_bias calibrate
    /// --output` has written
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,
    /// Write a page with all figures to this file: distributions, similarity, costs
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Measure nothing, and use the report in this file, the output of --json
    #[arg(long, value_name = "FILE", conflicts_with_all = ["cpus", "warmups", "runs", "time"])]
    from: Option<PathBuf>,
}

/// Measure, or read a report, and write the page if the options name a file.
///
/// # Errors
/// Usage error for a CPU or a file that does not fit, measurement error if the page cannot be
/// written.
pub fn run(options: &PercoreOptions) -> Result<PercoreReport> {
    let mut report = match &options.from {
        Some(path) => read(path)?,
        None => measure(options)?,
    };
    if let Some(path) = &options.table {
        report.costs = costs(path)?;
    }
    if let Some(path) = &options.page {
        let failed = |error| Error::failed(path.display(), error);
        std::fs::write(path, pictures::of(&report)).map_err(failed)?;
    }
    Ok(report)
}

fn read(path: &Path) -> Result<PercoreReport> {
    let wrong = |why: String| Error::Usage(format!("{}: {why}", path.display()));
    let report: PercoreReport = serde_json::from_str(&read_small_file(path, MAX_BYTES)?)
        .map_err(|error| wrong(format!("{error}; give a file that `percore --json` has printed")))?;
    if report.schema != SCHEMA {
        return Err(wrong(format!("has format '{}', this program reads {SCHEMA}", report.schema)));
    }
    let times = || report.kinds.iter().flat_map(|kind| &kind.cpus);
    let valid = |cpu: &CpuTimes| {
        !cpu.times_ns.is_empty() && cpu.times_ns.iter().all(|ns| ns.is_finite() && *ns > 0.0)
    };
    if times().next().is_none() || !times().all(valid) {
        return Err(wrong("a CPU has no times, or one that is not a positive number".into()));
    }
    Ok(report)
}

/// Read the costs from a capacity table.
fn costs(path: &Path) -> Result<Vec<CpuCost>> {
    #[derive(Deserialize)]
    struct Document {
        cpus: Vec<CpuCost>,
    }
    let document: Document = serde_json::from_str(&read_small_file(path, MAX_BYTES)?).map_err(|error| {
        Error::Usage(format!(
            "{}: {error}; give a file that `scx_bias table --json` has printed",
            path.display()
        ))
    })?;
    Ok(document.cpus)
}

fn measure(options: &PercoreOptions) -> Result<PercoreReport> {
    let cpus = match &options.cpus {
        Some(list) => list.0.clone(),
        None => cpus::allowed()?,
    };
    cpus::require_online(&cpus)?;
    let mut progress = Progress::new(u64::from(BATCHES) * options.kinds.len() as u64);
    let mut kinds = Vec::new();
    for kind in &options.kinds {
        kinds.push(measure_kind(kind, &cpus, options, &mut progress)?);
    }
    Ok(PercoreReport { schema: SCHEMA.into(), kinds, costs: Vec::new() })
}

fn measure_kind(
    kind: &WorkKind,
    cpus: &[usize],
    options: &PercoreOptions,
    progress: &mut Progress,
) -> Result<KindTimes> {
    let mut work = work::build(kind);
    let (steps, units) = steps_of_a_run(work.as_mut(), cpus[0], options.time)?;
    let mut times: Vec<CpuTimes> = cpus.iter().map(|&cpu| CpuTimes { cpu, times_ns: Vec::new() }).collect();
    for batch in 0..BATCHES {
        progress.stage(&format!("{kind}, batch {} of {BATCHES} on {} CPUs", batch + 1, cpus.len()));
        let runs = options.runs * (batch + 1) / BATCHES - options.runs * batch / BATCHES;
        // A CPU warms up again after the batches of the others.
        let warmups = if batch == 0 { options.warmups } else { options.warmups.min(1) };
        for of_cpu in &mut times {
            let _pinned = cpus::Pinned::to(of_cpu.cpu)?;
            for _ in 0..warmups {
                timed(work.as_mut(), steps);
            }
            of_cpu.times_ns.extend((0..runs).map(|_| timed(work.as_mut(), steps)));
        }
    }
    Ok(KindTimes { kind: kind.to_string(), units, cpus: times })
}

/// Return the steps of a run of this time on `cpu`, and their units of work.
fn steps_of_a_run(work: &mut dyn Step, cpu: usize, time: Duration) -> Result<(u64, u64)> {
    let _pinned = cpus::Pinned::to(cpu)?;
    let units = work.step();
    let begun = Instant::now();
    let mut steps = 0u32;
    while begun.elapsed() < PROBE {
        work.step();
        steps += 1;
    }
    let a_step = begun.elapsed() / steps.max(1);
    let steps = (time.as_secs_f64() / a_step.as_secs_f64()).round().max(1.0) as u64;
    Ok((steps, steps * units))
}

/// Return the wall time of a run of this many steps [ns].
fn timed(work: &mut dyn Step, steps: u64) -> f64 {
    let begun = Instant::now();
    for _ in 0..steps {
        work.step();
    }
    // The clock may be too coarse to see a short run.
    (begun.elapsed().as_nanos() as f64).max(1.0)
}

impl Printable for PercoreReport {
    fn text(&self) -> String {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING);
        table.set_header([
            "kind",
            "fastest CPU",
            "slowest CPU",
            "slowest/fastest",
            "groups of similar CPUs",
            "costs",
        ]);
        for kind in &self.kinds {
            let Some(compared) = Compared::of(kind) else { continue };
            table.add_row([
                kind.kind.clone(),
                compared.fastest.to_string(),
                compared.slowest.to_string(),
                format!("{:.3}", compared.ratio),
                groups(kind).len().to_string(),
                cost_order(kind, &self.costs).map_or("-".into(), |order| format!("{order:.2}")),
            ]);
        }
        format!(
            "{table}\nslowest/fastest: of the medians. costs: rank correlation with the capacity table (--table).\n"
        )
    }
}

#[cfg(test)]
mod tests;
