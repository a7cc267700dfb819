// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! A run of the command: the case, and its figures.

use super::document::{CpuReport, Kind, Placement, Report, SCHEMA, TaskReport, Waits};
use super::failure::{Failure, Result};
use super::grid::grid;
use super::hardware::Hardware;
use super::kinds::Group;
use crate::case::{Case, TaskSpec};
use crate::kernel::Kernel;
use crate::kernel::trace::Stay;
use crate::load::Program;
use crate::optimum::{Fairness, best_stp};
use crate::rng::Rng;
use crate::scenario::Figures;
use crate::unit::Image;

/// Columns of the text's picture.
const COLUMNS: usize = 80;

/// Tasks start within this time [ns].
const START_NS: u64 = 1_000_000;

/// What to simulate.
#[derive(Debug)]
pub struct Plan<'a> {
    /// The machine.
    pub hardware: &'a Hardware,
    /// The mix as text.
    pub mix: &'a str,
    /// Its groups.
    pub groups: &'a [Group],
    /// Virtual time.
    pub seconds: f64,
    /// Seed.
    pub seed: u64,
    /// Time between two ticks of a CPU.
    pub tick_ns: u64,
}

/// Results of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Its figures.
    pub report: Report,
    /// Stays of tasks on CPUs.
    pub stays: Vec<Stay>,
    /// Its length.
    pub duration_ns: u64,
}

impl Plan<'_> {
    fn programs(&self) -> Vec<Program> {
        let rng = Rng::new(self.seed);
        self.groups.iter().flat_map(|group| (0..group.tasks).map(|_| group.program(&rng))).collect()
    }

    fn case(&self, programs: &[Program]) -> Case {
        let mut case = Case::new(&self.hardware.text, self.seed);
        case.duration_ns = (self.seconds * 1e9) as u64;
        case.tick_ns = self.tick_ns;
        case.record = true;
        let rng = Rng::new(self.seed);
        // One shell starts them all, so each begins on its CPU.
        case.tasks = programs
            .iter()
            .map(|program| TaskSpec { start_ns: Some(rng.below(START_NS)), ..TaskSpec::new(program.clone()) })
            .collect();
        case
    }

    /// Simulate.
    ///
    /// # Errors
    /// Runtime failure if the scheduler breaks a rule, usage failure if it does not support the
    /// machine.
    pub fn run(&self) -> Result<Outcome> {
        let programs = self.programs();
        let case = self.case(&programs);
        let duration_ns = case.duration_ns;
        let kernel = Kernel::new(case, Image::Plain)
            .map_err(|error| Failure::usage(format!("{}: {error:#}", self.hardware.name)))?;
        kernel.run_until(duration_ns);
        let (stays, waits) = (kernel.stays(), kernel.waits_so_far());
        kernel.run().map_err(|fault| {
            Failure::runtime(format!(
                "scx_bias breaks a rule of the simulator: {fault}; report it with these options"
            ))
        })?;
        let report = self.report(&kernel, &programs, waits, &stays);
        Ok(Outcome { report, stays, duration_ns })
    }

    fn report(&self, kernel: &Kernel, programs: &[Program], waits: Vec<Vec<u64>>, stays: &[Stay]) -> Report {
        let machine = &self.hardware.machine;
        let duration_ns = (self.seconds * 1e9) as u64;
        let names: Vec<&str> =
            self.groups.iter().flat_map(|group| vec![group.kind.as_str(); group.tasks]).collect();
        let figures = kernel.all_figures();
        let all_run = programs.iter().all(is_busy);
        let best = |progress| best_stp(machine, programs, progress);
        let tasks = names.iter().zip(&figures).zip(&waits).map(|((kind, figures), waits)| TaskReport {
            kind: (*kind).to_owned(),
            progress: figures.work_ns as f64 / duration_ns as f64,
            fast_percent: fast_percent(std::slice::from_ref(figures)),
            longest_wait_us: Waits::new(waits.clone()).longest_us,
        });
        let (_, switches, ..) = kernel.counts_so_far();
        let cpu = |(number, spec): (&u32, &crate::machine::CpuSpec)| CpuReport {
            cpu: *number,
            class: if spec.slow { "slow" } else { "fast" },
            cost_permille: spec.cost_permille,
        };
        Report {
            schema: SCHEMA,
            machine: self.hardware.name.clone(),
            mix: self.mix.to_owned(),
            seconds: self.seconds,
            seed: self.seed,
            cpus: self.hardware.numbers.iter().zip(&machine.cpus).map(cpu).collect(),
            stp: kernel.stp(),
            best_stp: best(Fairness::Any),
            best_equal_stp: if all_run { best(Fairness::Equal) } else { None },
            switches_per_s: switches as f64 / self.seconds,
            kinds: self.kinds(&figures, &waits),
            tasks: tasks.collect(),
            waits: Waits::new(waits.concat()),
            placement: Placement {
                column_ms: self.seconds * 1e3 / COLUMNS as f64,
                rows: grid(stays, machine.cpus.len(), duration_ns, COLUMNS),
            },
        }
    }

    fn kinds(&self, figures: &[Figures], waits: &[Vec<u64>]) -> Vec<Kind> {
        let mut first = 0;
        let kind = |group: &Group| {
            let of = first..first + group.tasks;
            first = of.end;
            let figures = &figures[of.clone()];
            let sum = |value: fn(&Figures) -> u64| figures.iter().map(value).sum::<u64>() as f64;
            Kind {
                kind: group.kind.clone(),
                first: of.start,
                tasks: group.tasks,
                progress: sum(|figures| figures.work_ns) / (self.seconds * 1e9) / group.tasks as f64,
                fast_percent: fast_percent(figures),
                migrations_per_s: sum(|figures| figures.migrations) / self.seconds,
                waits: Waits::new(waits[of].concat()),
            }
        };
        self.groups.iter().map(kind).collect()
    }
}

/// Return true if tasks of the program never sleep, so that equal progress has a meaning.
fn is_busy(program: &Program) -> bool {
    program.ops.iter().all(|op| matches!(op, crate::load::Op::Run { .. }))
}

/// Return the part of the tasks' run time on fast CPUs [percent].
fn fast_percent(figures: &[Figures]) -> f64 {
    let sum = |value: fn(&Figures) -> u64| figures.iter().map(value).sum::<u64>() as f64;
    100.0 - sum(|figures| figures.slow_ns) / sum(|figures| figures.ran_ns).max(1.0) * 100.0
}
