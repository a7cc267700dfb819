// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tasks that spin until another one has finished make room on the fast CPUs.
#![allow(missing_docs, clippy::unwrap_used)]

use bias_sim::case::{Case, TaskSpec};
use bias_sim::kernel::Kernel;
use bias_sim::load::{Op, Program, stacks};
use bias_sim::unit::Image;

/// Run tasks for 2 s, the first two of which begin on the fast CPUs. Return the time of each on
/// slow CPUs [ms].
fn slow_ms(programs: [Program; 4]) -> Vec<u64> {
    let mut case = Case::new("2P+2E", 1);
    case.duration_ns = 2_000_000_000;
    case.tasks = (0..).zip(programs).map(|(cpu, program)| TaskSpec::new(program).on(cpu)).collect();
    let kernel = Kernel::new(case, Image::Plain).unwrap();
    assert_eq!(kernel.run(), Ok(()));
    (0..4).map(|task| kernel.figures(task).slow_ns / 1_000_000).collect()
}

#[test]
fn a_spinning_task_leaves_the_fast_cpu() {
    let (spin, work) = (Program::busy(stacks::SPIN), Program::busy(stacks::COMPUTE));
    let slow = slow_ms([spin.clone(), spin, work.clone(), work]);
    assert!(slow[..2].iter().all(|ms| *ms > 1800), "{slow:?} ms on slow CPUs");
    assert!(slow[2..].iter().all(|ms| *ms < 200), "{slow:?} ms on slow CPUs");
}

/// The task that makes room gets a fast CPU again once it works.
#[test]
fn a_task_that_works_again_counts_as_before() {
    let run = |stack, work_ns| Op::Run { stack, work_ns };
    let both =
        Program { ops: vec![run(stacks::SPIN, 50_000_000), run(stacks::COMPUTE, 400_000_000)], repeat: true };
    let memory = Program::busy(stacks::MEMORY);
    let slow = slow_ms([both.clone(), both, memory.clone(), memory]);
    assert!(slow[..2].iter().all(|ms| (200..800).contains(ms)), "{slow:?} ms on slow CPUs");
}
