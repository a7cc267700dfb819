// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! `scx_bias config` prints the options in effect, `scx_bias reload` makes the instance read them.

use crate::cli::{Given, SocketArg, Source};
use crate::output::print;
use crate::{config, help};
use anyhow::Result;
use bias_agent::failure::Exit;
use bias_agent::figures;
use clap::Args;

/// Print the options in effect as a configuration file, with options at their defaults as comments
#[derive(Debug, Args)]
#[command(after_help = help::exit_codes())]
pub struct ConfigArgs {
    #[command(flatten)]
    source: Source,

    #[command(flatten)]
    options: Given,
}

impl ConfigArgs {
    pub fn run(self) -> Result<Exit> {
        print(&config::resolve(&self.options, &self.source)?.template())
    }
}

/// Make the running scx_bias read its configuration again, and show which options changed and which
/// need a restart
#[derive(Debug, Args)]
#[command(after_help = help::exit_codes(), after_long_help = help::long(&help::reload()))]
pub struct ReloadArgs {
    /// Print JSON for machines
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    socket: SocketArg,
}

impl ReloadArgs {
    pub fn run(self) -> Result<Exit> {
        let report = self.socket.connect()?.reload()?;
        if self.json {
            return print(&figures::json(&report, "reload")?);
        }
        print(&report.lines().iter().map(|line| format!("{line}\n")).collect::<String>())
    }
}
