// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! A whole run, from the host: boots, resuming, the time budget, and the files in the run's
//! directory.
//!
//! # Problem
//! A run takes minutes to hours. A crash, an interrupt or a failed boot must cost at most the
//! current block. The directory must show the state of the run at any time.
//!
//! # Approach
//! The directory is the state. `run.json` describes the plan of the run, `samples.jsonl` holds its
//! results. A session derives the complete blocks from the samples and runs the other blocks boot
//! by boot. Resuming is the same as starting.
//!
//! The time budget is wall time, unlike the clocks of a VM. Each boot measures the wall time per
//! second of the VM, with booting and loading included. Later boots plan with that ratio.
//!
//! # Invariants
//! * A directory holds one run. Resuming with a setting that changes the meaning of its samples or
//!   verdicts is refused, because its report would show only one of two experiments. The message
//!   names the first setting that differs. For an arm, its text counts, not only its name. More
//!   boots or blocks extend the run without a change of its samples. The gate judges a report and
//!   not samples. The seed of the stored run is kept.
//! * `run.json` says complete only when every block of every boot is complete.

use super::boot::{self, Task};
use super::plan::Plan;
use super::runner::{BUDGET_USED, BootProgress, Job, Outcome};
use super::sample::{self, Host, Run, RunCell};
use super::store::{self, Store};
use super::vm::Vm;
use crate::tree::Tree;
use crate::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Maximum retries of a boot of the VM that failed.
const BOOT_RETRIES: usize = 2;

/// Plan, machine and destination of a run.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    /// The plan, already checked.
    pub plan: Plan,
    /// The VM, or None for this machine.
    pub vm: Option<Vm>,
    /// Seed of the orders of visits.
    pub seed: u64,
    /// True if the user chose the seed. Resuming a run with another seed is then refused.
    pub seed_is_chosen: bool,
    /// Wall time for the whole run, or None without a limit.
    pub budget: Option<Duration>,
    /// Directory of the run.
    pub out: PathBuf,
    /// True to continue the run that the directory holds.
    pub resume: bool,
    /// Command line that repeats this run.
    pub command: String,
}

/// Run the missing blocks of all boots and report their progress.
pub fn run(
    options: &SessionOptions,
    interrupted: &AtomicBool,
    progress: &mut dyn FnMut(&BootProgress),
) -> Result<Run> {
    let mut session = Session::open(options)?;
    let result = session.boots(interrupted, progress);
    if let Err(e) = &result {
        session.run.incomplete_why = Some(e.to_string());
    }
    // A full disk makes both fail. The error of the run comes first and explains more.
    let finished = session.finish();
    result?;
    finished?;
    Ok(session.run)
}

struct Session<'a> {
    options: &'a SessionOptions,
    run: Run,
    store: Store,
    begun: Instant,
    /// Time of the boots so far: by the wall clock, and by their own clocks [s].
    boots_s: (f64, f64),
}

impl<'a> Session<'a> {
    fn open(options: &'a SessionOptions) -> Result<Self> {
        let mut run = describe(options)?;
        let begun = Instant::now();
        if !options.resume || !options.out.join(store::RUN_FILE).exists() {
            let store = Store::create(&options.out, &run)?;
            options.plan.write(&options.out.join(store::PLAN_FILE))?;
            return Ok(Session { options, run, store, begun, boots_s: (0.0, 0.0) });
        }
        let (store, stored) = Store::open(&options.out)?;
        let old = stored.run;
        if !options.seed_is_chosen {
            run.seed = old.seed;
        }
        let plan = options.out.join(store::PLAN_FILE);
        let old_plan = if plan.exists() { Some(Plan::read(&plan)?) } else { None };
        let plans = old_plan.as_ref().map(|old| (old, &options.plan));
        if let Some(what) = difference((&old, &run), plans) {
            return Err(Error::Usage(format!(
                "{} holds a run with {what}; give --out another directory, or repeat the run with its own settings: {}",
                options.out.display(),
                old.command
            )));
        }
        options.plan.write(&plan)?;
        run.command = old.command;
        run.failed_arms = old.failed_arms;
        Ok(Session { options, run, store, begun, boots_s: (0.0, 0.0) })
    }

    fn boots(&mut self, interrupted: &AtomicBool, progress: &mut dyn FnMut(&BootProgress)) -> Result<()> {
        let plan = &self.options.plan;
        for boot in 0..plan.all_boots() {
            let (blocks, tried) = self.missing(boot)?;
            if blocks.is_empty() {
                continue;
            }
            let budget = match self.options.budget {
                Some(budget) => {
                    let left = budget.saturating_sub(self.begun.elapsed()) / (plan.all_boots() - boot);
                    if left.is_zero() {
                        self.run.incomplete_why = Some(BUDGET_USED.into());
                        return Ok(());
                    }
                    Some(left)
                }
                None => None,
            };
            let arms = plan.arms().map_err(Error::Usage)?;
            let plan = plan.of_boot(boot);
            let cells = cell_names(&plan)?;
            let (wall_s, guest_s) = self.boots_s;
            let wall_per_guest = (guest_s > 0.0).then(|| wall_s / guest_s);
            let job = Job { seed: self.run.seed, boot, blocks, tried, arms, cells, budget, wall_per_guest };
            let boot_begun = Instant::now();
            let outcome = self.boot(Task { plan, job }, interrupted, progress)?;
            self.boots_s = (wall_s + boot_begun.elapsed().as_secs_f64(), guest_s + outcome.guest_s);
            self.run.failed_arms.extend(outcome.failed_arms);
            if outcome.incomplete.is_some() {
                self.run.incomplete_why = outcome.incomplete;
            }
            if interrupted.load(Relaxed) {
                return Ok(());
            }
        }
        Ok(())
    }

    fn boot(
        &self,
        task: Task,
        interrupted: &AtomicBool,
        progress: &mut dyn FnMut(&BootProgress),
    ) -> Result<Outcome> {
        let Some(vm) = &self.options.vm else {
            return boot::carry_out(&task, &self.options.out, interrupted, progress);
        };
        let own = task.plan.machines().first().copied().flatten().map(String::from);
        let vm = &Vm { machine: own.unwrap_or_else(|| vm.machine.clone()), ..vm.clone() };
        let mut task = task;
        let mut tries = 0;
        loop {
            match vm.carry_out(&task, &self.options.out, interrupted, progress) {
                Err(e) if tries < BOOT_RETRIES && !interrupted.load(Relaxed) => {
                    tries += 1;
                    eprintln!("bias-bench: {e}\nbias-bench: booting again; the samples so far are kept");
                    (task.job.blocks, task.job.tried) = self.missing(task.job.boot)?;
                    if task.job.blocks.is_empty() {
                        return Ok(Outcome::default());
                    }
                }
                result => return result,
            }
        }
    }

    /// Return the blocks of a boot that are not complete, and the last attempt on record for each
    /// block.
    fn missing(&self, boot: u32) -> Result<(Vec<u32>, BTreeMap<u32, u32>)> {
        let samples = store::load(&self.options.out)?.samples;
        let mut tried = BTreeMap::new();
        for sample in samples.iter().filter(|sample| sample.boot == boot) {
            let last = tried.entry(sample.block).or_insert(sample.attempt);
            *last = sample.attempt.max(*last);
        }
        let blocks = sample::valid_blocks(&samples);
        let whole: BTreeSet<u32> = blocks.iter().filter(|b| b.boot == boot).map(|b| b.block).collect();
        Ok(((0..self.options.plan.blocks).filter(|block| !whole.contains(block)).collect(), tried))
    }

    fn finish(&mut self) -> Result<()> {
        let samples = store::load(&self.options.out)?.samples;
        let tally = sample::Tally::of(&samples);
        self.run.blocks_done = tally.used as u32;
        self.run.complete = self.run.blocks_done >= self.run.boots * self.run.blocks;
        if self.run.complete {
            self.run.incomplete_why = None;
        }
        self.store.write_run(&self.run)
    }
}

fn describe(options: &SessionOptions) -> Result<Run> {
    let plan = &options.plan;
    let arms = plan.arms().map_err(Error::Usage)?;
    let workloads = plan.workloads().map_err(Error::Usage)?;
    let names = cell_names(plan)?;
    let name = |text: &str| text.split([':', '@']).next().unwrap_or_default().to_string();
    let own = options.vm.as_ref().map_or("this host", |vm| &vm.machine);
    let machines: Vec<&str> = plan.machines().into_iter().map(|machine| machine.unwrap_or(own)).collect();
    let stretched = (plan.stretch - 1.0).abs() > 1e-9;
    Ok(Run {
        suite: plan.name.clone(),
        seed: options.seed,
        baseline: arms[0].name.clone(),
        unstretched_arms: arms
            .iter()
            .filter(|arm| stretched && !arm.has_knob())
            .map(|arm| arm.name.clone())
            .collect(),
        arms: arms.iter().map(|arm| arm.name.clone()).collect(),
        cells: plan
            .cells
            .iter()
            .zip(workloads.iter().zip(names))
            .map(|(cell, (workload, named))| RunCell {
                name: named,
                workload: name(&workload.name()),
                machine: cell.machine.clone(),
                diversity: cell.diversity,
            })
            .collect(),
        boots: plan.all_boots(),
        blocks: plan.blocks,
        stretch: plan.stretch,
        dead_zone: plan.dead_zone,
        gate: plan.gate.clone(),
        machine: machines.join(", "),
        emulated: options.vm.as_ref().is_some_and(|vm| vm.emulation),
        kernel: options.vm.as_ref().map_or_else(release, |vm| vm.kernel.clone()),
        host: host(),
        tree: Tree::of(Path::new(".")),
        command: options.command.clone(),
        ..Run::default()
    })
}

/// Return the names of a plan's cells.
fn cell_names(plan: &Plan) -> Result<Vec<String>> {
    let workloads = plan.workloads().map_err(Error::Usage)?;
    Ok(plan.cells.iter().zip(&workloads).map(|(cell, workload)| cell.name(workload.as_ref())).collect())
}

fn release() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_string()
}

fn host() -> Host {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':').map(|(_, name)| name.trim()));
    Host {
        cpu: model.unwrap_or("unknown").to_string(),
        cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u32,
    }
}

/// Return the first setting that makes the new run a different one from the old, with both values.
/// Each pair is (old, new). `plans` is None for a run without a stored plan.
fn difference(runs: (&Run, &Run), plans: Option<(&Plan, &Plan)>) -> Option<String> {
    let (old, new) = runs;
    let fewer = [("boots", old.boots, new.boots), ("blocks", old.blocks, new.blocks)];
    let fewer = fewer.into_iter().filter(|(_, old, new)| new < old);
    let fewer = fewer.map(|(what, old, new)| (what, old.to_string(), new.to_string()));
    let of_runs = pairs(of_run(old), of_run(new));
    let of_plans = plans.into_iter().flat_map(|(old, new)| pairs(of_plan(old), of_plan(new)));
    of_runs
        .chain(of_plans)
        .chain(fewer)
        .find(|(_, old, new)| old != new)
        .map(|(what, old, new)| format!("{what} {old}, but this one has {new}"))
}

/// Return the settings with their old and new values.
fn pairs(old: Vec<Named>, new: Vec<Named>) -> impl Iterator<Item = (&'static str, String, String)> {
    old.into_iter().zip(new).map(|((what, old), (_, new))| (what, old, new))
}

/// Name of a setting and its value.
type Named = (&'static str, String);

/// Return the settings of a run that its samples depend on.
fn of_run(run: &Run) -> Vec<Named> {
    let cells = run.cells.iter().map(|cell| {
        cell.name.clone() + &cell.diversity.map_or_else(String::new, |d| format!(" (diversity {d})"))
    });
    vec![
        ("suite", run.suite.clone()),
        ("arms", run.arms.join(", ")),
        ("workloads", cells.collect::<Vec<_>>().join(", ")),
        ("machine", run.machine.clone()),
        ("emulation", run.emulated.to_string()),
        ("kernel", run.kernel.clone()),
        ("seed", run.seed.to_string()),
        ("stretch", run.stretch.to_string()),
        ("dead zone", run.dead_zone.to_string()),
        ("code", run.tree.as_ref().map_or_else(String::new, |tree| tree.digests.to_string())),
    ]
}

/// Return the settings that only the plan holds.
fn of_plan(plan: &Plan) -> Vec<Named> {
    let windows: Vec<String> = (0..plan.cells.len()).map(|cell| seconds(plan.window(cell))).collect();
    vec![
        ("arms", plan.arms.join(", ")),
        ("warm-up", seconds(plan.warmup())),
        ("window", windows.join(", ")),
        ("bpf_stats", plan.bpf_stats.to_string()),
        ("energy", plan.energy.to_string()),
    ]
}

fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
}
