// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! A mix whose tasks are repeatedly forced onto other CPUs, e.g. `shuffled+2compute+2chase`.
//!
//! # Problem
//! On unequal CPUs, some schedulers leave tasks where they happen to start. The start then decides
//! the result, and varies between visits far more than schedulers do. Two compute and two chase
//! tasks reach an STP of 2.8 or 3.9 under the default. The mean over starts is the value to
//! compare, and it would take hundreds of visits to measure.
//!
//! # Approach
//! The experiment controls where tasks start, so it balances the starts instead of sampling them.
//! Every [`DEFAULT_PERIOD_MS`] within one visit, all tasks are forced onto CPUs and released at
//! once. From one start to the next, every task advances by one CPU. A round has as many starts as
//! there are CPUs, so each task has started on each of them. Every round has another order of the
//! tasks.
//!
//! # Invariants
//! * A window holds whole rounds.
//! * In a round every task is placed on every CPU once.
//! * The orders are the same for all arms.
//! * With a static placement nothing is shuffled, and every start is the same.
//!
//! # Limits
//! The result is the mean over starts of [`DEFAULT_PERIOD_MS`] each. A scheduler that needs longer
//! to correct a bad start does worse than in a long run. With more tasks than CPUs, several tasks
//! start on the same CPU.

use super::{Description, Env, Measured, Workload, count, mix};
use crate::metrics;
use crate::solo::Solo;
use crate::spec::{Mix, WorkKind};
use crate::task::Group;
use crate::work::Xorshift;
use crate::{Result, cpus};
use std::time::{Duration, Instant};

/// Entry of this workload in [`super::list`].
pub const DESCRIPTION: Description = Description {
    name: "shuffled",
    syntax: "shuffled+TASKS or shuffled:MS+TASKS (20 to 10000, default 250)",
    measures: "batch tasks side by side that are put on other CPUs by force, and set free at once, every so many milliseconds: the mean \
               over all starts, where a plain mix shows the luck of one",
    metrics: &METRICS,
    with_pmu: &[],
};

/// Metric of the start with the least throughput.
const WORST_START: &str = "stp_worst_start";

/// The metrics of a mix, and [`WORST_START`].
const METRICS: [&str; mix::DESCRIPTION.metrics.len() + 1] = {
    let mut all = [WORST_START; mix::DESCRIPTION.metrics.len() + 1];
    let mut i = 0;
    while i < mix::DESCRIPTION.metrics.len() {
        all[i] = mix::DESCRIPTION.metrics[i];
        i += 1;
    }
    all
};

/// Default time from one start to the next [ms].
const DEFAULT_PERIOD_MS: usize = 250;

/// The workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Shuffled {
    period_ms: usize,
    batch: Mix,
}

impl Shuffled {
    /// Parse the text after the name.
    pub(super) fn parse(rest: &str) -> std::result::Result<Self, String> {
        let wrong = || format!("'shuffled{rest}' is not a workload; write {}", DESCRIPTION.syntax);
        let (period, batch) = rest.split_once('+').ok_or_else(wrong)?;
        let period_ms = match period.strip_prefix(':') {
            Some(digits) => count(digits, 20..=10_000).ok_or_else(wrong)?,
            None if period.is_empty() => DEFAULT_PERIOD_MS,
            None => return Err(wrong()),
        };
        Ok(Shuffled { period_ms, batch: batch.parse()? })
    }
}

impl Workload for Shuffled {
    fn name(&self) -> String {
        match self.period_ms {
            DEFAULT_PERIOD_MS => format!("shuffled+{}", self.batch),
            period => format!("shuffled:{period}+{}", self.batch),
        }
    }

    fn kinds(&self) -> Vec<WorkKind> {
        self.batch.kinds()
    }

    fn batch(&self) -> Option<&Mix> {
        Some(&self.batch)
    }

    fn run(&self, env: &Env) -> Result<Measured> {
        let kinds = self.batch.tasks();
        let cpus = cpus::online()?.0;
        let period = Duration::from_millis(self.period_ms as u64);
        let starts = whole_rounds(mix::whole_periods(env.window, &kinds), period, cpus.len());
        let group = mix::start(&kinds, env)?;
        let started = group.begin(env.warmup);
        let begun = Instant::now();
        let mut before = (begun, group.units());
        let mut worst = f64::INFINITY;
        for nth in 0..starts {
            if env.pins.is_none() {
                shuffle(&group, &cpus, nth)?;
            }
            let end = period * (nth as u32 + 1);
            std::thread::sleep(end.saturating_sub(begun.elapsed()));
            let after = (Instant::now(), group.units());
            worst = worst.min(throughput(&kinds, &before, &after, env.solo)?);
            before = after;
        }
        let window = group.end(started)?;
        let mut measured = mix::figures(&kinds, &window, env.solo)?;
        measured.metrics.insert(WORST_START.into(), worst);
        Ok(measured)
    }
}

/// Return the STP of tasks between two readings of their units of work.
fn throughput(
    kinds: &[WorkKind],
    before: &(Instant, Vec<u64>),
    after: &(Instant, Vec<u64>),
    solo: &Solo,
) -> Result<f64> {
    let wall_s = (after.0 - before.0).as_secs_f64();
    let mut stp = 0.0;
    for (kind, units) in kinds.iter().zip(after.1.iter().zip(&before.1).map(|(after, before)| after - before))
    {
        stp += metrics::progress(units as f64 / wall_s, solo.rate(kind)?).unwrap_or_default();
    }
    Ok(stp)
}

/// Return the number of starts in the window, rounded up to whole rounds.
fn whole_rounds(window: Duration, period: Duration, cpus: usize) -> usize {
    let starts = window.as_nanos().div_ceil(period.as_nanos().max(1)).max(1) as usize;
    starts.div_ceil(cpus.max(1)) * cpus.max(1)
}

/// Move every task to its CPU of start `nth`, then allow all CPUs for all tasks.
fn shuffle(group: &Group, cpus: &[usize], nth: usize) -> Result<()> {
    let places = places(group.tasks(), cpus.len(), nth);
    for (task, place) in places.into_iter().enumerate() {
        group.place(task, &cpus[place..=place])?;
    }
    (0..group.tasks()).try_for_each(|task| group.place(task, cpus))
}

/// Return the index of the CPU on which each task begins start `nth`.
fn places(tasks: usize, cpus: usize, nth: usize) -> Vec<usize> {
    let cpus = cpus.max(1);
    let (round, turn) = (nth / cpus, nth % cpus);
    // The first round has the order of the tasks. Each later round has its own order (Fisher and
    // Yates).
    let mut order: Vec<usize> = (0..tasks).collect();
    if round > 0 {
        let mut random = Xorshift::new(round as u64);
        // Adjacent seeds give similar first numbers.
        for _ in 0..16 {
            random.next();
        }
        for i in (1..tasks).rev() {
            order.swap(i, random.below(i as u64 + 1) as usize);
        }
    }
    let mut places = vec![0; tasks];
    for (position, task) in order.into_iter().enumerate() {
        places[task] = (position + turn) % cpus;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn in_a_round_every_task_starts_on_every_cpu_and_cpus_share_tasks(tasks in 1usize..12, cpus in 1usize..9, round in 0usize..50) {
            let starts: Vec<_> = (0..cpus).map(|turn| places(tasks, cpus, round * cpus + turn)).collect();
            for task in 0..tasks {
                let mut on: Vec<usize> = starts.iter().map(|places| places[task]).collect();
                on.sort_unstable();
                prop_assert_eq!(on, (0..cpus).collect::<Vec<_>>());
            }
            for places in &starts {
                let load = |cpu| places.iter().filter(|&&place| place == cpu).count();
                let loads: Vec<usize> = (0..cpus).map(load).collect();
                prop_assert!(loads.iter().max().unwrap() - loads.iter().min().unwrap() <= 1, "{loads:?}");
            }
        }
    }

    #[test]
    fn rounds_differ() {
        let first: std::collections::BTreeSet<Vec<usize>> =
            (0..20).map(|round| places(4, 4, round * 4)).collect();
        assert!(first.len() > 8, "{first:?}");
    }

    #[test]
    fn windows_hold_whole_rounds() {
        let ms = Duration::from_millis;
        assert_eq!(whole_rounds(ms(1000), ms(250), 4), 4);
        assert_eq!(whole_rounds(ms(1001), ms(250), 4), 8);
        assert_eq!(whole_rounds(ms(1), ms(250), 3), 3);
    }
}
