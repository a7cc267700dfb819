// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The same code compiled in other ways: with checks of undefined behaviour, and with other CPUs
//! running between accesses to shared memory.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use std::path::Path;

use bias_sim::case::{Case, Interleave, TaskSpec};
use bias_sim::compile::{self, Source, Variant};
use bias_sim::load::{Program, stacks};
use bias_sim::mutant::Mutant;
use bias_sim::unit::Image;
use bias_sim::{campaign, fault_report, findings, random, scenario};

/// Undefined behaviour traps, which ends the process with SIGILL. BPF defines part of it, but the
/// policy claims to need none.
#[test]
fn nothing_is_undefined() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.ancestors().nth(2).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let object = directory.path().join("undefined.so");
    let source = Source { bpf: &root.join("bpf"), include: &root.join("lib/include"), unit: &here.join("c") };
    compile::compile(compile::CLANG, source, Variant::Undefined, directory.path(), &object).unwrap();
    for scenario in scenario::all() {
        assert_eq!(campaign::reach(&scenario, Image::File(&object)).unwrap(), None, "{}", scenario.name);
    }
    for seed in 0..300 {
        campaign::run(&random::short(seed), Image::File(&object)).unwrap();
    }
}

/// A search of a DSQ that passes over all tasks of other affinities makes too many steps.
#[test]
fn a_search_without_a_bound_is_found() {
    let mutant = Mutant {
        family: None,
        name: "unbounded_search".into(),
        what: "a search for a DSQ's head passes over any number of tasks".into(),
        file: "queue.bpf.h".into(),
        old: "#define MAX_PASSED 32".into(),
        new: "#define MAX_PASSED 100000".into(),
    };
    let folder = tempfile::tempdir().unwrap();
    let object = mutant.compile(folder.path()).unwrap();
    let mut case = Case::new("4P", 1);
    case.duration_ns = 50_000_000;
    let busy = TaskSpec::new(Program::busy(stacks::COMPUTE));
    case.tasks = (0..1200).map(|at| busy.clone().within([0, 1]).on(at % 2)).collect();
    case.tasks.extend((0..4).map(|at| busy.clone().on(2 + at % 2)));
    assert_eq!(campaign::run(&case, Image::Plain).unwrap(), None);
    let fault = campaign::run(&case, Image::File(&object)).unwrap();
    assert_eq!(fault.map(|fault| fault.rule).as_deref(), Some("steps"));
}

/// A store to a word of another CPU that has one writer breaks a rule, though it changes nothing.
#[test]
fn a_second_writer_is_found() {
    let request = "	WRITE_ONCE(cpu_ctx_of(from)->move_to, (to + 1) | how);";
    let mutant = Mutant {
        family: None,
        name: "second_writer".into(),
        what: "a CPU writes what only another one may".into(),
        file: "move.bpf.h".into(),
        old: request.into(),
        new: format!("{request}\n	WRITE_ONCE(cpu_ctx_of(from)->looked_llc, 0);"),
    };
    let folder = tempfile::tempdir().unwrap();
    let object = mutant.compile_as(folder.path(), Variant::Traced).unwrap();
    let (_, fault) = campaign::find(0..100, Image::File(&object)).unwrap().unwrap();
    assert_eq!(fault.rule, "writer", "{fault}");
}

/// Other CPUs may run at any access to shared memory, not only at kfuncs. Each store is checked for
/// its writer. BIAS_SIM_SEEDS runs more cases.
#[test]
fn accesses_interleave() {
    let seeds = std::env::var("BIAS_SIM_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(500);
    for seed in 0..seeds {
        let permille = [5, 50, 200][seed as usize % 3];
        let interleave = Interleave { permille, longest_ns: 2_000, memory: true };
        let case = Case { interleave: Some(interleave), ..random::short(seed) };
        let fault = campaign::run(&case, Image::Traced).unwrap();
        if let Some(fault) = fault.filter(|fault| !findings::is_known(fault)) {
            panic!("{}", fault_report::describe(&case, &fault, Image::Traced).unwrap());
        }
    }
}
