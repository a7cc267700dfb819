// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Parts of scenarios: figures of a run, and checks.

use crate::case::{Case, TaskSpec};
use crate::kernel::Kernel;
use crate::load::Program;

/// Check of a finished run; the error names the figure that is off.
pub type Check = fn(&Kernel) -> Result<(), String>;

/// A case and its targets.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Name.
    pub name: &'static str,
    /// The case.
    pub case: Case,
    /// Its check.
    pub check: Check,
}

/// Cases of one kind, all with the same targets.
#[derive(Debug, Clone)]
pub struct Family {
    /// Name.
    pub name: &'static str,
    /// Return the case of a seed.
    pub case: fn(u64) -> Case,
    /// Its check.
    pub check: Check,
}

impl Family {
    /// Return the case of a seed as a scenario.
    #[must_use]
    pub fn with(&self, seed: u64) -> Scenario {
        Scenario { name: self.name, case: (self.case)(seed), check: self.check }
    }
}

/// Figures of a task after a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    /// Work done [ns on the reference CPU].
    pub work_ns: u64,
    /// Time that it ran.
    pub ran_ns: u64,
    /// Part of it on slow CPUs.
    pub slow_ns: u64,
    /// Longest wait for a CPU.
    pub longest_wait_ns: u64,
    /// Sum of all waits.
    pub waited_ns: u64,
    /// Times that it was switched in.
    pub switches: u64,
    /// Ticks that interrupted it, remote ones included.
    pub ticks: u64,
    /// Times that it changed its CPU.
    pub migrations: u64,
    /// Rounds of its program.
    pub rounds: u64,
}

impl Kernel {
    /// Return the figures of a task.
    #[must_use]
    pub fn figures(&self, task: usize) -> Figures {
        let Some(task) = self.tasks.get(task) else { return Figures::default() };
        let stats = &task.stats;
        Figures {
            work_ns: stats.work_ps.get() / 1000,
            ran_ns: stats.ran_ns.get(),
            slow_ns: stats.slow_ns.get(),
            longest_wait_ns: stats.longest_wait_ns.get(),
            waited_ns: stats.waited_ns.get(),
            switches: stats.switches.get(),
            ticks: stats.ticks.get(),
            migrations: stats.migrations.get(),
            rounds: task.rounds.get(),
        }
    }

    /// Return the figures of all tasks.
    #[must_use]
    pub fn all_figures(&self) -> Vec<Figures> {
        (0..self.tasks.len()).map(|task| self.figures(task)).collect()
    }

    /// Return the system throughput: work of all tasks over time, in reference CPUs [Eyerman08].
    #[must_use]
    pub fn stp(&self) -> f64 {
        let work: u64 = self.all_figures().iter().map(|figures| figures.work_ns).sum();
        work as f64 / self.now().max(1) as f64
    }
}

pub(super) fn busy(machine: &str, stacks: &[[u32; 3]], seconds_tenths: u64) -> Case {
    let mut case = Case::new(machine, 1);
    case.duration_ns = seconds_tenths * 100_000_000;
    case.tasks = stacks.iter().map(|stack| TaskSpec::new(Program::busy(*stack))).collect();
    case
}

/// Fail unless `value` is within `least` and `most`.
pub(super) fn expect(what: &str, value: f64, least: f64, most: f64) -> Result<(), String> {
    if (least..=most).contains(&value) {
        Ok(())
    } else {
        Err(format!("{what} is {value:.3}, not {least} to {most}"))
    }
}

pub(super) fn ratio(a: u64, b: u64) -> f64 {
    a as f64 / b.max(1) as f64
}

/// Least work of a task over the most work of one.
pub(super) fn evenness(figures: &[Figures]) -> f64 {
    let work = figures.iter().map(|figures| figures.work_ns);
    ratio(work.clone().min().unwrap_or(0), work.max().unwrap_or(0))
}

/// Part of its run time that a task spent on fast CPUs.
pub(super) fn on_fast(figures: &Figures) -> f64 {
    1.0 - ratio(figures.slow_ns, figures.ran_ns)
}
