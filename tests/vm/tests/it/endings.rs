// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Endings of a run and their reports: the command's exit code, a panic, a hang, a guest that
//! powers off.

use std::time::Duration;

use bias_vm::packages::Consent;
use bias_vm::prepare::{self, Vm};
use bias_vm::runner::Outcome;
use bias_vm::{Machine, Verdict, exit};

fn vm() -> Vm {
    let machine = Machine::parse("SYM").unwrap();
    let mut vm = prepare::vm("6.12", machine, false, Consent::Given, None).unwrap();
    vm.keep_output = true;
    vm
}

fn shell(vm: &Vm, text: &str) -> Outcome {
    vm.run(&["sh".into(), "-c".into(), text.into()]).unwrap()
}

#[test]
fn the_commands_code_and_output_arrive() {
    let vm = vm();
    let outcome = shell(
        &vm,
        "id -u; nproc; echo trouble >&2; echo kept >$OUT/file; seq 20000
         touch /etc/x 2>/dev/null || exit 42",
    );
    assert_eq!(outcome.verdict, Verdict::Ended(42), "the host's files must be read-only");
    assert!(outcome.stdout.starts_with("0\n4\n1\n2\n") && outcome.stdout.ends_with("\n20000\n"));
    assert_eq!(outcome.stdout.lines().count(), 20_002, "much output arrives whole");
    assert_eq!(outcome.stderr, "trouble\n");
    assert_eq!(std::fs::read_to_string(vm.out.join("file")).unwrap(), "kept\n");
}

#[test]
fn a_panic_is_named() {
    let outcome = shell(&vm(), "echo c >/proc/sysrq-trigger; sleep 60");
    assert_eq!(outcome.verdict.code(), exit::VM_PANIC);
    assert!(outcome.verdict.explanation().unwrap().contains("sysrq triggered crash"));
}

#[test]
fn a_guest_that_powers_off_did_not_succeed() {
    let outcome = shell(&vm(), "echo o >/proc/sysrq-trigger; sleep 60");
    assert_eq!(outcome.verdict.code(), exit::VM_PANIC);
}

#[test]
fn a_hang_is_ended_and_named_and_leaves_nothing_behind() {
    let mut vm = vm();
    vm.timeout = Duration::from_secs(2);
    let outcome = shell(&vm, "sleep 1000");
    assert_eq!(outcome.verdict.code(), exit::VM_HANG);
    let directory = vm.out.to_string_lossy().into_owned();
    let left = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok).any(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        line.contains("qemu-system") && line.contains(&directory)
    });
    assert!(!left, "QEMU outlived its run");
}
