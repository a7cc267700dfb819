//! `cargo xtask vm`: runs a command in the VM.

use std::time::Duration;

use anyhow::Result;
use bias_vm::exit::{USAGE, coded};
use bias_vm::packages::Consent;
use bias_vm::prepare::{self, Wish};
use bias_vm::runner::{Outcome, SpeedChange};

use crate::args::VmArgs;

/// Parameters with which the module describes the unequal cores to the kernel.
const DEFAULT_HYBRID: [&str; 3] = ["cpufreq=1", "itmt=1", "asym=1"];

/// Run the command and return the exit code.
pub fn run(args: &VmArgs, consent: Consent) -> Result<i32> {
    let speed_changes =
        args.throttle.iter().map(|text| speed_change(text, args)).collect::<Result<Vec<_>>>()?;
    let mut vm = prepare::vm(&Wish {
        kernel: args.kernel.clone(),
        machine: args.machine.clone(),
        emulation: !args.no_emulation,
        consent,
        out: args.out.clone(),
        timeout: Duration::from_secs(args.timeout),
    })?;
    vm.memory_mib = args.memory;
    vm.kernel_args.clone_from(&args.append);
    vm.speed_changes = speed_changes;
    if args.default_hybrid {
        if vm.emulation.as_ref().is_none_or(|emulation| emulation.module.is_none()) {
            return Err(coded(
                USAGE,
                format!(
                    "--default-hybrid needs the guest's module, and there is none for kernel {}; 6.12 has one",
                    args.kernel
                ),
            ));
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

/// Parse `CPU:MIPS@SECONDS`.
fn speed_change(text: &str, args: &VmArgs) -> Result<SpeedChange> {
    let parse = || -> Option<(usize, f64, f64)> {
        let (cpu, rest) = text.split_once(':')?;
        let (mips, seconds) = rest.split_once('@')?;
        Some((cpu.parse().ok()?, mips.parse().ok()?, seconds.parse().ok()?))
    };
    let cpus = args.machine.cpus();
    match parse() {
        Some((vcpu, mips, seconds))
            if vcpu < cpus && (1.0..=10_000.0).contains(&mips) && (0.0..=86_400.0).contains(&seconds) =>
        {
            Ok(SpeedChange {
                after: Duration::from_secs_f64(seconds),
                vcpu,
                mips_milli: (mips * 1000.0).round() as u32,
            })
        }
        _ => Err(coded(
            USAGE,
            format!(
                "--throttle \"{text}\" is not CPU:MIPS@SECONDS with a CPU below {cpus} and 1 to 10000 MIPS"
            ),
        )),
    }
}
