// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The canary: a scenario that must fail. `cargo xtask test` runs it first and stops if it passes.

use bias_vm::Machine;
use bias_vm::packages::Consent;
use bias_vm::prepare;

#[test]
#[ignore = "must fail; cargo xtask test runs it to make sure that failures are seen"]
fn a_command_that_fails_in_the_guest_fails_here() {
    let machine = Machine::parse("2F2S").unwrap();
    let mut vm = prepare::vm("6.12", machine, false, Consent::Given, None).unwrap();
    vm.keep_output = true;
    let outcome = vm.run(&["sh".into(), "-c".into(), "exit 3".into()]).unwrap();
    // A code other than the guest's own 3 means that the VM did not run. The message distinguishes
    // the two.
    assert_eq!(outcome.verdict.code(), 3, "the VM did not run: {:?}", outcome.verdict);
    assert_eq!(outcome.verdict.code(), 0, "this failure is intended");
}
