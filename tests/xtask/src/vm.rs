//! `cargo xtask vm`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use bias_vm::runner::Vm;

use crate::args::VmArgs;

/// Runs the command and returns the exit code.
pub fn run(args: &VmArgs) -> Result<i32> {
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from("target/vm").join(std::process::id().to_string()));
    let vm = Vm {
        virtme_run: std::env::var_os("VIRTME_RUN").unwrap_or_else(|| "virtme-run".into()).into(),
        qemu: "qemu-system-x86_64".into(),
        kernel: args.kernel.clone().into(),
        machine: args.machine.clone(),
        emulation: None,
        memory_mib: args.memory,
        timeout: Duration::from_secs(args.timeout),
        out,
        env: Vec::new(),
        speed_changes: Vec::new(),
        kernel_args: Vec::new(),
        keep_output: false,
    };
    let outcome = vm.run(&args.command)?;
    if let Some(text) = outcome.verdict.explanation() {
        eprintln!("xtask: {text}");
    }
    eprintln!("xtask: boot {:.1} s, command {:.1} s", outcome.boot.as_secs_f64(), outcome.command.as_secs_f64());
    Ok(outcome.verdict.code())
}
