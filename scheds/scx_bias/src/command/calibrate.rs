// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! `scx_bias calibrate`: measures the CPUs, stores the table and shows it.

use super::capacity_table;
use crate::help;
use crate::output::log;
use anyhow::Result;
use bias_agent::calibrate::Settings;
use bias_agent::capacity::{self, TableSource};
use bias_agent::failure::{Exit, Failure};
use bias_agent::pmu::{self, Counters};
use bias_agent::topology::Topology;
use bias_policy::classes::SplitRule;
use clap::{Args, value_parser};
use std::path::PathBuf;
use std::time::Duration;
use tracing::Level;

/// Measure the cost of execute, internal-stall and external-stall work on every CPU, and store the
/// table
#[derive(Debug, Args)]
#[command(after_help = help::exit_codes())]
pub struct CalibrateArgs {
    /// Store the table in this file [default: /var/lib/scx_bias/capacity.json for root, the XDG
    /// state directory for other users]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Measure even if the stored table is still good
    #[arg(long)]
    force: bool,

    /// Visits to each CPU. More visits average out slow disturbances and take longer
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = value_parser!(u32).range(1..=100))]
    rounds: u32,

    /// Length of a visit, which five loops share. Longer visits average out short disturbances
    /// [default: 40 to 120, so that all visits take some two seconds]
    #[arg(long, value_name = "MILLISECONDS", value_parser = value_parser!(u64).range(5..=10_000))]
    visit_ms: Option<u64>,

    /// Size of the memory loop's data. It must exceed the last-level cache, or part of the loads is
    /// not external. A larger size takes longer to build [default: found by measuring]
    #[arg(long, value_name = "KIB", value_parser = value_parser!(u32).range(4..=4 << 20))]
    external_kib: Option<u32>,

    /// Smallest mean difference in speed that makes two classes of CPUs. For stalls it is twice
    /// this, and at least 200 for those outside the core. Raise it to treat unequal CPUs as equal,
    /// lower it to act on smaller differences
    #[arg(long, value_name = "PERMILLE", default_value_t = 30, value_parser = value_parser!(u32).range(1..=10_000))]
    min_effect_permille: u32,

    /// Count this event instead of the chosen one while measuring [repeatable]. `scx_bias --help`
    /// explains the format
    #[arg(long, value_name = "ROLE=PMU/TERMS/")]
    events: Vec<pmu::Override>,

    /// Print the table as JSON for machines
    #[arg(long)]
    json: bool,

    /// Report each reuse and measurement with its reason
    #[arg(short, long)]
    verbose: bool,
}

impl CalibrateArgs {
    pub fn run(self) -> Result<Exit> {
        let _ = log(if self.verbose { Level::DEBUG } else { Level::INFO });
        let counters = Counters::open(&Topology::read()?, &self.counting()?);
        capacity_table::show(&capacity::obtain(&self.source(), &counters)?, self.json)
    }

    /// Return the events to count while measuring.
    ///
    /// # Errors
    /// Usage failure for an event that this machine does not have.
    fn counting(&self) -> Result<pmu::Options, Failure> {
        pmu::events::check(&self.events)?;
        Ok(pmu::Options { events: self.events.clone(), enabled: true })
    }

    /// Return the source of the table: the settings of a calibration, and the file to store.
    fn source(&self) -> TableSource {
        let settings = Settings {
            rounds: self.rounds,
            visit: self.visit_ms.map(Duration::from_millis),
            external_bytes: self.external_kib.map(|kib| kib as usize * 1024),
            rule: SplitRule { min_effect_permille: self.min_effect_permille, ..SplitRule::default() },
            ..Settings::default()
        };
        TableSource { capacity_file: None, force: self.force, settings, output: self.output.clone() }
    }
}
