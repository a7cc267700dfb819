// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Options of `exec`, which runs a program on chosen CPUs.

use bias_policy::pick::RankBy;
use bias_policy::table::{Class, Component};
use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Options of `exec`.
#[derive(Debug, Args)]
pub struct ExecArgs {
    /// Number of CPUs. A larger number lets more threads run at once; a smaller one uses only the
    /// best CPUs [default with --class: all of the class]
    #[arg(short = 'n', long, value_name = "N", required_unless_present = "class")]
    pub cpus: Option<NonZeroUsize>,

    /// Use CPUs of this class only
    #[arg(long)]
    pub class: Option<ClassName>,

    /// Rank CPUs by this cost: that of the program's most frequent work
    #[arg(long, default_value = "execute")]
    pub component: RankName,

    /// Use at most one CPU of each core. This suits one busy thread per CPU, because SMT siblings
    /// share a core. Without it, faster siblings go before slower cores
    #[arg(long)]
    pub whole_cores: bool,

    /// Use the table in this file instead of the stored one
    #[arg(long, value_name = "FILE")]
    pub capacity_file: Option<PathBuf>,

    /// Print the CPUs and their costs, and run no program
    #[arg(long)]
    pub dry_run: bool,

    /// Print them as JSON for machines
    #[arg(long, requires = "dry_run")]
    pub json: bool,

    /// Print the chosen CPUs on standard error before the program runs
    #[arg(short, long)]
    pub verbose: bool,

    /// Program, found through PATH, and its arguments
    #[arg(value_name = "CMD", trailing_var_arg = true, required_unless_present = "dry_run")]
    pub command: Vec<OsString>,
}

/// Name of a class on the command line.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ClassName {
    /// The faster CPUs, the fastest first
    Fast,
    /// The slower CPUs, the slowest first: for work that should not slow other programs
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

/// Name of a ranking cost on the command line.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum RankName {
    /// Integer work in registers: for programs that compute
    Execute,
    /// Stalls inside the core: for programs with many branches and pages
    Internal,
    /// Stalls outside the core: for programs that wait for memory
    External,
    /// The mean of the three: for unknown programs
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
