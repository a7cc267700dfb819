//! The command line. One definition of each option feeds the parser, `--help`, the man page, completions and the configuration file.
//!
//! Options of scheduling are in [`run`], but for the numbers, which `bias_agent::sched::knobs` defines.

mod ask;
mod exec;
mod measure;
mod numbers;
mod run;

use crate::help;
use clap::{Parser, Subcommand};
use clap_complete::Shell;

pub use ask::{CgroupArgs, ReloadArgs, StatusArgs, SwapsArgs, TopArgs};
pub use exec::ExecArgs;
pub use measure::{CalibrateArgs, CheckArgs, TableArgs};
pub use numbers::Numbers;
#[cfg(test)]
pub use run::Thresholds;
pub use run::{ConfigArgs, LogLevel, RunArgs, RunSettings, Source};

const EXIT_CODES: &str = "Exit codes: 0 clean, 1 runtime or BPF error, 2 usage, 3 kernel or permission, \
4 another sched_ext scheduler is active, 5 the kernel ended the scheduler.";

/// Schedule tasks where they gain most on a machine whose CPUs are not equally fast.
///
/// Without a sub-command: measures the CPUs if need be, loads the scheduler and stays until SIGINT or SIGTERM, which return
/// every task to the kernel's default scheduler.
#[derive(Debug, Parser)]
#[command(version, after_help = EXIT_CODES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Cli {
    /// What to do; schedule when absent.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Options of scheduling.
    #[command(flatten)]
    pub run: RunArgs,
}

/// Everything but scheduling itself.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Tell whether this machine can run scx_bias: one line and one remedy for each thing missing
    #[command(after_help = EXIT_CODES)]
    Check(CheckArgs),
    /// Measure what execute, internal-stall and external-stall work costs on every CPU, and store the table
    #[command(after_help = EXIT_CODES)]
    Calibrate(CalibrateArgs),
    /// Show the table: cost and class of every CPU, and which CPUs are alike
    #[command(after_help = EXIT_CODES)]
    Table(TableArgs),
    /// Run a program on the fastest CPUs, or on those that others miss least, with and without a scheduler. Needs no privilege
    #[command(override_usage = help::EXEC_USAGE, after_help = help::EXEC_EXIT_CODES, after_long_help = help::exec())]
    Exec(ExecArgs),
    /// Tell what the running scx_bias sees and does: CPUs and their counters, thresholds, kinds of tasks, moves
    #[command(after_help = help::EXIT_CODES, after_long_help = help::status())]
    Status(StatusArgs),
    /// Show what each task stalls on, what that makes of it, and who moved it
    #[command(after_help = help::EXIT_CODES, after_long_help = help::top())]
    Top(TopArgs),
    /// Show which tasks the agent had change places, what it expected of that and what came of it
    #[command(after_help = help::EXIT_CODES, after_long_help = help::swaps())]
    Swaps(SwapsArgs),
    /// Opt cgroups in to the running scx_bias, which was started with --cgroup, or let them go
    #[command(after_help = help::EXIT_CODES, after_long_help = help::cgroup())]
    Cgroup(CgroupArgs),
    /// Make the running scx_bias read its configuration again, and tell what changed and what needs a restart
    #[command(after_help = help::EXIT_CODES, after_long_help = help::reload())]
    Reload(ReloadArgs),
    /// Print the options in effect as a configuration file, with those that have their defaults as comments
    #[command(after_help = EXIT_CODES)]
    Config(ConfigArgs),
    /// Print shell completions
    Completions {
        /// Shell to complete for
        shell: Shell,
    },
    /// Print the man page
    Man,
}
