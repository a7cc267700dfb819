// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tasks that leave their NUMA node, and tasks that stay. Each case failed before its repair.
#![allow(missing_docs, clippy::unwrap_used)]

use bias_sim::case::{Case, TaskSpec};
use bias_sim::kernel::Kernel;
use bias_sim::load::{Program, stacks};
use bias_sim::unit::Image;

fn busy() -> TaskSpec {
    TaskSpec::new(Program::busy(stacks::COMPUTE))
}

/// Two nodes, one of fast CPUs and one of slow ones. A task that waits for memory stays on its
/// node, unless the memory is spread over both. A computing task leaves.
#[test]
fn a_task_leaves_its_node_if_that_costs_little() {
    let memory = || TaskSpec::new(Program::busy(stacks::MEMORY));
    for (task, interleaved, slow) in [
        (busy(), true, 0..50),
        (busy(), false, 0..100),
        (memory(), true, 0..50),
        (memory(), false, 950..1001),
    ] {
        let mut case = Case::new("2P+2E,nodes=2", 1);
        case.duration_ns = 1_000_000_000;
        case.tasks = vec![TaskSpec { interleaved, ..task.on(2) }];
        let text = format!("{:?}", case.tasks);
        let kernel = Kernel::new(case, Image::Plain).unwrap();
        assert_eq!(kernel.run(), Ok(()));
        let slow_ms = kernel.figures(0).slow_ns / 1_000_000;
        assert!(slow.contains(&slow_ms), "{text}: {slow_ms} ms on slow CPUs");
    }
}

/// The same with a task on each CPU: the ones that gain most have the fast CPUs. A task on a fast
/// CPU makes way only if its memory is spread.
#[test]
fn tasks_swap_across_nodes_if_memory_is_spread() {
    for (interleaved, slow) in [(true, 0..500), (false, 1900..2001)] {
        let mut case = Case::new("2P+2E,nodes=2", 1);
        case.duration_ns = 2_000_000_000;
        let memory = TaskSpec::new(Program::busy(stacks::MEMORY));
        let tasks = [memory.clone().on(0), memory.on(1), busy().on(2), busy().on(3)];
        case.tasks = tasks.map(|task| TaskSpec { interleaved, ..task }).to_vec();
        let kernel = Kernel::new(case, Image::Plain).unwrap();
        assert_eq!(kernel.run(), Ok(()));
        for task in 2..4 {
            let slow_ms = kernel.figures(task).slow_ns / 1_000_000;
            assert!(slow.contains(&slow_ms), "interleaved {interleaved}, task {task}: {slow_ms} ms");
        }
    }
}

/// Three computing tasks of two fast CPUs and slow ones of another node are on slow CPUs in turn.
#[test]
fn computing_tasks_rotate_over_nodes() {
    let mut case = Case::new("2P+2E,nodes=2", 1);
    case.duration_ns = 4_000_000_000;
    case.tasks = (0..3).map(|cpu| busy().on(cpu)).collect();
    let kernel = Kernel::new(case, Image::Plain).unwrap();
    assert_eq!(kernel.run(), Ok(()));
    let slow_ms = (0..3).map(|task| kernel.figures(task).slow_ns / 1_000_000).collect::<Vec<_>>();
    assert!(slow_ms.iter().all(|ms| (800..1900).contains(ms)), "{slow_ms:?}");
}

/// A node is 5 % slower than the other one. Its tasks woke on the faster one, although their
/// memory's node idled.
#[test]
fn a_wakeup_stays_on_its_node() {
    let mut case = Case::new("60x4:57x4,nodes=2", 1);
    case.duration_ns = 2_000_000_000;
    let periodic = TaskSpec::new(Program::periodic(stacks::COMPUTE, 500_000, 2_000_000));
    case.tasks = (4..6).map(|cpu| periodic.clone().on(cpu).within(0..8)).collect();
    let kernel = Kernel::new(case, Image::Plain).unwrap();
    assert_eq!(kernel.run(), Ok(()));
    for task in 0..2 {
        let figures = kernel.figures(task);
        assert!(figures.slow_ns * 100 > figures.ran_ns * 99, "task {task}: {figures:?}");
    }
}
