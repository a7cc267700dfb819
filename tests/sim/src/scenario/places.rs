// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Scenarios of placement: the CPU of a task by its behaviour, its hints and its memory.

use super::parts::{Figures, Scenario, busy, expect, on_fast, ratio};
use crate::case::{Case, Disturb, Disturbance, TaskSpec};
use crate::ffi;
use crate::kernel::Kernel;
use crate::kernel::cpu::Curr;
use crate::load::{Op, Program, stacks};

/// Two tasks that wake each other and sleep immediately, first on two of four CPUs.
fn pair(case: &mut Case) {
    let first = case.tasks.len();
    for me in 0..2 {
        let work = Op::Run { stack: stacks::COMPUTE, work_ns: 30_000 };
        let wake = Op::Wake { task: first + 1 - me, sync: true };
        let mut ops = vec![work, wake, Op::Wait];
        ops.rotate_right(me);
        case.tasks.push(TaskSpec::new(Program { ops, repeat: true }).on(me));
    }
}

/// Return the part of all runs of a task that follow one on the same CPU.
fn on_the_same_cpu(kernel: &Kernel) -> f64 {
    let mut stays = kernel.stays();
    stays.retain(|stay| matches!(stay.curr, Curr::Task(_)));
    stays.sort_by_key(|stay| stay.from_ns);
    let same = stays.windows(2).filter(|pair| pair[0].cpu == pair[1].cpu).count();
    ratio(same as u64, stays.len() as u64)
}

/// Partners that never run at the same time share a CPU and its cache, although others idle. At a
/// tick they may go elsewhere.
pub(super) fn partners() -> Scenario {
    let mut case = busy("4P", &[], 5);
    case.record = true;
    pair(&mut case);
    Scenario {
        name: "partners",
        case,
        check: |kernel| expect("part of wakees on the waker's CPU", on_the_same_cpu(kernel), 0.9, 1.0),
    }
}

/// A stage of a pipeline: it takes a block from the one before, works, and passes the block on when
/// the one after has taken the last.
fn stage(at: usize, stages: usize) -> Program {
    let wake = |task| Op::Wake { task, sync: true };
    let work = |work_ns| Op::Run { stack: stacks::COMPUTE, work_ns };
    let mut ops = if at > 0 { vec![Op::Wait, wake(at - 1)] } else { vec![] };
    ops.push(work(100_000));
    if at + 1 < stages {
        ops.extend([Op::Wait, wake(at + 1), work(3_000)]);
    }
    Program { ops, repeat: true }
}

/// Three stages of a pipeline on two fast CPUs and two slow ones. A stage on a slow CPU never
/// sleeps, and a tick comes once in a hundred blocks: the fast CPUs, half idle, must pull it before.
/// Alone they would pass on 6 667 blocks a second, with one stage on a slow CPU 4 000.
pub(super) fn pipeline() -> Scenario {
    let mut case = busy("240x2:96x2", &[], 10);
    case.tick_ns = 10_000_000;
    case.tasks = (0..3).map(|at| TaskSpec::new(stage(at, 3)).on(at % 2)).collect();
    // At first each pipe is empty.
    let empty = (0..2).map(|task| Op::Wake { task, sync: false }).chain([Op::End]).collect();
    let start = TaskSpec::new(Program { ops: empty, repeat: false });
    case.tasks.push(TaskSpec { start_ns: Some(500_000), ..start });
    Scenario {
        name: "pipeline",
        case,
        check: |kernel| expect("blocks in a second", kernel.figures(2).rounds as f64, 6_500.0, 8_000.0),
    }
}

/// Three equal tasks on cores of three types. Two of the types are slow.
pub(super) fn slow_types() -> Scenario {
    Scenario {
        name: "slow-types",
        case: busy("24x4:60x2:36x2", &[stacks::COMPUTE; 3], 20),
        check: |kernel| expect("STP of three tasks", kernel.stp(), 2.57, 2.61),
    }
}

/// The same where two of the types are fast.
pub(super) fn fast_types() -> Scenario {
    Scenario {
        name: "fast-types",
        case: busy("48x3:24x2:60x1", &[stacks::COMPUTE; 3], 20),
        check: |kernel| expect("STP of three tasks", kernel.stp(), 2.57, 2.61),
    }
}

/// Better CPUs are busy. A task that sleeps stays on its CPU, of the worse of two slow types.
pub(super) fn stays_on_a_slow_type() -> Scenario {
    let mut case = busy("24x4:60x2:36x2", &[stacks::COMPUTE; 4], 20);
    for (at, task) in case.tasks.iter_mut().enumerate() {
        *task = task.clone().within([4 + at]).on(4 + at);
    }
    case.tasks.push(TaskSpec::new(Program::periodic(stacks::COMPUTE, 500_000, 2_000_000)).on(2));
    Scenario {
        name: "stays-on-a-slow-type",
        case,
        check: |kernel| expect("migrations of a sleeper", kernel.figures(4).migrations as f64, 0.0, 10.0),
    }
}

/// A task runs on the worse of two slow types while others have the better one for 50 ms.
pub(super) fn better_slow_type() -> Scenario {
    let mut case = busy("24x4:60x2:36x2", &[stacks::COMPUTE; 3], 10);
    for (at, task) in case.tasks.iter_mut().enumerate().take(2) {
        *task = task.clone().within([4 + at]).on(4 + at);
    }
    case.tasks[2].start_ns = Some(5_000_000);
    for cpu in 6..8 {
        let ops = vec![Op::Run { stack: stacks::COMPUTE, work_ns: 30_000_000 }, Op::End];
        case.tasks.push(TaskSpec::new(Program { ops, repeat: false }).within([cpu]).on(cpu));
    }
    Scenario {
        name: "better-slow-type",
        case,
        check: |kernel| {
            let figures = kernel.figures(2);
            expect("its work over time", ratio(figures.work_ns, figures.ran_ns), 0.57, 0.61)
        },
    }
}

/// Tasks compute for 40 ms and wait for memory for 40 ms in turn. Lag alone would exchange them too
/// late.
pub(super) fn brief_phases() -> Scenario {
    let mut case = busy("2F2S", &[stacks::COMPUTE; 4], 20);
    for (at, task) in case.tasks.iter_mut().enumerate() {
        let phases = [stacks::COMPUTE, stacks::MEMORY].map(|stack| Op::Run { stack, work_ns: 40_000_000 });
        task.program = Program { ops: phases.to_vec(), repeat: true };
        task.program.ops.rotate_left(at % 2);
    }
    Scenario { name: "brief-phases", case, check: |kernel| expect("STP", kernel.stp(), 3.2, 3.7) }
}

/// A node is 5 % slower than the other one. That does not justify a wakeup away from a task's
/// memory.
pub(super) fn near_node() -> Scenario {
    let mut case = busy("60x4:57x4,nodes=2", &[], 20);
    let periodic = TaskSpec::new(Program::periodic(stacks::COMPUTE, 500_000, 2_000_000));
    case.tasks = (4..6).map(|cpu| periodic.clone().on(cpu)).collect();
    Scenario {
        name: "near-node",
        case,
        check: |kernel| {
            let slow = kernel.all_figures().into_iter().map(|figures| ratio(figures.slow_ns, figures.ran_ns));
            expect("time of sleepers on their node", slow.fold(1.0, f64::min), 0.99, 1.0)
        },
    }
}

/// One node has the fast CPUs. A task whose memory is spread wakes there.
pub(super) fn spread_memory() -> Scenario {
    let mut case = busy("2P+2E,nodes=2", &[stacks::MEMORY], 10);
    case.tasks[0] = TaskSpec { interleaved: true, ..case.tasks[0].clone().on(2) };
    Scenario {
        name: "spread-memory",
        case,
        check: |kernel| expect("its time on fast CPUs", on_fast(&kernel.figures(0)), 0.95, 1.0),
    }
}

/// All CPUs are busy. Tasks that compute and have spread memory get the fast CPUs of the other
/// node.
pub(super) fn spread_swaps() -> Scenario {
    let all = [stacks::MEMORY, stacks::MEMORY, stacks::COMPUTE, stacks::COMPUTE];
    let mut case = busy("2P+2E,nodes=2", &all, 20);
    for (cpu, task) in case.tasks.iter_mut().enumerate() {
        *task = TaskSpec { interleaved: true, ..task.clone().on(cpu) };
    }
    Scenario {
        name: "spread-swaps",
        case,
        check: |kernel| {
            let fast = |task| on_fast(&kernel.figures(task));
            expect("their time on fast CPUs", fast(2).min(fast(3)), 0.75, 1.0)
        },
    }
}

/// A task that computes leaves its node for a faster CPU, though its memory stays behind.
pub(super) fn leaves() -> Scenario {
    let mut case = busy("2P+2E,nodes=2", &[stacks::COMPUTE], 10);
    case.tasks[0].start_cpu = 2;
    Scenario {
        name: "leaves",
        case,
        check: |kernel| expect("its time on fast CPUs", on_fast(&kernel.figures(0)), 0.9, 1.0),
    }
}

/// Fork 60 tasks of 1 ms on CPU 0, one after the other.
fn brief_tasks(case: &mut Case) {
    for at in 0..60 {
        let ops = vec![Op::Run { stack: stacks::COMPUTE, work_ns: 1_000_000 }, Op::End];
        let start_ns = Some(20_000_000 + at * 15_000_000);
        case.tasks.push(TaskSpec { start_ns, ..TaskSpec::new(Program { ops, repeat: false }) });
    }
}

/// Return the part of the time of these tasks on slow CPUs.
fn slow_part(tasks: &[Figures]) -> f64 {
    let slow = tasks.iter().map(|figures| figures.slow_ns).sum();
    ratio(slow, tasks.iter().map(|figures| figures.ran_ns).sum())
}

/// Brief tasks are forked on a node whose CPUs are busy. The other node has one fast core that
/// idles, beside slow ones.
pub(super) fn full_node() -> Scenario {
    let mut case = busy("2P+1E+2E+1P,nodes=2", &[stacks::COMPUTE; 3], 10);
    for (cpu, task) in case.tasks.iter_mut().enumerate() {
        *task = task.clone().within([cpu]).on(cpu);
    }
    brief_tasks(&mut case);
    Scenario {
        name: "full-node",
        case,
        check: |kernel| {
            expect("part of brief tasks' time on slow CPUs", slow_part(&kernel.all_figures()[3..]), 0.0, 0.1)
        },
    }
}

/// The same where each core has a second thread, and one thread of each core of the other node
/// idles.
pub(super) fn full_node_of_threads() -> Scenario {
    let mut case = busy("1P2T+1E2T+1P2T+1E2T,nodes=2", &[stacks::COMPUTE; 6], 10);
    for (at, task) in case.tasks.iter_mut().enumerate() {
        let cpu = if at < 4 { at } else { 2 * at - 4 };
        *task = task.clone().within([cpu]).on(cpu);
    }
    brief_tasks(&mut case);
    Scenario {
        name: "full-node-of-threads",
        case,
        check: |kernel| {
            expect("part of brief tasks' time on slow CPUs", slow_part(&kernel.all_figures()[6..]), 0.0, 0.1)
        },
    }
}

/// Two tasks compute for 4 ms and wait for memory for 4 ms in turn, which they announce. Two others
/// do a mix. Counters need longer than a section.
pub(super) fn hinted() -> Scenario {
    let mut case = busy("2F2S", &[stacks::MIXED; 2], 20);
    (case.hints, case.tick_ns) = (true, 10_000_000);
    for me in 0..2 {
        let section =
            |hint, stack| [Op::Hint { hint }, Op::Yield, Op::Run { stack, work_ns: 4_000_000 }].into_iter();
        let mut ops: Vec<Op> = section(ffi::BIAS_HINT_FAST, stacks::COMPUTE)
            .chain(section(ffi::BIAS_HINT_SLOW, stacks::CHASE))
            .collect();
        ops.rotate_left(3 * me);
        case.tasks.push(TaskSpec::new(Program { ops, repeat: true }).on(2 + me));
    }
    for task in &mut case.tasks[..2] {
        let mut ops = vec![Op::Hint { hint: ffi::BIAS_HINT_NONE }];
        ops.append(&mut task.program.ops);
        task.program.ops = ops;
    }
    Scenario {
        name: "hinted",
        case,
        check: |kernel| expect("STP of two hinted tasks and two others", kernel.stp(), 3.25, 4.0),
    }
}

/// Two tasks that were confined to the threads of one core may use another core from 0.3 s on.
pub(super) fn leaves_a_shared_core() -> Scenario {
    let mut case = busy("2P2T", &[stacks::COMPUTE; 2], 20);
    for (cpu, task) in case.tasks.iter_mut().enumerate() {
        *task = task.clone().within([0, 1]).on(cpu);
    }
    let widen = |task| Disturbance::Affinity { task, cpus: vec![0, 1, 2, 3] };
    case.disturbances = (0..2).map(|task| Disturb { at_ns: 300_000_000, what: widen(task) }).collect();
    Scenario {
        name: "leaves-a-shared-core",
        case,
        check: |kernel| {
            let work_s = kernel.all_figures().iter().map(|figures| figures.work_ns as f64 / 1e9).sum();
            expect("work of both tasks [s]", work_s, 3.6, 4.0)
        },
    }
}

/// The only fast CPU falls idle while one of many slow CPUs is busy. That one offers its task,
/// which the fast CPU would otherwise find after a tick for every four slow CPUs.
pub(super) fn offered_by_one_of_many() -> Scenario {
    let mut case = busy("1P+64E", &[stacks::COMPUTE; 2], 10);
    let ops = vec![Op::Run { stack: stacks::COMPUTE, work_ns: 300_000_000 }, Op::End];
    case.tasks[0] = TaskSpec::new(Program { ops, repeat: false }).within([0]);
    case.tasks[1].start_ns = Some(100_000_000);
    case.tasks[1].start_cpu = 60;
    Scenario {
        name: "offered-by-one-of-many",
        case,
        check: |kernel| {
            expect("time on a slow CPU [ms]", kernel.figures(1).slow_ns as f64 / 1e6, 195.0, 204.0)
        },
    }
}

/// Two cores are 3 % better than the others, and idle as often. A task wakes where it slept.
pub(super) fn near_type() -> Scenario {
    let mut case = busy("62x2:60x4:24x2", &[], 20);
    case.tick_ns = 10_000_000;
    case.tasks = (0..4)
        .map(|at| {
            TaskSpec::new(Program::periodic(stacks::COMPUTE, 60_000, 500_000 + 70_000 * at))
                .on(2 + at as usize)
        })
        .collect();
    Scenario {
        name: "near-type",
        case,
        check: |kernel| {
            let figures = kernel.all_figures();
            let migrations = figures.iter().map(|figures| figures.migrations).sum();
            let switches = figures.iter().map(|figures| figures.switches).sum();
            expect("migrations of a wakeup", ratio(migrations, switches), 0.0, 0.1)
        },
    }
}

/// One node has the fast CPUs. Tasks whose memory is spread begin there, although they are forked
/// on the other one.
pub(super) fn spread_births() -> Scenario {
    let mut case = busy("2P+2E,nodes=2", &[], 10);
    brief_tasks(&mut case);
    case.tasks.iter_mut().for_each(|task| (task.interleaved, task.start_cpu) = (true, 2));
    Scenario {
        name: "spread-births",
        case,
        check: |kernel| {
            expect("part of brief tasks' time on slow CPUs", slow_part(&kernel.all_figures()), 0.0, 0.05)
        },
    }
}
