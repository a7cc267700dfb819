// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! `cargo xtask vm`: runs a command in the VM.

use std::time::Duration;

use anyhow::Result;
use bias_vm::exit::{USAGE, coded};
use bias_vm::packages::Consent;
use bias_vm::prepare;
use bias_vm::root::Root;
use bias_vm::runner::Outcome;

use crate::args::VmArgs;

/// Module parameters that describe the unequal cores to the kernel.
const DEFAULT_HYBRID: [&str; 3] = ["cpufreq=1", "itmt=1", "asym=1"];

/// Run the command and return the exit code.
pub fn run(args: &VmArgs, consent: Consent) -> Result<i32> {
    if let Some(change) = args.throttle.iter().find(|change| change.cpu >= args.machine.cpus()) {
        return Err(coded(USAGE, format!("--throttle {change} names a CPU that the machine lacks")));
    }
    // Refuse a wrong name or size before building a kernel.
    let root = (!args.root.is_empty()).then(|| Root::ensure(&args.root)).transpose()?;
    if let Some(root) = &root {
        root.check_memory(args.memory.saturating_sub(args.disk))?;
    }
    let mut vm =
        prepare::vm(&args.kernel, args.machine.clone(), !args.no_emulation, consent, args.out.clone())?;
    vm.timeout = Duration::from_secs(args.timeout);
    vm.memory_mib = args.memory;
    vm.kernel_args.clone_from(&args.append);
    vm.root = root;
    vm.disk(args.disk)?;
    vm.speed_changes.clone_from(&args.throttle);
    if args.default_hybrid {
        if let Err(why) = &vm.kernel.module {
            let message = format!("--default-hybrid needs the guest's module: {why}; kernel 6.12 has one");
            return Err(coded(USAGE, message));
        }
        vm.module_params = DEFAULT_HYBRID.map(String::from).to_vec();
    }
    let outcome = vm.run(&args.command)?;
    Ok(report(&outcome))
}

/// Print the reason if the command did not end, and the run's times. Return the exit code.
pub fn report(outcome: &Outcome) -> i32 {
    if let Some(text) = outcome.verdict.explanation() {
        eprintln!("xtask: {text}\nxtask: the whole console is in {}", outcome.console.display());
    }
    let in_guest = match outcome.virtual_time {
        Duration::ZERO => String::new(),
        time => format!(" ({:.1} s in the guest)", time.as_secs_f64()),
    };
    eprintln!(
        "xtask: boot {:.1} s, command {:.1} s{in_guest}, output directory {}",
        outcome.boot.as_secs_f64(),
        outcome.command.as_secs_f64(),
        outcome.out.display()
    );
    outcome.verdict.code()
}
