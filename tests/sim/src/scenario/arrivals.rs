// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Families of cases in which tasks are on their way to CPUs that others use as well.
//!
//! Three busy tasks have four CPUs, so none of them ever has to wait for long. Light tasks come
//! between: a busy task that shares a CPU with one of them has to find another CPU immediately.
//! Ticks come every 10 ms, so a wait that only a tick ends shows.

use super::parts::{Family, expect};
use crate::case::{Case, Disturb, Disturbance, Interleave, TaskSpec};
use crate::kernel::Kernel;
use crate::load::{Op, Program, stacks};
use crate::rng::Rng;

/// Return all families of arrivals.
pub(super) fn all() -> Vec<Family> {
    vec![
        Family { name: "servers", case: servers, check: leaves_no_gap },
        Family { name: "late-insertions", case: late_insertions, check: leaves_no_gap },
        Family { name: "servers-and-kthreads", case: kthreads, check: leaves_no_gap },
        Family { name: "late-sight", case: late_sight, check: leaves_no_gap },
        Family { name: "servers-and-pinned", case: pinned, check: leaves_no_gap },
        Family { name: "equal-servers", case: equal_servers, check: leaves_no_gap },
        Family { name: "forks-beside-sleeper", case: forks_beside_sleeper, check: waits_for_a_tick },
    ]
}

/// Check that no busy task waits for a millisecond.
fn leaves_no_gap(kernel: &Kernel) -> Result<(), String> {
    let longest_ns = (0..3).map(|task| kernel.figures(task).longest_wait_ns).max().unwrap_or(0);
    expect("longest wait of a busy task [ms]", longest_ns as f64 / 1e6, 0.0, 1.0)
}

/// Three busy tasks on one fast and three slow CPUs. CPUs see each other's actions up to 50 us
/// late, as vCPUs do while their host preempts them.
fn busy_tasks(seed: u64) -> Case {
    let mut case = Case::new("240:96x3", seed);
    (case.tick_ns, case.duration_ns, case.ipi_ns) = (10_000_000, 3_000_000_000, (500, 50_000));
    case.interleave = Some(Interleave { permille: 20, longest_ns: 50_000, memory: false });
    case.tasks = (0..3).map(|cpu| TaskSpec::new(Program::busy(stacks::COMPUTE)).on(cpu)).collect();
    case
}

/// Four servers sleep for random times.
fn servers(seed: u64) -> Case {
    let mut case = busy_tasks(seed);
    let rng = Rng::new(seed);
    for cpu in 0..4 {
        let request = || {
            let work = Op::Run { stack: stacks::COMPUTE, work_ns: 33_000 };
            [work, Op::Sleep { ns: rng.within(70_000, 2_050_000) }]
        };
        let ops = (0..200).flat_map(|_| request()).collect();
        case.tasks.push(TaskSpec::new(Program { ops, repeat: true }).on(cpu));
    }
    case
}

/// Four servers wake at about the same time.
fn equal_servers(seed: u64) -> Case {
    let mut case = busy_tasks(seed);
    case.duration_ns = 100_000_000;
    let server = Program::periodic(stacks::COMPUTE, 33_000, 1_000_000);
    case.tasks.extend((0..4).map(|cpu| TaskSpec::new(server.clone()).on(cpu)));
    case
}

/// The kernel inserts a task up to 50 us after the kick for it.
fn late_insertions(seed: u64) -> Case {
    Case { irq_ns: (100, 50_000), ..servers(seed) }
}

/// A kernel thread on each CPU, periodic tasks and real-time work besides. CPUs see each other's
/// actions up to `late_ns` late.
fn kthreads_and_bursts(seed: u64, late_ns: u64) -> Case {
    let mut case = servers(seed);
    (case.ipi_ns, case.irq_ns) = ((500, late_ns), (100, late_ns));
    case.interleave = Some(Interleave { permille: 20, longest_ns: late_ns, memory: false });
    let rng = Rng::new(seed + 7);
    let periodic = |work_ns| Program::periodic(stacks::COMPUTE, work_ns, rng.within(1_000_000, 20_000_000));
    for cpu in 0..4 {
        let kthread = TaskSpec::new(periodic(15_000)).on(cpu).within([cpu]);
        case.tasks.push(TaskSpec { kthread: true, ..kthread });
    }
    case.tasks
        .extend([(30_000, 0), (100_000, 2)].map(|(work_ns, cpu)| TaskSpec::new(periodic(work_ns)).on(cpu)));
    let bursts = (0..60).map(|_| {
        let (cpu, at_ns, ns) = (rng.below(4) as usize, rng.below(3_000_000_000), rng.within(3_000, 60_000));
        Disturb { at_ns, what: Disturbance::RealTime { cpu, ns } }
    });
    case.disturbances = bursts.collect();
    case
}

fn kthreads(seed: u64) -> Case {
    kthreads_and_bursts(seed, 50_000)
}

fn late_sight(seed: u64) -> Case {
    kthreads_and_bursts(seed, 150_000)
}

/// Kernel threads, and a task that is pinned to one CPU, as a spot check is.
fn pinned(seed: u64) -> Case {
    let mut case = kthreads(seed);
    let rng = Rng::new(seed + 11);
    let cpu = rng.below(4) as usize;
    let sleep = Op::Sleep { ns: rng.within(20_000_000, 60_000_000) };
    let ops = vec![sleep, Op::Run { stack: stacks::COMPUTE, work_ns: 10_000_000 }];
    let task = TaskSpec::new(Program { ops, repeat: true }).on(cpu).within([cpu]);
    case.tasks.push(TaskSpec { weight: 3, ..task });
    case
}

/// A busy task forks a brief one now and then. The other CPU often falls idle between the search
/// for an idle CPU and the insertion of the new task, and sees neither the task nor a kick.
fn forks_beside_sleeper(seed: u64) -> Case {
    let mut case = Case::new("2P", seed);
    (case.tick_ns, case.duration_ns) = (1_000_000, 4_000_000_000);
    case.interleave = Some(Interleave { permille: 500, longest_ns: 50_000, memory: false });
    let work = |work_ns| Op::Run { stack: stacks::COMPUTE, work_ns };
    let forks = 700;
    let forker = (2..2 + forks).flat_map(|task| [work(5_700_000), Op::Spawn { task }]).collect();
    let sleeps = (0..50).flat_map(|at| [work(60_000), Op::Sleep { ns: 7_000_000 + 21_000 * at }]).collect();
    let [forker, sleeper] = [forker, sleeps].map(|ops| TaskSpec::new(Program { ops, repeat: true }));
    case.tasks = vec![forker.within([0]), sleeper.within([1]).on(1)];
    let brief = Program { ops: vec![work(5_000), Op::End], repeat: false };
    let brief = TaskSpec { weight: 1, start_ns: None, ..TaskSpec::new(brief) };
    case.tasks.extend((0..forks).map(|_| brief.clone()));
    case
}

fn waits_for_a_tick(kernel: &Kernel) -> Result<(), String> {
    let longest_ns = kernel.all_figures()[2..].iter().map(|figures| figures.longest_wait_ns).max();
    expect("longest wait of a new task [ms]", longest_ns.unwrap_or(0) as f64 / 1e6, 0.0, 1.5)
}
