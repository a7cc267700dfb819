// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Scheduling: turns the command line and the configuration file into a running scheduler, and
//! reads the file again on reload.

use crate::cli::RunArgs;
use crate::help;
use crate::output::{complain, log, print, print_part, renamed, usual_level};
use crate::settings;
use anyhow::Result;
use bias_agent::capacity::{self, TableSource};
use bias_agent::check;
use bias_agent::control::Client;
use bias_agent::daemon;
use bias_agent::failure::{Exit, Failure};
use bias_agent::options::{Config, RunOptions};
use bias_agent::pmu::Counters;
use bias_agent::topology::Topology;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

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
        return monitor(args.socket.as_deref(), interval, json);
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

/// Print the statistics of the running instance every `interval`, until it ends or standard output
/// is closed.
fn monitor(socket: Option<&Path>, interval: Duration, json: bool) -> Result<Exit> {
    let mut client = Client::connect(socket)?;
    // The first request begins the first interval, and its answer has zeros.
    client.top()?;
    loop {
        sleep(interval);
        if !print_part(&format!("{}\n", client.top()?.shown(json)))? {
            return Ok(Exit::Clean);
        }
    }
}
