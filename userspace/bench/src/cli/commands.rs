//! Conversion of parsed arguments to measurements, and of reports to output.

use super::*;
use crate::measure::{self, Sample, Until};
use crate::sched::{self, SchedExt};
use crate::{control, cost, counters, cpus, demo, mix, once, pingpong, ratio, storm, survive};
use serde::Serialize;
use std::io::Write;

/// Run one command. Return its exit code if it did its work.
pub(super) fn run(command: Command) -> Result<u8> {
    match command {
        Command::Ab(args) => return args.run(),
        Command::Under(args) => {
            let command = nested(args.command)?;
            let SchedulerArgs { scheduler_cmd, load_timeout } = args.scheduler;
            return sched::under(SchedExt::system(), &scheduler_cmd, load_timeout, args.unpaced_load, |_| {
                run(command)
            });
        }
        Command::Report(args) => args.run(),
        Command::Compare(args) => args.run(),
        Command::List(args) => args.run(),
        Command::AbBoot(args) => args.run(),
        Command::Work(args) => work(args),
        Command::Ratio(args) => {
            let options = ratio::Options {
                cpus: args.cpus,
                kinds: args.kinds,
                rounds: args.rounds.into(),
                time: args.seconds,
            };
            let report = ratio::run(&options)?;
            print(&args.output, &report, || report.text())
        }
        Command::Mix(args) => {
            let output = args.output.json;
            let report = mix::run(&args.into())?;
            print(&Output { json: output }, &report, || report.text())
        }
        Command::Run(args) => {
            let options = once::Options {
                cell: args.cell,
                window: args.seconds,
                warmup: args.warmup,
                rounds: args.rounds.into(),
                stretch: args.stretch,
                solo: args.solo,
            };
            let report = once::run(&options)?;
            print(&args.output, &report, || report.text())
        }
        Command::Pingpong(args) => {
            let options = pingpong::Options {
                pairs: args.pairs.into(),
                cpu: args.cpu,
                switches: args.switches,
                rounds: args.rounds.into(),
            };
            let report = pingpong::run(&options)?;
            print(&args.output, &report, || report.text())
        }
        Command::Cost(args) => {
            let report = cost::run(&cost::Options { pid: args.pid, time: args.seconds })?;
            print(&args.output, &report, || report.text())
        }
        Command::Demo(args) => {
            let json = args.output.json;
            let report = demo::run(&args.into())?;
            print(&Output { json }, &report, || report.text())
        }
        Command::HoldCounters(args) => hold_counters(&args),
        Command::Storm(args) => {
            let options = storm::Options {
                time: args.seconds,
                seed: args.seed,
                stall_limit: args.stall_limit,
                stress_ng: !args.no_stress_ng,
            };
            let report = storm::run(&options)?;
            print(&args.output, &report, || report.text())?;
            report.verdict()
        }
        Command::Control(args) => {
            let options = control::Options {
                scheduler: args.scheduler.scheduler_cmd,
                timeout: args.scheduler.load_timeout,
                stop: args.stop,
                clients: args.clients,
                flood: args.flood,
                tasks: args.tasks,
            };
            let report = control::run(&options)?;
            print(&args.output, &report, || report.text())
        }
        Command::Survive(args) => {
            let options = survive::Options {
                scheduler: args.scheduler.scheduler_cmd,
                timeout: args.scheduler.load_timeout,
                kills: args.kills,
                hotplug: args.hotplug,
                hotplugs: args.hotplugs,
                stall_limit: args.stall_limit,
                tasks: args.tasks,
            };
            let report = survive::run(&options)?;
            print(&args.output, &report, || report.text())
        }
    }?;
    Ok(0)
}

/// Hold the counters until standard input ends. It ends when the process that started this one is
/// done or dead.
fn hold_counters(args: &HoldArgs) -> Result<()> {
    let cpus = cpus::online()?.0;
    let Some(_held) = counters::hold(&cpus, args.groups.into(), args.pinned)? else {
        return Err(Error::Kernel("there is no PMU named amp; run this in the asymmetric VM".into()));
    };
    eprintln!("bias-bench: holding {} group(s) of counters on {} CPUs", args.groups, cpus.len());
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())
        .map(drop)
        .map_err(|e| Error::failed("waiting for the end of the input", e))
}

impl From<MixArgs> for mix::Options {
    fn from(args: MixArgs) -> Self {
        mix::Options {
            mix: args.tasks,
            window: args.seconds,
            warmup: args.warmup,
            rounds: args.rounds.into(),
            solo: args.solo,
            fast: args.fast_cpus,
        }
    }
}

impl From<DemoArgs> for demo::Options {
    fn from(args: DemoArgs) -> Self {
        let from_env = || std::env::var_os("OUT").map(|folder| PathBuf::from(folder).join("demo.json"));
        demo::Options {
            scheduler: args.scheduler.scheduler_cmd,
            timeout: args.scheduler.load_timeout,
            mixes: args.mixes,
            window: args.seconds,
            warmup: args.warmup,
            rounds: args.rounds.into(),
            fast: args.fast_cpus,
            out: args.out.or_else(from_env),
        }
    }
}

/// Report of `work`.
#[derive(Serialize)]
struct WorkReport {
    schema: &'static str,
    kind: String,
    units_per_s: f64,
    ns_per_unit: f64,
    #[serde(flatten)]
    sample: Sample,
}

fn work(args: WorkArgs) -> Result<()> {
    if let Some(cpu) = args.cpu {
        cpus::require_online(&[cpu])?;
    }
    let until = args.steps.map_or(Until::Elapsed(args.seconds), Until::Steps);
    let sample = measure::run(&args.kind, args.cpu, until)?;
    let report = WorkReport {
        schema: "bias-bench.work/1",
        kind: args.kind.to_string(),
        units_per_s: sample.units_per_s(),
        ns_per_unit: sample.ns_per_unit(),
        sample,
    };
    print(&args.output, &report, || report.text())
}

impl WorkReport {
    fn text(&self) -> String {
        let s = &self.sample;
        let mut out = format!(
            "{} on CPU {}: {} units in {:.3} s ({:.3} s of CPU time), {:.0} units/s, {:.2} ns CPU time each\n",
            self.kind,
            s.cpu,
            s.units,
            s.wall_ns as f64 / 1e9,
            s.cpu_ns as f64 / 1e9,
            self.units_per_s,
            self.ns_per_unit
        );
        if let Some(c) = &s.counters {
            let percent = |part: u64| crate::metrics::share(part as f64, c.cycles as f64) * 100.0;
            out += &format!(
                "{} instructions, {} cycles, stalled {:.1}% outside and {:.1}% inside the core, {} LLC misses\n",
                c.instructions,
                c.cycles,
                percent(c.stall_external),
                percent(c.stall_internal),
                c.llc_misses
            );
        }
        out
    }
}

/// Print a report to standard output. A closed pipe is no error.
pub(super) fn print<T: Serialize>(output: &Output, report: &T, text: impl FnOnce() -> String) -> Result<()> {
    let body = if output.json {
        serde_json::to_string_pretty(report).map_err(|e| Error::failed("writing JSON", e))? + "\n"
    } else {
        text()
    };
    match std::io::stdout().write_all(body.as_bytes()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(Error::failed("standard output", e)),
        _ => Ok(()),
    }
}
