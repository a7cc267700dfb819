// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Speed of the simulator, and the scheduler's work per switch at any size.
//!
//! No test here asserts a time: a busy host would break it. The figures are in README.md.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use std::time::Instant;

use bias_sim::case::{Case, TaskSpec};
use bias_sim::kernel::Kernel;
use bias_sim::load::{Program, stacks};
use bias_sim::rng::Rng;
use bias_sim::unit::Image;

/// A mixed load of `tasks` tasks: half of them always run, a quarter sleep in turn, a quarter wake
/// each other.
fn mixed(machine: &str, tasks: usize, seed: u64) -> Case {
    let mut case = Case::new(machine, seed);
    let cpus = bias_sim::machine::Machine::parse(machine).unwrap().cpus.len();
    let rng = Rng::new(seed);
    for at in 0..tasks {
        let stack = *rng.pick(&[stacks::COMPUTE, stacks::BRANCHES, stacks::MEMORY, stacks::MIXED]);
        let program = match at % 4 {
            0 | 1 => Program::busy(stack),
            2 => Program::periodic(stack, rng.within(100, 3000) * 1000, rng.within(100, 3000) * 1000),
            _ => Program::periodic(stack, rng.within(20, 200) * 1000, rng.within(200, 2000) * 1000),
        };
        case.tasks
            .push(TaskSpec { start_ns: Some(rng.below(1_000_000)), ..TaskSpec::new(program).on(at % cpus) });
    }
    case
}

struct Figures {
    seconds: f64,
    events: u64,
    switches: u64,
    steps: u64,
    visits: u64,
}

fn measure(case: Case) -> Figures {
    let begun = Instant::now();
    let kernel = Kernel::new(case, Image::Plain).unwrap();
    kernel.run().unwrap();
    let (events, switches, visits, steps) = kernel.counts_so_far();
    Figures { seconds: begun.elapsed().as_secs_f64(), events, switches, steps, visits }
}

#[test]
fn a_small_machine() {
    let figures = measure(Case { duration_ns: 10_000_000_000, ..mixed("4P+4E", 16, 1) });
    println!("8 CPUs, 16 tasks, 10 s: {:.2} s, {} events", figures.seconds, figures.events);
    assert!(figures.switches > 10_000);
}

#[test]
#[ignore = "takes half a minute: reports figures"]
fn the_largest_machine() {
    let figures = measure(mixed("512P+512E,llcs=64,nodes=8", 4096, 1));
    println!("1024 CPUs, 4096 tasks, 1 s: {:.2} s, {} events", figures.seconds, figures.events);
    assert!(figures.switches > 100_000);
}

/// Machines of 8 to 1 024 CPUs, and their numbers of CPUs. Each node has as many fast CPUs as slow
/// ones, or searches would find nothing to visit. First in each LLC, and then in LLCs of their own.
fn machines() -> Vec<(String, usize)> {
    let times = |of: &str, times: usize| vec![of; times].join("+");
    vec![
        ("4P+4E".to_owned(), 8),
        (format!("{},llcs=8", times("4P+4E", 8)), 64),
        (format!("{},llcs=32,nodes=2", times("4P+4E", 32)), 256),
        (format!("{},llcs=128,nodes=8", times("4P+4E", 128)), 1024),
        ("32P+32E,llcs=4".to_owned(), 64),
        (format!("{},llcs=16,nodes=2", times("64P+64E", 2)), 256),
        (format!("{},llcs=64,nodes=8", times("64P+64E", 8)), 1024),
    ]
}

/// Sums of [`measure`] over loads of 1 s. A small machine has so few tasks that their periods
/// matter, so it gets many loads.
#[test]
#[ignore = "takes half a minute: reports figures"]
fn work_per_switch() {
    for (machine, cpus) in machines() {
        for per_cpu in [1, 4] {
            let [mut switches, mut steps, mut visits] = [0.0; 3];
            for seed in 0..(256 / cpus as u64).max(1) {
                let case = Case { duration_ns: 1_000_000_000, ..mixed(&machine, cpus * per_cpu, seed) };
                let figures = measure(case);
                switches += figures.switches as f64;
                steps += figures.steps as f64;
                visits += figures.visits as f64;
            }
            println!(
                "{cpus:>5} CPUs, {per_cpu} tasks a CPU: {switches:>9} switches, {:>6.2} steps and {:>5.2} queues a switch",
                steps / switches,
                visits / switches,
            );
        }
    }
}

/// Writes to words that several CPUs write, with four tasks a CPU.
#[test]
#[ignore = "takes a minute: reports figures"]
fn shared_writes_per_switch() {
    for (machine, cpus) in machines() {
        let [mut switches, mut writes] = [0, 0];
        for seed in 0..(64 / cpus as u64).max(1) {
            let case = Case { duration_ns: 300_000_000, ..mixed(&machine, cpus * 4, seed) };
            let kernel = Kernel::new(case, Image::Traced).unwrap();
            kernel.run().unwrap();
            switches += kernel.counts_so_far().1;
            writes += kernel.shared_writes();
        }
        println!(
            "{cpus:>5} CPUs: {switches:>9} switches, {:.2} shared writes each",
            writes as f64 / switches as f64
        );
    }
}
