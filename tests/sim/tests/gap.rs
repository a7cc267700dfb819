//! How far the scheduler's throughput is from the best that any schedule reaches.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use bias_sim::case::{Case, TaskSpec};
use bias_sim::kernel::Kernel;
use bias_sim::load::{Program, stacks};
use bias_sim::machine::Machine;
use bias_sim::optimum::best_stp;
use bias_sim::rng::Rng;
use bias_sim::unit::Image;

/// Return STP and the optimum for a task on each CPU, of random stacks.
fn gap(machine: &str, seed: u64, seconds_tenths: u64) -> (f64, f64) {
    let spec = Machine::parse(machine).unwrap();
    let rng = Rng::new(seed);
    let kinds = [stacks::COMPUTE, stacks::BRANCHES, stacks::MEMORY, stacks::MIXED];
    let stacks: Vec<_> = spec.cpus.iter().map(|_| *rng.pick(&kinds)).collect();
    let mut case = Case::new(machine, seed);
    case.duration_ns = seconds_tenths * 100_000_000;
    let spread = |at: usize| rng.below(1_000_000) + at as u64;
    case.tasks = stacks
        .iter()
        .enumerate()
        .map(|(at, stack)| TaskSpec {
            start_ns: Some(spread(at)),
            ..TaskSpec::new(Program::busy(*stack)).on(at)
        })
        .collect();
    let kernel = Kernel::new(case, Image::Plain).unwrap();
    kernel.run().unwrap();
    (kernel.stp(), best_stp(&spec, &stacks))
}

/// A task on each CPU: the mean gap over mixes and machines. Equal progress costs a part of it.
#[test]
fn throughput_is_near_the_optimum() {
    let mut gaps = Vec::new();
    for machine in ["2F2S", "4P+4E", "SPLIT", "8P+16E", "PELP", "64P+64E,nodes=2"] {
        let large = machine.starts_with("64");
        let mut worst = 0.0f64;
        let mut sum = 0.0;
        let seeds = if large { 2 } else { 8 };
        for seed in 0..seeds {
            let (stp, best) = gap(machine, seed, if large { 10 } else { 20 });
            let gap = 1.0 - stp / best;
            assert!(
                gap > -0.001,
                "{machine} with seed {seed} does more work than is possible: {stp} of {best}"
            );
            worst = worst.max(gap);
            sum += gap;
            gaps.push(gap);
        }
        println!(
            "{machine:<16} mean gap {:>5.2} %, worst {:>5.2} %",
            sum / seeds as f64 * 100.0,
            worst * 100.0
        );
    }
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    println!("mean gap {:.2} %", mean * 100.0);
    assert!(mean < 0.08, "the mean gap is {mean}");
}
