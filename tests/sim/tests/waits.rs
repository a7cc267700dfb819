// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Waits are bounded in time, at any weight, load and tick, and weights hold at any tick.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use bias_sim::case::{Case, GroupSpec, TaskSpec};
use bias_sim::kernel::Kernel;
use bias_sim::load::{Program, stacks};
use bias_sim::scenario::Figures;
use bias_sim::unit::Image;

const MS: u64 = 1_000_000;

/// Ticks of 100, 250, 300 and 1000 Hz [ns].
const TICKS: [u64; 4] = [10_000_000, 4_000_000, 3_333_333, 1_000_000];

fn busy(weight: u32) -> TaskSpec {
    TaskSpec { weight, ..TaskSpec::new(Program::busy(stacks::COMPUTE)) }
}

/// Run tasks for 12 s at each tick, and check that none waits for 3 s. The rule `starved` checks
/// waits that have not ended.
fn none_waits_for_long(machine: &str, tasks: &[TaskSpec]) {
    for tick_ns in TICKS {
        let mut case = Case::new(machine, 1);
        (case.duration_ns, case.tick_ns, case.tasks) = (12_000 * MS, tick_ns, tasks.to_vec());
        let kernel = Kernel::new(case, Image::Plain).unwrap();
        assert_eq!(kernel.run(), Ok(()), "{machine}, a tick of {tick_ns} ns");
        let longest_ns = kernel.all_figures().iter().map(|figures| figures.longest_wait_ns).max();
        println!("{machine}, {} tasks, a tick of {tick_ns} ns: {longest_ns:?} ns", tasks.len());
        assert!(longest_ns.is_some_and(|ns| ns < 3_000 * MS), "{longest_ns:?} ns");
    }
}

/// Tasks of nice 0 on every CPU, `each` per CPU.
fn crowd(cpus: usize, each: usize) -> Vec<TaskSpec> {
    (0..cpus * each).map(|at| busy(100).on(at % cpus)).collect()
}

/// A tick charges a task of nice 19 a hundred times what it charges the others.
#[test]
fn of_nice_19_beside_a_crowd() {
    for each in [5, 35, 80] {
        let mut tasks = crowd(2, each);
        tasks.push(busy(1));
        none_waits_for_long("2P", &tasks);
    }
}

/// vtime hardly advances beside a task of the largest weight.
#[test]
fn of_weight_1_beside_10_000() {
    for weight in [8668, 10_000] {
        let tasks = [busy(weight).on(0), busy(weight).on(1), busy(weight).on(0), busy(weight).on(1), busy(1)];
        none_waits_for_long("2P", &tasks[1..]);
        none_waits_for_long("2P", &tasks);
    }
}

/// The crowd comes while the light task waits already.
#[test]
fn of_a_crowd_that_comes_later() {
    let mut tasks = vec![busy(1).on(0), busy(1).on(1), busy(100).on(0), busy(100).on(1)];
    let late = |task| TaskSpec { start_ns: Some(4_000 * MS), ..task };
    tasks.extend(crowd(2, 80).into_iter().map(late));
    none_waits_for_long("2P", &tasks);
}

/// The crowd is confined to some CPUs, and so is the light task. Other CPUs have little to do.
#[test]
fn of_a_crowd_in_a_part_of_the_machine() {
    for (machine, cpus) in [("4P", vec![0]), ("8P,llcs=2", vec![4, 5]), ("P2E4", vec![6]), ("4P", vec![1, 2])]
    {
        let confined = |weight| (0..1).map(move |_| busy(weight));
        let mut tasks: Vec<TaskSpec> = (0..2).map(|cpu| busy(100).on(cpu)).collect();
        let crowd = (0..80 * cpus.len()).flat_map(|_| confined(100)).chain(confined(1));
        tasks.extend(crowd.map(|task| task.within(cpus.clone()).on(cpus[0])));
        none_waits_for_long(machine, &tasks);
    }
}

/// Kernel threads have no context of their own in the scheduler.
#[test]
fn of_a_kernel_thread_of_nice_19() {
    let mut tasks = crowd(2, 80);
    tasks.push(TaskSpec { kthread: true, ..busy(1) });
    tasks.push(TaskSpec { kthread: true, ..busy(1).within([1]).on(1) });
    none_waits_for_long("2P", &tasks);
}

/// The charge of a long tick to a light task is not forgiven.
#[test]
fn leave_each_task_its_share() {
    for tick_ns in TICKS {
        let run = |tasks: Vec<TaskSpec>, groups| {
            let mut case = Case::new("2P", 1);
            (case.duration_ns, case.tick_ns, case.tasks, case.groups) = (10_000 * MS, tick_ns, tasks, groups);
            let kernel = Kernel::new(case, Image::Plain).unwrap();
            assert_eq!(kernel.run(), Ok(()), "a tick of {tick_ns} ns");
            kernel.all_figures()
        };
        let ran = |figures: &[Figures]| figures.iter().map(|figures| figures.ran_ns).sum::<u64>() as f64;

        let figures = run((0..4).map(|at| busy([100, 1][at / 2]).on(at % 2)).collect(), Vec::new());
        let ratio = ran(&figures[..2]) / ran(&figures[2..]);
        println!("a tick of {tick_ns} ns: weight 100 gets {ratio:.1} times the time of weight 1");
        assert!((80.0..125.0).contains(&ratio), "{ratio}");

        let in_group = |group, at: usize| TaskSpec { group, ..busy(100).on(at % 2) };
        let tasks = (0..2).map(|at| in_group(1, at)).chain((0..100).map(|at| in_group(2, at))).collect();
        let figures = run(tasks, vec![GroupSpec::new(0, 100), GroupSpec::new(0, 100)]);
        let ratio = ran(&figures[..2]) / ran(&figures[2..]);
        println!("a tick of {tick_ns} ns: a group of 2 gets {ratio:.2} times the time of one of 100");
        assert!((0.9..1.1).contains(&ratio), "{ratio}");
    }
}
