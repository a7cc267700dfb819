// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Options of commands to the running instance.

use bias_agent::optin::CgroupRequest;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Options of `status` and `reload`.
#[derive(Debug, Args)]
pub struct AskArgs {
    /// Print JSON for machines
    #[arg(long)]
    pub json: bool,

    /// Connect to this socket
    #[arg(long, value_name = "FILE", hide = true)]
    pub socket: Option<PathBuf>,
}

/// Options of `metrics`.
#[derive(Debug, Args)]
pub struct MetricsArgs {
    /// Answer scrapers over HTTP at HOST:PORT, or on the socket at this absolute path, until
    /// interrupted. A port is readable for everyone who reaches it, a socket for root and --group
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,

    /// Group that may use the socket of --listen
    #[arg(long, value_name = "NAME", requires = "listen")]
    pub group: Option<String>,

    /// Connect to this socket
    #[arg(long, value_name = "FILE", hide = true)]
    pub socket: Option<PathBuf>,
}

/// Options of `top`.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Print one JSON object per interval, one per line, for machines
    #[arg(long)]
    pub json: bool,

    /// Time between tables [0.1 to 86400]. Longer steadies the shares; shorter shows migrations
    /// sooner [default: 2, or up to 10 where thousands of tasks run, to take 1 % of a CPU]
    #[arg(long, short, value_name = "SECONDS")]
    pub interval: Option<f64>,

    /// Exit after this many tables, and print them as plain text. Without a terminal, tables are
    /// always plain text [default: no limit]
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,

    /// Connect to this socket
    #[arg(long, value_name = "FILE", hide = true)]
    pub socket: Option<PathBuf>,
}

/// Options of `trace`.
#[derive(Debug, Args)]
pub struct TraceArgs {
    /// Write the trace to this file, or to standard output for -
    #[arg(long, value_name = "FILE")]
    pub perfetto: PathBuf,

    /// Length of the recording [0.1 to 86400]
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub seconds: f64,

    /// Connect to this socket
    #[arg(long, value_name = "FILE", hide = true)]
    pub socket: Option<PathBuf>,
}

/// Options of `swaps`.
#[derive(Debug, Args)]
pub struct SwapsArgs {
    /// Print JSON for machines: one document, or with --follow one object per line
    #[arg(long)]
    pub json: bool,

    /// Continue with new swaps until interrupted
    #[arg(long, short)]
    pub follow: bool,

    /// Connect to this socket
    #[arg(long, value_name = "FILE", hide = true)]
    pub socket: Option<PathBuf>,
}

/// Options of `cgroup`.
#[derive(Debug, Args)]
pub struct CgroupArgs {
    /// Action to perform.
    #[command(subcommand)]
    pub action: CgroupAction,

    /// Print JSON for machines
    #[arg(long, global = true)]
    pub json: bool,

    /// Connect to this socket
    #[arg(long, value_name = "FILE", hide = true, global = true)]
    pub socket: Option<PathBuf>,
}

/// Action on opted-in cgroups.
#[derive(Debug, Clone, Subcommand)]
pub enum CgroupAction {
    /// Opt a cgroup in: its threads and those of cgroups below it run under scx_bias
    Add {
        /// Directory of the cgroup, such as /sys/fs/cgroup/work.slice
        path: PathBuf,
    },
    /// Remove a cgroup: its threads get back their earlier policy
    Remove {
        /// Directory of the cgroup
        path: PathBuf,
    },
    /// Show the opted-in cgroups, each with the count of its threads under scx_bias
    List,
    /// Restore the policies and affinities of threads after scx_bias was killed. No instance needs
    /// to run. Prints nothing if there is nothing to do
    Restore,
}

impl CgroupAction {
    /// Return the request for the running instance, or None for an action that needs no instance.
    pub fn request(self) -> Option<CgroupRequest> {
        match self {
            Self::Add { path } => Some(CgroupRequest::Add(path)),
            Self::Remove { path } => Some(CgroupRequest::Remove(path)),
            Self::List => Some(CgroupRequest::List),
            Self::Restore => None,
        }
    }
}
