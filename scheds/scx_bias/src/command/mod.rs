// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The command line: scheduling, and the commands beside it.
//!
//! # Problem
//! A scheduler that judges tasks must be able to explain a task's place: its stalls, its bias, and
//! the cause of its last migration. Where it cannot judge, it must give the reason and a remedy.
//!
//! # Approach
//! Each command has a file with its options, its help, its work and its output. A new command is
//! such a file and a line of the list below. The running instance answers requests on its socket
//! ([`bias_agent::control`]). [`bias_agent::control::Client`] sends them and maps every failure to
//! a line with a remedy. [`tasks`] computes the activity of tasks between two successive answers.
//!
//! # Limits
//! Only one instance can run, and all sched_ext schedulers share the path of the socket. So a
//! client asks for data that only scx_bias has, to recognise another scheduler.

mod calibrate;
mod capacity_table;
mod cgroups;
mod check;
mod config;
mod exec;
mod man;
mod metrics;
mod status;
mod swaps;
mod tasks;
#[cfg(test)]
mod tests;
mod top;
mod trace;

use crate::cli::RunArgs;
use crate::{help, run};
use anyhow::Result;
use bias_agent::failure::Exit;
use clap::{CommandFactory, Parser, Subcommand};

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
    command: Option<Command>,

    /// Options of scheduling.
    #[command(flatten)]
    pub run: RunArgs,
}

impl Cli {
    /// Run the command that the command line names, or schedule.
    ///
    /// # Errors
    /// Those of the command.
    pub fn dispatch(self) -> Result<Exit> {
        match self.command {
            Some(command) => command.run(),
            None => run::run(self.run),
        }
    }
}

/// Define a command for each line. `of` passes the command line to commands that describe it.
macro_rules! commands {
    ($($name:ident($args:path) $(of $program:path)?,)+) => {
        /// Commands other than scheduling.
        #[derive(Debug, Subcommand)]
        enum Command {
            $($name($args),)+
        }

        impl Command {
            fn run(self) -> Result<Exit> {
                match self {
                    $(Self::$name(args) => args.run($($program())?),)+
                }
            }
        }
    };
}

commands! {
    Check(check::CheckArgs),
    Calibrate(calibrate::CalibrateArgs),
    Table(capacity_table::TableArgs),
    Exec(exec::ExecArgs),
    Status(status::StatusArgs),
    Top(top::TopArgs),
    Swaps(swaps::SwapsArgs),
    Trace(trace::TraceArgs),
    Metrics(metrics::MetricsArgs),
    Cgroup(cgroups::CgroupArgs),
    Reload(config::ReloadArgs),
    Config(config::ConfigArgs),
    Completions(man::CompletionsArgs) of Cli::command,
    Man(man::ManArgs) of Cli::command,
}
