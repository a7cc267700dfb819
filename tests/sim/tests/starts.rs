// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! New tasks run soon, and their parents notice their end soon.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use bias_sim::case::{Case, Interleave, TaskSpec};
use bias_sim::kernel::Kernel;
use bias_sim::load::{Op, Program, stacks};
use bias_sim::rng::Rng;
use bias_sim::unit::Image;

const MS: u64 = 1_000_000;

/// Starts by each of the parents.
const STARTS: usize = 320;

/// Parents that start one program after another and wait for its end.
const PARENTS: usize = 4;

/// Light servers, kernel threads and parents on P2E4. Most programs take 5 ms, some 200 ms.
fn starts(seed: u64, tick_ns: u64) -> Case {
    let rng = Rng::new(seed);
    let mut case = Case::new("P2E4", seed);
    (case.tick_ns, case.duration_ns) = (tick_ns, 20_000 * MS);
    case.interleave = Some(Interleave { permille: 20, longest_ns: 20_000, memory: false });
    for at in 0..8 {
        let ops = (0..200).flat_map(|_| {
            let work = Op::Run { stack: stacks::MIXED, work_ns: rng.within(200_000, 500_000) };
            [work, Op::Sleep { ns: rng.within(MS, 3 * MS) }]
        });
        case.tasks.push(TaskSpec::new(Program { ops: ops.collect(), repeat: true }).on(at));
        let (work_ns, sleep_ns) = (rng.within(20_000, 300_000), rng.within(5 * MS, 50 * MS));
        let kthread =
            TaskSpec::new(Program::periodic(stacks::COMPUTE, work_ns, sleep_ns)).on(at).within([at]);
        case.tasks.push(TaskSpec { kthread: true, ..kthread });
    }
    let run = |work_ns| Op::Run { stack: stacks::COMPUTE, work_ns };
    for _ in 0..PARENTS {
        let parent = case.tasks.len();
        let start = |at| [run(100_000), Op::Spawn { task: parent + 1 + at }, run(50_000), Op::Wait];
        let mut ops: Vec<Op> = (0..STARTS).flat_map(start).collect();
        ops.push(Op::End);
        case.tasks.push(TaskSpec::new(Program { ops, repeat: false }).on(parent % 8));
        for at in 0..STARTS {
            let work_ns = if at % 20 == 0 { 200 * MS } else { 5 * MS };
            let wake = Op::Wake { task: parent, sync: rng.chance(50) };
            let program = Program { ops: vec![run(work_ns), wake, run(20_000), Op::End], repeat: false };
            case.tasks.push(TaskSpec { start_ns: None, ..TaskSpec::new(program) });
        }
    }
    case
}

/// No task of 5 120 starts, parents included, ever waits for 20 ms.
#[test]
fn beside_light_servers_are_prompt() {
    for (seed, tick_ns) in [10_000_000, 4_000_000, 3_333_333, 1_000_000].into_iter().enumerate() {
        let kernel = Kernel::new(starts(seed as u64, tick_ns), Image::Plain).unwrap();
        assert_eq!(kernel.run(), Ok(()), "a tick of {tick_ns} ns");
        let figures = &kernel.all_figures()[16..];
        let started = figures.iter().filter(|figures| figures.switches > 0).count();
        let longest_ns = figures.iter().map(|figures| figures.longest_wait_ns).max();
        println!("a tick of {tick_ns} ns: {started} tasks, longest wait {longest_ns:?} ns");
        assert_eq!(started, PARENTS * (STARTS + 1), "a tick of {tick_ns} ns");
        assert!(longest_ns.is_some_and(|ns| ns < 20 * MS), "a tick of {tick_ns} ns: {longest_ns:?} ns");
    }
}
