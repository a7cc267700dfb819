// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Variation of parallel programs: constructs, loops and array kernels of an OpenMP runtime.
//!
//! # Problem
//! A parallel program waits for its slowest thread, so it shows what other programs hide: noise,
//! unequal cores, migrations. \[Cui23] measures it within and between runs, and by pinning, SMT
//! siblings, spare cores and frequency.
//!
//! # Approach
//! Each benchmark runs under each condition ([`team`]), by default 10 runs of 100 repetitions as in
//! the paper. A run is a new process of the workload `omp`. All benchmarks have their first run,
//! then their second, so that a drift of the machine affects all alike. [`crate::variation`]
//! evaluates the times, [`frequency_log`] reads the frequencies beside each run, [`team_page`]
//! draws both.
//!
//! # Invariants
//! All runs of a benchmark do the same work under all conditions with equally many threads.
//!
//! # Limits
//! Figures are wall times, not overheads: EPCC subtracts the time of a serial reference.

mod frequency_log;
mod team;
mod team_page;

use crate::variation::Variation;
use bias_bench::ab::workload::openmp::{
    Benchmark, CONSTRUCT_ROUNDS, Family, ITERATION_ROUNDS, TeamRun, missing_runtime, run_team,
};
use bias_bench::options::Printable;
use bias_bench::progress::Progress;
use bias_bench::sched::SchedExt;
use bias_bench::spec::parse_bytes;
use bias_bench::{Error, Result, cpus};
use clap::Args;
use comfy_table::{Table, presets};
use frequency_log::FrequencyLog;
use std::path::PathBuf;
use std::time::Duration;
use team::{Bind, Smt, TeamCase, TeamCondition, TeamReport};

/// Format of the report.
const SCHEMA: &str = "bias-bench.omp/1";
/// Policies of waiting threads that libgomp knows.
const WAITS: [&str; 2] = ["active", "passive"];

/// Benchmarks, conditions and repetitions.
#[derive(Debug, Clone, Args)]
pub struct TeamOptions {
    /// Benchmarks, separated by commas. Constructs: parallel, for, parallel-for, barrier, single,
    /// critical, lock, ordered, atomic, reduction. Loops: static, dynamic, guided, with a chunk
    /// size as in dynamic:16. Large chunks cost less and balance worse. Array kernels: copy, mul,
    /// add, triad, dot [default: all of them, and static:1]
    // One word of that length cannot be broken into lines of a man page.
    #[arg(
        hide_default_value = true,
        long,
        value_delimiter = ',',
        default_value = "parallel,for,parallel-for,barrier,single,critical,lock,ordered,atomic,reduction,static,\
                         static:1,dynamic,guided,copy,mul,add,triad,dot"
    )]
    benchmarks: Vec<Benchmark>,
    /// Runs of each benchmark, each a new process. The CV between runs needs several
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Measured repetitions of a run
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(2..=65_536))]
    repetitions: u32,
    /// Threads of the team [default: one for each CPU that --smt and --spare leave]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Pinning, one or more. A pinned thread cannot leave a slow or busy CPU, and others cannot
    /// make it wait for a migration
    #[arg(long, value_delimiter = ',', default_value = "none")]
    bind: Vec<Bind>,
    /// Threads on a core, one or more. Siblings add throughput and disturb each other
    #[arg(long, value_delimiter = ',', default_value = "all")]
    smt: Vec<Smt>,
    /// Cores without a thread of the team, one or more numbers. They serve the rest of the system,
    /// so the team varies less, at the price of their throughput
    #[arg(long, value_delimiter = ',', default_value = "0")]
    spare: Vec<usize>,
    /// Waiting threads spin (active) or sleep soon (passive) [default: the runtime's own choice]
    #[arg(long, value_parser = WAITS)]
    wait: Option<String>,
    /// Constructs in a repetition. A repetition must be long compared with its start
    #[arg(long, default_value_t = 4000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    constructs: u32,
    /// Iterations of a loop per thread. The paper has 8192
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    iterations: u32,
    /// Rounds of four cycles in an iteration. 11000 take the paper's 15 us at 3 GHz
    #[arg(long, default_value_t = ITERATION_ROUNDS as u32, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    rounds: u32,
    /// Size of the three arrays together. They must exceed the last-level cache; the paper's arrays
    /// of 2^25 numbers are 768M
    #[arg(long, default_value = "96M", value_parser = parse_bytes)]
    bytes: usize,
    /// Write a page with all figures to this file
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

/// Measure, and write the page if the options name a file.
///
/// # Errors
/// Usage error for a team that does not fit the machine, measurement error if a run fails or the
/// page cannot be written.
pub fn run(options: &TeamOptions) -> Result<TeamReport> {
    if let Some(missing) = missing_runtime() {
        return Err(Error::Usage(missing));
    }
    let allowed = cpus::allowed()?;
    let conditions = conditions(options, &cpus::cores(&allowed)).map_err(Error::Usage)?;
    let mut cases: Vec<TeamCase> = (0..conditions.len())
        .flat_map(|condition| {
            options.benchmarks.iter().map(move |benchmark| case(options, benchmark, condition))
        })
        .collect();
    let mut progress = Progress::new(u64::from(options.runs) * cases.len() as u64);
    for run in 1..=options.runs {
        for case in &mut cases {
            let condition = &conditions[case.condition];
            progress.stage(&format!("{}, run {run} of {}, {condition}", case.benchmark, options.runs));
            one_run(options, condition, case, &allowed)?;
        }
    }
    for case in &mut cases {
        case.variation = Variation::of(&case.times_ns);
    }
    let report = TeamReport {
        schema: SCHEMA,
        scheduler: SchedExt::system().active().unwrap_or_else(|| "default".into()),
        wait: options.wait.clone(),
        conditions,
        cases,
    };
    if let Some(path) = &options.page {
        std::fs::write(path, team_page::of(&report)).map_err(|error| Error::failed(path.display(), error))?;
    }
    Ok(report)
}

/// Return all combinations of the factors. Equal teams appear once.
fn conditions(
    options: &TeamOptions,
    cores: &[Vec<usize>],
) -> std::result::Result<Vec<TeamCondition>, String> {
    let mut all: Vec<TeamCondition> = Vec::new();
    for &spare in &options.spare {
        for &smt in &options.smt {
            for &bind in &options.bind {
                let condition =
                    TeamCondition::new(cores, bind, smt, spare, options.threads.map(usize::from))?;
                let same = |other: &TeamCondition| (other.bind, &other.cpus) == (bind, &condition.cpus);
                if !all.iter().any(same) {
                    all.push(condition);
                }
            }
        }
    }
    Ok(all)
}

fn case(options: &TeamOptions, benchmark: &Benchmark, condition: usize) -> TeamCase {
    TeamCase {
        benchmark: benchmark.to_string(),
        condition,
        size: match benchmark.family {
            Family::Sync => options.constructs as usize,
            Family::Sched => options.iterations as usize,
            Family::Stream => (options.bytes / 3 / size_of::<f64>()).max(1),
        },
        variation: None,
        times_ns: Vec::new(),
        frequencies: Vec::new(),
    }
}

/// Run a case again, with a log of the frequencies.
fn one_run(
    options: &TeamOptions,
    condition: &TeamCondition,
    case: &mut TeamCase,
    allowed: &[usize],
) -> Result<()> {
    let benchmark: Benchmark = case.benchmark.parse().map_err(Error::Usage)?;
    let wait = options.wait.iter().map(|wait| ("OMP_WAIT_POLICY".to_string(), wait.clone()));
    let variables: Vec<(String, String)> = condition.variables().into_iter().chain(wait).collect();
    let spare = allowed.iter().rev().find(|cpu| !condition.cpus.contains(cpu)).copied();
    let log = FrequencyLog::start(allowed, spare);
    let times = run_team(&TeamRun {
        benchmark: benchmark.name,
        chunk: benchmark.chunk,
        size: case.size,
        work: match benchmark.family {
            Family::Sync => CONSTRUCT_ROUNDS,
            Family::Sched => options.rounds as usize,
            Family::Stream => 0,
        },
        threads: condition.cpus.len(),
        variables: &variables,
        repetitions: options.repetitions as usize,
        warmup: Duration::ZERO,
        window: Duration::ZERO,
    });
    // The log ends before an error is returned, because its thread must not outlive the run.
    case.frequencies.extend(log.map(FrequencyLog::end));
    case.times_ns.push(times?);
    Ok(())
}

impl Printable for TeamReport {
    fn text(&self) -> String {
        let mut out = String::new();
        for (place, condition) in self.conditions.iter().enumerate() {
            let mut table = Table::new();
            table.load_preset(presets::NOTHING);
            table.set_header(["benchmark", "mean ms", "CV within", "CV between", "min", "max", "MHz"]);
            for case in self.cases.iter().filter(|case| case.condition == place) {
                table.add_row(case.cells(condition));
            }
            out += &format!("{condition}, under {}\n{table}\n\n", self.scheduler);
        }
        out + "CV: standard deviation over mean, within a run and between the means of runs. min, max: over the run's mean.\n"
    }
}

#[cfg(test)]
mod tests;
