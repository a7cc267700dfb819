// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The A/B commands: ab, report, compare.

use crate::ab::arms::Arm;
use crate::ab::plan::{Cell, Plan};
use crate::ab::report::Report;
use crate::ab::report::gate::Gates;
use crate::ab::runner::{BUDGET_USED, BootProgress};
use crate::ab::sample::Run;
use crate::ab::session::{self, SessionOptions};
use crate::ab::vm::Vm;
use crate::ab::workload::command::{Around, Printed};
use crate::ab::{boot, compare, suites};
use crate::options::{Output, seconds};
use crate::sched::SchedExt;
use crate::{Error, Result};
use clap::Args;
use clap::builder::ArgPredicate;
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Kernel for programs, with the tick rate of most desktops.
const HZ_1000: &str = "6.12-1000";

/// Compare schedulers on the same workloads, in repeated blocks, with intervals and verdicts
///
/// Every block visits each scheduler ("arm") twice, in a random order and then backwards, so that
/// drift affects all alike. Samples are written as they are measured, and --resume continues an
/// interrupted run. The report gives each difference with a 95 % interval and a verdict: better,
/// worse, same (within the dead zone) or inconclusive.
///
/// Exit codes: 0 done, and the gate (if any) is met; 10 the gate is broken; 11 the samples cannot
/// decide the gate; 1 the run failed or is incomplete; 2 usage; 3 the kernel or a capability is
/// missing; 4 another sched_ext scheduler is active.
#[derive(Debug, Args)]
pub(super) struct AbArgs {
    /// Measure in the asymmetric VM with this machine, e.g. 2F2S or 60:60:24:24 (see `cargo xtask
    /// vm --help`). Its cores are emulated: shares and ratios are meaningful, times are stretched
    /// about 50-fold. Of a plan for several machines, only the part for this machine runs [default:
    /// the machines of the plan, else 2F2S; with --command 600:600:240:240, which stretches no
    /// time]
    #[arg(long, value_name = "MACHINE", conflicts_with = "host")]
    vm: Option<String>,
    /// Kernel of the VM: a name that `cargo xtask kernel list` shows, or an image. For commands and
    /// the suites foreign the default has 1000 ticks a second
    #[arg(
        long,
        default_value = "6.12",
        default_value_ifs([
            ("commands", ArgPredicate::IsPresent, Some(HZ_1000)),
            ("suite", ArgPredicate::Equals("foreign".into()), Some(HZ_1000)),
            ("suite", ArgPredicate::Equals("foreign-quick".into()), Some(HZ_1000)),
        ]),
        conflicts_with = "host"
    )]
    kernel: String,
    /// Do not emulate unequal cores in the VM. This is quick and serves to try out a plan, not to
    /// obtain figures
    #[arg(long, conflicts_with = "host")]
    no_emulation: bool,
    /// Measure on this machine, as root where schedulers are loaded. It should run nothing else
    #[arg(long)]
    host: bool,
    /// A plan file (TOML). Every run leaves its plan as plan.toml, as a starting point
    #[arg(long, value_name = "FILE", conflicts_with_all = ["suite", "cells"])]
    plan: Option<PathBuf>,
    /// A built-in plan; `bias-bench list` shows them [default: quick]
    #[arg(long, value_name = "NAME", conflicts_with = "cells")]
    suite: Option<String>,
    /// Workloads instead of a plan's, separated by commas, e.g. 2compute+2chase,pingpong
    #[arg(long, value_delimiter = ',', value_name = "WORKLOADS")]
    cells: Vec<String>,
    /// A command instead of a plan's workloads, e.g. 'make -j8'. A shell runs it until the window
    /// is over, and at least once. Repeatable: each is a workload of its own. The report compares
    /// its wall time and the numbers of --metric. It also shows CPU time, switches and migrations
    #[arg(long = "command", value_name = "COMMAND", conflicts_with_all = ["plan", "suite", "cells"])]
    commands: Vec<String>,
    /// Name of a --command in the report, e.g. 'compile'. Repeatable, in the order of the commands
    #[arg(long = "command-name", value_name = "NAME", requires = "commands")]
    names: Vec<String>,
    /// Command to run before each run of a --command, unmeasured, e.g. 'make clean'
    #[arg(long, value_name = "COMMAND", requires = "commands")]
    prepare: Option<String>,
    /// Command that runs beside each --command, from the warm-up until its end. It starts again
    /// when it ends. Repeatable
    #[arg(long, value_name = "COMMAND", requires = "commands")]
    beside: Vec<String>,
    /// A number to compare in the output of each --command: a regular expression with one group,
    /// and which direction is better, e.g. 'Requests/sec: *([0-9.]+):better=higher'. (?<rps>...)
    /// names the metric. The last match counts. Repeatable
    #[arg(long = "metric", value_name = "REGEX:better=higher", requires = "commands")]
    metrics: Vec<Printed>,
    /// Debian packages, separated by commas, that hold the programs of --command. The VM unpacks
    /// them and their dependencies into its memory, where no program waits for the host's disk
    #[arg(long, value_delimiter = ',', value_name = "PACKAGES", conflicts_with = "host")]
    packages: Vec<String>,
    /// Arms, separated by commas; the first is the baseline. Known arms: default, scx_bias,
    /// best-static, worst-static, golden-run. cfs and eevdf are other names of the default.
    /// default-hybrid is the default scheduler in a kernel that knows its unequal cores (VM only).
    /// default,default-2 compares the default with itself. golden-run pins each task to a CPU that
    /// `scx_bias exec` chooses. eater-30 is the default with 30 thousandths of every CPU consumed,
    /// to check that the comparison finds a known slowdown
    #[arg(long, value_delimiter = ',', value_name = "ARMS")]
    arms: Vec<String>,
    /// Another arm: NAME='COMMAND', any sched_ext scheduler that stays in the foreground. {us:5000}
    /// in it is a time that follows the stretch factor, e.g. 'lavd=scx_lavd --slice-max-us
    /// {us:5000}'. Repeatable
    #[arg(long = "arm", value_name = "NAME=COMMAND")]
    more_arms: Vec<String>,
    /// Wall-clock time for the whole run, e.g. 300 (seconds). No block begins that is expected to
    /// end later. The pace of the VM's clocks is estimated in the first boot and known in later
    /// ones. Less time means fewer blocks and wider intervals
    #[arg(long, value_parser = seconds, value_name = "SECONDS")]
    time: Option<Duration>,
    /// Blocks in each boot. The intervals narrow with the square root of their count
    #[arg(long)]
    blocks: Option<u32>,
    /// Boots of the VM. Placement by chance and memory layout differ between boots. With 3 or more,
    /// the interval also holds for the next boot
    #[arg(long)]
    boots: Option<u32>,
    /// Factor on the time constants of every arm that has a knob (slices of the default and of
    /// scx_bias, {us:N} in commands) and on workloads' periods
    #[arg(long)]
    stretch: Option<f64>,
    /// Seconds to measure a workload at each visit
    #[arg(long, value_name = "SECONDS")]
    window: Option<f64>,
    /// Count the run time of the schedulers' BPF programs. It costs two clock reads per call, so do
    /// not combine it with latency or overhead
    #[arg(long)]
    bpf_stats: bool,
    /// Report the energy of each visit: energy_j where RAPL counters exist and are readable, else
    /// energy_model_j, a model (see docs/guides/ab.md). Two more metrics share the correction for
    /// the number of metrics
    #[arg(long)]
    energy: bool,
    /// Conditions that the run must meet, e.g. stp:no-worse or stp:better,unfairness:no-worse. They
    /// decide the exit code
    #[arg(long)]
    gate: Option<String>,
    /// Seed of the orders, to repeat a run; taken from the clock unless given
    #[arg(long)]
    seed: Option<u64>,
    /// Continue the run in --out: keep whole blocks and measure the rest
    #[arg(long)]
    resume: bool,
    /// Directory for samples, report.html, report.json and logs
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    output: Output,
}

/// Write the report of a run again, and print the verdicts
#[derive(Debug, Args)]
pub(super) struct ReportArgs {
    /// The run's directory
    dir: PathBuf,
    #[command(flatten)]
    output: Output,
}

/// Compare two runs, e.g. of two versions of a scheduler, by their differences to the baseline
#[derive(Debug, Args)]
pub(super) struct CompareArgs {
    /// Directory of the earlier run
    before: PathBuf,
    /// Directory of the later run
    after: PathBuf,
    /// Compare runs of different machines or kernels anyway. The result then mixes both causes
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    output: Output,
}

/// Do the work of one boot inside the VM; used by ab
#[derive(Debug, Args)]
pub(super) struct BootArgs {
    #[arg(long)]
    task: PathBuf,
    #[arg(long)]
    out: PathBuf,
}

impl BootArgs {
    pub(super) fn run(&self) -> Result<()> {
        boot::main(&self.task, &self.out)
    }
}

impl AbArgs {
    fn plan(&self) -> Result<Plan> {
        let mut plan = match (&self.plan, self.cells.is_empty()) {
            (Some(path), _) => Plan::read(path)?,
            (None, false) => Plan { stretch: if self.host { 1.0 } else { 5.0 }, ..Plan::default() },
            (None, true) if !self.commands.is_empty() => {
                Plan { cells: self.command_cells(), ..Plan::default() }
            }
            (None, true) => {
                let suite = suites::find(self.suite.as_deref().unwrap_or("quick")).map_err(Error::Usage)?;
                let plan = (suite.plan)();
                Plan { stretch: if self.host { 1.0 } else { plan.stretch }, ..plan }
            }
        };
        if !self.cells.is_empty() {
            plan.cells = self.cells.iter().map(|text| Cell::of(text)).collect();
        }
        if !self.arms.is_empty() {
            plan.arms.clone_from(&self.arms);
        }
        plan.arms.extend(self.more_arms.iter().cloned());
        if !self.packages.is_empty() {
            plan.packages.clone_from(&self.packages);
        }
        plan.blocks = self.blocks.unwrap_or(plan.blocks);
        plan.boots = if self.host { 1 } else { self.boots.unwrap_or(plan.boots) };
        plan.stretch = self.stretch.unwrap_or(plan.stretch);
        plan.window_s = self.window.unwrap_or(plan.window_s);
        plan.bpf_stats |= self.bpf_stats;
        plan.energy |= self.energy;
        plan.gate = self.gate.clone().or(plan.gate);
        if self.host || self.vm.is_some() {
            plan = plan.on_one_machine(self.vm.as_deref());
        }
        plan.check().map_err(Error::Usage)?;
        if let Some(gate) = &plan.gate {
            gate.parse::<Gates>().map_err(Error::Usage)?;
        }
        Ok(plan)
    }

    /// Return a cell for each --command.
    fn command_cells(&self) -> Vec<Cell> {
        let cell = |(at, line): (usize, &String)| {
            let around = Around {
                label: self.names.get(at).cloned(),
                prepare: self.prepare.clone(),
                beside: self.beside.clone(),
                metrics: self.metrics.clone(),
            };
            Cell { around: Some(around), ..Cell::of(&format!("command:{line}")) }
        };
        self.commands.iter().enumerate().map(cell).collect()
    }

    fn machine(&self, plan: &Plan) -> Result<Option<Vm>> {
        if self.host {
            if plan.arms().map_err(Error::Usage)?.iter().any(|arm: &Arm| arm.command(1.0).is_some()) {
                if !nix::unistd::geteuid().is_root() {
                    return Err(Error::Kernel(
                        "loading schedulers needs root; run with sudo, or measure in the VM with --vm 2F2S"
                            .into(),
                    ));
                }
                SchedExt::system().state()?;
            }
            return Ok(None);
        }
        let suite = self.suite.as_deref().and_then(|name| suites::find(name).ok());
        // Programs have times of their own, so their machine is not stretched.
        let own = if self.commands.is_empty() { "2F2S" } else { "600:600:240:240" };
        let default = suite.map_or(own, |suite| suite.machines[0]);
        Ok(Some(Vm {
            machine: self.vm.clone().unwrap_or_else(|| default.into()),
            kernel: self.kernel.clone(),
            emulation: !self.no_emulation,
            timeout: self.time.unwrap_or(Duration::from_secs(6 * 3600)) + Duration::from_secs(600),
        }))
    }

    /// Run the whole command. Return its exit code.
    pub(super) fn run(&self) -> Result<u8> {
        let plan = self.plan()?;
        for remark in plan.arms().map_err(Error::Usage)?.iter().filter_map(Arm::remark) {
            eprintln!("bias-bench: {remark}");
        }
        let seed = self.seed.unwrap_or_else(seed_from_clock);
        let options = SessionOptions {
            vm: self.machine(&plan)?,
            seed,
            seed_is_chosen: self.seed.is_some(),
            budget: self.time,
            out: self.out.clone(),
            resume: self.resume,
            command: replay(seed),
            plan,
        };
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, interrupted.clone())
                .map_err(|e| Error::failed("handling signals", e))?;
        }
        let mut meter = Meter::new(options.plan.all_boots());
        let run = session::run(&options, &interrupted, &mut |step| meter.show(step));
        meter.end();
        let run = match run {
            Ok(run) => run,
            // Nothing was measured.
            Err(e @ Error::Usage(_)) => return Err(e),
            Err(e) => {
                // The samples so far deserve a report. The error remains the last line of output.
                if let Ok(report) = Report::from_dir(&self.out) {
                    eprint!("{}", report.text());
                    // The disk may be full, which the error below reports.
                    let _ = report.write(&self.out);
                }
                return Err(e);
            }
        };
        let report = shown(&self.out, &self.output)?;
        if let Some(why) = gap(&run) {
            return Err(Error::Runtime(format!("the run is incomplete, --resume continues it: {why}")));
        }
        if let Some(gate) = &run.gate {
            let gate = gate.parse::<Gates>().map_err(Error::Usage)?.check(&report)?;
            eprintln!("bias-bench: the gate is {}", format!("{gate:?}").to_lowercase());
            return Ok(gate.exit_code());
        }
        Ok(0)
    }
}

/// Return the reason why a run lacks blocks that the user asked for. None if it is complete, or if
/// the time budget ended it.
fn gap(run: &Run) -> Option<&str> {
    let why = run.incomplete_why.as_deref().unwrap_or("blocks are missing");
    (!run.complete && why != BUDGET_USED).then_some(why)
}

/// Judge a run, print the verdicts and write the reports into its directory.
fn shown(dir: &Path, output: &Output) -> Result<Report> {
    let report = Report::from_dir(dir)?;
    // Printing comes first because it also works on a full disk and in a read-only directory.
    output.print_as(&report, || report.text() + &files(dir))?;
    report.write(dir)?;
    Ok(report)
}

fn files(out: &Path) -> String {
    format!("\nReport: {0}/report.html, {0}/report.json; samples: {0}/samples.jsonl\n", out.display())
}

impl ReportArgs {
    pub(super) fn run(&self) -> Result<()> {
        shown(&self.dir, &self.output).map(drop)
    }
}

impl CompareArgs {
    pub(super) fn run(&self) -> Result<()> {
        let comparison = compare::compare_dirs(&self.before, &self.after, self.force)?;
        self.output.print_as(&comparison, || comparison.text())
    }
}

/// Return the command line that repeats this run, with its seed.
fn replay(seed: u64) -> String {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--resume").collect();
    let seeded = words.iter().any(|word| word == "--seed" || word.starts_with("--seed="));
    let quoted = words.iter().map(|word| {
        let plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./,+:=@".contains(c));
        if plain { word.clone() } else { format!("'{}'", word.replace('\'', "'\\''")) }
    });
    let line: Vec<String> = std::iter::once("bias-bench".to_string()).chain(quoted).collect();
    line.join(" ") + &if seeded { String::new() } else { format!(" --seed {seed}") }
}

fn seed_from_clock() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    now.as_nanos() as u64
}

/// Progress of a comparison on standard error, with an estimate of the time left: a bar on a
/// terminal, elsewhere one line per visit.
struct Meter {
    boots: u32,
    begun: Instant,
    bar: Option<ProgressBar>,
    said: String,
}

impl Meter {
    /// Start the meter for a run of this many boots.
    fn new(boots: u32) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(1);
            // The template is constant. A mistake in it would only change the appearance.
            if let Ok(style) = ProgressStyle::with_template("{bar:24} {percent:>3}% [{elapsed}] {wide_msg}") {
                bar.set_style(style);
            }
            bar
        });
        Meter { boots, begun: Instant::now(), bar, said: String::new() }
    }

    /// Show the current step.
    fn show(&mut self, step: &BootProgress) {
        let total = step.total.max(1) as f64;
        let share =
            ((f64::from(step.boot) + step.done as f64 / total) / f64::from(self.boots)).clamp(0.0, 1.0);
        let left = match share {
            share if share > 0.02 => {
                let left = self.begun.elapsed().mul_f64((1.0 - share) / share);
                format!("{} left", HumanDuration(left))
            }
            _ => "estimating".to_string(),
        };
        let text = format!(
            "boot {}/{}, block {}: {} ({left})",
            step.boot + 1,
            self.boots,
            step.block + 1,
            step.what
        );
        match &self.bar {
            Some(bar) => {
                bar.set_length(1000);
                bar.set_position((share * 1000.0) as u64);
                bar.set_message(text);
            }
            None => {
                let place = format!(
                    "{}/{}/{}",
                    step.boot,
                    step.block,
                    step.what.split(':').next().unwrap_or_default()
                );
                if place != self.said {
                    eprintln!("[{:3.0} %] {text}", share * 100.0);
                    self.said = place;
                }
            }
        }
    }

    /// Clear the bar.
    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
