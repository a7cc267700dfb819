// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Third-party programs, where they are installed: `tool:stress-ng`, `tool:sysbench`,
//! `tool:hackbench`, `tool:7zip`, `tool:openssl`, `tool:zstd`, `tool:sqlite`.
//!
//! # Problem
//! Workloads made for a scheduler may flatter it. Well-known programs in general use cannot.
//!
//! # Approach
//! One table of programs, each with a fixed command. The figure of a program is found by a parser
//! in its output ([`parse`]), or it is the time of a fixed piece of work. Programs that accept a
//! time run for the window. The others are repeated until the window is over.
//!
//! # Invariants
//! * A program that fails, does not end, or prints nothing that its parser knows, is an error. If
//!   there is output, the error shows its last line.
//! * The processes of a program end with the run.
//!
//! # Limits
//! There is no warm-up. The figures are the programs' own: they have different units and depend on
//! the version. The detail has the command. zstd reports its fastest round.

mod parse;

use super::child::{self, last};
use super::{Description, Env, Measured, Workload, measured};
use crate::{Error, Result, cpus, files, metrics};
use nix::unistd::{AccessFlags, access};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Time beyond the window that a program may take. It includes rounding to whole seconds and slow
/// starts.
const GRACE: Duration = Duration::from_secs(180);
/// Minimum number of runs of a fixed piece of work, also after the window.
const MIN_RUNS: usize = 3;

/// Source of a program's figure.
#[derive(Clone, Copy)]
enum Figure {
    /// The program runs for the window and prints a throughput.
    Throughput(fn(&str) -> Option<f64>),
    /// The program does a fixed piece of work and prints its milliseconds.
    TimeMs(fn(&str) -> Option<f64>),
    /// The program does a fixed piece of work, and the figure is its run time. The function checks
    /// the output.
    WallTime(fn(&str) -> bool),
}

/// Parameters of a command line.
struct Setting<'a> {
    program: &'a Path,
    cpus: usize,
    /// Whole seconds, at least 1.
    seconds: u64,
}

/// A known program.
struct Known {
    name: &'static str,
    /// Debian package of the program.
    package: &'static str,
    /// Names of the program. The first one found is used.
    programs: &'static [&'static str],
    measures: &'static str,
    arguments: fn(&Setting) -> Vec<String>,
    figure: Figure,
}

/// Build a fixed table and join it with itself. Print the number of rows and of pairs.
const SQL: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, k INTEGER, v TEXT); \
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000) \
    INSERT INTO t SELECT i, i * 7919 % 5000, hex(i * 65537) FROM n; \
    CREATE INDEX t_k ON t(k); \
    SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM t a JOIN t b ON b.k = a.k + 1 WHERE a.v <> b.v);";

const KNOWN: [Known; 7] = [
    Known {
        name: "tool:stress-ng",
        package: "stress-ng",
        programs: &["stress-ng"],
        measures: "stress-ng's integer stressor on all CPUs: operations per second",
        arguments: |s| {
            let (cpus, time) = (s.cpus.to_string(), format!("{}s", s.seconds));
            let directory = files::writable_directory();
            let method = ["--cpu", &cpus, "--cpu-method", "int64", "--metrics-brief"];
            words(&[&method[..], &["--timeout", &time, "--temp-path", &directory]].concat())
        },
        figure: Figure::Throughput(parse::stress_ng),
    },
    Known {
        name: "tool:sysbench",
        package: "sysbench",
        programs: &["sysbench"],
        measures: "sysbench's threads test, two threads a CPU that contend for locks: events per second",
        arguments: |s| {
            let (threads, time) = (format!("--threads={}", 2 * s.cpus), format!("--time={}", s.seconds));
            words(&[&threads, &time, "threads", "run"])
        },
        figure: Figure::Throughput(parse::sysbench),
    },
    Known {
        name: "tool:hackbench",
        package: "rt-tests",
        programs: &["hackbench"],
        measures: "hackbench with one group of 40 processes and 20 rounds: time",
        arguments: |_| words(&["--groups", "1", "--loops", "20"]),
        figure: Figure::TimeMs(parse::hackbench),
    },
    Known {
        name: "tool:7zip",
        package: "7zip",
        programs: &["7zz", "7z", "7zr"],
        measures: "7-Zip's own benchmark with a dictionary of 256 KiB on all CPUs: its rating in MIPS",
        arguments: |s| words(&["b", "1", "-md18", &format!("-mmt{}", s.cpus)]),
        figure: Figure::Throughput(parse::seven_zip),
    },
    Known {
        name: "tool:openssl",
        package: "openssl",
        programs: &["openssl"],
        measures: "openssl speed, SHA-256 over 16 KiB on all CPUs: bytes per second",
        arguments: |s| {
            let (cpus, time) = (s.cpus.to_string(), s.seconds.to_string());
            let speed = ["speed", "-elapsed", "-mr", "-bytes", "16384", "-evp", "sha256"];
            words(&[&speed[..], &["-seconds", &time, "-multi", &cpus]].concat())
        },
        figure: Figure::Throughput(parse::openssl),
    },
    Known {
        name: "tool:zstd",
        package: "zstd",
        programs: &["zstd"],
        measures: "zstd's own benchmark, level 1, all CPUs, on its own program file: bytes compressed per second",
        arguments: |s| {
            let (time, threads) = (format!("-i{}", s.seconds.div_ceil(2)), format!("-T{}", s.cpus));
            words(&["-b1", &time, &threads, &s.program.to_string_lossy()])
        },
        figure: Figure::Throughput(parse::zstd),
    },
    Known {
        name: "tool:sqlite",
        package: "sqlite3",
        programs: &["sqlite3"],
        measures: "sqlite in memory: builds a table of 5000 rows and an index, and joins it with itself: time",
        arguments: |_| words(&["-batch", "-init", "/dev/null", ":memory:", SQL]),
        figure: Figure::WallTime(|output| output.lines().any(|line| line.trim() == "5000|4999")),
    },
];

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| word.to_string()).collect()
}

/// Return the descriptions for [`super::list`].
pub fn descriptions() -> Vec<Description> {
    let description = |known: &Known| Description {
        name: known.name,
        syntax: known.name,
        measures: known.measures,
        metrics: match known.figure {
            Figure::Throughput(_) => &["throughput_per_s"],
            Figure::TimeMs(_) | Figure::WallTime(_) => &["time_ms"],
        },
        with_pmu: &[],
    };
    KNOWN.iter().map(description).collect()
}

/// The workload: an index into the table of programs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tool(usize);

impl Tool {
    /// Parse the text after the name.
    pub(super) fn parse(rest: &str) -> Option<Self> {
        let named = |known: &Known| known.name.strip_prefix("tool") == Some(rest);
        KNOWN.iter().position(named).map(Tool)
    }

    fn known(&self) -> &'static Known {
        &KNOWN[self.0]
    }

    fn program(&self) -> Option<PathBuf> {
        let path = std::env::var_os("PATH")?;
        let directories: Vec<PathBuf> = std::env::split_paths(&path).collect();
        let places =
            self.known().programs.iter().flat_map(|name| directories.iter().map(move |f| f.join(name)));
        places.into_iter().find(|place| place.is_file() && access(place, AccessFlags::X_OK).is_ok())
    }

    fn not_there(&self) -> String {
        let Known { programs, package, .. } = self.known();
        format!("{} is not installed; install the package {package}", programs.join(" or "))
    }
}

impl Workload for Tool {
    fn name(&self) -> String {
        self.known().name.into()
    }

    fn missing(&self) -> Option<String> {
        self.program().is_none().then(|| self.not_there())
    }

    fn run(&self, env: &Env) -> Result<Measured> {
        let program = self.program().ok_or_else(|| Error::Usage(self.not_there()))?;
        let seconds = env.window.as_secs_f64().round().max(1.0) as u64;
        let cpus = cpus::online()?.0.len();
        let arguments = (self.known().arguments)(&Setting { program: &program, cpus, seconds });
        let limit = env.window + GRACE;
        let run = || capture(&program, &arguments, limit);
        let mut figures = Vec::new();
        let start = Instant::now();
        let (metric, value) = match self.known().figure {
            Figure::Throughput(parse) => {
                let (output, _) = run()?;
                figures.push(parse(&output).ok_or_else(|| unreadable(&program, &output))?);
                ("throughput_per_s", figures[0])
            }
            Figure::TimeMs(parse) => {
                while figures.len() < MIN_RUNS || start.elapsed() < env.window {
                    let (output, _) = run()?;
                    figures.push(parse(&output).ok_or_else(|| unreadable(&program, &output))?);
                }
                ("time_ms", mean(&figures))
            }
            Figure::WallTime(is_right) => {
                while figures.len() < MIN_RUNS || start.elapsed() < env.window {
                    let (output, time) = run()?;
                    is_right(&output).then_some(()).ok_or_else(|| unreadable(&program, &output))?;
                    figures.push(time.as_secs_f64() * 1e3);
                }
                ("time_ms", mean(&figures))
            }
        };
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        let detail = json!({ "program": name, "arguments": arguments, "figures": figures });
        measured(BTreeMap::from([(metric.to_string(), value)]), detail)
    }
}

fn mean(values: &[f64]) -> f64 {
    metrics::sum(values.iter().copied()) / values.len() as f64
}

fn unreadable(program: &Path, output: &str) -> Error {
    let why =
        format!("its output is not understood, it ended with '{}'; is its version unusual?", last(output));
    Error::failed(program.display(), why)
}

/// Run a program to its end. Return its output and its run time.
fn capture(program: &Path, arguments: &[String], limit: Duration) -> Result<(String, Duration)> {
    let mut command = Command::new(program);
    command.args(arguments);
    child::capture(&mut command, &program.to_string_lossy(), limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Result<(String, Duration)> {
        capture(Path::new("/bin/sh"), &words(&["-c", script]), limit)
    }

    #[test]
    fn both_streams_are_captured_and_failures_show_the_last_line() {
        let (text, _) = shell("echo out; echo err >&2", GRACE).unwrap();
        assert!(text.contains("out") && text.contains("err"));
        let error = shell("echo no such luck; exit 3", GRACE).unwrap_err().to_string();
        assert!(error.contains("no such luck") && error.contains('3') && !error.contains('\n'), "{error}");
    }

    #[test]
    fn a_program_that_does_not_end_is_killed() {
        let error = shell("sleep 1000 & wait", Duration::from_millis(200)).unwrap_err();
        assert!(error.to_string().contains("did not end"), "{error}");
    }

    #[test]
    fn commands_are_complete() {
        let setting = Setting { program: Path::new("/x/zstd"), cpus: 4, seconds: 5 };
        for known in &KNOWN {
            let arguments = (known.arguments)(&setting);
            assert!(arguments.iter().all(|word| !word.is_empty()), "{}", known.name);
        }
        let line = |i: usize| (KNOWN[i].arguments)(&setting).join(" ");
        assert_eq!(line(1), "--threads=8 --time=5 threads run");
        assert_eq!(line(5), "-b1 -i3 -T4 /x/zstd");
    }
}
