// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Activity of each task between two successive reports.
//!
//! # Problem
//! Reports hold totals and are read while the kernel side writes them. A total may lack a run that
//! has just ended and be correct the next time. Tasks start and end, and pids are reused.
//!
//! # Approach
//! A task's share is the growth of its totals over the interval. [`Totals`] keeps the totals, so a
//! report needs to contain only the tasks that ran. A task without an earlier report has run in the
//! interval only, so its total is its growth. A total that shrank has one of two causes. If it is
//! no longer than the interval, it is another task's with the same pid. Otherwise it was read in
//! the middle of an update, and the growth counts as nothing.
//!
//! # Invariants
//! A share is at most the whole interval. Tasks that did not run are left out. The order is by
//! shares in whole percent, then by gain, so that equal tasks do not change places constantly. A
//! list of all tasks and one of those that ran give the same shares.
//!
//! # Limits
//! A task may reuse the pid of one that ended since the last list of all, and run longer than that
//! one ever did. It is shown once with less than it ran.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::mem::take;
use std::time::Duration;

use serde::Serialize;

use super::confined::{self, Confined};
use bias_agent::bpf::{Bias, TaskReport};
use bias_agent::control::Machine;

/// Tasks that may have ended before a list of all is due, however few there were.
const FEW: usize = 1000;

/// A task in an interval.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TopRow {
    /// The task's state.
    #[serde(flatten)]
    pub task: TaskReport,
    /// Time it ran in the interval [permille of one CPU].
    pub share_permille: u32,
    /// Part of that on fast CPUs [permille].
    pub on_fast_permille: u32,
}

/// Number of tasks by bias.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct BiasCounts {
    /// Fast-biased tasks.
    pub fast_biased: usize,
    /// Slow-biased tasks.
    pub slow_biased: usize,
    /// Unbiased tasks: their speedup is within the band around the average.
    pub unbiased: usize,
    /// Tasks without a profile.
    pub unknown: usize,
}

/// What `status` says of all tasks.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TaskSummary {
    /// Number of tasks by bias.
    #[serde(flatten)]
    pub biases: BiasCounts,
    /// Tasks that occupy a fast CPU for next to nothing.
    pub confined: Vec<Confined>,
}

/// Activity in an interval.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Snapshot {
    /// Its length [ms].
    pub interval_ms: u64,
    /// The CPUs.
    pub machine: Machine,
    /// Average predicted speedup of the running tasks [permille].
    pub average_permille: Option<u32>,
    /// Number of tasks below, by bias.
    pub biases: BiasCounts,
    /// The tasks that ran.
    pub tasks: Vec<TopRow>,
    /// Those of them that occupy a fast CPU for next to nothing.
    pub confined: Vec<Confined>,
}

impl BiasCounts {
    /// Count `tasks` by bias.
    #[must_use]
    pub fn of<'a>(tasks: impl IntoIterator<Item = &'a TaskReport>) -> Self {
        let mut biases = Self::default();
        for task in tasks {
            let of_bias = match (task.speedup_permille, task.bias) {
                (None, _) => &mut biases.unknown,
                (_, Bias::FastBiased) => &mut biases.fast_biased,
                (_, Bias::SlowBiased) => &mut biases.slow_biased,
                (_, Bias::Unbiased) => &mut biases.unbiased,
            };
            *of_bias += 1;
        }
        biases
    }

    /// Return the number of all tasks.
    #[must_use]
    pub fn total(&self) -> usize {
        self.fast_biased + self.slow_biased + self.unbiased + self.unknown
    }
}

impl TaskSummary {
    /// Summarise `tasks`.
    #[must_use]
    pub fn of(tasks: &[TaskReport], machine: &Machine) -> Self {
        Self { biases: BiasCounts::of(tasks), confined: confined::find_now(tasks, machine) }
    }
}

impl Snapshot {
    /// Summarise the tasks that ran in this interval.
    #[must_use]
    pub fn new(
        machine: Machine,
        average_permille: Option<u32>,
        tasks: Vec<TopRow>,
        interval: Duration,
    ) -> Self {
        Self {
            interval_ms: interval.as_millis() as u64,
            machine,
            average_permille,
            biases: BiasCounts::of(tasks.iter().map(|row| &row.task)),
            tasks,
            confined: Vec::new(),
        }
    }
}

/// Time of a task on fast and slow CPUs [ms].
type Times = (f64, f64);

/// The latest known times of each task.
#[derive(Debug, Default)]
pub(super) struct Totals {
    by_pid: HashMap<u32, Times>,
    /// Number of tasks in the last list of all.
    listed: usize,
}

impl Totals {
    /// Take the reports of the tasks that ran in this interval, or of all. Return those that ran,
    /// in order.
    pub(super) fn advance(&mut self, now: Vec<TaskReport>, all: bool, interval: Duration) -> Vec<TopRow> {
        let interval_ms = interval.as_secs_f64() * 1000.0;
        let mut before = HashMap::new();
        if all {
            (before, self.listed) = (take(&mut self.by_pid), now.len());
        }
        let row = |task: TaskReport| {
            let times = (task.fast_ms, task.slow_ms);
            let known = self.by_pid.insert(task.pid, times).or_else(|| before.remove(&task.pid));
            let (fast_ms, slow_ms) = growth(known, times, interval_ms);
            let ran_ms = fast_ms + slow_ms;
            (ran_ms > 0.0).then(|| TopRow {
                task,
                share_permille: permille(ran_ms, interval_ms).max(1),
                on_fast_permille: permille(fast_ms, ran_ms),
            })
        };
        let mut rows: Vec<TopRow> = now.into_iter().filter_map(row).collect();
        rows.sort_by_key(|row| {
            let percent = (row.share_permille + 5) / 10;
            (Reverse((percent, row.task.speedup_permille, row.share_permille)), row.task.pid)
        });
        rows
    }

    /// Return true if half of the known tasks may have ended. Only a list of all tells.
    pub(super) fn are_outdated(&self) -> bool {
        self.by_pid.len() > 2 * self.listed + FEW
    }
}

/// Return the growth of a task's times.
fn growth(before: Option<Times>, now: Times, interval_ms: f64) -> Times {
    let total = |times: Times| times.0 + times.1;
    match before {
        None => now,
        Some(before) if total(now) >= total(before) => {
            ((now.0 - before.0).max(0.0), (now.1 - before.1).max(0.0))
        }
        Some(_) if total(now) <= interval_ms => now,
        Some(_) => (0.0, 0.0),
    }
}

/// Return `part` of `whole` [permille], at most all of it.
fn permille(part: f64, whole: f64) -> u32 {
    if whole > 0.0 { (part / whole * 1000.0).round().clamp(0.0, 1000.0) as u32 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn task(pid: u32, fast_ms: f64, slow_ms: f64) -> TaskReport {
        TaskReport { pid, fast_ms, slow_ms, ..TaskReport::default() }
    }

    fn after(before: &[TaskReport], now: &[TaskReport], interval: Duration) -> Vec<TopRow> {
        let mut totals = Totals::default();
        totals.advance(before.to_vec(), true, SECOND);
        totals.advance(now.to_vec(), true, interval)
    }

    fn shares(before: &[TaskReport], now: &[TaskReport]) -> Vec<(u32, u32, u32)> {
        after(before, now, SECOND)
            .iter()
            .map(|row| (row.task.pid, row.share_permille, row.on_fast_permille))
            .collect()
    }

    #[test]
    fn shares_are_growth_over_the_interval() {
        let before = [task(1, 5000.0, 100.0), task(2, 70.0, 0.0), task(3, 9.0, 9.0)];
        let now = [task(1, 5400.0, 200.0), task(2, 70.0, 0.0), task(4, 0.0, 20.0)];
        // 2 slept, 3 has ended, 4 is new.
        assert_eq!(shares(&before, &now), [(1, 500, 800), (4, 20, 0)]);
        assert_eq!(shares(&[], &[]), []);
    }

    #[test]
    fn a_total_that_shrank_is_another_task_or_none() {
        assert_eq!(shares(&[task(1, 5000.0, 0.0)], &[task(1, 300.0, 0.0)]), [(1, 300, 1000)]);
        assert_eq!(shares(&[task(1, 5000.0, 0.0)], &[task(1, 4990.0, 0.0)]), []);
    }

    #[test]
    fn what_hardly_ran_did_run() {
        assert_eq!(shares(&[], &[task(1, 0.001, 0.0)]), [(1, 1, 1000)]);
    }

    #[test]
    fn ended_tasks_are_forgotten() {
        let mut totals = Totals::default();
        totals.advance(vec![task(1, 1.0, 0.0)], true, SECOND);
        let brief = |pid| task(pid, 1.0, 0.0);
        totals.advance((2..=FEW as u32 + 2).map(brief).collect(), false, SECOND);
        assert!(!totals.are_outdated());
        totals.advance(vec![brief(FEW as u32 + 3)], false, SECOND);
        assert!(totals.are_outdated());
        totals.advance(vec![brief(2)], true, SECOND);
        assert_eq!((totals.by_pid.len(), totals.are_outdated()), (1, false));
    }

    #[test]
    fn equal_shares_are_in_order_of_gain() {
        let gains = |pid, fast_ms, gain| TaskReport { speedup_permille: gain, ..task(pid, fast_ms, 0.0) };
        let now = [
            gains(1, 501.0, None),
            gains(2, 499.0, Some(1100)),
            gains(3, 498.0, Some(2400)),
            gains(4, 900.0, Some(1000)),
        ];
        let order: Vec<u32> = shares(&[], &now).iter().map(|row| row.0).collect();
        assert_eq!(order, [4, 3, 2, 1]);
    }

    #[test]
    fn kinds_are_counted() {
        let bias = |bias, speedup_permille| TaskReport { bias, speedup_permille, ..TaskReport::default() };
        let tasks = [
            bias(Bias::FastBiased, Some(2000)),
            bias(Bias::SlowBiased, Some(1000)),
            bias(Bias::SlowBiased, Some(1100)),
            bias(Bias::Unbiased, Some(1500)),
            bias(Bias::Unbiased, None),
        ];
        let biases = BiasCounts::of(&tasks);
        assert_eq!(biases, BiasCounts { fast_biased: 1, slow_biased: 2, unbiased: 1, unknown: 1 });
        assert_eq!(biases.total(), 5);
    }

    proptest! {
        #[test]
        fn tasks_that_slept_need_not_be_listed(
            steps in prop::collection::vec((prop::collection::vec(0u32..3, 6), any::<bool>()), 1..8),
        ) {
            let (mut complete, mut partial) = (Totals::default(), Totals::default());
            let mut now: Vec<TaskReport> = (0..6).map(|pid| task(pid, 1.0, f64::from(pid))).collect();
            complete.advance(now.clone(), true, SECOND);
            partial.advance(now.clone(), true, SECOND);
            for (growths, all) in steps {
                for (task, growth) in now.iter_mut().zip(&growths) {
                    task.slow_ms += f64::from(*growth);
                }
                let ran = now.iter().zip(&growths).filter(|(_, growth)| all || **growth > 0);
                let ran = ran.map(|(task, _)| task.clone()).collect();
                prop_assert_eq!(complete.advance(now.clone(), true, SECOND), partial.advance(ran, all, SECOND));
            }
        }

        #[test]
        fn no_totals_make_impossible_shares(
            before in prop::collection::vec((0u32..5, 0.0f64..1e9, 0.0f64..1e9), 0..8),
            now in prop::collection::vec((0u32..5, 0.0f64..1e9, 0.0f64..1e9), 0..8),
            interval_ms in 0u64..5000,
        ) {
            let tasks = |totals: Vec<(u32, f64, f64)>| {
                totals.into_iter().map(|(pid, fast, slow)| task(pid, fast, slow)).collect::<Vec<_>>()
            };
            for row in after(&tasks(before), &tasks(now), Duration::from_millis(interval_ms)) {
                prop_assert!((1..=1000).contains(&row.share_permille) && row.on_fast_permille <= 1000);
            }
        }
    }
}
