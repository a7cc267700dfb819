// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Figures of README.md: the simulator's speed, and the scheduler's work per switch at any size.

use std::time::Instant;

use crate::case::{Case, TaskSpec};
use crate::kernel::Kernel;
use crate::load::{Program, stacks};
use crate::machine::Machine;
use crate::rng::Rng;
use crate::unit::Image;

/// Return a mixed load of `tasks` tasks: half of them always run, and the others sleep in turn.
///
/// # Errors
/// Fail if the text is not a machine.
pub fn mixed(machine: &str, tasks: usize, seed: u64) -> anyhow::Result<Case> {
    let mut case = Case::new(machine, seed);
    let cpus = Machine::parse(machine)?.cpus.len();
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
    Ok(case)
}

/// Machines of 8 to 1024 CPUs, and their numbers of CPUs. Each node has as many fast CPUs as slow
/// ones, or searches would find nothing to visit. The first machines have both classes in each LLC,
/// the others one class per LLC.
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

/// Run a case for `duration_ns`.
fn run(case: Case, duration_ns: u64, image: Image<'_>) -> anyhow::Result<std::rc::Rc<Kernel>> {
    let kernel = Kernel::new(Case { duration_ns, ..case }, image)?;
    kernel.run().map_err(|fault| anyhow::anyhow!("{fault}"))?;
    Ok(kernel)
}

/// Print all figures.
///
/// # Errors
/// Fail if a rule is broken.
pub fn print() -> anyhow::Result<()> {
    const SECOND_NS: u64 = 1_000_000_000;
    for (machine, tasks, seconds) in [("4P+4E", 16, 10), ("512P+512E,llcs=64,nodes=8", 4096, 1)] {
        let begun = Instant::now();
        let events = run(mixed(machine, tasks, 1)?, seconds * SECOND_NS, Image::Plain)?.counts_so_far().0;
        let took = begun.elapsed().as_secs_f64();
        println!("{machine}, {tasks} tasks, {seconds} s: {took:.2} s, {events} events");
    }
    for (machine, cpus) in machines() {
        for per_cpu in [1, 4] {
            // A small machine has so few tasks that their periods matter, so it gets many loads.
            let [mut switches, mut steps, mut visits] = [0.0; 3];
            for seed in 0..(256 / cpus as u64).max(1) {
                let kernel = run(mixed(&machine, cpus * per_cpu, seed)?, SECOND_NS, Image::Plain)?;
                let counts = kernel.counts_so_far();
                switches += counts.1 as f64;
                visits += counts.2 as f64;
                steps += counts.3 as f64;
            }
            let (steps, visits) = (steps / switches, visits / switches);
            println!(
                "{cpus:>5} CPUs, {per_cpu} tasks a CPU: {steps:>6.2} steps and {visits:>5.2} queues a switch"
            );
        }
        let [mut switches, mut writes] = [0, 0];
        for seed in 0..(64 / cpus as u64).max(1) {
            let kernel = run(mixed(&machine, cpus * 4, seed)?, 3 * SECOND_NS / 10, Image::Traced)?;
            switches += kernel.counts_so_far().1;
            writes += kernel.shared_writes();
        }
        let each = writes as f64 / switches as f64;
        println!("{cpus:>5} CPUs, 4 tasks a CPU: {each:.2} shared writes a switch");
    }
    Ok(())
}
