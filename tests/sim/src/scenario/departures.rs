// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Families of cases in which tasks have to leave a CPU: it goes offline, or real-time work takes
//! it.

use super::parts::{Family, expect};
use crate::case::{Case, Disturb, Disturbance, GroupSpec, Interleave, TaskSpec};
use crate::kernel::Kernel;
use crate::load::{Op, Program, stacks};
use crate::release::Release;
use crate::rng::Rng;

const MS: u64 = 1_000_000;
/// The CPU that goes offline.
const CPU: usize = 3;

/// Return all families of departures. The rule `offline` checks the first one.
pub(super) fn all() -> Vec<Family> {
    vec![
        Family { name: "offline", case: offline, check: |_| Ok(()) },
        Family { name: "fastest-leaves", case: fastest_leaves, check: |_| Ok(()) },
        Family { name: "wakee-beside-real-time", case: wakee_beside_real_time, check: |_| Ok(()) },
        Family { name: "newcomer-behind-kthread", case: newcomer_behind_kthread, check: |_| Ok(()) },
        Family { name: "freed-behind-kthread", case: freed_behind_kthread, check: |_| Ok(()) },
        Family { name: "freed-beside-real-time", case: freed_beside_real_time, check: |_| Ok(()) },
        Family { name: "taken-beside-sleeper", case: taken_beside_sleeper, check: moves_at_once },
        Family { name: "taken-while-idle", case: taken_while_idle, check: |_| Ok(()) },
    ]
}

/// Real-time work takes CPU 0 for 3 ms from a busy task, repeatedly, while CPU 1 has a task that
/// sleeps briefly. Some of these times are just when CPU 1 is about to idle, but not yet marked so.
/// At 100 ticks a second the busy task has often run out its slice, and waits for a tick to stop.
fn taken_beside_sleeper(seed: u64) -> Case {
    let mut case = Case::new("2P", seed);
    (case.duration_ns, case.release) = (2_000 * MS, Release::ALL[(seed % 4) as usize]);
    case.tick_ns = [1, 10][(seed / 4 % 2) as usize] * MS;
    case.interleave = Some(Interleave { permille: 200, longest_ns: 50_000, memory: false });
    let sleeper = Program::periodic(stacks::COMPUTE, MS / 4, 3 * MS / 4);
    case.tasks = vec![TaskSpec::new(Program::busy(stacks::COMPUTE)), TaskSpec::new(sleeper).on(1)];
    for round in 0..200 {
        // A phase of the sleeper that no other round has.
        let at_ns = (10 + 10 * round) * MS + (round * 617_033 + seed * 7_919) % MS;
        case.disturbances.push(Disturb { at_ns, what: Disturbance::RealTime { cpu: 0, ns: 3 * MS } });
    }
    case
}

/// Real-time work takes the fast CPU, often while it idles beside a slow one whose task has just
/// become worth a pull. Then the kernel dispatches once more, and the task must stay where it is.
fn taken_while_idle(seed: u64) -> Case {
    let mut case = Case::new("60:24", seed);
    (case.duration_ns, case.release) = (2_000 * MS, Release::ALL[(seed % 3) as usize]);
    let rng = Rng::new(seed);
    let fast = TaskSpec::new(Program::periodic(stacks::COMPUTE, MS / 4, MS / 2)).within([0]);
    let free = Program::periodic(stacks::COMPUTE, MS, MS / 4);
    case.tasks = vec![fast, TaskSpec::new(free).on(1)];
    for round in 0..100 {
        let at_ns = (5 + 20 * round) * MS + rng.below(9 * MS);
        case.disturbances.push(Disturb { at_ns, what: Disturbance::RealTime { cpu: 0, ns: 10 * MS } });
    }
    case
}

/// Check that the busy task waits little longer than the other one runs.
fn moves_at_once(kernel: &Kernel) -> Result<(), String> {
    let longest_ns = kernel.figures(0).longest_wait_ns;
    expect("longest wait of the busy task [ms]", longest_ns as f64 / 1e6, 0.0, 1.0)
}

/// A waker on CPU 0 repeatedly wakes a task, while real-time work takes one of the other CPUs for
/// 20 ms at a time. On the newest kernels the wakee never waits beside an idle CPU.
fn wakee_beside_real_time(seed: u64) -> Case {
    let mut case = Case::new("4P", seed);
    (case.duration_ns, case.release) = (3_000 * MS, Release::V7);
    let rng = Rng::new(seed);
    let work = |work_ns| Op::Run { stack: stacks::COMPUTE, work_ns };
    let ops = vec![work(40_000), Op::Wake { task: 1, sync: false }];
    case.tasks.push(TaskSpec::new(Program { ops, repeat: true }).on(0).within([0]));
    let ops = vec![work(10_000), Op::Wait];
    case.tasks.push(TaskSpec::new(Program { ops, repeat: true }).on(1));
    for at in 0..60 {
        let what = Disturbance::RealTime { cpu: 1 + rng.below(3) as usize, ns: 20 * MS };
        case.disturbances.push(Disturb { at_ns: at * 50 * MS + rng.below(9 * MS), what });
    }
    case
}

/// Real-time work keeps a kernel thread of CPU 1 waiting when a busy task must leave CPU 0 or 3 for
/// CPU 1 or 2, which idles.
fn newcomer_behind_kthread(seed: u64) -> Case {
    let mut case = Case::new("4P", seed);
    (case.duration_ns, case.release) = (2_000 * MS, Release::V7);
    let kthread = TaskSpec::new(Program::periodic(stacks::COMPUTE, MS / 10, 3 * MS)).within([1]);
    let newcomer = TaskSpec::new(Program::busy(stacks::COMPUTE));
    case.tasks = vec![newcomer, TaskSpec { kthread: true, ..kthread.on(1) }];
    for round in 0..60 {
        let at_ns = (5 + 30 * round) * MS + seed * 7_919 % MS;
        let mut disturb = |after_ms, what| {
            case.disturbances.push(Disturb { at_ns: at_ns + after_ms * MS, what });
        };
        disturb(0, Disturbance::RealTime { cpu: 1, ns: 15 * MS });
        disturb(5, Disturbance::Affinity { task: 0, cpus: vec![1, 2] });
        disturb(20, Disturbance::Affinity { task: 0, cpus: vec![0, 3] });
    }
    case
}

/// Real-time work takes CPU 1 from a task that is pinned there, a kernel thread wakes, and then the
/// task may run on an idle CPU, too.
fn freed_behind_kthread(seed: u64) -> Case {
    let mut case = newcomer_behind_kthread(seed);
    case.tasks[0] = TaskSpec::new(Program::busy(stacks::COMPUTE)).on(1).within([1]);
    for one in &mut case.disturbances {
        if let Disturbance::Affinity { cpus, .. } = &mut one.what {
            *cpus = if cpus.contains(&1) { vec![0, 1] } else { vec![1] };
        }
    }
    case
}

/// Real-time work takes CPU 3 from a task that is pinned there. A call on that CPU then lets the
/// task run on others, too. The first of them is offline and has kept its idle mark, the second
/// idles.
fn freed_beside_real_time(seed: u64) -> Case {
    let mut case = Case::new("4P", seed);
    (case.duration_ns, case.release) = (2_000 * MS, Release::ALL[(seed % 4) as usize]);
    case.tasks = vec![TaskSpec::new(Program::busy(stacks::COMPUTE)).on(CPU).within([CPU])];
    for round in 0..20 {
        let at_ns = (10 + 90 * round) * MS + seed * 7_919 % MS;
        let mut disturb = |after_ms, what| {
            case.disturbances.push(Disturb { at_ns: at_ns + after_ms * MS, what });
        };
        disturb(0, Disturbance::Offline { cpu: 0 });
        // In each fourth round this is a call on CPU 3.
        disturb(42, Disturbance::Affinity { task: 0, cpus: vec![0, 2, CPU] });
        disturb(40, Disturbance::RealTime { cpu: CPU, ns: 10 * MS });
        disturb(60, Disturbance::Online { cpu: 0 });
        disturb(70, Disturbance::Affinity { task: 0, cpus: vec![CPU] });
    }
    case
}

/// The CPU goes offline 20 times, beside a busy task for each of the others. Seeds go through the
/// releases of the kernel and the kinds of tasks.
fn offline(seed: u64) -> Case {
    let at = usize::try_from(seed % 16).unwrap_or_default();
    let busy = TaskSpec::new(Program::busy(stacks::COMPUTE));
    let mut case = Case::new("4P", seed);
    (case.duration_ns, case.release) = (10_000 * MS, Release::ALL[at / 4]);
    case.groups = vec![GroupSpec::new(0, 100).limited(20_000, 100_000)];
    case.tasks = (0..CPU).map(|cpu| busy.clone().on(cpu)).collect();
    case.tasks.extend(tasks(at % 4));
    for round in 0..20 {
        let at_ns = (200 + round * 487) * MS;
        let back_ns = at_ns + 300 * MS;
        case.disturbances.push(Disturb { at_ns, what: Disturbance::Offline { cpu: CPU } });
        case.disturbances.push(Disturb { at_ns: back_ns, what: Disturbance::Online { cpu: CPU } });
        // The kernel widens the affinity of tasks whose last CPU goes offline.
        for (task, spec) in case.tasks.iter().enumerate().skip(CPU).filter(|(_, spec)| !spec.kthread) {
            let cpus = spec.cpus.clone().unwrap_or_else(|| (0..4).collect());
            let what = Disturbance::Affinity { task, cpus };
            case.disturbances.push(Disturb { at_ns: back_ns + 20 * MS, what });
        }
    }
    case
}

/// The only fast CPU goes offline 20 times. Its task continues on a slow CPU. The fast one, which
/// idles until it is offline, must not pull it back. Seeds go through the releases of the kernel.
fn fastest_leaves(seed: u64) -> Case {
    let mut case = Case::new("1F3S", seed);
    (case.duration_ns, case.release) = (10_000 * MS, Release::ALL[(seed % 4) as usize]);
    case.tasks = vec![TaskSpec::new(Program::busy(stacks::COMPUTE)).on(0)];
    for round in 0..20 {
        // A phase of the tick that no other round has.
        let at_ns = (200 + round * 487) * MS + (round * 617_033 + seed * 7_919) % MS;
        case.disturbances.push(Disturb { at_ns, what: Disturbance::Offline { cpu: 0 } });
        case.disturbances.push(Disturb { at_ns: at_ns + 300 * MS, what: Disturbance::Online { cpu: 0 } });
    }
    case
}

/// Return tasks of the CPU: pinned ones, some whose migration is disabled for a third of their
/// time, kernel threads, or pinned ones of a cgroup that is throttled most of the time.
fn tasks(kind: usize) -> Vec<TaskSpec> {
    let run = |work_ns| Op::Run { stack: stacks::COMPUTE, work_ns };
    let ops = match kind {
        0 | 3 => vec![run(MS)],
        1 => vec![run(4 * MS), Op::MigrateDisable, run(2 * MS), Op::MigrateEnable],
        _ => vec![run(30 * MS), Op::Sleep { ns: MS }],
    };
    let task = TaskSpec::new(Program { ops, repeat: true }).on(CPU);
    match kind {
        0 => vec![task.within([CPU]); 3],
        // The kernel gives each of them a slice of 20 ms.
        1 => vec![task; 4],
        3 => vec![TaskSpec { group: 1, ..task.within([CPU]) }; 3],
        _ => vec![TaskSpec { kthread: true, ..task.within([CPU]) }; 3],
    }
}
