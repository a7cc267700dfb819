// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Scheduling: turns the command line and the configuration file into a running scheduler, and
//! reads the file again on reload.

use crate::cli::RunArgs;
use crate::config;
use crate::help;
use crate::output::{complain, log, print, print_part, usual_level};
use anyhow::Result;
use bias_agent::capacity::{self, TableSource};
use bias_agent::check;
use bias_agent::control::Client;
use bias_agent::daemon;
use bias_agent::failure::{Exit, Failure};
use bias_agent::optin::cgroup;
use bias_agent::options::values::{LogLevel, StatsFormat};
use bias_agent::options::{Config, RunOptions};
use bias_agent::pmu::Counters;
use bias_agent::topology::Topology;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

impl RunArgs {
    /// Return the log level that `-v` selects; the lowest without it.
    fn level(&self) -> LogLevel {
        match self.verbose {
            0 => LogLevel::Error,
            1 => LogLevel::Debug,
            _ => LogLevel::Trace,
        }
    }

    /// Return the options of the scheduler.
    ///
    /// # Errors
    /// As [`config::resolve`]. Also a failure for a path that cannot be a cgroup.
    fn run_options(&self) -> Result<RunOptions, Failure> {
        let resolved = config::resolve(&self.options, &self.source)?;
        for path in &resolved.options.cgroups {
            cgroup::find(Path::new("/"), path).map_err(|failure| resolved.locate(&["cgroups"], failure))?;
        }
        let chosen = resolved.options.log_level;
        let level = if resolved.gives("log_level") { chosen } else { usual_level() };
        let log_level = level.max(self.level());
        Ok(RunOptions { verbose: self.verbose > 0, log_level, ..resolved.options })
    }
}

/// Schedule until a signal or the kernel ends the scheduler. With `--monitor`, print statistics
/// instead.
///
/// # Errors
/// Failures of options, of the machine's requirements, of calibration and of the scheduler.
pub fn run(args: RunArgs) -> Result<Exit> {
    if args.help_stats {
        return print(&format!("{}\n", help::statistics()));
    }
    let set_level = log(usual_level().max(args.level()).into());
    if let Some(interval) = args.monitor {
        let json = args.options.over(RunOptions::default())?.stats_format == StatsFormat::Json;
        return monitor(args.socket.as_deref(), interval.duration(), json);
    }
    let options = args.run_options()?;
    set_level(options.log_level.into());
    let source = TableSource {
        capacity_file: options.capacity_file.clone(),
        force: args.new_table,
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
    let applied = |options: &RunOptions| set_level(options.log_level.into());
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::command::Cli;
    use clap::Parser;

    #[test]
    fn each_v_prints_more() {
        let level =
            |flags: &[&str]| Cli::try_parse_from([&["scx_bias"], flags].concat()).unwrap().run.level();
        let levels = [level(&[]), level(&["-v"]), level(&["-vv"]), level(&["-v", "-v", "-v"])];
        assert_eq!(levels, [LogLevel::Error, LogLevel::Debug, LogLevel::Trace, LogLevel::Trace]);
    }
}
