// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! A boot of the asymmetric VM around the work of one boot.
//!
//! `cargo xtask vm` provides the VM. This module finds that command, runs it, forwards its progress
//! and makes sure that it ends. All other output of the command goes to a log in the run's
//! directory.
//!
//! # Limits
//! The VM needs a checkout of the project, because it is built from it. Without one, use --host.

use super::boot::{PROGRESS, Task, outcome_file};
use super::runner::{BootProgress, INTERRUPTED, Outcome};
use super::store;
use super::workload::packaged;
use crate::{Error, Result, files};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::Duration;

/// Number of lines of the log shown with an error.
const SHOWN_LINES: usize = 15;
/// Packages that a shell's commands need, and on which no package depends: every Debian has them.
const SHELL: &str = "coreutils,dash,findutils,grep,sed";
/// Memory of a guest that also holds programs and their libraries.
const ROOT_MEMORY_MIB: &str = "4096";
/// Time between two checks for an interrupt.
const POLL: Duration = Duration::from_millis(200);

/// Machine and kernel of a VM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vm {
    /// The machine, in the syntax of `xtask vm --machine`.
    pub machine: String,
    /// The kernel, in the syntax of `xtask vm --kernel`.
    pub kernel: String,
    /// True to emulate the CPU speeds. If false, CPUs are as fast as the host allows, which suits
    /// trials but not results.
    pub emulation: bool,
    /// Maximum duration of a boot.
    pub timeout: Duration,
}

/// Return the command that provides VMs.
fn xtask() -> Result<Vec<String>> {
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    if let Some(path) = std::env::var_os("BIAS_XTASK").filter(|path| !path.is_empty()) {
        return Ok(vec![text(path.into())]);
    }
    let exe = std::env::current_exe().map_err(|e| Error::failed("finding this program", e))?;
    let beside = exe.with_file_name("xtask");
    if beside.is_file() {
        return Ok(vec![text(beside)]);
    }
    if Path::new("tests/xtask/Cargo.toml").is_file() {
        return Ok(["cargo", "run", "--quiet", "--package", "xtask", "--"].map(String::from).into());
    }
    Err(Error::Usage("--vm needs the project's checkout: run it there, or name the xtask program in BIAS_XTASK; --host measures this machine".into()))
}

impl Vm {
    fn command(&self, packages: &[String], task: &Path, directory: &Path) -> Result<Command> {
        let words = xtask()?;
        let exe = std::env::current_exe().map_err(|e| Error::failed("finding this program", e))?;
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg("vm").args(["--kernel", &self.kernel, "--machine", &self.machine]);
        command.args(["--timeout", &self.timeout.as_secs().max(1).to_string()]);
        if !self.emulation {
            command.arg("--no-emulation");
        }
        if !packages.is_empty() {
            let packages = format!("{SHELL},{}", packages.join(","));
            command.args(["--root", &packages, "--memory", ROOT_MEMORY_MIB]);
        }
        command.arg("--out").arg(directory).arg("--").arg(exe);
        command.args(["ab-boot", "--task"]).arg(task).arg("--out").arg(directory);
        // The VM gets its own process group. This program forwards an interrupt only after all
        // samples are safe.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped());
        Ok(command)
    }

    /// Boot the VM, carry out the task, and return the outcome.
    pub fn carry_out(
        &self,
        task: &Task,
        directory: &Path,
        interrupted: &AtomicBool,
        progress: &mut dyn FnMut(&BootProgress),
    ) -> Result<Outcome> {
        let directory = directory.canonicalize().map_err(|e| Error::failed(directory.display(), e))?;
        let boot = task.job.boot;
        let file = directory.join(format!("task-{boot}.json"));
        let log = directory.join(format!("boot-{boot}.log"));
        let outcome = directory.join(outcome_file(boot));
        let _ = std::fs::remove_file(&outcome);
        let text = serde_json::to_string_pretty(task).map_err(|e| Error::failed("writing the task", e))?;
        store::write_whole(&file, text.as_bytes())?;
        let log_file = std::fs::File::create(&log).map_err(|e| Error::failed(log.display(), e))?;
        let cells = task.plan.cells.iter().map(|cell| cell.workload.as_str());
        let packages = [task.plan.packages.clone(), packaged::packages(cells)].concat();
        let mut command = self.command(&packages, &file, &directory)?;
        command.stderr(log_file.try_clone().map_err(|e| Error::failed(log.display(), e))?);
        let child = command.spawn().map_err(|e| Error::failed("starting the VM (cargo xtask vm)", e))?;
        let mut vm = Running { child };
        let code = vm.follow(log_file, interrupted, progress)?;
        if interrupted.load(Relaxed) {
            return Ok(Outcome { incomplete: Some(INTERRUPTED.into()), ..Outcome::default() });
        }
        match files::read_small_file(&outcome, 1 << 20) {
            Ok(text) if code == Some(0) => {
                serde_json::from_str(&text).map_err(|e| Error::failed(outcome.display(), e))
            }
            _ => Err(Error::Runtime(format!(
                "boot {boot} of the VM ended early ({}); {}",
                ending(code),
                tail(&log)
            ))),
        }
    }
}

/// Process group of a VM. Dropping this ends it.
struct Running {
    child: Child,
}

impl Running {
    /// Forward progress until the VM ends, and return its exit code. None after an interrupt or a
    /// signal.
    fn follow(
        &mut self,
        mut log: std::fs::File,
        interrupted: &AtomicBool,
        progress: &mut dyn FnMut(&BootProgress),
    ) -> Result<Option<i32>> {
        let (sender, lines) = mpsc::channel();
        let stdout = self.child.stdout.take();
        std::thread::spawn(move || {
            for line in
                stdout.into_iter().flat_map(|out| BufReader::new(out).lines()).map_while(|line| line.ok())
            {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        loop {
            match lines.recv_timeout(POLL) {
                Ok(line) => match line.strip_prefix(PROGRESS).map(serde_json::from_str::<BootProgress>) {
                    Some(Ok(step)) => progress(&step),
                    // Writing the samples reports a full disk, too.
                    _ => drop(writeln!(log, "{line}")),
                },
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
            if interrupted.load(Relaxed) {
                return Ok(None);
            }
        }
        let status = self.child.wait().map_err(|e| Error::failed("waiting for the VM", e))?;
        Ok(status.code())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // The child leads the group and has not been reaped, so the group id is still valid.
            let group = Pid::from_raw(self.child.id() as i32);
            let _ = killpg(group, Signal::SIGTERM);
            std::thread::sleep(Duration::from_secs(1));
            let _ = killpg(group, Signal::SIGKILL);
            let _ = self.child.wait();
        }
    }
}

fn ending(code: Option<i32>) -> String {
    match code {
        Some(120) => "the VM could not be set up".into(),
        Some(121) => "the guest panicked".into(),
        Some(122) => "it hung".into(),
        Some(code) => format!("exit code {code}"),
        None => "killed".into(),
    }
}

fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let end = &lines[lines.len().saturating_sub(SHOWN_LINES)..];
    let quoted: String = end.iter().map(|line| format!("\n  | {line}")).collect();
    format!("the end of {}:{quoted}", log.display())
}
