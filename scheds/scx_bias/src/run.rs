// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Scheduling: turns the command line and the configuration file into a running scheduler, and
//! reads the file again on reload.

use crate::cli::RunArgs;
use crate::explain;
use crate::help;
use crate::output::{complain, log, print, renamed, usual_level};
use crate::settings;
use anyhow::Result;
use bias_agent::capacity::{self, TableSource};
use bias_agent::check;
use bias_agent::daemon;
use bias_agent::failure::{Exit, Failure};
use bias_agent::options::{Config, RunOptions};
use bias_agent::pmu::Counters;
use bias_agent::topology::Topology;
use std::path::Path;

/// Schedule until a signal or the kernel ends the scheduler. With `--monitor`, print statistics
/// instead.
///
/// # Errors
/// Failures of options, of the machine's requirements, of calibration and of the scheduler.
pub fn run(args: RunArgs) -> Result<Exit> {
    if args.help_stats {
        return print(&format!("{}\n", help::statistics()));
    }
    if args.recalibrate {
        complain(&renamed("--recalibrate", "--new-table"));
    }
    let set_level = log(usual_level().max(args.level()));
    if let Some(seconds) = args.monitor {
        let interval = settings::interval("monitor", seconds)?;
        let json = args.options.options().map_err(Failure::from)?.stats_as_json;
        explain::monitor(args.socket.as_deref(), interval, json)?;
        return Ok(Exit::Clean);
    }
    let options = args.run_options()?;
    set_level(options.log_level);
    let source = TableSource {
        capacity_file: options.capacity_file.clone(),
        force: args.new_table || args.recalibrate,
        ..TableSource::default()
    };
    // Read the user's table first, because the user has to correct its errors. Then check the
    // machine, before measuring or storing anything.
    let uncounted = Counters::default();
    let given = source.capacity_file.as_ref().map(|_| capacity::obtain(&source, &uncounted)).transpose()?;
    check::examine(Path::new("/")).refuse()?;
    let mut counters = Counters::open(&Topology::read()?, &options.counting());
    let capacity = given.map_or_else(|| capacity::obtain(&source, &counters), Ok)?;
    capacity.settle(&mut counters)?;
    let options = RunOptions { model: capacity.file.model.clone(), ..options };
    let applied = |options: &RunOptions| set_level(options.log_level);
    let config = Config { reread: &|| args.run_options(), applied: &applied };
    let report = daemon::run(options, &capacity, counters, &config)?;
    complain(&report.text());
    Ok(Exit::Clean)
}
