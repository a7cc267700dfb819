//! The same code compiled in other ways: with checks of undefined behaviour, and with other CPUs
//! coming in between at accesses to shared memory.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use std::path::Path;

use bias_sim::case::Case;
use bias_sim::case::Interleave;
use bias_sim::compile::{self, Source, Variant};
use bias_sim::unit::Image;
use bias_sim::{campaign, fault_report, random, scenario};

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
        campaign::run(&random::case(seed), Image::File(&object)).unwrap();
    }
}

/// Other CPUs come in between at any access to shared memory, not only at kfuncs.
#[test]
fn accesses_interleave() {
    let interleave = Interleave { permille: 5, longest_ns: 2_000, memory: true };
    for seed in 0..150 {
        let case = Case { interleave: Some(interleave), ..random::case(seed) };
        if let Some(fault) = campaign::run(&case, Image::Traced).unwrap() {
            panic!("{}", fault_report::describe(&case, &fault, Image::Traced).unwrap());
        }
    }
}
