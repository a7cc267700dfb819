// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! `scx_bias check`: what this machine lacks to run the scheduler.

use crate::help;
use crate::output::print;
use anyhow::Result;
use bias_agent::check;
use bias_agent::failure::Exit;
use clap::Args;
use std::path::PathBuf;

/// Check whether this machine can run scx_bias: one line with a remedy for each missing thing
#[derive(Debug, Args)]
#[command(after_help = help::exit_codes())]
pub struct CheckArgs {
    /// Print JSON for machines
    #[arg(long)]
    json: bool,

    /// Examine the machine with /sys and /proc below this directory
    #[arg(long, value_name = "DIRECTORY", hide = true, default_value = "/")]
    root: PathBuf,
}

impl CheckArgs {
    pub fn run(self) -> Result<Exit> {
        let report = check::examine(&self.root);
        print(&if self.json { report.json()? } else { report.text() })?;
        Ok(report.exit())
    }
}
