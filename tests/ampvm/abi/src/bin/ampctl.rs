//! `ampctl`: start virtual time, change a speed, or read the counters of the asymmetric VM.
//!
//! It runs inside the guest through the PCI device, for kernels that cannot load the module, or on
//! the host with `--page`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ampvm_abi::{PCI_ID, Page, PageError, counters_json, state};

const USAGE: &str = "\
Control the asymmetric VM: speeds and counters of its vCPUs

Usage: ampctl [--page FILE] COMMAND

Commands:
  start            begin the model and virtual time, and wait until they are in force (the amp_pmu module does
                   the same when it loads; use this on kernels that cannot take the module)
  stop             give the clocks back to the host; vCPUs run as fast as the host lets them
  counters         print every vCPU's counters and speed, and the virtual clock, as JSON
  follow           the same on one line, for each line on standard input, until its end: reads without starting a
                   program, which a slow CPU takes long for
  speed CPU MIPS   cap the speed of one vCPU, 0.1 to 10000 MIPS. Lower throttles it as heat would: penalties in
                   cycles grow, those in nanoseconds stay. Higher takes longer on the host

Options:
  --page FILE      use this file, the one given to QEMU as mem-path, instead of the PCI device; this is how
                   the host looks at a running VM
  -h, --help       print this help

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no device or no right to it";

const START_TIMEOUT: Duration = Duration::from_secs(10);

enum Command {
    Start,
    Stop,
    Counters,
    Follow,
    Speed(usize, u32),
    Help,
}

struct Failure {
    code: u8,
    message: String,
}

fn fail(code: u8, message: impl Into<String>) -> Failure {
    Failure { code, message: message.into() }
}

fn parse(args: &[String]) -> Result<(Option<PathBuf>, Command), Failure> {
    let mut page = None;
    let mut words = Vec::new();
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "-h" | "--help" => return Ok((None, Command::Help)),
            "--page" => page = Some(rest.next().ok_or_else(|| fail(2, "--page needs a file name"))?.into()),
            flag if flag.starts_with('-') => {
                return Err(fail(2, format!("unknown option {flag}; see ampctl --help")));
            }
            word => words.push(word),
        }
    }
    let command = match words.as_slice() {
        ["start"] => Command::Start,
        ["stop"] => Command::Stop,
        ["counters"] => Command::Counters,
        ["follow"] => Command::Follow,
        ["speed", cpu, mips] => {
            let cpu = cpu.parse().map_err(|_| fail(2, format!("{cpu:?} is not a CPU number")))?;
            let mips: f64 = mips.parse().map_err(|_| fail(2, format!("{mips:?} is not a speed in MIPS")))?;
            // The cast saturates, and the page refuses a speed out of range.
            Command::Speed(cpu, (mips * 1e3).round() as u32)
        }
        [] => return Err(fail(2, "no command; see ampctl --help")),
        other => {
            return Err(fail(2, format!("cannot make sense of {:?}; see ampctl --help", other.join(" "))));
        }
    };
    Ok((page, command))
}

/// Return the sysfs directory of the ivshmem device.
fn find_device(root: &Path) -> Result<PathBuf, Failure> {
    let read_id = |dir: &Path, name: &str| -> Option<u16> {
        let text = std::fs::read_to_string(dir.join(name)).ok()?;
        u16::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
    };
    let entries = std::fs::read_dir(root)
        .map_err(|e| fail(3, format!("cannot list {}: {e}; is /sys mounted?", root.display())))?;
    entries
        .flatten()
        .map(|e| e.path())
        .find(|dir| (read_id(dir, "vendor"), read_id(dir, "device")) == (Some(PCI_ID.0), Some(PCI_ID.1)))
        .ok_or_else(|| fail(3, "no ivshmem device here; run inside the asymmetric VM, or give --page FILE"))
}

fn open(page: Option<PathBuf>) -> Result<Page, Failure> {
    let path = match page {
        Some(path) => path,
        None => {
            let dir = find_device(Path::new("/sys/bus/pci/devices"))?;
            // Memory decoding is off until a driver or this write enables the device. A bound
            // driver has enabled it already.
            if !dir.join("driver").exists() {
                std::fs::write(dir.join("enable"), "1")
                    .map_err(|e| fail(3, format!("cannot enable the ivshmem device: {e}; run as root")))?;
            }
            dir.join("resource2")
        }
    };
    let page = Page::open(&path).map_err(|e| match &e {
        PageError::Map(_, io) if io.kind() == std::io::ErrorKind::PermissionDenied => {
            fail(3, format!("{e}; run as root"))
        }
        _ => fail(1, e.to_string()),
    })?;
    page.check().map_err(|e| fail(1, e.to_string()))?;
    Ok(page)
}

fn start(page: &Page) -> Result<(), Failure> {
    page.header.enable.store(1, Ordering::Release);
    let deadline = Instant::now() + START_TIMEOUT;
    while page.header.state.load(Ordering::Acquire) != state::MODELLING {
        if Instant::now() > deadline {
            return Err(fail(1, "the plugin did not start the model within 10 s; is the VM running?"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn run(args: &[String]) -> Result<(), Failure> {
    let (page, command) = parse(args)?;
    if let Command::Help = command {
        return print(USAGE);
    }
    let page = open(page)?;
    match command {
        Command::Start => start(&page),
        Command::Stop => {
            page.header.enable.store(0, Ordering::Release);
            Ok(())
        }
        Command::Counters => print(&counters_json(&page)),
        Command::Follow => {
            for line in std::io::stdin().lines() {
                line.map_err(|e| fail(1, format!("cannot read standard input: {e}")))?;
                print(&counters_json(&page).replace('\n', " "))?;
            }
            Ok(())
        }
        Command::Speed(cpu, mips_milli) => {
            page.set_speed(cpu, mips_milli).map_err(|e| fail(2, e.to_string()))
        }
        Command::Help => Ok(()),
    }
}

/// Print a line. A reader that closed the pipe is not an error.
fn print(text: &str) -> Result<(), Failure> {
    match writeln!(std::io::stdout(), "{text}") {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(fail(1, format!("cannot print: {e}"))),
        _ => Ok(()),
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args_os().skip(1).map(|a| a.to_string_lossy().into_owned()).collect();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { code, message }) => {
            eprintln!("ampctl: {message}");
            ExitCode::from(code)
        }
    }
}
