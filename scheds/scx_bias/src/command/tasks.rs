// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tasks as commands show them: their activity between two successive reports, their biases, and
//! those that are confined to fast CPUs although they gain next to nothing there.
//!
//! # Problem
//! Reports hold totals and are read while the kernel side writes them. A total may lack a run that
//! has just ended and be correct the next time. Tasks start and end, and pids are reused.
//!
//! Pinning a program that mostly waits for memory to the fastest CPUs costs the others more than
//! the program gains (\[Reif20\], section 5.2). scx_bias may not migrate such a task, so it names
//! it.
//!
//! # Approach
//! A task's share is the growth of its totals over the interval. [`Totals`] keeps the totals, so a
//! report needs to contain only the tasks that ran. A task without an earlier report has run in the
//! interval only, so its total is its growth. A total that shrank has one of two causes. If it is
//! no longer than the interval, it is another task's with the same pid. Otherwise it was read in
//! the middle of an update, and the growth counts as nothing.
//!
//! A prediction is an average of few windows. A program that starts disturbs those of others for
//! some tens of milliseconds, `status` as well. A task that would count as confined if it gained a
//! little less is therefore judged once more after [`SETTLE`].
//!
//! # Invariants
//! A share is at most the whole interval. Tasks that did not run are left out. The order is by
//! shares in whole percent, then by gain, so that equal tasks do not change places constantly. A
//! list of all tasks and one of those that ran give the same shares.
//!
//! # Limits
//! A task may reuse the pid of one that ended since the last list of all, and run longer than that
//! one ever did. Its first row understates its run time.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::mem::take;
use std::ops::RangeInclusive;
use std::time::Duration;

use bias_agent::affinity;
use bias_agent::bpf::{Bias, Reason, TaskReport};
use bias_agent::control::Machine;
use bias_agent::cpulist;
use bias_agent::figures::{count, ratio};
use bias_policy::table::Class;
use serde::Serialize;

use crate::output::cut;

/// Tasks that may have ended before a list of all is due, however few there were.
const ENDED_MIN: usize = 1000;
/// A task up to this speedup takes a fast CPU for next to nothing [permille].
const LITTLE_PERMILLE: u32 = 1100;
/// A task above [`LITTLE_PERMILLE`], but not above this, may only be disturbed [permille].
const DOUBTFUL_PERMILLE: u32 = 1300;
/// Time in which the windows of a disturbed task are replaced.
const SETTLE: Duration = Duration::from_millis(300);
/// A task that ran on fast CPUs for less than this is no burden [ms].
const MIN_MS: f64 = 1000.0;
/// Windows of its own after which a prediction counts. Whether it is stable does not matter: one
/// window that interrupts disturb makes it unstable for some time.
const MIN_WINDOWS: u32 = 8;
/// Columns of a name at most.
const NAME_MAX: usize = 15;

/// A task in an interval.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TopRow {
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
    pub fast_biased: usize,
    pub slow_biased: usize,
    /// Tasks whose speedup is within the band around the average.
    pub unbiased: usize,
    /// Tasks without a profile.
    pub unknown: usize,
}

/// Summary of all tasks for `status`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TaskSummary {
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
    pub machine: Machine,
    /// Average predicted speedup of the running tasks [permille].
    pub average_permille: Option<u32>,
    /// Number of tasks below, by bias.
    pub biases: BiasCounts,
    /// Tasks that ran.
    pub tasks: Vec<TopRow>,
    /// Those of them that occupy a fast CPU for next to nothing.
    pub confined: Vec<Confined>,
}

impl BiasCounts {
    /// Count `tasks` by bias.
    pub fn of<'a>(tasks: impl IntoIterator<Item = &'a TaskReport>) -> Self {
        let mut biases = Self::default();
        for task in tasks {
            let of_bias = match bias(task) {
                None => &mut biases.unknown,
                Some(Bias::FastBiased) => &mut biases.fast_biased,
                Some(Bias::SlowBiased) => &mut biases.slow_biased,
                Some(Bias::Unbiased) => &mut biases.unbiased,
            };
            *of_bias += 1;
        }
        biases
    }

    pub fn total(&self) -> usize {
        self.fast_biased + self.slow_biased + self.unbiased + self.unknown
    }

    /// Describe tasks by bias. Unknown ones are mentioned when there are any.
    pub fn text(&self) -> String {
        let Self { fast_biased, slow_biased, unbiased, unknown } = self;
        let unknown = if *unknown == 0 { String::new() } else { format!(", {unknown} unknown") };
        let all = count(self.total(), "task");
        format!("{all}: {fast_biased} fast-biased, {slow_biased} slow-biased, {unbiased} unbiased{unknown}")
    }
}

impl TaskSummary {
    /// Summarise `tasks`.
    pub fn of(tasks: &[TaskReport], machine: &Machine) -> Self {
        Self { biases: BiasCounts::of(tasks), confined: confined(tasks, machine) }
    }
}

impl Snapshot {
    /// Summarise the tasks that ran in this interval.
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
pub struct Totals {
    by_pid: HashMap<u32, Times>,
    /// Number of tasks in the last list of all.
    listed: usize,
}

impl Totals {
    /// Process the reports of the tasks that ran in this interval, or of all. Return those that
    /// ran, in order.
    pub fn advance(&mut self, now: Vec<TaskReport>, all: bool, interval: Duration) -> Vec<TopRow> {
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

    /// Return true if half of the known tasks may have ended. Only a list of all shows which.
    pub fn are_outdated(&self) -> bool {
        self.by_pid.len() > 2 * self.listed + ENDED_MIN
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

/// Return a task's bias, None if the task is not counted yet.
pub fn bias(task: &TaskReport) -> Option<Bias> {
    task.speedup_permille.map(|_| task.bias)
}

/// Return the cell for a task's bias: `-` for unbiased, `?` for unknown.
pub fn bias_cell(task: &TaskReport) -> &'static str {
    match bias(task) {
        None => "?",
        Some(Bias::Unbiased) => "-",
        Some(Bias::FastBiased) => "fast",
        Some(Bias::SlowBiased) => "slow",
    }
}

/// Return the glossary's name of a task's bias, `unknown` without a profile.
pub fn bias_name(task: &TaskReport) -> &'static str {
    match bias(task) {
        None => "unknown",
        Some(Bias::Unbiased) => "unbiased",
        Some(Bias::FastBiased) => "fast-biased",
        Some(Bias::SlowBiased) => "slow-biased",
    }
}

/// Return a task's gain as text, `?` if it is unknown.
pub fn gain(task: &TaskReport) -> String {
    task.speedup_permille.map_or_else(|| "?".to_owned(), |speedup| ratio(speedup) + "x")
}

/// Return the reason why a task was last moved while it ran.
pub fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::None => "-",
        Reason::Pull => "idle fast CPU",
        // Used for both tasks of a rotation.
        Reason::Rotate => "rotation",
        Reason::Gain => "gains more",
        Reason::Yield => "gave way",
        Reason::Swap => "swapped",
    }
}

/// A task that is confined to fast CPUs although it gains next to nothing there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Confined {
    pub pid: u32,
    pub name: String,
    /// Predicted time on a slow CPU over that on a fast one [permille].
    pub speedup_permille: u32,
}

/// Return the confined ones of `tasks`, which may run now.
pub fn confined<'a>(tasks: impl IntoIterator<Item = &'a TaskReport>, machine: &Machine) -> Vec<Confined> {
    find_confined(tasks, machine, 0..=LITTLE_PERMILLE, allowed_now)
}

/// Return the time after which to judge again, if one of `tasks` may be confined but was disturbed.
pub fn settling(tasks: &[TaskReport], machine: &Machine) -> Option<Duration> {
    let doubtful = find_confined(tasks, machine, LITTLE_PERMILLE + 1..=DOUBTFUL_PERMILLE, allowed_now);
    (!doubtful.is_empty()).then_some(SETTLE)
}

fn allowed_now(pid: u32) -> Option<Vec<u32>> {
    affinity::allowed_to_thread(i32::try_from(pid).ok()?).ok()
}

/// Return the confined ones of `tasks` with these gains [permille]. `allowed` returns the CPUs that
/// a thread may use, None if it has ended.
fn find_confined<'a>(
    tasks: impl IntoIterator<Item = &'a TaskReport>,
    machine: &Machine,
    gains: RangeInclusive<u32>,
    allowed: impl Fn(u32) -> Option<Vec<u32>>,
) -> Vec<Confined> {
    let slow = cpus_of(machine, Some(Class::Slow));
    let judge = |task: &TaskReport| {
        let speedup_permille =
            task.speedup_permille.filter(|gain| gains.contains(gain) && task.windows >= MIN_WINDOWS)?;
        if slow.is_empty() || task.fast_ms < MIN_MS || allowed(task.pid)?.iter().any(|cpu| slow.contains(cpu))
        {
            return None;
        }
        Some(Confined { pid: task.pid, name: task.name.clone(), speedup_permille })
    };
    tasks.into_iter().filter_map(judge).collect()
}

/// Return the CPUs of a class, or all, in ascending order.
fn cpus_of(machine: &Machine, class: Option<Class>) -> Vec<u32> {
    let of_class = machine.classes.iter().filter(|entry| class.is_none_or(|class| entry.class == class));
    let mut cpus: Vec<u32> = of_class.flat_map(|entry| entry.cpus.iter().copied()).collect();
    cpus.sort_unstable();
    cpus
}

/// Name the first of `confined`, its gain, the remedy, and the number of the others.
pub fn confined_sentence(confined: &[Confined], machine: &Machine) -> Option<String> {
    let first = confined.first()?;
    let others = match confined.len() - 1 {
        0 => String::new(),
        more => format!(" ({more} more tasks are confined like it)"),
    };
    Some(format!(
        "{} ({}) may use fast CPUs only and gains {}x there; `taskset -pc {} {}` lets it make way for others{others}.",
        cut(&first.name, NAME_MAX),
        first.pid,
        ratio(first.speedup_permille),
        cpulist::format(&cpus_of(machine, None)),
        first.pid
    ))
}

#[cfg(test)]
mod tests {
    use super::super::tests::machine;
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
    fn a_task_that_hardly_ran_is_listed() {
        assert_eq!(shares(&[], &[task(1, 0.001, 0.0)]), [(1, 1, 1000)]);
    }

    #[test]
    fn ended_tasks_are_forgotten() {
        let mut totals = Totals::default();
        totals.advance(vec![task(1, 1.0, 0.0)], true, SECOND);
        let brief = |pid| task(pid, 1.0, 0.0);
        totals.advance((2..=ENDED_MIN as u32 + 2).map(brief).collect(), false, SECOND);
        assert!(!totals.are_outdated());
        totals.advance(vec![brief(ENDED_MIN as u32 + 3)], false, SECOND);
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
    fn biases_are_counted() {
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

    fn gaining(pid: u32, speedup: u32, fast_ms: f64, slow_ms: f64) -> TaskReport {
        TaskReport { speedup_permille: Some(speedup), windows: 8, ..task(pid, fast_ms, slow_ms) }
    }

    fn found(tasks: &[TaskReport], allowed: &dyn Fn(u32) -> Option<Vec<u32>>) -> Vec<u32> {
        find_confined(tasks, &machine(), 0..=LITTLE_PERMILLE, allowed).iter().map(|task| task.pid).collect()
    }

    #[test]
    fn only_a_confined_task_that_gains_little_is_named() {
        let (fast, all) = (cpus_of(&machine(), Some(Class::Fast)), cpus_of(&machine(), None));
        let confined = |_| Some(fast.clone());
        let one = gaining(7, 1020, 5000.0, 0.0);
        assert_eq!(found(std::slice::from_ref(&one), &confined), [7]);
        assert!(found(std::slice::from_ref(&one), &|_| Some(all.clone())).is_empty());
        // It has ended.
        assert!(found(std::slice::from_ref(&one), &|_| None).is_empty());
        for other in [
            gaining(8, 1500, 5000.0, 0.0),
            gaining(8, 1020, 500.0, 9000.0),
            TaskReport { windows: 7, ..one.clone() },
            TaskReport { speedup_permille: None, ..one.clone() },
        ] {
            assert!(found(std::slice::from_ref(&other), &confined).is_empty(), "{other:?}");
        }
        assert!(
            find_confined([&one], &Machine { classes: Vec::new() }, 0..=LITTLE_PERMILLE, confined).is_empty()
        );
    }

    #[test]
    fn a_disturbed_task_is_doubtful() {
        // This thread runs on CPUs that the machine lists as fast only.
        let mut machine = machine();
        machine.classes[0].cpus = affinity::allowed().unwrap_or_default();
        machine.classes[1].cpus = vec![9999];
        let doubtful = |gain| settling(&[gaining(std::process::id(), gain, 5000.0, 0.0)], &machine).is_some();
        assert_eq!([1100, 1101, 1300, 1301].map(doubtful), [false, true, true, false]);
    }

    #[test]
    fn the_sentence_names_the_task_the_gain_and_the_remedy() {
        assert_eq!(confined_sentence(&[], &machine()), None);
        let of = |pid| Confined { pid, name: "a\nb".into(), speedup_permille: 1020 };
        let text = confined_sentence(&[of(7), of(8)], &machine()).unwrap_or_default();
        assert!(text.starts_with("a?b (7) may use fast CPUs only and gains 1.02x there"), "{text}");
        assert!(text.contains("taskset -pc 0-3 7") && text.contains("(1 more"), "{text}");
    }
}
