// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Runs of the program `constructs.c`, which the build compiled against the OpenMP runtime.
//!
//! # Problem
//! `bias-bench` is one file, also in a guest, and must start on machines without an OpenMP runtime.
//!
//! # Approach
//! The program is part of this one. A run writes it to memory and executes it from there.
//!
//! # Invariants
//! The program sees no variable `OMP_*` or `GOMP_*` of this process, only those of the run.
//!
//! # Limits
//! A system that forbids the execution of memory files (`vm.memfd_noexec=2`) runs no benchmark.

use crate::ab::workload::child::capture;
use crate::{Error, Result};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::time::Duration;

/// The program, or nothing if the compiler had no OpenMP.
const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/constructs"));
/// Time beyond warm-up and window that a run may take.
const GRACE: Duration = Duration::from_secs(600);

/// Return the part that is missing here, with the remedy.
pub fn missing() -> Option<String> {
    PROGRAM
        .is_empty()
        .then(|| "this program was built without OpenMP; build it with gcc (CC=gcc) for omp".into())
}

/// One run: the benchmark, its size, and the team.
#[derive(Debug, Clone)]
pub struct TeamRun<'a> {
    /// Name of the benchmark.
    pub benchmark: &'a str,
    /// Iterations that a thread takes at once, or 0 for the default of the schedule.
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
pub fn run(team: &TeamRun) -> Result<Vec<u64>> {
    if let Some(missing) = missing() {
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
    parse(&text, team.threads).ok_or_else(|| Error::failed(&what, "its output is not understood"))
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
        "; the benchmark computed a wrong result: is the machine sound?"
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
        let loader =
            "x: exit status: 127, its last words were 'libgomp.so.1: cannot open shared object file'";
        assert!(explained(Error::Runtime(loader.into())).to_string().contains("libgomp1"));
        assert_eq!(explained(Error::Runtime("other".into())).to_string(), "other");
    }

    #[test]
    fn the_program_refuses_what_it_does_not_know() {
        let run = |benchmark, size| {
            run(&TeamRun {
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
