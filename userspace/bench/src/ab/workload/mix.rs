// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Mixes of concurrent batch tasks: plain (`2compute+2chase`), repeatedly forced onto other CPUs
//! (`shuffled+2compute+2chase`), or with memory on all NUMA nodes (`interleaved+2compute+2chase`).
//!
//! # Problem
//! On CPUs of unequal speed, the placement of tasks decides the amount of work done. A mix of tasks
//! with known demands shows it.
//!
//! * Some schedulers leave tasks where they happen to start. The start then decides the result, and
//!   varies between visits far more than schedulers do. Two compute and two chase tasks reach an
//!   STP of 2.8 or 3.9 under the default. The mean over starts is the value to compare, and it
//!   would take hundreds of visits to measure.
//! * A task that leaves the node of its memory loses. Whether a scheduler may move it for speed
//!   depends on where its pages are ([Koufaty10], slide 16).
//!
//! # Approach
//! The tasks of [`crate::task`] and the figures of [`crate::mix`], one metric per figure.
//!
//! * `shuffled` balances the starts instead of sampling them. Every [`DEFAULT_PERIOD_MS`] within
//!   one visit, all tasks are forced onto CPUs and released immediately. From one start to the
//!   next, every task advances by one CPU. A round has as many starts as there are CPUs, so each
//!   task has started on each of them. Every round has another order of the tasks.
//! * Tasks of `interleaved` start under the memory policy `MPOL_INTERLEAVE` over all online nodes,
//!   which they inherit.
//!
//! # Invariants
//! * All metrics are finite. A task that did nothing in the window counts as one that did half a
//!   unit, the largest value that its record cannot exclude. Its slowdown is then a lower bound. It
//!   is still enormous, and has a logarithm.
//! * A window of `shuffled` holds whole rounds. In a round every task is placed on every CPU once.
//!   The orders are the same for all arms. With a static placement nothing is shuffled, and every
//!   start is the same.
//!
//! # Limits
//! * The window is rounded up to whole periods of `phases` tasks.
//! * The result of `shuffled` is the mean over starts of [`DEFAULT_PERIOD_MS`] each. A scheduler
//!   that needs longer to correct a bad start does worse than in a long run. With more tasks than
//!   CPUs, several tasks start on the same CPU.
//! * On a machine of one node `interleaved` is a plain mix. A kernel without NUMA refuses the
//!   policy.

use super::{Description, Env, Measured, Workload, count, measured};
use crate::solo::Solo;
use crate::spec::{self, CpuList, WorkKind};
use crate::task::{Group, Window};
use crate::work::{self, Xorshift};
use crate::{Error, Result, cpus, metrics, mix};
use nix::libc;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Entry of this workload in [`super::list`].
pub const DESCRIPTION: Description = Description {
    name: "mix",
    syntax: "TASKS such as 2compute+2chase",
    measures: "batch tasks side by side, each relative to itself alone on a fast CPU: placement and fairness; \
               throughput is in steps of about 20 000 cycles",
    metrics: &[
        "stp",
        "antt",
        "unfairness",
        "progress_min",
        "throughput_per_s",
        "fast_share",
        "fast_share_<kind>",
        "progress_<kind>",
        "migrations_per_s",
        "switches_per_s",
    ],
    with_pmu: &[],
};

/// The workload.
#[derive(Debug, Clone, PartialEq)]
pub struct MixCell(pub spec::Mix);

impl MixCell {
    /// Parse the text form.
    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        text.parse().map(MixCell)
    }
}

impl Workload for MixCell {
    fn name(&self) -> String {
        self.0.to_string()
    }

    fn kinds(&self) -> Vec<WorkKind> {
        self.0.kinds()
    }

    fn batch(&self) -> Option<&spec::Mix> {
        Some(&self.0)
    }

    fn run(&self, env: &Env) -> Result<Measured> {
        let kinds = self.0.tasks();
        let group = start(&kinds, env)?;
        let window = group.measure(env.warmup, whole_periods(env.window, &kinds))?;
        figures(&kinds, &window, env.solo)
    }
}

/// Start the tasks with the placement of the environment.
pub(super) fn start(kinds: &[WorkKind], env: &Env) -> Result<Group> {
    let pins = env.pins.unwrap_or(&[]);
    if env.pins.is_some() && pins.len() != kinds.len() {
        let why = format!("a placement of {} tasks does not fit a mix of {}", pins.len(), kinds.len());
        return Err(Error::Usage(format!("{why}; give one CPU, or none, for each task")));
    }
    Group::start(kinds, pins)
}

/// Return the window, extended to whole periods of the kind with the longest period.
pub(super) fn whole_periods(window: Duration, kinds: &[WorkKind]) -> Duration {
    let period = kinds.iter().map(WorkKind::period).max().unwrap_or_default();
    if period.is_zero() {
        return window;
    }
    let periods = window.as_nanos().div_ceil(period.as_nanos()).max(1);
    period.saturating_mul(u32::try_from(periods).unwrap_or(u32::MAX))
}

/// Return the metrics of the tasks' work in a window.
pub(super) fn figures(kinds: &[WorkKind], window: &Window, solo: &Solo) -> Result<Measured> {
    let wall_s = window.wall_ns as f64 / 1e9;
    let round = mix::evaluate(kinds, &window.tasks, wall_s, solo)?;
    let mut progress = Vec::new();
    let mut steps = 0.0;
    for (kind, task) in kinds.iter().zip(&window.tasks) {
        let units = (task.units as f64).max(0.5);
        let of_solo = metrics::progress(units / wall_s, solo.rate(kind)?);
        progress.push(of_solo.ok_or_else(|| Error::failed("progress", "the window has no length"))?);
        steps += task.units as f64 / work::build(kind).step() as f64;
    }
    let per_s =
        |count: fn(&mix::TaskReport) -> u64| round.tasks.iter().map(count).sum::<u64>() as f64 / wall_s;
    let mut metrics: BTreeMap<String, f64> = [
        ("stp", round.stp),
        ("antt", metrics::antt(&progress).unwrap_or(f64::NAN)),
        ("unfairness", metrics::unfairness(&progress).unwrap_or(f64::NAN)),
        ("progress_min", progress.iter().copied().fold(f64::INFINITY, f64::min)),
        ("throughput_per_s", steps / wall_s),
        ("fast_share", round.fast_share),
        ("migrations_per_s", per_s(|task| task.cpu_changes)),
        ("switches_per_s", per_s(|task| task.voluntary_switches + task.involuntary_switches)),
    ]
    .map(|(name, value)| (name.to_string(), value))
    .into();
    for kind in kinds {
        let of_kind = || round.tasks.iter().filter(|task| task.kind == kind.to_string());
        let cpu_s = metrics::sum(of_kind().map(|task| task.cpu_s));
        let fast_s = metrics::sum(of_kind().map(|task| task.cpu_s * task.fast_share));
        metrics.insert(format!("fast_share_{kind}"), metrics::share(fast_s, cpu_s));
        let of_kind = || kinds.iter().zip(&progress).filter(|(other, _)| *other == kind).map(|(_, p)| *p);
        let mean = metrics::sum(of_kind()) / of_kind().count() as f64;
        metrics.insert(format!("progress_{kind}"), mean);
    }
    let detail = serde_json::to_value(&round).map_err(|e| Error::failed("the detail of a mix", e))?;
    measured(metrics, detail)
}

/// Entry of this workload in [`super::list`].
pub const SHUFFLED: Description = Description {
    name: "shuffled",
    syntax: "shuffled+TASKS or shuffled:MS+TASKS (20 to 10000, default 250)",
    measures: "batch tasks side by side that are forced onto other CPUs and released immediately, once per period: the mean \
               over all starts, while a plain mix shows a single start",
    metrics: &SHUFFLED_METRICS,
    with_pmu: &[],
};

/// Metric of the start with the least throughput.
const WORST_START: &str = "stp_worst_start";

/// The metrics of a mix, and [`WORST_START`].
const SHUFFLED_METRICS: [&str; DESCRIPTION.metrics.len() + 1] = {
    let mut all = [WORST_START; DESCRIPTION.metrics.len() + 1];
    let mut i = 0;
    while i < DESCRIPTION.metrics.len() {
        all[i] = DESCRIPTION.metrics[i];
        i += 1;
    }
    all
};

/// Default time from one start to the next [ms].
const DEFAULT_PERIOD_MS: usize = 250;

/// The workload `shuffled`.
#[derive(Debug, Clone, PartialEq)]
pub struct Shuffled {
    period_ms: usize,
    batch: spec::Mix,
}

impl Shuffled {
    /// Parse the text after the name.
    pub(super) fn parse(rest: &str) -> std::result::Result<Self, String> {
        let wrong = || format!("'shuffled{rest}' is not a workload; write {}", SHUFFLED.syntax);
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

    fn batch(&self) -> Option<&spec::Mix> {
        Some(&self.batch)
    }

    fn run(&self, env: &Env) -> Result<Measured> {
        let kinds = self.batch.tasks();
        let cpus = cpus::online()?.0;
        let period = Duration::from_millis(self.period_ms as u64);
        let starts = whole_rounds(whole_periods(env.window, &kinds), period, cpus.len());
        let group = start(&kinds, env)?;
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
        let mut measured = figures(&kinds, &window, env.solo)?;
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

/// Entry of this workload in [`super::list`].
pub const INTERLEAVED: Description = Description {
    name: "interleaved",
    syntax: "interleaved+TASKS",
    measures: "batch tasks as in a mix, with their memory spread over all NUMA nodes: no node is nearer to it than another",
    ..DESCRIPTION
};

/// Pages are spread over nodes (`linux/mempolicy.h`).
const MPOL_INTERLEAVE: libc::c_long = 3;
/// The kernel's default.
const MPOL_DEFAULT: libc::c_long = 0;

/// The workload `interleaved`.
#[derive(Debug, Clone, PartialEq)]
pub struct Interleaved {
    batch: spec::Mix,
}

impl Interleaved {
    /// Parse the text after the name.
    pub(super) fn parse(rest: &str) -> std::result::Result<Self, String> {
        let tasks = rest.strip_prefix('+');
        let tasks = tasks
            .ok_or_else(|| format!("'interleaved{rest}' is not a workload; write {}", INTERLEAVED.syntax))?;
        Ok(Interleaved { batch: tasks.parse()? })
    }
}

impl Workload for Interleaved {
    fn name(&self) -> String {
        format!("interleaved+{}", self.batch)
    }

    fn kinds(&self) -> Vec<WorkKind> {
        self.batch.kinds()
    }

    fn batch(&self) -> Option<&spec::Mix> {
        Some(&self.batch)
    }

    fn run(&self, env: &Env) -> Result<Measured> {
        let kinds = self.batch.tasks();
        set_policy(MPOL_INTERLEAVE, node_mask())?;
        let group = start(&kinds, env);
        set_policy(MPOL_DEFAULT, 0)?;
        let window = group?.measure(env.warmup, whole_periods(env.window, &kinds))?;
        figures(&kinds, &window, env.solo)
    }
}

/// Return a bit for each of the first 64 nodes that has memory, or for node 0 if sysfs names none.
fn node_mask() -> u64 {
    let text = std::fs::read_to_string("/sys/devices/system/node/has_memory").unwrap_or_default();
    let nodes = text.trim().parse::<CpuList>().map(|list| list.0).unwrap_or_default();
    nodes.into_iter().filter(|node| *node < 64).fold(0, |mask, node| mask | 1 << node).max(1)
}

/// Set the memory policy of this thread, which its children inherit. `nodes` has a bit for each of
/// the first 64 nodes.
fn set_policy(policy: libc::c_long, nodes: u64) -> Result<()> {
    let mask = [nodes, 0];
    let bits = if nodes == 0 { 0 } else { libc::c_ulong::from(u64::BITS + 1) };
    let pointer = if nodes == 0 { std::ptr::null() } else { mask.as_ptr() };
    // SAFETY: the mask outlives the call, and the kernel reads fewer bits than it has.
    let code = unsafe { libc::syscall(libc::SYS_set_mempolicy, policy, pointer, bits) };
    match code {
        0 => Ok(()),
        _ => Err(Error::failed("setting the memory policy", std::io::Error::last_os_error())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solo::example::unequal;
    use crate::task::example::task;
    use proptest::prelude::*;

    fn solo() -> Solo {
        unequal(&[("compute", 4000.0), ("branchy", 1500.0)])
    }

    #[test]
    fn metrics_follow_from_units_and_times() {
        let kinds = [WorkKind::Compute, WorkKind::Branchy, WorkKind::Branchy];
        let tasks =
            vec![task(8000, &[2_000_000_000]), task(1500, &[1_000_000_000]), task(750, &[0, 1_000_000_000])];
        let m = figures(&kinds, &Window { wall_ns: 2_000_000_000, tasks }, &solo()).unwrap().metrics;
        for (name, expected) in [
            ("stp", 1.0 + 0.5 + 0.25),
            ("antt", (1.0 + 2.0 + 4.0) / 3.0),
            ("unfairness", 4.0),
            ("progress_min", 0.25),
            ("throughput_per_s", (2.0 + 1.0 + 0.5) / 2.0),
            ("fast_share", 0.75),
            ("fast_share_compute", 1.0),
            ("fast_share_branchy", 0.5),
            ("progress_compute", 1.0),
            ("progress_branchy", 0.375),
            ("migrations_per_s", 6.0),
            ("switches_per_s", 7.5),
        ] {
            assert!((m[name] - expected).abs() < 1e-9, "{name}: {}", m[name]);
        }
        assert_eq!(m.len(), 12);
    }

    #[test]
    fn a_starved_task_is_bad_but_finite() {
        let tasks = vec![task(4000, &[1_000_000_000]), task(0, &[])];
        let window = Window { wall_ns: 1_000_000_000, tasks };
        let m = figures(&[WorkKind::Compute, WorkKind::Branchy], &window, &solo()).unwrap().metrics;
        assert_eq!(m["stp"], 1.0);
        assert!((m["unfairness"] - 3000.0).abs() < 1e-6 && m["antt"] > 1000.0);
    }

    #[test]
    fn windows_hold_whole_periods() {
        let ms = Duration::from_millis;
        let kinds = |text: &str| text.parse::<spec::Mix>().unwrap().tasks();
        assert_eq!(whole_periods(ms(300), &kinds("2compute+chase")), ms(300));
        assert_eq!(whole_periods(ms(300), &kinds("compute+phases:200")), ms(400));
        assert_eq!(whole_periods(ms(400), &kinds("phases:100+phases:200")), ms(400));
        assert_eq!(whole_periods(ms(1), &kinds("phases:50")), ms(50));
    }

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
