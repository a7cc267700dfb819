// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The command line of bias-bench.

mod ab;
mod list;
mod manual;
mod sim;
mod work;

use crate::cost::CostOptions;
use crate::demo::DemoOptions;
use crate::mix::MixOptions;
use crate::once::OnceOptions;
use crate::options::{self, Measurement};
use crate::pingpong::PingpongOptions;
use crate::ratio::RatioOptions;
use crate::sched::UnderOptions;
use crate::{Error, Result, cost, demo, mix, once, pingpong, ratio};
use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;

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
    Work(Measurement<work::WorkOptions>),
    /// Compare two CPUs on several kinds of work, and with the prediction of the counters
    Ratio(Measurement<RatioOptions>),
    /// Run tasks at the same time and report what each of them achieved
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
    List(list::ListArgs),
    Sim(sim::SimArgs),
    Completions(manual::CompletionsArgs),
    Man(manual::ManArgs),
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
        Command::Work(options) => options.print(work::run).map(drop),
        Command::Ratio(options) => options.print(ratio::run).map(drop),
        Command::Mix(options) => options.print(mix::run).map(drop),
        Command::Run(options) => options.print(once::run).map(drop),
        Command::Pingpong(options) => options.print(pingpong::run).map(drop),
        Command::Cost(options) => options.print(cost::run).map(drop),
        Command::Demo(options) => options.print(demo::run).map(drop),
        Command::Report(args) => args.run(),
        Command::Compare(args) => args.run(),
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

/// Parse the command given to `under`. Commands that load a scheduler themselves are refused.
fn nested(words: Vec<String>) -> Result<Command> {
    match options::nested::<Cli>("bias-bench", words)?.command {
        Command::Under(_) | Command::Demo(_) | Command::Ab(_) | Command::AbBoot(_) => Err(Error::Usage(
            "'under' takes a command that loads no scheduler itself; not demo, ab or under".into(),
        )),
        command => Ok(command),
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
        // What follows sim is for another program, its help as well.
        for word in ["--help", "--machine", "-h"] {
            assert!(Cli::try_parse_from(["bias-bench", "sim", word, "x"]).is_ok(), "{word}");
        }
    }

    #[test]
    fn every_command_has_a_man_page() {
        let directory = tempfile::tempdir().unwrap();
        let to = |path: &std::path::Path| manual::ManArgs { to: Some(path.to_owned()) }.run(Cli::command());
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
}
