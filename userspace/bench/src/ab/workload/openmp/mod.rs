// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Teams of an OpenMP runtime: `omp:4:static`, `omp:4:dynamic:16`, `omp:4:reduction@pinned`.
//!
//! # Problem
//! \[Cui23] measured programs of an OpenMP runtime. `barrier` and `triad` have its protocol, but
//! their threads start and wait in code of this project. `bias-bench` is one file, also in a guest,
//! and must start on machines without an OpenMP runtime.
//!
//! # Approach
//! The build compiles `constructs.c` against the runtime and embeds the result in this program. A
//! run writes it to memory and executes one [`Benchmark`] from there, with a team of the given
//! size. `@pinned` gives each thread a CPU of its own, as `OMP_PLACES=threads` with
//! `OMP_PROC_BIND=close` does.
//!
//! # Invariants
//! The program sees no variable `OMP_*` or `GOMP_*` of this process, only those of the run.
//!
//! # Limits
//! The sizes suit the asymmetric VM. `bias-replay omp` has options for them. libgomp's threads
//! spin long before they sleep, so a waiting thread looks like one that computes. A system that
//! forbids the execution of memory files (`vm.memfd_noexec=2`) runs no benchmark.

use super::child::capture;
use super::{Description, Env, Measured, Workload, count, measured, series};
use crate::spec::DEFAULT_CHASE_BYTES;
use crate::{Error, Result};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::fmt;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::str::FromStr;
use std::time::Duration;

/// Entry of this workload in [`super::list`].
pub const DESCRIPTION: Description = Description {
    name: "omp",
    syntax: "omp:THREADS:BENCHMARK[:CHUNK][@pinned], such as omp:4:dynamic:16 (1 to 256 threads)",
    measures: "a construct, a loop or an array kernel of the OpenMP runtime (`bias-replay omp --help` lists them): time \
               of a repetition, and how much it varies",
    metrics: &["time_ms", "cv_permille", "min_max_permille"],
    with_pmu: &[],
};

/// Minimum number of measured repetitions, even beyond the window.
const MIN_REPETITIONS: usize = 3;
/// Constructs in a repetition on hardware. A machine that is n times slower gets an n-th of them.
const CONSTRUCTS: f64 = 4000.0;
/// Minimum number of constructs.
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
        missing_runtime()
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
        let times = run_team(&TeamRun {
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

/// Source of a benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// A construct of EPCC's syncbench.
    Sync,
    /// A loop of EPCC's schedbench.
    Sched,
    /// An array kernel of BabelStream.
    Stream,
}

/// Names of all benchmarks.
pub const NAMES: [(&str, Family); 18] = [
    ("parallel", Family::Sync),
    ("for", Family::Sync),
    ("parallel-for", Family::Sync),
    ("barrier", Family::Sync),
    ("single", Family::Sync),
    ("critical", Family::Sync),
    ("lock", Family::Sync),
    ("ordered", Family::Sync),
    ("atomic", Family::Sync),
    ("reduction", Family::Sync),
    ("static", Family::Sched),
    ("dynamic", Family::Sched),
    ("guided", Family::Sched),
    ("copy", Family::Stream),
    ("mul", Family::Stream),
    ("add", Family::Stream),
    ("triad", Family::Stream),
    ("dot", Family::Stream),
];

/// One benchmark, such as `barrier`, `static`, `dynamic:16` or `triad`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Benchmark {
    /// Name in the program.
    pub name: &'static str,
    /// Source of the benchmark.
    pub family: Family,
    /// Chunk of a loop [iterations]. 0 is the default: equal parts for static loops, else 1.
    pub chunk: usize,
}

impl FromStr for Benchmark {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (head, chunk) = text.split_once(':').map_or((text, None), |(head, chunk)| (head, Some(chunk)));
        let (name, family) = NAMES.into_iter().find(|(name, _)| *name == head).ok_or_else(|| {
            format!(
                "'{head}' is not an OpenMP benchmark; known are {}",
                NAMES.map(|(name, _)| name).join(", ")
            )
        })?;
        let chunk = match chunk {
            None => 0,
            Some(_) if family != Family::Sched => {
                return Err(format!("'{text}': only a loop has a chunk size"));
            }
            Some(chunk) => count(chunk, 1..=1 << 20)
                .ok_or_else(|| format!("'{text}': a chunk has 1 to 1048576 iterations"))?,
        };
        Ok(Benchmark { name, family, chunk })
    }
}

impl fmt::Display for Benchmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.chunk {
            0 => f.write_str(self.name),
            chunk => write!(f, "{}:{chunk}", self.name),
        }
    }
}

/// The program, or nothing if the compiler had no OpenMP.
const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/constructs"));
/// Time beyond warm-up and window that a run may take.
const GRACE: Duration = Duration::from_secs(600);

/// Return the part that is missing here, with the remedy.
pub fn missing_runtime() -> Option<String> {
    PROGRAM
        .is_empty()
        .then(|| "this program was built without OpenMP; build it with gcc (CC=gcc) for omp".into())
}

/// One run: the benchmark, its size, and the team.
#[derive(Debug, Clone)]
pub struct TeamRun<'a> {
    /// Name of the benchmark.
    pub benchmark: &'a str,
    /// Iterations that a thread takes at a time, or 0 for the default of the schedule.
    pub chunk: usize,
    /// Constructs in a repetition, iterations per thread, or numbers in an array.
    pub size: usize,
    /// Rounds of four cycles in a construct or an iteration.
    pub work: usize,
    /// Threads of the team.
    pub threads: usize,
    /// Variables of the runtime besides the number of threads.
    pub variables: &'a [(String, String)],
    /// Minimum number of measured repetitions.
    pub repetitions: usize,
    /// Time of repetitions that do not count. At least one does not.
    pub warmup: Duration,
    /// Minimum time of the measured repetitions.
    pub window: Duration,
}

/// Run the program once. Return the time of each repetition [ns].
///
/// # Errors
/// The runtime is not installed, the results of the benchmark are wrong, or it hangs.
pub fn run_team(team: &TeamRun) -> Result<Vec<u64>> {
    if let Some(missing) = missing_runtime() {
        return Err(Error::Usage(missing));
    }
    let program = in_memory()?;
    let mut command = Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("OMP_") || text.starts_with("GOMP_") {
            command.env_remove(name);
        }
    }
    command.env("OMP_NUM_THREADS", team.threads.to_string()).env("OMP_DYNAMIC", "false");
    command.envs(team.variables.iter().map(|(name, value)| (name, value)));
    let numbers = [team.chunk as u128, team.size as u128, team.work as u128, team.repetitions as u128];
    let times = [team.warmup, team.window].map(|time| time.as_nanos());
    command.arg(team.benchmark).args(numbers.iter().chain(&times).map(ToString::to_string));
    let what = format!("OpenMP benchmark {}", team.benchmark);
    let (text, _) = capture(&mut command, &what, team.warmup + team.window + GRACE).map_err(explained)?;
    parse(&text, team.threads).ok_or_else(|| Error::failed(&what, "its output cannot be parsed"))
}

/// Write the program to memory.
fn in_memory() -> Result<File> {
    let failed = |error: &dyn std::fmt::Display| Error::failed("a program in memory (memfd_create)", error);
    let file = memfd_create("constructs", MFdFlags::MFD_CLOEXEC).map_err(|e| failed(&e))?;
    let mut file = File::from(file);
    file.write_all(PROGRAM).map_err(|e| failed(&e))?;
    // The kernel executes no file that is open for writing.
    File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).map_err(|e| failed(&e))
}

/// Add the remedy to an error of the program.
fn explained(error: Error) -> Error {
    let text = error.to_string();
    let remedy = if text.contains("cannot open shared object file") {
        "; install the OpenMP runtime (Debian: libgomp1, Fedora and Arch: libgomp)"
    } else if text.contains("exit status: 3") {
        "; the benchmark computed a wrong result: check the hardware"
    } else if text.contains("exit status: 4") {
        "; free memory or give a smaller --bytes"
    } else {
        return error;
    };
    Error::Runtime(text + remedy)
}

/// Parse the program's output: the size of the team, then a time on each line.
fn parse(text: &str, threads: usize) -> Option<Vec<u64>> {
    let mut lines = text.lines();
    let team: usize = lines.next()?.strip_prefix("threads ")?.parse().ok()?;
    let times: Vec<u64> = lines.map(|line| line.parse().ok()).collect::<Option<_>>()?;
    (team == threads && !times.is_empty()).then_some(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_others_refused() {
        for text in NAMES.map(|(name, _)| name).into_iter().chain(["dynamic:16", "static:1"]) {
            assert_eq!(text.parse::<Benchmark>().unwrap().to_string(), text);
        }
        for (text, why) in [
            ("tuba", "known are parallel"),
            ("", "known are"),
            ("barrier:2", "only a loop"),
            ("guided:0", "1 to 1048576"),
            ("guided:", "1 to 1048576"),
            ("static:01", "1 to 1048576"),
        ] {
            let error = text.parse::<Benchmark>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn only_complete_output_of_the_whole_team_counts() {
        assert_eq!(parse("threads 4\n12\n13\n", 4), Some(vec![12, 13]));
        for wrong in
            ["", "threads 4\n", "threads 3\n12\n", "12\n13\n", "threads 4\n12\n-3\n", "threads 4\nx\n"]
        {
            assert_eq!(parse(wrong, 4), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_missing_runtime_is_named() {
        let loader = "x: exit status: 127, its last line is 'libgomp.so.1: cannot open shared object file'";
        assert!(explained(Error::Runtime(loader.into())).to_string().contains("libgomp1"));
        assert_eq!(explained(Error::Runtime("other".into())).to_string(), "other");
    }

    #[test]
    fn the_program_refuses_unknown_benchmarks_and_sizes() {
        let run = |benchmark, size| {
            run_team(&TeamRun {
                benchmark,
                chunk: 0,
                size,
                work: 1,
                threads: 2,
                variables: &[],
                repetitions: 2,
                warmup: Duration::ZERO,
                window: Duration::ZERO,
            })
        };
        assert_eq!(run("barrier", 5).unwrap().len(), 2);
        for (benchmark, size) in [("tuba", 5), ("barrier", 0)] {
            assert!(run(benchmark, size).unwrap_err().to_string().contains("exit status: 2"));
        }
    }
}
