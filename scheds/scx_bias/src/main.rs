//! A sched_ext scheduler for machines with unequal cores.

mod cli;
mod help;
mod output;
mod settings;

use anyhow::Result;
use bias_agent::capacity::{self, Capacity, Source};
use bias_agent::exec;
use bias_agent::failure::{Exit, describe};
use bias_agent::pmu::Counters;
use bias_agent::topology::Topology;
use bias_agent::{check, explain, recal, sched, show};
use bias_policy::table::CapacityTable;
use clap::{CommandFactory, Parser};
use cli::{CalibrateArgs, Cli, Command, ExecArgs, RunArgs, TableArgs, TopArgs};
use output::{log, print};
use std::process::ExitCode;

fn main() -> ExitCode {
    match dispatch(Cli::parse()) {
        Ok(exit) => exit.into(),
        Err(error) => {
            let (exit, message) = describe(&error);
            eprintln!("scx_bias: {message}");
            exit.into()
        }
    }
}

fn dispatch(cli: Cli) -> Result<Exit> {
    match cli.command {
        None => run(&cli.run),
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
        Some(Command::Cgroup(args)) => {
            print(&explain::cgroups(args.socket.as_deref(), args.action.into(), args.json)?)
        }
        Some(Command::Completions { shell }) => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "scx_bias", &mut text);
            print(&String::from_utf8_lossy(&text))
        }
        Some(Command::Man) => {
            let mut text = Vec::new();
            clap_mangen::Man::new(Cli::command()).render(&mut text)?;
            print(&String::from_utf8_lossy(&text))
        }
    }
}

fn run(args: &RunArgs) -> Result<Exit> {
    log(args.verbose);
    if let Some(seconds) = args.monitor {
        sched::monitor(settings::interval("monitor", seconds)?, sched::Monitor::Text)?;
        return Ok(Exit::Clean);
    }
    let settings = args.resolve()?;
    let source = Source {
        capacity_file: settings.capacity_file.clone(),
        force: args.recalibrate,
        ..Source::default()
    };
    // The user's file first, for its errors are the user's to mend; then the machine, before anything is measured or stored.
    let uncounted = Counters::default();
    settings.cgroups()?;
    let given = source.capacity_file.as_ref().map(|_| capacity::obtain(&source, &uncounted)).transpose()?;
    check::refuse_if_unfit()?;
    let options = settings.options(CapacityTable::default())?;
    let mut counters = Counters::open(&Topology::read()?, &options.counting());
    let capacity = given.map_or_else(|| capacity::obtain(&source, &counters), Ok)?;
    capacity.settle(&mut counters)?;
    let references = recal::references(&capacity.file);
    let (table, model, verbose) = (capacity.table, capacity.file.model, args.verbose);
    let options = sched::RunOptions { table, model, verbose, references, ..options };
    let report = sched::run(&options, counters)?;
    eprintln!("scx_bias: {}", report.text());
    Ok(Exit::Clean)
}

fn calibrate(args: &CalibrateArgs) -> Result<Exit> {
    log(args.verbose);
    let counters = Counters::open(&Topology::read()?, &args.counting()?);
    print_table(&capacity::obtain(&args.source(), &counters)?, args.json)
}

fn table(args: &TableArgs) -> Result<Exit> {
    let capacity = capacity::stored(args.capacity_file.as_deref())?;
    match args.matrix {
        Some(component) => print(&show::matrix(&capacity, component.into())?),
        None => print_table(&capacity, args.json),
    }
}

fn execute(args: &ExecArgs) -> Result<Exit> {
    let choice = exec::choose(&args.wish())?;
    for warning in &choice.warnings {
        eprintln!("scx_bias: {warning}");
    }
    if args.dry_run {
        return print(&if args.json { choice.json()? } else { choice.text() });
    }
    if args.verbose {
        eprintln!("scx_bias: {}", choice.summary());
    }
    Err(choice.run(&args.command).into())
}

fn top(args: TopArgs) -> Result<Exit> {
    let interval = settings::interval("interval", args.interval)?;
    explain::top(&explain::TopOptions { interval, count: args.count, json: args.json, socket: args.socket })?;
    Ok(Exit::Clean)
}

fn print_table(capacity: &Capacity, json: bool) -> Result<Exit> {
    print(&if json { show::json(capacity)? } else { show::text(capacity) })
}
