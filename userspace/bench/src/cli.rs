// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The command line of bias-bench, and its short commands: work, list, sim, man and completions.

mod ab;
mod evidence;

use crate::ab::metric;
use crate::ab::{suites, workload};
use crate::cost::CostOptions;
use crate::demo::DemoOptions;
use crate::measure::{self, Until, WorkSample};
use crate::mix::MixOptions;
use crate::once::OnceOptions;
use crate::options::{self, Measurement, Output, Printable, printed, seconds};
use crate::pingpong::PingpongOptions;
use crate::ratio::RatioOptions;
use crate::sched::UnderOptions;
use crate::spec::WorkKind;
use crate::{Error, Result, cost, cpus, demo, metrics, mix, once, pingpong, ratio};
use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use serde::Serialize;
use serde_json::json;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{ErrorKind, Write as _};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{self, ExitCode};
use std::time::Duration;

/// Workloads with known behaviour, and the comparison of schedulers.
///
/// Every command prints a short text, or with --json one JSON document on standard output. Progress
/// and messages go to standard error. Exit codes: 0 success, 1 a measurement failed, 2 usage, 3 the
/// kernel or a capability is missing, 4 another sched_ext scheduler is active.
#[derive(Debug, Parser)]
#[command(name = "bias-bench", version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run one workload alone and report its speed
    Work(Measurement<WorkOptions>),
    /// Compare two CPUs on several kinds of work, and with the prediction of the counters
    Ratio(Measurement<RatioOptions>),
    /// Run tasks at the same time and report the progress of each
    Mix(Measurement<MixOptions>),
    /// Run any workload of the comparisons (`bias-bench list`) under the active scheduler
    Run(Measurement<OnceOptions>),
    /// Count the instructions that a context switch costs
    Pingpong(Measurement<PingpongOptions>),
    /// Count the instructions that all threads of a process execute, kernel included
    Cost(Measurement<CostOptions>),
    /// Show the same mixes under the default scheduler and under another one
    Demo(Measurement<DemoOptions>),
    Under(UnderOptions),
    Ab(Box<ab::AbArgs>),
    Report(ab::ReportArgs),
    Compare(ab::CompareArgs),
    Record(evidence::RecordArgs),
    Results(evidence::ResultsArgs),
    List(ListArgs),
    Sim(SimArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
    #[command(hide = true)]
    AbBoot(ab::BootArgs),
}

/// Run the program: parse the command line, run the command, print, and map errors to exit codes.
pub fn main() -> ExitCode {
    options::main("bias-bench", |cli: Cli| run(cli.command))
}

/// Run one command. Return its exit code if it did its work.
fn run(command: Command) -> Result<u8> {
    match command {
        Command::Work(options) => options.print(work).map(drop),
        Command::Ratio(options) => options.print(ratio::run).map(drop),
        Command::Mix(options) => options.print(mix::run).map(drop),
        Command::Run(options) => options.print(once::run).map(drop),
        Command::Pingpong(options) => options.print(pingpong::run).map(drop),
        Command::Cost(options) => options.print(cost::run).map(drop),
        Command::Demo(options) => options.print(demo::run).map(drop),
        Command::Report(args) => args.run(),
        Command::Compare(args) => args.run(),
        Command::Record(args) => args.run(),
        Command::Results(args) => args.run(),
        Command::List(args) => args.run(),
        Command::Completions(args) => args.run(Cli::command()),
        Command::Man(args) => args.run(Cli::command()),
        Command::AbBoot(args) => args.run(),
        Command::Ab(args) => return args.run(),
        Command::Sim(args) => return args.run(),
        Command::Under(args) => {
            let command = nested(args.command.clone())?;
            return args.run(|| run(command));
        }
    }?;
    Ok(0)
}

/// Parse the command given to `under`. Refuse commands that load a scheduler themselves.
fn nested(words: Vec<String>) -> Result<Command> {
    match options::nested::<Cli>("bias-bench", words)?.command {
        Command::Under(_) | Command::Demo(_) | Command::Ab(_) | Command::AbBoot(_) => Err(Error::Usage(
            "'under' takes a command that does not load a scheduler itself; not demo, ab or under".into(),
        )),
        command => Ok(command),
    }
}

/// Workload and length of a measurement.
#[derive(Debug, Args)]
struct WorkOptions {
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
struct WorkReport {
    schema: &'static str,
    kind: String,
    units_per_s: f64,
    ns_per_unit: f64,
    #[serde(flatten)]
    sample: WorkSample,
}

/// Run the workload.
fn work(options: &WorkOptions) -> Result<WorkReport> {
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

/// List suites, workloads and metrics, with their units and better directions
#[derive(Debug, Args)]
struct ListArgs {
    #[command(flatten)]
    output: Output,
}

impl ListArgs {
    fn run(&self) -> Result<()> {
        let suites: Vec<_> = suites::SUITES
            .iter()
            .map(|s| json!({"name": s.name, "about": s.about, "minutes": s.minutes, "machines": s.machines, "plan": (s.plan)()}))
            .collect();
        let document = json!({"suites": suites, "workloads": workload::list(), "metrics": metric::METRICS});
        self.output.print_as(&document, list)
    }
}

/// Return the list as text.
fn list() -> String {
    let mut out = String::from("Suites (--suite)\n");
    for suite in &suites::SUITES {
        let _ = writeln!(
            out,
            "  {:12} {} ({} min of the VM's time for two arms; {})",
            suite.name,
            suite.about,
            suite.minutes,
            suite.machines.join(", ")
        );
        let cells: Vec<String> = (suite.plan)().cells.into_iter().map(|cell| cell.workload).collect();
        let _ = writeln!(out, "  {:12}   {}", "", cells.join("  "));
    }
    out += "\nWorkloads (--cells)\n";
    for workload in workload::list() {
        let _ = writeln!(out, "  {:26} {}", workload.syntax, workload.measures);
    }
    out += "\nMetrics (name, unit, better)\n";
    for metric in metric::METRICS {
        let better = metric.direction.to_string();
        let _ = writeln!(out, "  {:26} {:5} {:7} {}", metric.name, metric.unit, better, metric.about);
    }
    out
}

/// Name of the simulator. It contains the scheduler's BPF code. As a separate program it does not
/// slow down builds of bias-bench.
const SIMULATOR: &str = "bias-bench-sim";

/// Predict the effect of scx_bias on a machine, as a picture and figures, without that machine
///
/// `bias-bench sim --help` shows the options.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
struct SimArgs {
    /// Options of the simulator
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

impl SimArgs {
    /// Run the program. Return its exit code.
    fn run(self) -> Result<u8> {
        // The simulator beside this program has the same version.
        let beside = std::env::current_exe().ok().and_then(|path| Some(path.parent()?.join(SIMULATOR)));
        run_first(beside.into_iter().chain([PathBuf::from(SIMULATOR)]), &self.words)
    }
}

/// Run the first of `programs` that exists. Return its exit code.
fn run_first(programs: impl Iterator<Item = PathBuf>, words: &[OsString]) -> Result<u8> {
    for program in programs {
        match status(&program, words) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(Error::failed(format!("cannot run {}", program.display()), error)),
            Ok(code) => return Ok(code),
        }
    }
    Err(Error::Runtime(format!(
        "{SIMULATOR} is neither beside bias-bench nor in PATH; build it with `cargo build --release -p bias_sim`"
    )))
}

/// Run a program. Return its exit code, or 128 and the signal that ended it, as a shell does.
fn status(program: &Path, words: &[OsString]) -> std::io::Result<u8> {
    let status = process::Command::new(program).args(words).status()?;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// Print the man page, or write a page for every command
#[derive(Debug, Args)]
struct ManArgs {
    /// Directory for the pages: bias-bench.1, bias-bench-ab.1 and so on. The page of sim comes from
    /// `bias-bench sim --man`
    #[arg(long, value_name = "DIRECTORY")]
    to: Option<PathBuf>,
}

/// Print shell completions
#[derive(Debug, Args)]
struct CompletionsArgs {
    /// Shell to complete for
    shell: Shell,
}

impl ManArgs {
    /// Run the command for the program whose command line is `program`.
    fn run(&self, program: clap::Command) -> Result<()> {
        if let Some(directory) = &self.to {
            return clap_mangen::generate_to(program, directory).map_err(|error| {
                Error::failed(format!("cannot write man pages to {}", directory.display()), error)
            });
        }
        let mut text = Vec::new();
        clap_mangen::Man::new(program).render(&mut text).map_err(|error| Error::failed("man page", error))?;
        printed(std::io::stdout().write_all(&text))
    }
}

impl CompletionsArgs {
    /// Run the command for the program whose command line is `program`.
    fn run(&self, mut program: clap::Command) -> Result<()> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut program, "bias-bench", &mut text);
        printed(std::io::stdout().write_all(&text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_consistent_and_all_defaults_parse() {
        Cli::command().debug_assert();
        for line in ["work compute", "ratio --cpus 0,1", "mix --tasks compute", "run groups:2", "pingpong"] {
            assert!(Cli::try_parse_from(["bias-bench"].into_iter().chain(line.split(' '))).is_ok(), "{line}");
        }
        assert!(Cli::try_parse_from(["bias-bench", "demo", "--scheduler-cmd", "x"]).is_ok());
        // All words after sim, even --help, are for another program.
        for word in ["--help", "--machine", "-h"] {
            assert!(Cli::try_parse_from(["bias-bench", "sim", word, "x"]).is_ok(), "{word}");
        }
    }

    #[test]
    fn every_command_has_a_man_page() {
        let directory = tempfile::tempdir().unwrap();
        let to = |path: &std::path::Path| ManArgs { to: Some(path.to_owned()) }.run(Cli::command());
        to(directory.path()).unwrap();
        let written = |name: &str| std::fs::read_to_string(directory.path().join(name));
        assert!(written("bias-bench.1").unwrap().contains("bias\\-bench\\-ab(1)"));
        for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = format!("bias-bench-{}.1", command.get_name());
            assert!(written(&name).is_ok(), "{name}");
        }
        assert!(written("bias-bench-ab-boot.1").is_err(), "a hidden command has a page");
        let error = to("/nonexistent/man".as_ref()).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/man") && error.exit_code() == 1, "{error}");
    }

    /// A list of kernels in the help would miss those that join the table later.
    #[test]
    fn the_help_names_no_kernel_but_the_default() {
        let table = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/ampvm/kernel/kernels.toml");
        let table: toml::Table = toml::from_str(&std::fs::read_to_string(table).unwrap()).unwrap();
        let names: Vec<&str> =
            table["kernel"].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect();
        let command = Cli::command();
        let ab = command.find_subcommand("ab").unwrap();
        let kernel = ab.get_arguments().find(|argument| argument.get_id() == "kernel").unwrap();
        let help = kernel.get_help().unwrap().to_string();
        assert!(help.contains("cargo xtask kernel list"), "{help}");
        assert!(names.iter().all(|name| !help.contains(name)), "{help}");
        assert!(names.contains(&kernel.get_default_values()[0].to_str().unwrap()));
    }

    #[test]
    fn under_takes_no_command_that_loads_a_scheduler() {
        let words = |line: &str| line.split(' ').map(String::from).collect::<Vec<_>>();
        assert!(nested(words("mix --tasks compute")).is_ok());
        assert_eq!(nested(words("demo --scheduler-cmd x")).unwrap_err().exit_code(), 2);
        assert_eq!(nested(words("mix --tasks computer")).unwrap_err().exit_code(), 2);
    }

    #[test]
    fn the_first_program_that_exists_decides_the_exit_code() {
        let words = ["-c", "exit 7"].map(OsString::from);
        let programs = ["/nowhere/sim", "/bin/sh", "/bin/true"].map(PathBuf::from);
        assert_eq!(run_first(programs.into_iter(), &words).unwrap(), 7);
        let killed = ["-c", "kill -9 $$"].map(OsString::from);
        assert_eq!(run_first([PathBuf::from("/bin/sh")].into_iter(), &killed).unwrap(), 137);
    }

    #[test]
    fn a_missing_program_is_named_with_the_remedy() {
        let error = run_first([PathBuf::from("/nowhere/sim")].into_iter(), &[]).unwrap_err();
        assert!(error.to_string().contains("build it with") && error.exit_code() == 1, "{error}");
    }
}
