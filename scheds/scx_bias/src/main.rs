// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The program `scx_bias`: a sched_ext scheduler for machines with unequal cores, and its commands.

// `print!` and `eprint!` panic when the reader of their output is gone.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod choice;
mod cli;
mod config;
mod explain;
mod help;
mod manual;
mod output;
mod run;
mod settings;
mod show;

use anyhow::{Context, Result};
use bias_agent::capacity::{self, Capacity};
use bias_agent::check;
use bias_agent::failure::{Exit, describe};
use bias_agent::housekeeping;
use bias_agent::optin;
use bias_agent::pmu::Counters;
use bias_agent::topology::Topology;
use clap::{CommandFactory, Parser};
use cli::{CalibrateArgs, CgroupArgs, Cli, Command, ExecArgs, MetricsArgs, TableArgs, TopArgs};
use output::{complain, complain_of_end, log, print, printed};
use std::process::ExitCode;
use tracing::Level;

fn main() -> ExitCode {
    let done = match Cli::try_parse() {
        Ok(cli) => dispatch(cli),
        Err(error) if error.use_stderr() => error.exit(),
        // The text of --help and --version.
        Err(error) => printed(error.print()),
    };
    match done {
        Ok(exit) => exit.into(),
        Err(error) => {
            let (exit, message) = describe(&error);
            complain_of_end(&message);
            exit.into()
        }
    }
}

fn dispatch(cli: Cli) -> Result<Exit> {
    match cli.command {
        None => run::run(cli.run),
        Some(Command::Check(args)) => {
            let report = check::examine(&args.root);
            print(&if args.json { report.json()? } else { report.text() })?;
            Ok(report.exit())
        }
        Some(Command::Calibrate(args)) => calibrate(&args),
        Some(Command::Table(args)) => table(&args),
        Some(Command::Exec(args)) => execute(&args),
        Some(Command::Status(args)) => print(&explain::status(args.socket.as_deref(), args.json)?),
        Some(Command::Top(args)) => top(args),
        Some(Command::Swaps(args)) => {
            explain::swaps(args.socket.as_deref(), args.follow, args.json)?;
            Ok(Exit::Clean)
        }
        Some(Command::Trace(args)) => {
            let length = settings::interval("seconds", args.seconds)?;
            explain::trace(args.socket.as_deref(), &args.perfetto, length)?;
            Ok(Exit::Clean)
        }
        Some(Command::Metrics(args)) => metrics(&args),
        Some(Command::Cgroup(args)) => cgroup(args),
        Some(Command::Reload(args)) => print(&explain::reload(args.socket.as_deref(), args.json)?),
        Some(Command::Config(args)) => {
            print(&config::template(&settings::resolve(&args.options, &args.source)?))
        }
        Some(Command::Completions { shell }) => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "scx_bias", &mut text);
            print(&String::from_utf8_lossy(&text))
        }
        Some(Command::Man { to: Some(directory), .. }) => {
            manual::every_command(&directory)
                .with_context(|| format!("cannot write man pages to {}", directory.display()))?;
            Ok(Exit::Clean)
        }
        Some(Command::Man { toml: true, .. }) => print(&manual::configuration()),
        Some(Command::Man { .. }) => print(&manual::program()?),
    }
}

fn metrics(args: &MetricsArgs) -> Result<Exit> {
    let text = || explain::metrics(args.socket.as_deref());
    let Some(address) = &args.listen else { return print(&text()?) };
    let exporter = explain::Exporter::bind(address, args.group.as_deref())?;
    complain(&format!("metrics are at {}", exporter.address));
    exporter.serve(text)
}

fn cgroup(args: CgroupArgs) -> Result<Exit> {
    let text = match args.action.request() {
        Some(request) => explain::cgroups(args.socket.as_deref(), request, args.json)?,
        None => {
            let _ = log(Level::WARN);
            housekeeping::restore()?;
            explain::restored(optin::restore()?, args.json)?
        }
    };
    print(&text)
}

fn calibrate(args: &CalibrateArgs) -> Result<Exit> {
    let _ = log(if args.verbose { Level::DEBUG } else { Level::INFO });
    let counters = Counters::open(&Topology::read()?, &args.counting()?);
    print_table(&capacity::obtain(&args.source(), &counters)?, args.json)
}

fn table(args: &TableArgs) -> Result<Exit> {
    let capacity = capacity::stored(&Topology::read()?, args.capacity_file.as_deref())?;
    match args.matrix {
        Some(component) => print(&show::matrix(&capacity, component.into())?),
        None => print_table(&capacity, args.json),
    }
}

fn execute(args: &ExecArgs) -> Result<Exit> {
    let choice = choice::choose(args)?;
    for warning in &choice.warnings {
        complain(warning);
    }
    if args.dry_run {
        return print(&if args.json { choice.json()? } else { choice.text() });
    }
    if args.verbose {
        complain(&choice.summary());
    }
    Err(choice.run(&args.command).into())
}

fn top(args: TopArgs) -> Result<Exit> {
    let interval = args.interval.map(|interval| settings::interval("interval", interval)).transpose()?;
    explain::top(&explain::TopOptions { interval, count: args.count, json: args.json, socket: args.socket })?;
    Ok(Exit::Clean)
}

fn print_table(capacity: &Capacity, json: bool) -> Result<Exit> {
    print(&if json { show::json(capacity)? } else { show::text(capacity) })
}
