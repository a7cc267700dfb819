// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! bias-replay: experiments of the five papers behind scx_bias, and the page that compares them
//! with it.
//!
//! Workloads, statistics and the form of reports are those of bias-bench. This program is for the
//! tree and its VM: packages do not contain it.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod amp;
mod omp;
mod papers;
mod percore;
mod sections;
mod variation;

use bias_bench::options::{self, Measurement};
use bias_bench::sched::UnderOptions;
use bias_bench::{Error, Result};
use clap::{Parser, Subcommand};

/// Experiments of the papers behind scx_bias.
///
/// Every command prints a short text, or with --json one JSON document on standard output. Progress
/// and messages go to standard error. Exit codes: 0 success, 1 a measurement failed, 2 usage, 3 the
/// kernel or a capability is missing, 4 another sched_ext scheduler is active.
#[derive(Debug, Parser)]
#[command(name = "bias-replay", version, max_term_width = 100)]
struct ReplayCli {
    #[command(subcommand)]
    command: Replay,
}

#[derive(Debug, Subcommand)]
enum Replay {
    /// Compare all CPUs by the time that the same work takes on each, and draw it
    Percore(Measurement<percore::PercoreOptions>),
    /// Measure how much parallel programs of an OpenMP runtime vary, within and between runs
    Omp(Measurement<omp::TeamOptions>),
    /// Run parallel programs beside noise, with and without a housekeeping CPU at several speeds
    Amp(Measurement<amp::AmpOptions>),
    /// Alternate between marked sections of code, and report where each of them ran
    Sections(Measurement<sections::SectionsOptions>),
    /// Print the comparison with five papers, item by item, as the page docs/papers.md
    Papers(Measurement<papers::PapersOptions>),
    Under(UnderOptions),
}

fn main() -> std::process::ExitCode {
    options::main("bias-replay", |line: ReplayCli| run(line.command).map(|()| 0))
}

fn run(command: Replay) -> Result<()> {
    match command {
        Replay::Percore(options) => options.print(percore::run).map(drop),
        Replay::Omp(options) => options.print(omp::run).map(drop),
        Replay::Amp(options) => options.print(amp::run).map(drop),
        Replay::Sections(options) => options.print(sections::run).map(drop),
        Replay::Papers(options) => options.print(papers::run).map(drop),
        Replay::Under(args) => {
            let command = nested(args.command.clone())?;
            args.run(|| run(command))
        }
    }
}

/// Parse the command given to `under`. Refuse commands that load a scheduler themselves.
fn nested(words: Vec<String>) -> Result<Replay> {
    match options::nested::<ReplayCli>("bias-replay", words)?.command {
        Replay::Under(_) | Replay::Amp(_) => Err(Error::Usage(
            "'under' takes a command that does not load a scheduler itself; not amp or under".into(),
        )),
        command => Ok(command),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent_and_all_defaults_parse() {
        ReplayCli::command().debug_assert();
        for line in ["percore", "papers", "omp", "sections --fast-cpus 0", "amp --scheduler-cmd x"] {
            let words = ["bias-replay"].into_iter().chain(line.split(' '));
            assert!(ReplayCli::try_parse_from(words).is_ok(), "{line}");
        }
    }

    #[test]
    fn under_takes_no_command_that_loads_a_scheduler() {
        let words = |line: &str| line.split(' ').map(String::from).collect::<Vec<_>>();
        assert!(nested(words("omp --benchmarks static")).is_ok());
        assert_eq!(nested(words("amp --scheduler-cmd x")).unwrap_err().exit_code(), 2);
        assert_eq!(nested(words("omp --benchmarks tuba")).unwrap_err().exit_code(), 2);
    }
}
