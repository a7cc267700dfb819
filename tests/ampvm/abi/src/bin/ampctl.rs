// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! `ampctl`: start virtual time, change a speed, or read the counters of the asymmetric VM.
//!
//! It runs inside the guest through the PCI device, for kernels that cannot load the module, or on
//! the host with `--page`.

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ampvm_abi::{PCI_ID, Page, PageError, parse_mips, state};

const USAGE: &str = "\
Control the asymmetric VM: speeds and counters of its vCPUs

Usage: ampctl [--page FILE] COMMAND

Commands:
  start            begin the model and virtual time, and wait until they are in force (the amp_pmu module does
                   the same when it loads; use this on kernels that cannot take the module)
  stop             give the clocks back to the host; vCPUs run as fast as the host lets them
  counters         print every vCPU's counters and speed, and the virtual clock, as JSON
  speed CPU MIPS   cap the speed of one vCPU, 0.1 to 10000 MIPS. Lower throttles it as heat would: penalties in
                   cycles grow, those in nanoseconds stay. Higher takes longer on the host

Options:
  --page FILE      use this file, the one given to QEMU as mem-path, instead of the PCI device; this is how
                   the host looks at a running VM
  -h, --help       print this help

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no device or no right to it";

const START_TIMEOUT: Duration = Duration::from_secs(10);

/// An exit code and one line.
type Failure = (u8, String);

/// Return the path of the ivshmem device's memory, and enable the device.
fn find_device() -> Result<PathBuf, Failure> {
    let entries =
        std::fs::read_dir("/sys/bus/pci/devices").map_err(|e| (3, format!("no PCI devices: {e}")))?;
    let id = |dir: &Path, name| std::fs::read_to_string(dir.join(name)).unwrap_or_default().trim().to_owned();
    let (vendor, device) = (format!("{:#06x}", PCI_ID.0), format!("{:#06x}", PCI_ID.1));
    let mut dirs = entries.flatten().map(|entry| entry.path());
    let dir =
        dirs.find(|dir| id(dir, "vendor") == vendor && id(dir, "device") == device).ok_or_else(|| {
            (3, "no ivshmem device here; run inside the asymmetric VM, or give --page FILE".to_string())
        })?;
    // The BAR is not accessible until a driver or this write enables the device. A bound driver has
    // enabled it already.
    if !dir.join("driver").exists() {
        std::fs::write(dir.join("enable"), "1")
            .map_err(|e| (3, format!("cannot enable the ivshmem device: {e}; run as root")))?;
    }
    Ok(dir.join("resource2"))
}

fn open(path: Option<&str>) -> Result<Page, Failure> {
    let path = path.map_or_else(find_device, |path| Ok(path.into()))?;
    let page = Page::open(&path).map_err(|e| match &e {
        PageError::Map(_, io) if io.kind() == ErrorKind::PermissionDenied => (3, format!("{e}; run as root")),
        _ => (1, e.to_string()),
    })?;
    page.check().map_err(|e| (1, e.to_string()))?;
    Ok(page)
}

fn start(page: &Page) -> Result<(), Failure> {
    page.header.enable.store(1, Ordering::Release);
    let deadline = Instant::now() + START_TIMEOUT;
    while page.header.state.load(Ordering::Acquire) != state::MODELLING {
        if Instant::now() > deadline {
            return Err((1, "the plugin did not start the model within 10 s; is the VM running?".into()));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn run(words: &[&str]) -> Result<(), Failure> {
    let usage = |e: String| (2, format!("{e}; see ampctl --help"));
    let (page, words) = match words {
        ["--page", file, rest @ ..] => (Some(*file), rest),
        all => (None, all),
    };
    match words {
        ["-h" | "--help"] => print(USAGE),
        ["start"] => start(&open(page)?),
        ["stop"] => {
            open(page)?.header.enable.store(0, Ordering::Release);
            Ok(())
        }
        ["counters"] => print(&open(page)?.json().to_string()),
        ["speed", cpu, mips] => {
            let cpu = cpu.parse().map_err(|_| usage(format!("{cpu:?} is not a CPU number")))?;
            let mips_milli = parse_mips(mips).map_err(|e| usage(e.to_string()))?;
            open(page)?.set_speed(cpu, mips_milli).map_err(|e| (2, e.to_string()))
        }
        [] => Err(usage("no command".into())),
        other => Err(usage(format!("\"{}\" is not a command", other.join(" ")))),
    }
}

/// Print a line. A reader that closed the pipe is not an error.
fn print(text: &str) -> Result<(), Failure> {
    match writeln!(std::io::stdout(), "{text}") {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err((1, format!("cannot print: {e}"))),
        _ => Ok(()),
    }
}

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    match run(&words.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, message)) => {
            eprintln!("ampctl: {message}");
            ExitCode::from(code)
        }
    }
}
