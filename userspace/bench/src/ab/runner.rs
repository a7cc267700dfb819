// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Order of events of one boot: blocks, visits, cells, repetitions.
//!
//! # Problem
//! Results must not depend on the program that measures. A failing arm, an interrupt or the end of
//! the time budget can come at any point. None of them may bias or lose a measurement.
//!
//! # Approach
//! The runner knows no machine. It asks a [`Stage`] to activate an arm and to run a cell. It passes
//! every sample of a complete visit to a sink, and decides on the next step. The real stage is
//! [`super::stage`]. Tests use a scripted one.
//!
//! # Invariants
//! * The stage proves after every visit that the arm was active throughout. Only then do the
//!   samples of that visit count.
//! * The stage is left on the default scheduler in all cases, errors included.
//!
//! # Limits
//! An arm that fails is dropped for the rest of the boot. The block in which it failed is repeated
//! without that arm, under the next attempt number.

use super::arms::Arm;
use super::order;
use super::sample::{Measured, SAMPLE_SCHEMA, Sample};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Reason why a run is incomplete after its time budget. This is not an error: the user sets the
/// budget.
pub const BUDGET_USED: &str = "the time budget is used up";
/// Reason why a run is incomplete after an interrupt.
pub const INTERRUPTED: &str = "interrupted";

/// The machine, as the runner sees it.
pub trait Stage {
    /// Take down the active arm, unless `next` needs the same setup. The runner blames an error on
    /// the arm that was active.
    fn release(&mut self, next: &Arm) -> Result<()>;
    /// Activate the arm, unless it is active already.
    fn enter(&mut self, arm: &Arm) -> Result<()>;
    /// Run the cell with index `cell` under the active arm.
    fn run(&mut self, arm: &Arm, cell: usize) -> Result<Measured>;
    /// Return an error unless the arm was active all the time since `enter`.
    fn check(&mut self) -> Result<()>;
    /// Return to the default scheduler.
    fn leave(&mut self) -> Result<()>;
    /// Return the wall time since the boot's work began, measured or estimated.
    fn elapsed(&self) -> Duration;
    /// Return the time since the boot's work began, by the machine's own clock.
    fn guest_elapsed(&self) -> Duration;
    /// Return true if the user has asked to stop.
    fn interrupted(&self) -> bool {
        false
    }
}

/// Receiver of samples and progress.
pub trait Sink {
    /// Store one sample.
    fn sample(&mut self, sample: &Sample) -> Result<()>;
    /// Report the current step, as a message and as a basis for the time left.
    fn progress(&mut self, progress: &BootProgress);
    /// End a block. All samples so far must survive a crash.
    fn block_end(&mut self) -> Result<()>;
}

/// Progress of a boot's work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BootProgress {
    /// Index of the boot.
    pub boot: u32,
    /// Index of the block within the boot.
    pub block: u32,
    /// Cells run so far, repetitions included.
    pub done: usize,
    /// Cells to run in all, as far as known.
    pub total: usize,
    /// Description of the current step.
    pub what: String,
}

/// The work of one boot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Seed of the orders of visits.
    pub seed: u64,
    /// Index of the boot.
    pub boot: u32,
    /// Blocks to run.
    pub blocks: Vec<u32>,
    /// Attempts at these blocks that are on record, by block. A new attempt gets the next number.
    #[serde(default)]
    pub tried: BTreeMap<u32, u32>,
    /// The arms. The first is the baseline.
    pub arms: Vec<Arm>,
    /// Names of the cells.
    pub cells: Vec<String>,
    /// Wall time for this boot. A block does not begin if it would end later, judged by the longest
    /// block so far.
    pub budget: Option<Duration>,
    /// Wall seconds per second of the machine, if earlier boots have measured it.
    #[serde(default)]
    pub wall_per_guest: Option<f64>,
}

/// Outcome of a boot's work.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Blocks that were completed.
    pub blocks_done: u32,
    /// Arms that failed, with the reason.
    pub failed_arms: BTreeMap<String, String>,
    /// Reason why not all blocks were run, if any.
    pub incomplete: Option<String>,
    /// Duration by the machine's own clock [s].
    #[serde(default)]
    pub guest_s: f64,
}

/// Position of a visit.
struct Place {
    block: u32,
    attempt: u32,
    visit: u32,
    /// Index among the arms that have not failed.
    arm: usize,
}

/// End of one attempt at a block, or of one visit in it.
enum Attempt {
    Whole,
    Failed { arm: usize, why: Error },
    Interrupted,
}

/// Run the blocks of a boot.
pub fn run(job: &Job, stage: &mut dyn Stage, sink: &mut dyn Sink) -> Result<Outcome> {
    let mut boot = Boot { job, arms: job.arms.clone(), active: None, done: 0, outcome: Outcome::default() };
    let result = boot.blocks(stage, sink);
    // If both fail, the first error explains more than the failure to leave the stage.
    let left = stage.leave();
    result?;
    left?;
    boot.outcome.guest_s = stage.guest_elapsed().as_secs_f64();
    Ok(boot.outcome)
}

struct Boot<'a> {
    job: &'a Job,
    /// Arms that have not failed.
    arms: Vec<Arm>,
    /// Index of the arm that was entered last.
    active: Option<usize>,
    done: usize,
    outcome: Outcome,
}

impl Boot<'_> {
    fn blocks(&mut self, stage: &mut dyn Stage, sink: &mut dyn Sink) -> Result<()> {
        let mut longest = Duration::ZERO;
        for (i, &block) in self.job.blocks.iter().enumerate() {
            let begun = stage.elapsed();
            if let Some(budget) = self.job.budget
                && i > 0
                && begun + longest > budget
            {
                self.outcome.incomplete = Some(BUDGET_USED.into());
                return Ok(());
            }
            if !self.block(block, stage, sink)? {
                return Ok(());
            }
            longest = longest.max(stage.elapsed().saturating_sub(begun));
        }
        Ok(())
    }

    /// Run one block until it is complete. Return false if the run is over.
    fn block(&mut self, block: u32, stage: &mut dyn Stage, sink: &mut dyn Sink) -> Result<bool> {
        let mut attempt = self.job.tried.get(&block).copied().unwrap_or(0) + 1;
        loop {
            let ended = self.attempt(block, attempt, stage, sink)?;
            sink.block_end()?;
            match ended {
                Attempt::Whole => {
                    self.outcome.blocks_done += 1;
                    return Ok(true);
                }
                Attempt::Interrupted => {
                    self.outcome.incomplete = Some(INTERRUPTED.into());
                    return Ok(false);
                }
                Attempt::Failed { arm, why } => {
                    // The repetition needs a new attempt number, because samples of this one are on
                    // record.
                    let arm = self.arms.remove(arm);
                    self.active = None;
                    let _ = stage.leave();
                    self.outcome.failed_arms.insert(arm.name.clone(), why.to_string());
                    if self.arms.len() < 2 || arm.name == self.job.arms[0].name {
                        self.outcome.incomplete = Some(format!("arm '{}' failed: {why}", arm.name));
                        return Ok(false);
                    }
                }
            }
            attempt += 1;
        }
    }

    fn attempt(
        &mut self,
        block: u32,
        attempt: u32,
        stage: &mut dyn Stage,
        sink: &mut dyn Sink,
    ) -> Result<Attempt> {
        let order = order::block(self.job.seed, self.job.boot, block, self.arms.len());
        for (visit, &index) in order.iter().enumerate() {
            let at = Place { block, attempt, visit: visit as u32, arm: index };
            let mut samples = Vec::new();
            let ended = self.visit(&at, stage, sink, &mut samples);
            // Samples of a failed or interrupted visit cannot be attributed to its arm.
            if !matches!(ended, Attempt::Whole) {
                return Ok(ended);
            }
            for sample in &samples {
                sink.sample(sample)?;
            }
        }
        Ok(Attempt::Whole)
    }

    /// Run every cell once under one arm and append the results to `samples`.
    fn visit(
        &mut self,
        at: &Place,
        stage: &mut dyn Stage,
        sink: &mut dyn Sink,
        samples: &mut Vec<Sample>,
    ) -> Attempt {
        let arm = self.arms[at.arm].clone();
        // An interrupt also ends the programs under test. Such a failure is not the arm's fault.
        let failed_of = |stage: &dyn Stage, arm, why| match stage.interrupted() {
            true => Attempt::Interrupted,
            false => Attempt::Failed { arm, why },
        };
        let failed = |stage: &dyn Stage, why| failed_of(stage, at.arm, why);
        self.tell(sink, at.block, format!("{}: loading", arm.name));
        if let Err(why) = stage.release(&arm) {
            return failed_of(stage, self.active.unwrap_or(at.arm), why);
        }
        if let Err(why) = stage.enter(&arm) {
            return failed(stage, why);
        }
        self.active = Some(at.arm);
        for (cell, name) in self.job.cells.iter().enumerate() {
            if stage.interrupted() {
                return Attempt::Interrupted;
            }
            self.tell(sink, at.block, format!("{}: {name}", arm.name));
            match stage.run(&arm, cell) {
                Ok(measured) => samples.push(self.sample(at, &arm, name, measured)),
                // If the arm has failed, its own error explains more.
                Err(why) => {
                    let why = stage.check().err().unwrap_or(why);
                    return failed(stage, why);
                }
            }
            self.done += 1;
        }
        stage.check().map_or_else(|why| failed(stage, why), |()| Attempt::Whole)
    }

    fn sample(&self, at: &Place, arm: &Arm, cell: &str, measured: Measured) -> Sample {
        Sample {
            schema: SAMPLE_SCHEMA.into(),
            boot: self.job.boot,
            block: at.block,
            visit: at.visit,
            attempt: at.attempt,
            arm: arm.name.clone(),
            cell: cell.into(),
            metrics: measured.metrics.into_iter().filter(|(_, value)| !value.is_nan()).collect(),
            detail: measured.detail,
        }
    }

    fn tell(&self, sink: &mut dyn Sink, block: u32, what: String) {
        let a_block = 2 * self.arms.len() * self.job.cells.len();
        let left = self.job.blocks.len().saturating_sub(self.outcome.blocks_done as usize);
        let this = self.done - (self.done / a_block.max(1)) * a_block;
        let total = (self.done + left * a_block).saturating_sub(this);
        sink.progress(&BootProgress { boot: self.job.boot, block, done: self.done, total, what });
    }
}

#[cfg(test)]
mod tests;
