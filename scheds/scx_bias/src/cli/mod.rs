// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The command line. One definition of each option feeds the parser, `--help`, the man page,
//! completions and the configuration file.
//!
//! `bias_agent::options` defines those options of scheduling that a configuration file may hold.

mod ask;
mod exec;
mod flags;
mod measure;
mod run;

use crate::help;
use clap::{Parser, Subcommand};
use clap_complete::Shell;
use std::path::PathBuf;

pub use ask::{AskArgs, CgroupArgs, MetricsArgs, SwapsArgs, TopArgs, TraceArgs};
pub use exec::ExecArgs;
#[cfg(test)]
pub use exec::{ClassName, RankName};
pub use flags::RunSettings;
pub use measure::{CalibrateArgs, CheckArgs, TableArgs};
pub use run::{ConfigArgs, RunArgs, Source};

/// Version, with the commit if the source came with its history.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), env!("SCX_BIAS_COMMIT"));

/// Schedule tasks where they gain most on a machine whose CPUs are not equally fast.
///
/// Without a sub-command, scx_bias measures the CPUs if necessary, loads the scheduler and runs
/// until SIGINT or SIGTERM. These return every task to the kernel's default scheduler.
#[derive(Debug, Parser)]
#[command(version = VERSION, after_help = help::exit_codes(), after_long_help = help::long(&help::statistics()))]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Cli {
    /// Command to run. Without one, scx_bias schedules.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Options of scheduling.
    #[command(flatten)]
    pub run: RunArgs,
}

/// Commands other than scheduling.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check whether this machine can run scx_bias: one line with a remedy for each missing thing
    #[command(after_help = help::exit_codes())]
    Check(CheckArgs),
    /// Measure the cost of execute, internal-stall and external-stall work on every CPU, and store
    /// the table
    #[command(after_help = help::exit_codes())]
    Calibrate(CalibrateArgs),
    /// Show the table: cost and class of every CPU, and groups of similar CPUs
    #[command(after_help = help::exit_codes())]
    Table(TableArgs),
    /// Run a program on the fastest CPUs, or on CPUs that other programs miss least. Works with and
    /// without a running scheduler, and needs no privilege
    #[command(override_usage = help::EXEC_USAGE, after_help = help::exec_exit_codes(), after_long_help = help::exec())]
    Exec(ExecArgs),
    /// Show the state of the running scx_bias: CPUs and their counters, thresholds, biases of
    /// tasks, migrations
    #[command(after_help = help::exit_codes(), after_long_help = help::long(help::STATUS))]
    Status(AskArgs),
    /// Show the load of each CPU, the stalls of each task, its bias, and the reason of its last
    /// migration
    #[command(after_help = help::exit_codes(), after_long_help = help::long(help::TOP))]
    Top(TopArgs),
    /// Show the swaps of the agent, each with its predicted and its measured gain
    #[command(after_help = help::exit_codes(), after_long_help = help::long(help::SWAPS))]
    Swaps(SwapsArgs),
    /// Record the placement of tasks for Perfetto: a track for each CPU, with bias and gain of each
    /// task and the reasons of migrations
    #[command(after_help = help::exit_codes(), after_long_help = help::long(help::TRACE))]
    Trace(TraceArgs),
    /// Print the state of the running scx_bias in the OpenMetrics format, for Prometheus: totals,
    /// costs of CPUs, tasks by bias. A textfile collector takes the output
    #[command(after_help = help::exit_codes())]
    Metrics(MetricsArgs),
    /// Opt cgroups in to a running scx_bias that was started with --cgroup or --partial, or
    /// remove them
    #[command(after_help = help::exit_codes(), after_long_help = help::long(help::CGROUP))]
    Cgroup(CgroupArgs),
    /// Make the running scx_bias read its configuration again, and show which options changed and
    /// which need a restart
    #[command(after_help = help::exit_codes(), after_long_help = help::long(&help::reload()))]
    Reload(AskArgs),
    /// Print the options in effect as a configuration file, with options at their defaults as
    /// comments
    #[command(after_help = help::exit_codes())]
    Config(ConfigArgs),
    /// Print shell completions
    Completions {
        /// Shell to complete for
        shell: Shell,
    },
    /// Print the man page, or that of the configuration file, or write a page for every command
    Man {
        /// Print scx_bias.toml(5), the page of the configuration file
        #[arg(long, conflicts_with = "to")]
        toml: bool,

        /// Directory for the pages: scx_bias.1, scx_bias-check.1 and so on
        #[arg(long, value_name = "DIRECTORY")]
        to: Option<PathBuf>,
    },
}
