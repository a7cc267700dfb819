// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Options of scheduling. A configuration file may hold those of [`RunSettings`].

use super::RunSettings;
use clap::{ArgAction, Args};
use std::path::PathBuf;

/// Options of scheduling.
#[derive(Debug, Default, Clone, Args)]
pub struct RunArgs {
    /// Configuration file to read.
    #[command(flatten)]
    pub source: Source,

    /// Options that a configuration file may hold.
    #[command(flatten)]
    pub options: RunSettings,

    /// Measure the CPUs again even if the stored table is still good. Takes up to three seconds
    #[arg(long)]
    pub new_table: bool,

    /// Earlier name of `--new-table`.
    #[arg(long, hide = true, conflicts_with = "new_table")]
    pub recalibrate: bool,

    /// Print statistics of the running scx_bias at this interval, and do not schedule
    #[arg(long, value_name = "SECONDS", conflicts_with_all = ["stats", "new_table", "recalibrate", "config"])]
    pub monitor: Option<f64>,

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
