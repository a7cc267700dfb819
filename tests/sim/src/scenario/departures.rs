// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! A family of cases in which a CPU goes offline while tasks wait that only it may run.

use super::parts::Family;
use crate::case::{Case, Disturb, Disturbance, TaskSpec};
use crate::load::{Op, Program, stacks};
use crate::release::Release;

const MS: u64 = 1_000_000;
/// The CPU that goes.
const CPU: usize = 3;

/// Return all of them. The rule `offline` checks them.
pub(super) fn all() -> Vec<Family> {
    vec![Family { name: "offline", case: offline, check: |_| Ok(()) }]
}

/// The CPU goes offline 20 times, beside a busy task for each of the others. Seeds go through the
/// releases of the kernel and the kinds of tasks.
fn offline(seed: u64) -> Case {
    let at = usize::try_from(seed % 12).unwrap_or_default();
    let busy = TaskSpec::new(Program::busy(stacks::COMPUTE));
    let mut case = Case::new("4P", seed);
    (case.duration_ns, case.release) = (10_000 * MS, Release::ALL[at / 3]);
    case.tasks = (0..CPU).map(|cpu| busy.clone().on(cpu)).collect();
    case.tasks.extend(tasks(at % 3));
    for round in 0..20 {
        let at_ns = (200 + round * 487) * MS;
        let back_ns = at_ns + 300 * MS;
        case.disturbances.push(Disturb { at_ns, what: Disturbance::Offline { cpu: CPU } });
        case.disturbances.push(Disturb { at_ns: back_ns, what: Disturbance::Online { cpu: CPU } });
        // The kernel widens the affinity of tasks whose last CPU goes.
        for (task, spec) in case.tasks.iter().enumerate().skip(CPU).filter(|(_, spec)| !spec.kthread) {
            let cpus = spec.cpus.clone().unwrap_or_else(|| (0..4).collect());
            let what = Disturbance::Affinity { task, cpus };
            case.disturbances.push(Disturb { at_ns: back_ns + 20 * MS, what });
        }
    }
    case
}

/// Return tasks of the CPU: pinned ones, some whose migration is disabled for a third of their time,
/// or kernel threads.
fn tasks(kind: usize) -> Vec<TaskSpec> {
    let run = |work_ns| Op::Run { stack: stacks::COMPUTE, work_ns };
    let ops = match kind {
        0 => vec![run(MS)],
        1 => vec![run(4 * MS), Op::MigrateDisable, run(2 * MS), Op::MigrateEnable],
        _ => vec![run(30 * MS), Op::Sleep { ns: MS }],
    };
    let task = TaskSpec::new(Program { ops, repeat: true }).on(CPU);
    match kind {
        0 => vec![task.within([CPU]); 3],
        // The kernel gives each of them a slice of 20 ms.
        1 => vec![task; 4],
        _ => vec![TaskSpec { kthread: true, ..task.within([CPU]) }; 3],
    }
}
