//! `cargo xtask demo`.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use bias_vm::Machine;
use bias_vm::build::target_folder;
use bias_vm::guest::quote;
use bias_vm::packages::Consent;
use bias_vm::prepare::{self, Wish};

use crate::args::DemoArgs;
use crate::{test, vm};

/// Longest wall time the comparison may take.
const TIME_LIMIT: Duration = Duration::from_secs(1200);
/// Seconds of the guest that it takes: 36 for the mixes, the rest to calibrate and to measure each
/// kind of work alone.
const GUEST_S: u64 = 50;
/// Million instructions that hosts execute a second, from slow to fast.
const HOST_MIPS: [u64; 2] = [60, 100];

/// Sets up, builds, boots and compares.
pub fn run(args: &DemoArgs, consent: Consent) -> Result<i32> {
    let mut wish = Wish::new(&args.kernel, args.machine.clone());
    wish.consent = consent;
    wish.timeout = TIME_LIMIT;
    bias_vm::packages::ensure(consent)?;
    test::programs()?;
    let vm = prepare::vm(&wish)?;
    let programs = target_folder().join("release");
    let script = vm.out.join("demo.sh");
    fs::write(&script, guest_script(&programs, args))
        .with_context(|| format!("cannot write {}", script.display()))?;
    eprintln!(
        "xtask: booting the VM: {} CPUs at {} MIPS, kernel {}; {}ends by itself, Ctrl-C ends it sooner",
        vm.machine.cpus(),
        vm.machine,
        args.kernel,
        // What else is to be shown may take any time.
        if args.bench.is_empty() { estimate(&vm.machine) } else { String::new() },
    );
    let script = script.canonicalize().context("cannot find the output directory")?;
    let outcome = vm.run(&["sh".to_string(), script.to_string_lossy().into_owned()])?;
    Ok(vm::report(&outcome))
}

/// How long it takes, roughly, in words: as if all CPUs executed all the time.
fn estimate(machine: &Machine) -> String {
    let [most, least] = HOST_MIPS.map(|mips| GUEST_S * machine.total_mips_milli() / 1000 / mips);
    format!("takes {least} to {most} s on most hosts, ")
}

/// What the guest does: calibrate, show the table, compare.
fn guest_script(programs: &std::path::Path, args: &DemoArgs) -> String {
    let program = |name: &str| quote(&PathBuf::from(programs).join(name).to_string_lossy());
    let (scx_bias, bench) = (program("scx_bias"), program("bias-bench"));
    let extra: Vec<_> = args.bench.iter().map(|word| quote(word)).collect();
    let scheduler = quote(&format!(
        "{} --no-config --slice-us {SLICE_US} --capacity-file {TABLE}",
        PathBuf::from(programs).join("scx_bias").display()
    ));
    format!(
        "set -e\necho '== What the CPUs are worth, measured inside the VM'\n{scx_bias} calibrate >/dev/null\n{scx_bias} table\n\
         echo\necho '== The default scheduler, then scx_bias'\n\
         {bench} demo --scheduler-cmd {scheduler} {}\n",
        extra.join(" ")
    )
}

/// Where `calibrate` left the table. Named, it is used as it is: the emulation is suspended while the scheduler is loaded, and whoever measured then
/// would find all CPUs alike.
const TABLE: &str = "/var/lib/scx_bias/capacity.json";

/// Slice of scx_bias in the VM, in microseconds. The emulation is about fifty times slower than hardware while the clock
/// is not, so a slice is stretched, or switching would eat it.
const SLICE_US: u64 = 50_000;
