// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Refusals: code that the simulator cannot run as the kernel would, and impossible cases.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::process::Command;

use bias_sim::campaign;
use bias_sim::case::{Case, Disturb, Disturbance, TaskSpec};
use bias_sim::compile::Variant;
use bias_sim::load::{Op, Program, stacks};
use bias_sim::mutant::Mutant;
use bias_sim::unit::Image;

/// Compile `bpf/` with `new` in place of `old` in main.bpf.c.
fn changed(directory: &Path, old: &str, new: &str) -> anyhow::Result<PathBuf> {
    changed_as(directory, old, new, Variant::Plain)
}

fn changed_as(directory: &Path, old: &str, new: &str, variant: Variant) -> anyhow::Result<PathBuf> {
    let text = |text: &str| text.to_owned();
    let mutant = Mutant {
        family: None,
        name: text("changed"),
        what: text(""),
        file: text("main.bpf.c"),
        old: text(old),
        new: text(new),
    };
    mutant.compile_as(directory, variant)
}

/// A condition of a tick: short, so that a change beside it leaves this file alone.
const LINE: &str = "makes_way(p, cpu, cctx))";

#[test]
fn an_unknown_kfunc_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let error = changed(directory.path(), LINE, "(scx_bpf_cpuperf_cur(cpu) && makes_way(p, cpu, cctx)))")
        .unwrap_err();
    assert!(format!("{error:#}").contains("'scx_bpf_cpuperf_cur'"), "{error:#}");
}

#[test]
fn an_unknown_field_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let error = changed(directory.path(), LINE, "(p->static_prio && makes_way(p, cpu, cctx)))").unwrap_err();
    assert!(format!("{error:#}").contains("'static_prio'"), "{error:#}");
}

/// A case in which CPUs tick.
fn ticking() -> Case {
    let mut case = Case::new("2P", 1);
    case.tasks = vec![TaskSpec::new(Program::busy(stacks::COMPUTE))];
    case
}

/// Run cases with an object in a process of its own, which may end by abort(). Return whether it
/// succeeded and its standard error.
fn run_child(object: &Path, preload: Option<&str>) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bias-bench-sim"));
    if let Some(library) = preload {
        command
            .env("LD_PRELOAD", library)
            .env("ASAN_OPTIONS", "detect_leaks=0:detect_stack_use_after_return=0");
    }
    let output = command.arg("drive").arg(object).output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// BPF defines a division by zero, and the host does not. It ends the run with its place and case.
#[test]
fn a_division_by_zero_ends_the_run_with_its_place() {
    let directory = tempfile::tempdir().unwrap();
    let object = changed(directory.path(), LINE, "(now / cctx->yields && makes_way(p, cpu, cctx)))").unwrap();
    let (success, text) = run_child(&object, None);
    assert!(!success && text.contains("division by zero") && text.contains("main.bpf.c:"), "{text}");
    assert!(text.contains("\"machine\":\"2P\""), "{text}");
}

#[test]
fn a_shift_beyond_the_width_ends_the_run_with_its_place() {
    let directory = tempfile::tempdir().unwrap();
    let object =
        changed(directory.path(), LINE, "((now << (64 + cpu)) && makes_way(p, cpu, cctx)))").unwrap();
    let (success, text) = run_child(&object, None);
    assert!(!success && text.contains("a shift beyond the width"), "{text}");
}

/// Checks of undefined behaviour see an index out of range. The trap ends the process.
#[test]
fn undefined_behaviour_ends_the_run() {
    let directory = tempfile::tempdir().unwrap();
    let index = "slow_lists[now ? 2 + cpu : 0].cpus[0] > 1 || makes_way(p, cpu, cctx))";
    let object = changed_as(directory.path(), LINE, index, Variant::Undefined).unwrap();
    assert!(!run_child(&object, None).0);
    let object = changed_as(directory.path(), LINE, LINE, Variant::Undefined).unwrap();
    assert!(run_child(&object, None).0);
}

/// Return the runtime library of address checks that comes with gcc.
fn asan() -> Option<String> {
    let output = Command::new("gcc").arg("-print-file-name=libasan.so").output().ok()?;
    let path = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    Path::new(&path).is_absolute().then_some(path)
}

/// Parts of full runs. They need gcc's libasan.
mod full {
    use super::*;

    /// Checks of addresses find an access beyond an array, and none in the scheduler. Interleaved
    /// cases are left out: they leave stacks that are never unwound.
    #[test]
    fn addresses_are_valid() {
        let asan = asan().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let beyond = "((volatile u32 *)&band_high)[2] > 1 || makes_way(p, cpu, cctx))";
        let object = changed_as(directory.path(), LINE, beyond, Variant::Address).unwrap();
        let (success, text) = run_child(&object, Some(&asan));
        assert!(!success && text.contains("global-buffer-overflow"), "{text}");
        let object = changed_as(directory.path(), LINE, LINE, Variant::Address).unwrap();
        let (success, text) = run_child(&object, Some(&asan));
        assert!(success, "{text}");
    }
}

/// The same code, unchanged, passes: the two tests above do not fail for another reason.
#[test]
fn the_unchanged_code_ends_no_run() {
    let directory = tempfile::tempdir().unwrap();
    let object = changed(directory.path(), LINE, LINE).unwrap();
    let (success, text) = run_child(&object, None);
    assert!(success, "{text}");
}

#[test]
fn impossible_cases_are_refused() {
    let refused = |change: fn(&mut Case), why: &str| {
        let mut case = ticking();
        change(&mut case);
        let error = campaign::run(&case, Image::Plain).unwrap_err();
        assert!(format!("{error:#}").contains(why), "{error:#}");
    };
    refused(|case| case.tasks[0].start_cpu = 2, "starts on CPU 2");
    refused(|case| case.tasks[0].cpus = Some(vec![]), "may run nowhere");
    refused(|case| case.tasks[0].weight = 0, "weight 0");
    refused(|case| case.tasks[0].program.ops = vec![Op::Run { stack: [1, 2, 3], work_ns: 1 }], "sum to 1000");
    refused(|case| case.tasks[0].program.ops.push(Op::Wake { task: 7, sync: false }), "does not exist");
    refused(|case| case.machine = "4Q".into(), "4Q");
    refused(|case| case.tick_ns = 1, "tick");
    refused(
        |case| case.disturbances.push(Disturb { at_ns: 0, what: Disturbance::Offline { cpu: 9 } }),
        "names a CPU that does not exist",
    );
    assert!(Case::parse("{\"seed\":1}").is_err());
}
