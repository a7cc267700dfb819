// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Follow-up of requested swaps: each is a trial until it is abandoned or judged.

use anyhow::Result;
use bias_policy::audit::{Ending, Experiment, Record};
use bias_policy::table::Class;
use tracing::{debug, info};

use super::backend::{SwapBackend, Task, still};
use super::swap_loop::{MIGRATION_NS, MIN_CHANGE_PERMILLE, MIN_SAMPLES, Swaps};
use super::trial::{Stage, Trial};
use crate::costs::Live;

impl Swaps {
    /// Let both tasks back off before they are swapped again.
    pub(super) fn came_to_nothing(&mut self, trial: &Trial) {
        for side in [trial.up.side, trial.down.side] {
            self.remember(side);
            self.refusals.note(side.pid, false, trial.asked_ns);
        }
    }

    pub(super) fn follow_trials(
        &mut self,
        now_ns: u64,
        kernel: &impl SwapBackend,
        live: &mut Live,
    ) -> Result<()> {
        let mut open = Vec::new();
        let mut trials = std::mem::take(&mut self.trials).into_iter();
        let mut result = Ok(());
        for trial in trials.by_ref() {
            match self.follow(&trial, now_ns, kernel, live) {
                Ok(true) => {}
                Ok(false) => open.push(trial),
                Err(error) => {
                    open.push(trial);
                    result = Err(error);
                    break;
                }
            }
        }
        open.extend(trials);
        self.trials = open;
        result
    }

    /// Return true if `trial` is over.
    fn follow(
        &mut self,
        trial: &Trial,
        now_ns: u64,
        kernel: &impl SwapBackend,
        live: &mut Live,
    ) -> Result<bool> {
        let up = still(&trial.up.side, kernel)?;
        let down = still(&trial.down.side, kernel)?;
        let class_of = |cpu| live.table().get(cpu).map(|entry| entry.class);
        match trial.stage(now_ns, up.as_ref(), down.as_ref(), class_of) {
            Stage::Open => return Ok(false),
            Stage::Undone => {
                debug!("swap of {} and {} was not carried out", trial.up.side.pid, trial.down.side.pid);
                self.tally.undone += 1;
                self.came_to_nothing(trial);
            }
            Stage::Over(experiment) => {
                self.conclude(trial, &experiment, now_ns, live);
                for (half, task) in [(&trial.up, &up), (&trial.down, &down)] {
                    self.refusals.note(half.side.pid, true, now_ns);
                    if task.is_some() { self.remember(half.side) } else { self.forget(half.side.pid) }
                }
            }
            Stage::Left(experiment) => {
                self.conclude(trial, &experiment, now_ns, live);
                self.came_to_nothing(trial);
                for task in [&up, &down].into_iter().flatten() {
                    self.thwarted(task);
                }
            }
        }
        Ok(true)
    }

    fn conclude(&mut self, trial: &Trial, experiment: &Experiment, now_ns: u64, live: &mut Live) {
        let record = self.audit.conclude(experiment, now_ns);
        debug!("swap judged: {record:?}");
        self.learn(&record, live);
        self.history.push(record, trial);
    }

    /// Handle a migration that undid a swap of `task`.
    ///
    /// If the kernel side only moved it because of a short queue, the task need not rest. It backs
    /// off like one whose swap had no effect.
    fn thwarted(&mut self, task: &Task) {
        let mine = task.moved_ns.filter(|_| task.swapped && self.known.contains_key(&task.pid));
        if let Some(moved_ns) = mine {
            self.passed.insert(task.pid, moved_ns);
        }
    }

    /// Learn the time of migrations from this swap, and the costs of slow CPUs from all swaps.
    fn learn(&mut self, record: &Record, live: &mut Live) {
        if record.lost_ns > 0 && matches!(record.ending, Ending::Judged(_)) {
            let each_ns = (record.lost_ns / 2).clamp(MIGRATION_NS.0, MIGRATION_NS.1);
            self.limits.migration_ns = (self.limits.migration_ns * 7 + each_ns) / 8;
        }
        let factors = self.audit.correction.factors_permille();
        let known = live.costs.learned_permille(Class::Slow);
        let differs = factors.iter().zip(known).any(|(new, old)| new.abs_diff(old) >= MIN_CHANGE_PERMILLE);
        if self.audit.correction.samples() >= MIN_SAMPLES && differs {
            info!("swaps taught what slow CPUs cost: calibrated costs times {factors:?} permille");
            live.costs.set_learned(factors);
            self.version = live.costs.version();
        }
    }
}
