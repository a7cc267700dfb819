//! The command that runs a program on chosen CPUs.

use bias_policy::pick::RankBy;
use bias_policy::table::{Class, Component};
use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Options of `exec`.
#[derive(Debug, Args)]
pub struct ExecArgs {
    /// Number of CPUs. More let more threads run at once; fewer keep to the best [default with --class: all of the class]
    #[arg(short = 'n', long, value_name = "N", required_unless_present = "class")]
    pub cpus: Option<NonZeroUsize>,

    /// Use CPUs of this class only
    #[arg(long)]
    pub class: Option<ClassName>,

    /// Cost by which CPUs are ranked: that of the work the program does most
    #[arg(long, default_value = "execute")]
    pub component: RankName,

    /// Use one CPU of each core at most. For as many busy threads as CPUs, which as SMT siblings would share a core; without it, faster
    /// siblings go before slower cores
    #[arg(long)]
    pub whole_cores: bool,

    /// Choose by the table in this file instead of the stored one
    #[arg(long, value_name = "FILE")]
    pub capacity_file: Option<PathBuf>,

    /// Print the CPUs and their costs, and run nothing
    #[arg(long)]
    pub dry_run: bool,

    /// Print them as JSON for machines
    #[arg(long, requires = "dry_run")]
    pub json: bool,

    /// Tell on standard error which CPUs are chosen before the program runs
    #[arg(short, long)]
    pub verbose: bool,

    /// The program, found through PATH, and its arguments
    #[arg(value_name = "CMD", trailing_var_arg = true, required_unless_present = "dry_run")]
    pub command: Vec<OsString>,
}

/// A class as the command line names it.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ClassName {
    /// The faster CPUs, the fastest first
    Fast,
    /// The slower CPUs, the slowest first: for what should not be in the way
    Slow,
}

impl From<ClassName> for Class {
    fn from(name: ClassName) -> Self {
        match name {
            ClassName::Fast => Self::Fast,
            ClassName::Slow => Self::Slow,
        }
    }
}

/// What ranks CPUs, as the command line names it.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum RankName {
    /// Integer work in registers: for programs that compute
    Execute,
    /// Stalls inside the core: for programs of many branches and pages
    Internal,
    /// Stalls outside the core: for programs that wait for memory
    External,
    /// The mean of the three: for programs that are not known
    Mean,
}

impl From<RankName> for RankBy {
    fn from(name: RankName) -> Self {
        match name {
            RankName::Execute => Self::Component(Component::Execute),
            RankName::Internal => Self::Component(Component::Internal),
            RankName::External => Self::Component(Component::External),
            RankName::Mean => Self::Mean,
        }
    }
}
