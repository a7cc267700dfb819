// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Random machines and loads.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use std::path::Path;

use bias_sim::campaign;
use bias_sim::case::{Case, Disturbance};
use bias_sim::compile::{self, Source, Variant};
use bias_sim::unit::Image;
use bias_sim::{fault_report, random};

/// Cases in every test run.
const CASES: u64 = 4000;

/// Random machines and loads break no rule.
#[test]
fn random_cases_break_no_rule() {
    if let Some((case, fault)) = campaign::find(0..CASES, Image::Plain).unwrap() {
        panic!("{}", fault_report::describe(&case, &fault, Image::Plain).unwrap());
    }
}

/// All tasks announce sections: any hint, any other content, or none. No rule breaks.
///
/// Changes of affinity are left out: they cancel an arrival, and the CPU that awaits it is idle for
/// longer than the rule allows (`bpf/arrival.bpf.h`, Limits).
#[test]
fn random_hints_break_no_rule() {
    for seed in 0..CASES / 4 {
        let mut case = random::case(seed);
        case.hints = true;
        case.disturbances.retain(|one| !matches!(one.what, Disturbance::Affinity { .. }));
        if let Some(fault) = campaign::run(&case, Image::Plain).unwrap() {
            panic!("{}", fault_report::describe(&case, &fault, Image::Plain).unwrap());
        }
    }
}

/// Compile the copy of `bpf/` that BIAS_SIM_BPF names into `directory`. Without it return the
/// present code.
fn image(directory: &Path) -> Image<'_> {
    let Some(bpf) = std::env::var_os("BIAS_SIM_BPF") else { return Image::Plain };
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.ancestors().nth(2).unwrap();
    let source = Source { bpf: Path::new(&bpf), include: &root.join("lib/include"), unit: &here.join("c") };
    let scratch = directory.parent().unwrap();
    compile::compile(compile::CLANG, source, Variant::Plain, scratch, directory).unwrap();
    Image::File(directory)
}

/// Run BIAS_SIM_SEEDS cases from BIAS_SIM_SEED on and list the broken rules.
#[test]
#[ignore = "a long campaign by hand"]
fn survey() {
    let from: u64 = std::env::var("BIAS_SIM_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let count: u64 = std::env::var("BIAS_SIM_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(500);
    let directory = tempfile::tempdir().unwrap();
    let object = directory.path().join("unit.so");
    let image = image(&object);
    let mut rules = std::collections::BTreeMap::<String, Vec<u64>>::new();
    let start = std::time::Instant::now();
    for seed in from..from + count {
        let case = random::case(seed);
        let begun = std::time::Instant::now();
        match campaign::run(&case, image) {
            Ok(None) => {}
            Ok(Some(fault)) => {
                println!(
                    "seed {seed} {} {} tasks {:?} interleave {}: {fault}",
                    case.machine,
                    case.tasks.len(),
                    case.release,
                    case.interleave.is_some()
                );
                rules.entry(fault.rule).or_default().push(seed);
            }
            Err(error) => println!("seed {seed}: {error:#}"),
        }
        if begun.elapsed().as_millis() > 1000 {
            println!("seed {seed} took {} ms", begun.elapsed().as_millis());
        }
    }
    println!("{} s", start.elapsed().as_secs_f64());
    for (rule, seeds) in rules {
        println!("{rule}: {} {seeds:?}", seeds.len());
    }
}

/// Repeat one case, with its trace: BIAS_SIM_SEED=n, or BIAS_SIM_CASE=file.
#[test]
#[ignore = "repeats a case by hand"]
fn repeat() {
    let mut case = match std::env::var("BIAS_SIM_CASE") {
        Ok(path) => Case::parse(&std::fs::read_to_string(path).unwrap()).unwrap(),
        Err(_) => random::case(std::env::var("BIAS_SIM_SEED").unwrap().parse().unwrap()),
    };
    let memory = case.interleave.is_some_and(|interleave| interleave.memory);
    let image = if memory { Image::Traced } else { Image::Plain };
    if std::env::var("BIAS_SIM_SHRINK").is_ok()
        && let Some(fault) = campaign::run(&case, image).unwrap()
    {
        case = bias_sim::shrink::shrink(&case, &fault.rule, image);
    }
    case.trace = true;
    let kernel = bias_sim::kernel::Kernel::new(case.clone(), image).unwrap();
    let result = kernel.run();
    println!("{}", case.text());
    println!("{}", kernel.trace_text());
    println!("{result:?}");
}

/// A task disables migration between a change of its affinity and the stopper, which lets it stay.
/// It leaves when it enables migration (migrate_enable()). The simulator forgot that, and reported
/// a task on a CPU that it may not use.
#[test]
fn a_task_leaves_that_disabled_migration_before_the_stopper_came() {
    let case = Case::parse(include_str!("../cases/disabled_before_stopper.json")).unwrap();
    assert_eq!(campaign::run(&case, Image::Plain).unwrap(), None);
}

/// A task's nice value changes while another CPU takes the task from its runqueue. task_rq_lock()
/// waits until it has arrived. The simulator did not, and weight was left over at the end.
#[test]
fn a_change_waits_for_a_task_that_migrates() {
    let case = Case::parse(include_str!("../cases/nice_while_migrating.json")).unwrap();
    assert_eq!(campaign::run(&case, Image::Plain).unwrap(), None);
}
