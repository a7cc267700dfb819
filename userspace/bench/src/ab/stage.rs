// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The real stage: this machine, with its schedulers, knobs and workloads.
//!
//! # Problem
//! Between two visits, nothing but the arm may change. Every change that a visit makes must be
//! undone after it, even after an error.
//!
//! # Approach
//! [`crate::sched::Loaded`] loads a scheduler. It waits until the kernel reports the scheduler
//! enabled, and proves afterwards that the scheduler stayed enabled.
//!
//! In the asymmetric VM the emulation is suspended while a scheduler loads. Loading is not
//! measured, and it takes ten seconds at 60 MIPS. scx_bias calibrates at its start, and would then
//! find all CPUs alike. The stage therefore runs the calibration once beforehand, and passes the
//! resulting file as an option.
//!
//! The default scheduler's time constants are files of debugfs. They are set for arms without a
//! scheduler and restored afterwards. The kernel's knowledge of unequal cores comes and goes with
//! the arm `default-hybrid`.
//!
//! # Invariants
//! Dropping the stage unloads the scheduler and restores the knobs and the kernel's knowledge.
//!
//! # Limits
//! On a real machine the stage cannot detect other load. The order of the blocks and the statistics
//! must absorb it.

use super::arms::{Arm, ArmKind};
use super::energy;
use super::placement::{self, KindProgress};
use super::plan::Plan;
use super::runner::Stage;
use super::sample::Measured;
use super::tuning::{Eaters, Hybrid, Knobs};
use super::usage::{Counting, Usage};
use super::workload::{Env, Workload};
use crate::emulation::Emulation;
use crate::sched::{Loaded, SchedExt};
use crate::solo::Solo;
use crate::spec::WorkKind;
use crate::{Error, Result, cpus, files};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Maximum time until a scheduler must be enabled.
const LOAD_TIMEOUT: Duration = Duration::from_secs(180);
/// Time between loading a scheduler and the first cell, in which the scheduler takes over the
/// existing tasks.
const SETTLE: Duration = Duration::from_millis(200);
/// Time for the kernel to clean up after a scheduler was loaded or unloaded, with the emulation
/// still suspended. Grace periods and the freeing of programs take seconds at the machine's own
/// pace. Without this pause they take 2 % of the fast CPUs from the first cell.
const AFTERMATH: Duration = Duration::from_millis(700);
/// Time to wait before a failure is attributed. Ctrl-C ends the programs under test before this
/// program notices it.
const SIGNAL_GRACE: Duration = Duration::from_millis(50);

/// This machine during one boot's work.
pub struct Machine<'a> {
    plan: &'a Plan,
    workloads: Vec<Box<dyn Workload>>,
    solo: Solo,
    /// Progress by which static arms place tasks. Empty without static arms.
    progress: KindProgress,
    emulation: Option<Emulation>,
    loaded: Option<(String, Loaded)>,
    knobs: Option<Knobs>,
    eaters: Option<(u32, Eaters)>,
    hybrid: Option<Hybrid>,
    counting: Option<Counting>,
    meter: Option<energy::EnergyMeter>,
    /// Path of scx_bias's capacity table, measured before scx_bias is first loaded.
    table: Option<String>,
    begun: Instant,
    /// Wall seconds per second of the clock of `begun`.
    wall_per_guest: f64,
    interrupted: &'a AtomicBool,
    kernel: SchedExt,
    load_timeout: Duration,
    /// Number of online CPUs.
    cpus: usize,
}

impl<'a> Machine<'a> {
    /// Measure the speeds that progress refers to. Return an error if a sched_ext scheduler is
    /// active.
    ///
    /// `wall_per_guest` is the wall time per second of the machine, as earlier boots have measured
    /// it. If None, it is estimated.
    pub fn open(plan: &'a Plan, wall_per_guest: Option<f64>, interrupted: &'a AtomicBool) -> Result<Self> {
        Self::open_with(plan, wall_per_guest, SchedExt::system(), interrupted)
    }

    fn open_with(
        plan: &'a Plan,
        wall_per_guest: Option<f64>,
        kernel: SchedExt,
        interrupted: &'a AtomicBool,
    ) -> Result<Self> {
        let begun = Instant::now();
        let workloads = plan.workloads().map_err(Error::Usage)?;
        if let Some(missing) = workloads.iter().find_map(|w| w.missing()) {
            return Err(Error::Usage(missing));
        }
        if let Some(name) = kernel.active() {
            return Err(Error::OtherScheduler(format!("{name} is active; stop it first")));
        }
        let emulation = Emulation::find();
        let wall_per_guest = match (wall_per_guest, &emulation) {
            (Some(known), _) => known,
            (None, Some(emulation)) => emulation.wall_per_guest()?,
            (None, None) => 1.0,
        };
        let mut solo = Solo::probe(None)?;
        let mut kinds: Vec<WorkKind> = workloads.iter().flat_map(|w| w.kinds()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        solo.add(&kinds)?;
        let statics = plan.arms().map_err(Error::Usage)?.iter().any(Arm::is_static);
        let mut machine = Machine {
            plan,
            workloads,
            solo,
            progress: KindProgress::default(),
            emulation,
            loaded: None,
            knobs: None,
            eaters: None,
            hybrid: None,
            counting: plan.bpf_stats.then(Counting::on).transpose()?,
            meter: None,
            table: None,
            begun,
            wall_per_guest,
            interrupted,
            kernel,
            load_timeout: LOAD_TIMEOUT,
            cpus: cpus::online()?.0.len(),
        };
        if plan.energy {
            let meter = energy::EnergyMeter::find(Path::new("/"), &machine.solo);
            meter.note.iter().for_each(|note| eprintln!("bias-bench: {note}"));
            machine.meter = Some(meter);
        }
        if statics {
            let classes = placement::classes(&machine.solo)?;
            machine.progress = KindProgress::measure(&machine.solo, &classes, &kinds)?;
        }
        Ok(machine)
    }

    /// Return the speeds that progress refers to.
    pub fn solo(&self) -> &Solo {
        &self.solo
    }

    /// Return the CPUs to which a static arm pins the tasks of a cell, and the predicted STP if
    /// there is one. None for other arms.
    fn pins(&mut self, arm: &Arm, cell: usize) -> Result<Option<(Vec<usize>, Option<f64>)>> {
        let Some(batch) = self.workloads[cell].batch().filter(|_| arm.is_static()) else { return Ok(None) };
        let tasks = batch.tasks();
        if arm.kind == ArmKind::GoldenRun {
            return Ok(Some((self.golden_cpus(tasks.len())?, None)));
        }
        let classes = placement::classes(&self.solo)?;
        let (best, worst) = placement::extremes(&tasks, &classes, &self.progress).map_err(Error::Usage)?;
        let chosen = if arm.kind == ArmKind::BestStatic { best } else { worst };
        Ok(Some((chosen.pins, Some(chosen.stp))))
    }

    /// Return the CPUs that `scx_bias exec` chooses for this many tasks, best first.
    fn golden_cpus(&mut self, tasks: usize) -> Result<Vec<usize>> {
        let program = beside_us("scx_bias");
        let with_table = self.with_table(&program)?;
        let options = with_table.strip_prefix(&program).unwrap_or_default();
        let command = format!("{program} exec -n {tasks} --dry-run --json {options}");
        let output = Command::new("sh").args(["-c", &command]).output();
        let output = output.map_err(|e| Error::failed("scx_bias exec", e))?;
        let why = || String::from_utf8_lossy(&output.stderr).trim().to_owned();
        let document: Option<serde_json::Value> = serde_json::from_slice(&output.stdout).ok();
        let cpus = document.as_ref().and_then(|document| document["cpus"].as_array());
        let cpus = cpus.filter(|cpus| cpus.len() == tasks).ok_or_else(|| {
            Error::Usage(format!("arm 'golden-run' has no CPU for each of {tasks} tasks: {}", why()))
        })?;
        Ok(cpus.iter().filter_map(|cpu| cpu["cpu"].as_u64()).map(|cpu| cpu as usize).collect())
    }

    /// Return the CPU time that the loaded scheduler has used so far.
    fn usage(&self) -> Option<Usage> {
        self.loaded.as_ref().map(|(_, loaded)| Usage::of(loaded.pid().as_raw()))
    }

    /// Add a calibrated capacity table to a command that runs scx_bias in the VM. scx_bias would
    /// otherwise calibrate while the emulation is suspended.
    fn with_table(&mut self, command: &str) -> Result<String> {
        if self.emulation.is_none() || !runs_scx_bias(command) || command.contains("--capacity-file") {
            return Ok(command.to_string());
        }
        let table = match &self.table {
            Some(table) => table.clone(),
            None => self.table.insert(calibrate(command)?).clone(),
        };
        Ok(format!("{command} --capacity-file '{table}'"))
    }

    /// Return true if the machine is already set up for the arm.
    fn is_active(&self, arm: &Arm) -> bool {
        match (&self.loaded, &arm.kind) {
            (Some((name, _)), _) => *name == arm.name,
            (None, ArmKind::Command(_)) => false,
            (None, kind) => {
                self.knobs.is_some()
                    && self.eaters.as_ref().map(|(n, _)| *n) == eaten(arm)
                    && self.hybrid.is_some() == (*kind == ArmKind::DefaultHybrid)
            }
        }
    }

    fn load(&mut self, arm: &Arm, command: &str) -> Result<()> {
        let command = self.with_table(&beside_us(command))?;
        let suspended = self.emulation.as_ref().map(Emulation::suspend).transpose()?;
        let kernel = self.kernel.clone();
        let loaded = Loaded::start_unless(kernel, &command, self.load_timeout, self.interrupted)?;
        self.loaded = Some((arm.name.clone(), loaded));
        clear_up(suspended.is_some());
        Ok(())
    }
}

/// Return the share that the arm's eaters take of every CPU [permille]. None for other arms.
fn eaten(arm: &Arm) -> Option<u32> {
    if let ArmKind::Eater(permille) = arm.kind { Some(permille) } else { None }
}

/// Let the kernel finish the work that loading or unloading left, if the emulation is suspended.
fn clear_up(suspended: bool) {
    if suspended {
        std::thread::sleep(AFTERMATH);
    }
}

/// Return true if the program of this command is scx_bias, in any directory.
fn runs_scx_bias(command: &str) -> bool {
    let program = match command.strip_prefix('\'') {
        Some(quoted) => quoted.split('\'').next().unwrap_or_default(),
        None => command.split_whitespace().next().unwrap_or_default(),
    };
    program.rsplit('/').next() == Some("scx_bias")
}

/// Calibrate with the scx_bias program that `command` runs. Return the path of the table.
fn calibrate(command: &str) -> Result<String> {
    let directory = files::writable_directory();
    let path = format!("{directory}/bias-bench-capacity-{}.json", std::process::id());
    let program = command.split(" --").next().unwrap_or(command);
    let status = Command::new("sh")
        .arg("-c")
        .arg(format!("{program} calibrate --force --output '{path}' >/dev/null"))
        .status();
    match status {
        Ok(status) if status.success() => Ok(path),
        Ok(status) => Err(Error::failed(format!("{program} calibrate"), status)),
        Err(e) => Err(Error::failed(format!("{program} calibrate"), e)),
    }
}

/// Replace a program's plain name by the path of the program next to this one, which is of the same
/// build.
fn beside_us(command: &str) -> String {
    let (program, rest) = command.split_once(' ').unwrap_or((command, ""));
    let sibling: Option<PathBuf> =
        std::env::current_exe().ok().map(|exe| exe.with_file_name(program)).filter(|path| path.is_file());
    match sibling {
        Some(path) if !program.contains('/') => format!("'{}' {rest}", path.display()),
        _ => command.to_string(),
    }
}

impl Stage for Machine<'_> {
    fn release(&mut self, next: &Arm) -> Result<()> {
        if self.is_active(next) { Ok(()) } else { self.leave() }
    }

    fn enter(&mut self, arm: &Arm) -> Result<()> {
        if self.is_active(arm) {
            return Ok(());
        }
        match arm.command(self.plan.stretch) {
            Some(command) => self.load(arm, &command).inspect_err(|_| std::thread::sleep(SIGNAL_GRACE))?,
            None => {
                self.knobs = Some(Knobs::stretch(self.plan.stretch)?);
                if arm.kind == ArmKind::DefaultHybrid {
                    let suspended = self.emulation.as_ref().map(Emulation::suspend).transpose()?;
                    self.hybrid = Some(Hybrid::on()?);
                    clear_up(suspended.is_some());
                }
                self.eaters = eaten(arm).map(|n| Ok::<_, Error>((n, Eaters::start(n)?))).transpose()?;
            }
        }
        std::thread::sleep(SETTLE);
        Ok(())
    }

    fn run(&mut self, arm: &Arm, cell: usize) -> Result<Measured> {
        let placement = self.pins(arm, cell)?;
        let pins: Option<Vec<Option<usize>>> =
            placement.as_ref().map(|(pins, _)| pins.iter().map(|&cpu| Some(cpu)).collect());
        let env = Env {
            solo: &self.solo,
            warmup: self.plan.warmup(),
            window: self.plan.window(cell),
            stretch: self.plan.stretch,
            pins: pins.as_deref(),
        };
        let energy = self.meter.as_ref().map(energy::EnergyMeter::read).transpose()?;
        let (used, begun) = (self.usage(), Instant::now());
        let workload = &self.workloads[cell];
        let mut measured = workload.run(&env).inspect_err(|_| std::thread::sleep(SIGNAL_GRACE))?;
        let (wall_ns, used_since) = (begun.elapsed().as_nanos() as f64, self.usage());
        let energy = energy.zip(self.meter.as_ref().map(energy::EnergyMeter::read).transpose()?);
        if let (Some((pins, stp)), Some(object)) = (placement, measured.detail.as_object_mut()) {
            object.insert("pins".into(), pins.into());
            object.extend(stp.map(|stp| ("predicted_stp".into(), stp.into())));
        }
        let metrics = &mut measured.metrics;
        if let Some((meter, (before, after))) = self.meter.as_ref().zip(energy) {
            metrics.extend(meter.metrics(&before, &after, metrics));
        }
        if let Some((before, after)) = used.zip(used_since) {
            let used = after.since(&before);
            let permille = |ns: u64| 1000.0 * ns as f64 / (wall_ns * self.cpus as f64).max(1.0);
            metrics.insert("agent_cpu_permille".into(), permille(used.agent_ns));
            if self.counting.is_some() {
                metrics.insert("bpf_permille".into(), permille(used.bpf_ns));
            }
        }
        Ok(measured)
    }

    fn check(&mut self) -> Result<()> {
        match &mut self.loaded {
            Some((_, loaded)) => loaded.check(),
            None => match self.kernel.active() {
                Some(name) => Err(Error::OtherScheduler(format!(
                    "{name} was loaded by another program during the measurement; stop it, or the service that starts it, and use --resume"
                ))),
                None => Ok(()),
            },
        }
    }

    fn leave(&mut self) -> Result<()> {
        // Dropping these restores the old values.
        self.knobs = None;
        self.eaters = None;
        if self.hybrid.is_some() {
            let suspended = self.emulation.as_ref().map(Emulation::suspend).transpose()?;
            self.hybrid = None;
            clear_up(suspended.is_some());
        }
        match self.loaded.take() {
            Some((_, loaded)) => {
                let suspended = self.emulation.as_ref().map(Emulation::suspend).transpose()?;
                let stopped = loaded.stop();
                clear_up(suspended.is_some());
                stopped
            }
            None => Ok(()),
        }
    }

    fn elapsed(&self) -> Duration {
        self.guest_elapsed().mul_f64(self.wall_per_guest)
    }

    fn guest_elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    fn interrupted(&self) -> bool {
        self.interrupted.load(Relaxed)
    }
}

#[cfg(test)]
mod tests;
