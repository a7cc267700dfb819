// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! `cargo xtask demo`: compares scx_bias with the default scheduler in the VM.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use bias_vm::Machine;
use bias_vm::guest::quote;
use bias_vm::kernels;
use bias_vm::packages::{Consent, Purpose};
use bias_vm::prepare;
use bias_vm::{build, inputs};

use crate::args::DemoArgs;
use crate::vm;

/// Wall time limit of the comparison.
const TIME_LIMIT: Duration = Duration::from_secs(1200);
/// Duration of the demo in guest seconds: 36 for the mixes, the rest for the calibration and for
/// the measurement of each workload alone.
const GUEST_S: u64 = 50;
/// Million instructions per second that slow and fast hosts execute.
const HOST_MIPS: [u64; 2] = [60, 100];

/// Set up, build, boot and compare. Return the exit code.
pub fn run(args: &DemoArgs, consent: Consent) -> Result<i32> {
    kernels::check(&args.kernel)?;
    bias_vm::packages::ensure(Purpose::All, consent)?;
    eprintln!("xtask: the programs ...");
    // Fetch the kernel and virtme-ng while the compilers use the CPUs.
    let programs = thread::scope(|scope| {
        let fetched = scope.spawn(|| prepare::fetch(&args.kernel));
        let programs = build::programs()?;
        fetched.join().unwrap_or_else(|_| bail!("fetching kernel {} ended early", args.kernel))?;
        anyhow::Ok(programs)
    })?;
    inputs::record(["bias-bench", "scx_bias"].map(|name| programs.join(name)))?;
    let mut vm = prepare::vm(&args.kernel, args.machine.clone(), true, consent, None)?;
    vm.timeout = TIME_LIMIT;
    let script = vm.out.join("demo.sh");
    fs::write(&script, guest_script(&programs, args))
        .with_context(|| format!("cannot write {}", script.display()))?;
    eprintln!(
        "xtask: booting the VM: {} CPUs at {} MIPS, kernel {}; {}ends by itself, Ctrl-C ends it sooner",
        vm.machine.cpus(),
        vm.machine,
        args.kernel,
        // The estimate does not apply to other demos, which may take any time.
        if args.bench.is_empty() { estimate(&vm.machine) } else { String::new() },
    );
    let script = script.canonicalize().context("cannot find the output directory")?;
    let outcome = vm.run(&["sh".to_string(), script.to_string_lossy().into_owned()])?;
    Ok(vm::report(&outcome))
}

/// Return the estimated duration as text, assuming that all CPUs execute all the time.
fn estimate(machine: &Machine) -> String {
    let [most, least] = HOST_MIPS.map(|mips| GUEST_S * machine.total_mips_milli() / 1000 / mips);
    format!("takes {least} to {most} s on most hosts, ")
}

/// Return the script of the guest: calibrate, show the table, compare.
fn guest_script(programs: &std::path::Path, args: &DemoArgs) -> String {
    let program = |name: &str| quote(&PathBuf::from(programs).join(name).to_string_lossy());
    let (scx_bias, bench) = (program("scx_bias"), program("bias-bench"));
    let extra: Vec<_> = args.bench.iter().map(|word| quote(word)).collect();
    let scheduler = quote(&format!(
        "{} --no-config --slice-us {SLICE_US} --capacity-file {TABLE}",
        PathBuf::from(programs).join("scx_bias").display()
    ));
    format!(
        "set -e\necho '== Speeds of the CPUs, measured inside the VM'\n{scx_bias} calibrate >/dev/null\n{scx_bias} table\n\
         echo\necho '== The default scheduler, then scx_bias'\n\
         {bench} demo --scheduler-cmd {scheduler} {}\n",
        extra.join(" ")
    )
}

/// Path of the table that `calibrate` wrote. With this option the scheduler does not measure again.
/// The emulation is suspended while the scheduler is loaded, so a measurement at that time would
/// find all CPUs alike.
const TABLE: &str = "/var/lib/scx_bias/capacity.json";

/// Slice of scx_bias in the VM in microseconds. The emulated CPUs are about fifty times slower than
/// hardware, while the clock is not. A longer slice keeps context switches from using most of the
/// time.
const SLICE_US: u64 = 50_000;
