// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! bias-torture: tests that no task is lost, whatever happens to tasks, CPUs and schedulers.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod attributes;
mod cgroup;
mod control;
mod hold;
mod storm;
mod survive;

use bias_bench::Result;
use bias_bench::options::{self, Measurement};
use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Tests that no task is lost, whatever happens to tasks, CPUs and schedulers.
///
/// Output and exit codes are those of bias-bench. Run it in a VM: a broken scheduler can hang the
/// machine for up to 30 s.
#[derive(Debug, Parser)]
#[command(name = "bias-torture", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Churn: forks, execs, affinity, nice, cgroup and policy changes, signals; fails if a task is
    /// lost
    Storm(Measurement<storm::StormOptions>),
    /// Kill a scheduler repeatedly under load and take a CPU offline; fails if a task is lost
    Survive(Measurement<survive::SurviveOptions>),
    /// Stop a scheduler's process, flood its socket, kill it; reports how long tasks wait meanwhile
    Control(Measurement<control::ControlOptions>),
    /// Hold counters of the asymmetric VM's PMU on every CPU, like a profiler, until standard input
    /// ends
    HoldCounters(hold::HoldOptions),
}

fn main() -> ExitCode {
    options::main("bias-torture", |line: Cli| run(line.command).map(|()| 0))
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Storm(options) => options.print(storm::run)?.verdict(),
        Command::Survive(options) => options.print(survive::run).map(drop),
        Command::Control(options) => options.print(control::run).map(drop),
        Command::HoldCounters(options) => hold::run(&options),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent_and_all_defaults_parse() {
        Cli::command().debug_assert();
        for line in ["storm", "survive --scheduler-cmd x", "control --scheduler-cmd x", "hold-counters"] {
            let words = ["bias-torture"].into_iter().chain(line.split(' '));
            assert!(Cli::try_parse_from(words).is_ok(), "{line}");
        }
    }
}
