// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Options of scheduling. A configuration file may hold those in [`Given`].

use bias_agent::failure::Failure;
use bias_agent::options::RunOptions;
use bias_agent::options::values::Seconds;
use clap::{ArgAction, ArgMatches, Args, Command, FromArgMatches};
use std::path::PathBuf;

/// Options of scheduling.
#[derive(Debug, Default, Clone, Args)]
pub struct RunArgs {
    /// Configuration file to read.
    #[command(flatten)]
    pub source: Source,

    /// Options that a configuration file may hold.
    #[command(flatten)]
    pub options: Given,

    /// Measure the CPUs again even if the stored table is still good. Takes up to three seconds
    #[arg(long, alias = "recalibrate")]
    pub new_table: bool,

    /// Print statistics of the running scx_bias at this interval, and do not schedule
    #[arg(long, value_name = "SECONDS", conflicts_with_all = ["stats", "new_table", "config"])]
    pub monitor: Option<Seconds>,

    /// Connect to this socket
    #[arg(long, value_name = "FILE", hide = true, requires = "monitor")]
    pub socket: Option<PathBuf>,

    /// Print more: each reuse and measurement with its reason, and the verifier's log if loading
    /// fails. Twice: every step as well
    #[arg(short, long, action = ArgAction::Count)]
    pub verbose: u8,

    /// Describe the statistics, and do not schedule
    #[arg(long)]
    pub help_stats: bool,
}

/// Source of options other than the command line.
#[derive(Debug, Default, Clone, Args)]
pub struct Source {
    /// Read options from this TOML file. Its keys are the long flags with underscores. The command
    /// line takes precedence [default: /etc/scx_bias.toml if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Read no configuration file
    #[arg(long, conflicts_with = "config")]
    pub no_config: bool,
}

/// Options of [`RunOptions`] that the command line gives.
#[derive(Debug, Default, Clone)]
pub struct Given(ArgMatches);

impl Given {
    /// Return true if the command line gives the option.
    pub fn has(&self, key: &str) -> bool {
        self.0.contains_id(key)
    }

    /// Return the given options, with those of `beneath` for the others.
    ///
    /// # Errors
    /// None in practice, because clap has read the values.
    pub fn over(&self, mut beneath: RunOptions) -> Result<RunOptions, Failure> {
        let wrong = |error: clap::Error| Failure::usage(error.to_string());
        beneath.update_from_arg_matches(&self.0).map_err(wrong)?;
        Ok(beneath)
    }
}

impl Args for Given {
    fn augment_args(command: Command) -> Command {
        command.args(RunOptions::flags())
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Given {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self(matches.clone()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
