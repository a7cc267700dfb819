// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Scenarios of ticks: what is counted between them, and CPUs of nohz_full, where a single task
//! runs without one.

use super::parts::{Scenario, busy, evenness, expect};
use crate::case::{Case, Disturb, Disturbance};
use crate::ffi;
use crate::load::stacks;

/// Ticks of a task that is alone for 10 s: its first slice has some, and one a second is the
/// kernel's remote tick.
const FEW: (f64, f64) = (0.0, 30.0);

/// When another task comes: between two remote ticks.
const COMES_NS: u64 = 4_300_000_000;

/// `tasks` busy tasks for 10 s, confined to the CPUs of `within`, which are all in nohz_full. The
/// last one comes later.
fn late(tasks: usize, within: &[usize]) -> Case {
    let mut case = busy("4P", &vec![stacks::COMPUTE; tasks], 100);
    case.nohz_full = (1..4).collect();
    for (at, task) in case.tasks.iter_mut().enumerate() {
        *task = task.clone().within(within.to_vec()).on(within[at % within.len()]);
    }
    if let Some(last) = case.tasks.last_mut() {
        last.start_ns = Some(COMES_NS);
    }
    case
}

/// New tasks whose slices are about as long as a tick. The CPUs' clocks must show: most of the time
/// is counted, in intervals that are not just the remainders behind a tick.
pub(super) fn counted() -> Scenario {
    Scenario {
        name: "counted",
        case: busy("2P", &[stacks::COMPUTE; 40], 20),
        check: |kernel| {
            let (counted_ns, counts) = (kernel.counted_ns() as f64, kernel.stat(ffi::BIAS_STAT_COUNTED));
            expect("share of the time that is counted", counted_ns / (2.0 * 2e9), 0.3, 1.0)?;
            expect("mean counted interval [ms]", counted_ns / counts as f64 / 1e6, 0.5, 6.0)
        },
    }
}

/// A task is alone on its CPU until another one comes. A third one stays alone.
pub(super) fn unticked() -> Scenario {
    let mut case = late(2, &[3]);
    case.tasks.push(case.tasks[0].clone().within([2]).on(2));
    Scenario {
        name: "unticked",
        case,
        check: |kernel| {
            let figures = kernel.all_figures();
            expect("ticks of a task that is alone", figures[2].ticks as f64, FEW.0, FEW.1)?;
            expect("time of the task that comes [s]", figures[1].ran_ns as f64 / 1e9, 2.79, 2.91)?;
            expect("its longest wait [ms]", figures[1].longest_wait_ns as f64 / 1e6, 0.0, 25.0)
        },
    }
}

/// Two tasks have a CPU each until a third one shares both with them. No other CPU ticks.
pub(super) fn unticked_pair() -> Scenario {
    Scenario {
        name: "unticked-pair",
        case: late(3, &[1, 2]),
        check: |kernel| {
            let figures = kernel.figures(2);
            expect("time of the task that comes [s]", figures.ran_ns as f64 / 1e9, 3.72, 3.88)?;
            expect("its longest wait [ms]", figures.longest_wait_ns as f64 / 1e6, 0.0, 25.0)
        },
    }
}

/// The CPU of a task that is alone becomes slower than others after 2.3 s. Within a second a tick
/// comes, and then the task leaves.
pub(super) fn unticked_on_a_slow_cpu() -> Scenario {
    let mut case = busy("4P", &[stacks::COMPUTE], 60);
    case.nohz_full = (1..4).collect();
    case.tasks[0] = case.tasks[0].clone().within([1, 2, 3]).on(1);
    for cpu in 1..3 {
        let what = Disturbance::Speed { cpu, permille: 2000, told: true };
        case.disturbances.push(Disturb { at_ns: 2_300_000_000, what });
    }
    Scenario {
        name: "unticked-on-a-slow-cpu",
        case,
        check: |kernel| {
            let figures = kernel.figures(0);
            expect("its work over time", figures.work_ns as f64 / figures.ran_ns as f64, 0.85, 1.0)
        },
    }
}

/// Two tasks have a CPU each, without a tick, when one of the CPUs becomes slower. They share the
/// other one from the next remote ticks on.
pub(super) fn unticked_beside_a_slow_cpu() -> Scenario {
    let mut case = busy("4P", &[stacks::COMPUTE; 2], 80);
    case.nohz_full = (1..4).collect();
    for (at, task) in case.tasks.iter_mut().enumerate() {
        *task = task.clone().within([1, 2]).on(1 + at);
    }
    let what = Disturbance::Speed { cpu: 2, permille: 2500, told: true };
    case.disturbances.push(Disturb { at_ns: 2_300_000_000, what });
    Scenario {
        name: "unticked-beside-a-slow-cpu",
        case,
        check: |kernel| expect("evenness of their work", evenness(&kernel.all_figures()), 0.88, 1.0),
    }
}
