//! Commands to the running instance.

use bias_agent::optin::Request;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Options of `status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Print JSON for machines
    #[arg(long)]
    pub json: bool,

    /// Ask on this socket
    #[arg(long, value_name = "FILE", hide = true)]
    pub socket: Option<PathBuf>,
}

/// Options of `reload`.
#[derive(Debug, Args)]
pub struct ReloadArgs {
    /// Print JSON for machines
    #[arg(long)]
    pub json: bool,

    /// Ask on this socket
    #[arg(long, value_name = "FILE", hide = true)]
    pub socket: Option<PathBuf>,
}

/// Options of `top`.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Print a JSON object a line, one an interval, for machines
    #[arg(long)]
    pub json: bool,

    /// Time between tables [0.1 to 86400]. Longer steadies the shares; shorter shows moves sooner
    #[arg(long, short, value_name = "SECONDS", default_value_t = 2.0)]
    pub interval: f64,

    /// End after so many tables, and print them as plain text, as is always done where there is no terminal [default: go on]
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,

    /// Ask on this socket
    #[arg(long, value_name = "FILE", hide = true)]
    pub socket: Option<PathBuf>,
}

/// Options of `swaps`.
#[derive(Debug, Args)]
pub struct SwapsArgs {
    /// Print JSON for machines: a document, or with --follow an object a line
    #[arg(long)]
    pub json: bool,

    /// Go on with what comes, until interrupted
    #[arg(long, short)]
    pub follow: bool,

    /// Ask on this socket
    #[arg(long, value_name = "FILE", hide = true)]
    pub socket: Option<PathBuf>,
}

/// Options of `cgroup`.
#[derive(Debug, Args)]
pub struct CgroupArgs {
    /// What to do.
    #[command(subcommand)]
    pub action: CgroupAction,

    /// Print JSON for machines
    #[arg(long, global = true)]
    pub json: bool,

    /// Ask on this socket
    #[arg(long, value_name = "FILE", hide = true, global = true)]
    pub socket: Option<PathBuf>,
}

/// What to do with opted-in cgroups.
#[derive(Debug, Clone, Subcommand)]
pub enum CgroupAction {
    /// Opt a cgroup in: its threads and those of cgroups below it run under scx_bias
    Add {
        /// Its folder, such as /sys/fs/cgroup/work.slice
        path: PathBuf,
    },
    /// Let a cgroup go: its threads get back the policy they had
    Remove {
        /// Its folder
        path: PathBuf,
    },
    /// Show the opted-in cgroups, and how many threads of each run under scx_bias
    List,
    /// Give threads back the policy they had before a scx_bias that was killed; no instance needs to run. Prints nothing if
    /// there is nothing to do
    Restore,
}

impl CgroupAction {
    /// What to ask the running instance; None if it is not to be asked.
    pub fn request(self) -> Option<Request> {
        match self {
            Self::Add { path } => Some(Request::Add(path)),
            Self::Remove { path } => Some(Request::Remove(path)),
            Self::List => Some(Request::List),
            Self::Restore => None,
        }
    }
}
