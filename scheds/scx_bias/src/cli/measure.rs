// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Options of commands about the machine: its requirements, its speed and its table.

use bias_policy::table::Component;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Options of `check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Print JSON for machines
    #[arg(long)]
    pub json: bool,

    /// Examine the machine with /sys and /proc below this directory
    #[arg(long, value_name = "DIRECTORY", hide = true, default_value = "/")]
    pub root: PathBuf,
}

/// Options of `calibrate`.
#[derive(Debug, Args)]
pub struct CalibrateArgs {
    /// Store the table in this file [default: /var/lib/scx_bias/capacity.json for root, the XDG
    /// state directory for other users]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Measure even if the stored table is still good
    #[arg(long)]
    pub force: bool,

    /// Visits to each CPU. More visits average out slow disturbances and take longer
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,

    /// Length of a visit, which five loops share. Longer visits average out short disturbances
    /// [default: 40 to 120, so that all visits take some two seconds]
    #[arg(long, value_name = "MILLISECONDS", value_parser = clap::value_parser!(u64).range(5..=10_000))]
    pub visit_ms: Option<u64>,

    /// Size of the memory loop's data. It must exceed the last-level cache, or part of the loads is
    /// not external. A larger size takes longer to build [default: found by measuring]
    #[arg(long, value_name = "KIB", value_parser = clap::value_parser!(u32).range(4..=4 << 20))]
    pub external_kib: Option<u32>,

    /// Smallest mean difference in speed that makes two classes of CPUs. For stalls it is twice
    /// this, and at least 200 for those outside the core. Raise it to treat unequal CPUs as equal,
    /// lower it to act on smaller differences
    #[arg(long, value_name = "PERMILLE", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub min_effect_permille: u32,

    /// Count this event instead of the chosen one while measuring [repeatable]. `scx_bias --help`
    /// explains the format
    #[arg(long, value_name = "ROLE=PMU/TERMS/")]
    pub events: Vec<String>,

    /// Print the table as JSON for machines
    #[arg(long)]
    pub json: bool,

    /// Report each reuse and measurement with its reason
    #[arg(short, long)]
    pub verbose: bool,
}

/// Options of `table`.
#[derive(Debug, Args)]
pub struct TableArgs {
    /// Show the table in this file instead of the stored one
    #[arg(long, value_name = "FILE")]
    pub capacity_file: Option<PathBuf>,

    /// Print JSON for machines
    #[arg(long)]
    pub json: bool,

    /// Show the similarity of each pair of CPUs in one component: a dot for equal CPUs, else the
    /// distance between their distributions
    #[arg(long, value_name = "COMPONENT", conflicts_with = "json")]
    pub matrix: Option<ComponentName>,
}

/// Name of a component on the command line.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ComponentName {
    /// Integer work in registers
    Execute,
    /// Stalls inside the core
    Internal,
    /// Stalls outside the core
    External,
}

impl From<ComponentName> for Component {
    fn from(name: ComponentName) -> Self {
        match name {
            ComponentName::Execute => Self::Execute,
            ComponentName::Internal => Self::Internal,
            ComponentName::External => Self::External,
        }
    }
}
