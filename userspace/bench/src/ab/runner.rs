//! The order of events of one boot: blocks, visits, cells, repetitions.
//!
//! Problem: what is measured must not depend on who measures. Failing arms, an interrupt and the
//! end of the time budget can come at any point, and none may bias or lose what was measured.
//!
//! Approach: the runner knows no machine. It tells a [`Stage`] which arm to make active and which cell to run, gives
//! every sample to a sink at once, and decides what comes next. The real stage is [`super::stage`]; tests use a scripted
//! one.
//!
//! Invariants:
//! * the arm is proved to have been active after every visit, before its samples count;
//! * whatever happens, the stage is left on the default scheduler.
//!
//! Limits: an arm that fails is dropped for the rest of the boot, and the block it failed in is
//! repeated without it, with the next attempt number.

use super::arms::Arm;
use super::order;
use super::sample::{SAMPLE_SCHEMA, Sample};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// Why a run is incomplete whose time was over. Nothing went wrong: the user wanted it so.
pub const BUDGET_USED: &str = "the time budget is used up";
/// Why a run is incomplete that somebody broke off.
pub const INTERRUPTED: &str = "interrupted";

/// What one cell yielded.
#[derive(Debug, Clone, Default)]
pub struct Measured {
    /// Metrics by name.
    pub metrics: BTreeMap<String, f64>,
    /// Raw figures.
    pub detail: Value,
}

/// The machine, as far as the runner knows it.
pub trait Stage {
    /// Takes down what is active, unless `next` needs the same. What goes wrong is the fault of what was active.
    fn release(&mut self, next: &Arm) -> Result<()>;
    /// Makes the arm active, unless it is.
    fn enter(&mut self, arm: &Arm) -> Result<()>;
    /// Runs cell number `cell` under the active arm.
    fn run(&mut self, arm: &Arm, cell: usize) -> Result<Measured>;
    /// Fails unless the arm was active all the time since `enter`.
    fn check(&mut self) -> Result<()>;
    /// Back to the default scheduler.
    fn leave(&mut self) -> Result<()>;
    /// Wall time since the boot's work began, as far as it is known.
    fn elapsed(&self) -> Duration;
    /// The same by the machine's own clock.
    fn guest_elapsed(&self) -> Duration;
    /// Has the user asked to stop?
    fn interrupted(&self) -> bool {
        false
    }
}

/// Takes what was measured as it comes.
pub trait Sink {
    /// One sample.
    fn sample(&mut self, sample: &Sample) -> Result<()>;
    /// What happens now: for people, and for an estimate of the time left.
    fn progress(&mut self, progress: &Progress);
    /// All samples so far must survive a crash.
    fn block_end(&mut self) -> Result<()>;
}

/// Where a boot's work stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Boot and block.
    pub boot: u32,
    /// The block's number.
    pub block: u32,
    /// Cells run so far, repetitions included.
    pub done: usize,
    /// Cells to run in all, as far as is known.
    pub total: usize,
    /// What runs now.
    pub what: String,
}

/// The work of one boot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Seed of the orders.
    pub seed: u64,
    /// Number of the boot.
    pub boot: u32,
    /// Blocks to run.
    pub blocks: Vec<u32>,
    /// Attempts at them that are on record from before, by block; a new one gets a new number.
    #[serde(default)]
    pub tried: BTreeMap<u32, u32>,
    /// The arms; the first is the baseline.
    pub arms: Vec<Arm>,
    /// Names of the cells.
    pub cells: Vec<String>,
    /// No block begins that would end later than this, as far as can be told from those before.
    /// Wall time.
    pub budget: Option<Duration>,
    /// Wall seconds that a second of the machine takes, if earlier boots have shown it.
    #[serde(default)]
    pub wall_per_guest: Option<f64>,
}

/// How a boot's work ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Blocks that are whole.
    pub blocks_done: u32,
    /// Arms that failed, and how.
    pub failed_arms: BTreeMap<String, String>,
    /// Why not all blocks were run, if so.
    pub incomplete: Option<String>,
    /// How long it took by the machine's own clock, seconds.
    #[serde(default)]
    pub guest_s: f64,
}

/// Where a visit stands.
struct Place {
    block: u32,
    attempt: u32,
    visit: u32,
    /// Index among the arms that have not failed.
    arm: usize,
}

/// How one attempt at a block, or one visit of it, ended.
enum Attempt {
    Whole,
    Failed { arm: usize, why: Error },
    Interrupted,
}

/// Runs a boot's blocks.
pub fn run(job: &Job, stage: &mut dyn Stage, sink: &mut dyn Sink) -> Result<Outcome> {
    let mut boot = Boot { job, arms: job.arms.clone(), active: None, done: 0, outcome: Outcome::default() };
    let result = boot.blocks(stage, sink);
    // The first error tells more than that the stage could not be left either.
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
    /// Index of the one that was entered last.
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

    /// Runs one block until it is whole; false if the run is over.
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
                    // The number must be new: its samples are on record.
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
            // What a failed or interrupted visit yielded is not its arm's for sure.
            if !matches!(ended, Attempt::Whole) {
                return Ok(ended);
            }
            for sample in &samples {
                sink.sample(sample)?;
            }
        }
        Ok(Attempt::Whole)
    }

    /// Runs every cell once under one arm; `samples` gets all of them.
    fn visit(
        &mut self,
        at: &Place,
        stage: &mut dyn Stage,
        sink: &mut dyn Sink,
        samples: &mut Vec<Sample>,
    ) -> Attempt {
        let arm = self.arms[at.arm].clone();
        // An interrupt ends programs, too: what fails then is nobody's fault.
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
                // If the arm is at fault its own word is the better explanation.
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
        sink.progress(&Progress { boot: self.job.boot, block, done: self.done, total, what });
    }
}

#[cfg(test)]
mod tests;
