// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! History of tasks since top began.
//!
//! # Problem
//! The instance reports the present. A user who opens a task wants to see how it came there, and
//! must not have to choose the task beforehand. Memory must not grow with time.
//!
//! # Approach
//! Each answer adds a sample to every task that ran. A task's samples cover the whole time: when
//! [`SAMPLES_MAX`] are there, every second one goes, and from then on a sample stands for twice as
//! many answers. A change of the CPU between two answers is a move.
//!
//! # Invariants
//! * There are at most [`TASKS_MAX`] tasks, with [`SAMPLES_MAX`] samples and [`MOVES_MAX`] moves
//!   each. The tasks that have not run for longest go first.
//! * Samples are in order of time, and the last one is of the latest answer in which the task ran.
//! * A pid that another task reuses begins a new history.
//!
//! # Limits
//! A sample that stands for several answers shows the last of them.

use std::collections::{HashMap, VecDeque};

use super::super::shares::TopRow;
use bias_agent::bpf::{Reason, TaskReport};

/// Most samples of a task.
pub(super) const SAMPLES_MAX: usize = 120;
/// Most moves of a task; older ones are only counted.
pub(super) const MOVES_MAX: usize = 16;
/// Most tasks with a history.
pub(super) const TASKS_MAX: usize = 10_000;

/// Prediction for a task in a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Prediction {
    /// Speedup [permille], at most 65 535.
    pub(super) speedup_permille: u16,
    /// CPI stack: execute, internal and external [permille].
    pub(super) stack_permille: [u16; 3],
}

/// State of a task in one answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sample {
    /// Time since top began [ms].
    pub(super) at_ms: u32,
    /// Prediction, None if unknown.
    pub(super) prediction: Option<Prediction>,
    /// Time that the task ran in the interval before [permille of one CPU].
    pub(super) share_permille: u16,
    /// Part of that on fast CPUs [permille].
    pub(super) on_fast_permille: u16,
}

/// Change of a task's CPU between two answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CpuMove {
    /// Time since top began at which it was seen [ms].
    pub(super) at_ms: u64,
    /// CPU in the earlier answer.
    pub(super) from: u32,
    /// CPU in the later answer.
    pub(super) to: u32,
    /// Reason of the task's last migration while it ran, in the later answer.
    pub(super) reason: Reason,
}

/// History of one task.
#[derive(Debug, Default)]
pub(super) struct TaskHistory {
    tgid: u32,
    ran_ms: f64,
    cpu: u32,
    /// Time of the latest answer in which the task ran [ms].
    pub(super) last_ms: u64,
    /// Samples, the oldest first.
    pub(super) samples: Vec<Sample>,
    /// Answers for which a sample stands.
    stride: u32,
    /// Answers for which the last sample stands.
    held: u32,
    /// Latest moves, the newest last.
    pub(super) moves: VecDeque<CpuMove>,
    /// Number of all moves since the history began.
    pub(super) moved: u64,
}

impl TaskHistory {
    fn new(task: &TaskReport) -> Self {
        Self { tgid: task.tgid, cpu: task.cpu, stride: 1, ..Self::default() }
    }

    fn is_of(&self, task: &TaskReport) -> bool {
        self.tgid == task.tgid && self.ran_ms <= ran_ms(task)
    }

    fn note(&mut self, row: &TopRow, at_ms: u64) {
        let task = &row.task;
        if task.cpu != self.cpu {
            if self.moves.len() == MOVES_MAX {
                self.moves.pop_front();
            }
            self.moves.push_back(CpuMove { at_ms, from: self.cpu, to: task.cpu, reason: task.reason });
            self.moved += 1;
        }
        (self.cpu, self.ran_ms, self.last_ms) = (task.cpu, ran_ms(task), at_ms);
        self.push(sample(row, at_ms));
    }

    fn push(&mut self, sample: Sample) {
        if self.held < self.stride
            && let Some(last) = self.samples.last_mut()
        {
            *last = sample;
            self.held += 1;
            return;
        }
        if self.samples.len() == SAMPLES_MAX {
            let mut at = 0;
            self.samples.retain(|_| {
                at += 1;
                at % 2 == 0
            });
            self.stride = self.stride.saturating_mul(2);
        }
        self.samples.push(sample);
        self.held = 1;
    }
}

/// Histories of tasks, by pid.
#[derive(Debug, Default)]
pub(super) struct Histories(HashMap<u32, TaskHistory>);

impl Histories {
    /// Add the tasks of an answer, `at_ms` after top began.
    pub(super) fn note(&mut self, rows: &[TopRow], at_ms: u64) {
        for row in rows {
            let task = &row.task;
            let history = self.0.entry(task.pid).or_insert_with(|| TaskHistory::new(task));
            if !history.is_of(task) {
                *history = TaskHistory::new(task);
            }
            history.note(row, at_ms);
        }
        self.forget();
    }

    /// Return the history of a task, None if it has not run since top began or is forgotten.
    pub(super) fn of(&self, pid: u32) -> Option<&TaskHistory> {
        self.0.get(&pid)
    }

    /// Remove the tasks above the bound that have not run for longest.
    fn forget(&mut self) {
        let excess = self.0.len().saturating_sub(TASKS_MAX);
        if excess == 0 {
            return;
        }
        let mut ages: Vec<(u64, u32)> = self.0.iter().map(|(pid, history)| (history.last_ms, *pid)).collect();
        ages.select_nth_unstable(excess - 1);
        for (_, pid) in ages.iter().take(excess) {
            self.0.remove(pid);
        }
    }
}

fn ran_ms(task: &TaskReport) -> f64 {
    task.fast_ms + task.slow_ms
}

fn sample(row: &TopRow, at_ms: u64) -> Sample {
    let short = |permille: u32| u16::try_from(permille).unwrap_or(u16::MAX);
    let prediction = row.task.speedup_permille.zip(row.task.stack_permille);
    Sample {
        at_ms: u32::try_from(at_ms).unwrap_or(u32::MAX),
        prediction: prediction.map(|(speedup, stack)| Prediction {
            speedup_permille: short(speedup),
            stack_permille: [stack.execute, stack.internal, stack.external].map(short),
        }),
        share_permille: short(row.share_permille),
        on_fast_permille: short(row.on_fast_permille),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn row(pid: u32, cpu: u32, ran_ms: f64) -> TopRow {
        let task = TaskReport { pid, cpu, fast_ms: ran_ms, ..TaskReport::default() };
        TopRow { task, share_permille: 500, on_fast_permille: 1000 }
    }

    #[test]
    fn a_reused_pid_begins_again() {
        let mut histories = Histories::default();
        histories.note(&[row(1, 0, 100.0)], 0);
        histories.note(&[row(1, 1, 150.0)], 1000);
        assert_eq!(histories.of(1).map(|history| history.moved), Some(1));
        histories.note(&[row(1, 2, 3.0)], 2000);
        assert_eq!(histories.of(1).map(|history| (history.moved, history.samples.len())), Some((0, 1)));
        let mut other = row(1, 3, 500.0);
        other.task.tgid = 9;
        histories.note(&[other], 3000);
        assert_eq!(histories.of(1).map(|history| (history.moved, history.last_ms)), Some((0, 3000)));
    }

    #[test]
    fn the_tasks_that_have_not_run_for_longest_are_forgotten() {
        let mut histories = Histories::default();
        let most = TASKS_MAX as u32;
        histories.note(&[row(0, 0, 1.0)], 0);
        let rows: Vec<TopRow> = (1..=most).map(|pid| row(pid, 0, 1.0)).collect();
        histories.note(&rows, 1000);
        assert_eq!(histories.0.len(), TASKS_MAX);
        assert!(histories.of(0).is_none() && histories.of(most).is_some());
    }

    #[test]
    fn a_full_history_fits_its_bound() {
        let task = SAMPLES_MAX * size_of::<Sample>() + MOVES_MAX * size_of::<CpuMove>();
        // The map and the vectors take up to twice what they hold.
        assert!(TASKS_MAX * 2 * (task + size_of::<TaskHistory>()) <= 60_000_000, "{task}");
    }

    proptest! {
        /// Samples are bounded, in order, cover the whole time and end with the latest answer.
        #[test]
        fn samples_cover_the_whole_time(
            steps_ms in prop::collection::vec(1u64..5000, 1..600), cpus in 1u32..4,
        ) {
            let mut histories = Histories::default();
            let mut now_ms = 0;
            for (at, step_ms) in steps_ms.iter().enumerate() {
                now_ms += step_ms;
                histories.note(&[row(7, at as u32 % cpus, at as f64)], now_ms);
            }
            let Some(history) = histories.of(7) else { return Err(TestCaseError::fail("no history")) };
            let samples = &history.samples;
            prop_assert!((1..=SAMPLES_MAX).contains(&samples.len()));
            prop_assert!(samples.is_sorted_by(|a, b| a.at_ms < b.at_ms));
            prop_assert_eq!(samples.last().map(|sample| u64::from(sample.at_ms)), Some(now_ms));
            // The first sample stands for the first answers.
            let stride = history.stride as usize;
            prop_assert!(stride * SAMPLES_MAX <= 2 * steps_ms.len().max(SAMPLES_MAX / 2 + 1) || stride == 1);
            let first: u64 = steps_ms.iter().take(stride).sum();
            prop_assert!(samples.first().is_some_and(|sample| u64::from(sample.at_ms) <= first));
            let moved = if cpus == 1 { 0 } else { steps_ms.len() as u64 - 1 };
            prop_assert_eq!(history.moved, moved);
            prop_assert!(history.moves.len() as u64 == moved.min(MOVES_MAX as u64));
        }
    }
}
