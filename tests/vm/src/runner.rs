// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Runs one command in the VM.
//!
//! # Problem
//! Success of a command must mean that it ran to its end. QEMU alone does not show this: a guest
//! that panics or hangs resembles one that works.
//!
//! # Approach
//! virtme-run (of virtme-ng) boots the kernel on the host's own files, read-only, under TCG. The
//! plugin needs TCG, so KVM is never used. A script in the run's directory ([`crate::guest`])
//! starts the emulation and the command, and leaves marks. The watch in this file polls the marks,
//! the clock and Ctrl-C, and [`crate::verdict`] judges.
//!
//! VMs with emulation may run at the same time. Each has its own virtual time, so none distorts the
//! measurements of another.
//!
//! # Invariants
//! - QEMU never outlives this process, even if the process is killed: each process of the chain has
//!   a parent-death signal.
//! - The runner writes only to the output directory and to a temporary directory.
//!
//! # Limits
//! The guest sees the host's `/` read-only. `/tmp`, `/run` and other directories of state are empty
//! in the guest.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ampvm_abi::Page;
use anyhow::{Context as _, Result};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use crate::boots;
use crate::guest;
use crate::interrupt;
use crate::launch::{CONSOLE, LAUNCHER_LOG, SHARED};
use crate::ports::{Port, Sink};
use crate::prepare::Vm;
use crate::steps::StatusLine;
use crate::verdict::{Evidence, Late, Verdict, judge};

/// Maximum number of boots per run. Only a failure of QEMU itself or of the boot causes another
/// one.
pub(crate) const BOOT_ATTEMPTS: usize = 3;
/// Wall time limit from power-on to the start of the command. It is generous, because a boot takes
/// several times as long on a busy host.
pub(crate) const BOOT_LIMIT: Duration = Duration::from_secs(90);
/// Additional wall time per vCPU, because the host executes all of them.
pub(crate) const BOOT_LIMIT_PER_VCPU: Duration = Duration::from_secs(5);
/// Time between two polls of a running guest.
pub(crate) const WATCH_PERIOD: Duration = Duration::from_millis(25);
/// Time between two updates of the line that shows virtual time.
const STATUS_PERIOD: Duration = Duration::from_secs(1);
/// Time limit for the end of QEMU after the end of the command.
const POWER_OFF_LIMIT: Duration = Duration::from_secs(10);

/// Observations of the watch.
#[derive(Default)]
struct Watched {
    /// Wall time from power-on to the start of the command.
    boot: Duration,
    /// Wall time from start to end of the command.
    command: Duration,
    /// Virtual time from start to end of the command: its duration by the guest's clocks.
    virtual_time: Duration,
    /// The limit that was exceeded, if any.
    late: Option<Late>,
}

/// Result of a run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// How it ended.
    pub verdict: Verdict,
    /// Wall time from power-on to the start of the command, emulation included.
    pub boot: Duration,
    /// Wall time from start to end of the command.
    pub command: Duration,
    /// The same by the guest's clocks; zero without the emulation.
    pub virtual_time: Duration,
    /// The command's standard output, if kept.
    pub stdout: String,
    /// The command's standard error, if kept.
    pub stderr: String,
    /// Path of the log of the guest's console.
    pub console: PathBuf,
    /// The output directory.
    pub out: PathBuf,
    /// How QEMU itself or the boot failed before the command started, or that a CPU had no timer.
    pub early_failure: Option<String>,
    /// Number of schedulers that the guest loaded; zero if it did not end by itself.
    pub loads: u64,
}

impl Vm {
    /// Run `command` until it or the guest ends. If QEMU fails before the command starts, boot
    /// again: the command has had no effect yet, and QEMU fails occasionally during a boot. See
    /// [`crate::verdict::Evidence::early_failure`].
    ///
    /// # Errors
    /// The run is impossible or interrupted: the output directory is not writable, virtme-run does
    /// not start, or the user pressed Ctrl-C.
    pub fn run(&self, command: &[String]) -> Result<Outcome> {
        let mut attempt = 1;
        loop {
            let outcome = self.run_once(command)?;
            boots::count(outcome.early_failure.is_some(), outcome.loads);
            match &outcome.early_failure {
                Some(failure) if attempt < BOOT_ATTEMPTS => {
                    eprintln!("xtask: the machine failed ({failure}); trying again");
                }
                _ => return Ok(outcome),
            }
            attempt += 1;
        }
    }

    fn run_once(&self, command: &[String]) -> Result<Outcome> {
        let run = self.prepare(command)?;
        let page = self.emulator.is_some().then(|| Page::create(&run.join(SHARED))).transpose()?;
        let (out_sink, err_sink) =
            if self.keep_output { (Sink::Keep, Sink::Keep) } else { (Sink::Stdout, Sink::Stderr) };
        let line = Arc::new(StatusLine::default());
        let (stdout, stderr) = (Port::open(out_sink, line.clone())?, Port::open(err_sink, line.clone())?);
        // The path is short, because it contains virtiofsd's socket, and a socket's path has at
        // most 107 bytes.
        let scratch = tempfile::Builder::new()
            .prefix("scx-bias-")
            .tempdir()
            .context("cannot make a temporary directory")?;
        let launcher = self.launcher(&run, scratch.path(), &stdout.socket, &stderr.socket)?;
        let mut guest = Guest::start(launcher, &run.join(CONSOLE))?;
        let watched = self.watch(&mut guest, &run, page.as_ref(), &line);
        line.wipe();
        drop(guest);
        let (stdout, stderr) = (stdout.finish(), stderr.finish());
        let watched = watched?;
        let evidence = evidence(&run, watched.late);
        Ok(Outcome {
            verdict: judge(&evidence),
            boot: watched.boot,
            command: watched.command,
            virtual_time: watched.virtual_time,
            stdout: String::from_utf8_lossy(&stdout).into_owned(),
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
            console: run.join(CONSOLE),
            out: self.out.clone(),
            early_failure: evidence.early_failure(),
            loads: fs::read_to_string(run.join(guest::LOADS)).map_or(0, |n| n.trim().parse().unwrap_or(0)),
        })
    }

    /// Wait until the command ends, a limit is exceeded, the guest ends, or the user presses
    /// Ctrl-C.
    fn watch(
        &self,
        guest: &mut Guest,
        run: &Path,
        page: Option<&Page>,
        line: &StatusLine,
    ) -> Result<Watched> {
        let virtual_ns = |page: &Page| page.header.virtual_ns.load(Relaxed);
        let virtual_time = || Duration::from_nanos(page.map_or(0, virtual_ns));
        let boot_limit = BOOT_LIMIT + BOOT_LIMIT_PER_VCPU * self.machine.cpus() as u32;
        let mut watched = Watched::default();
        let power_on = Instant::now();
        let mut started: Option<Instant> = None;
        let mut started_virtual = Duration::ZERO;
        let mut ended: Option<Instant> = None;
        let mut shown = power_on;
        loop {
            interrupt::check()?;
            // Read this before the marks, because a guest that has ended leaves no further mark.
            let gone = guest.is_gone()?;
            if started.is_none() && run.join(guest::STARTED).exists() {
                started = Some(Instant::now());
                started_virtual = virtual_time();
                watched.boot = power_on.elapsed();
            }
            if ended.is_none() && run.join(guest::EXIT_CODE).exists() {
                ended = Some(Instant::now());
                watched.command = started.map(|start| start.elapsed()).unwrap_or_default();
                watched.virtual_time = virtual_time().saturating_sub(started_virtual);
            }
            if gone || ended.is_some_and(|end| end.elapsed() > POWER_OFF_LIMIT) {
                return Ok(watched);
            }
            watched.late = match started {
                None if power_on.elapsed() > boot_limit => Some(Late::Boot(boot_limit.as_secs())),
                Some(start) if ended.is_none() && start.elapsed() > self.timeout => {
                    Some(Late::Command(self.timeout.as_secs()))
                }
                _ => None,
            };
            if watched.late.is_some() {
                return Ok(watched);
            }
            if let (Some(start), Some(_), None) = (started, page, ended)
                && !self.keep_output
                && shown.elapsed() >= STATUS_PERIOD
            {
                shown = Instant::now();
                line.show(&pace(virtual_time().saturating_sub(started_virtual), start.elapsed()));
            }
            std::thread::sleep(WATCH_PERIOD);
        }
    }
}

/// The process group of virtme-run and QEMU, which is killed when this value is dropped.
pub(crate) struct Guest {
    child: Child,
    console: Option<JoinHandle<()>>,
}

impl Guest {
    /// Start virtme-run, and copy its standard error, which is the guest's console, to the file
    /// `console`.
    pub(crate) fn start(mut command: Command, console: &Path) -> Result<Self> {
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().to_string_lossy()))?;
        let mut file = File::create(console).context("cannot write in the output directory")?;
        // Use a pipe and a copy instead of the file itself, because QEMU would truncate the file
        // that virtme-run writes.
        let copier = child.stderr.take().map(|mut from| {
            std::thread::spawn(move || {
                // A full disk must not end QEMU, which fails if its console has no reader.
                if std::io::copy(&mut from, &mut file).is_err() {
                    let _ = std::io::copy(&mut from, &mut std::io::sink());
                }
            })
        });
        Ok(Self { child, console: copier })
    }

    /// Send a signal to the whole group.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Ok(id) = i32::try_from(self.child.id()) {
            let _ = killpg(Pid::from_raw(id), signal);
        }
    }

    /// Return true if virtme-run has ended.
    pub(crate) fn is_gone(&mut self) -> Result<bool> {
        Ok(self.child.try_wait().context("cannot watch virtme-run")?.is_some())
    }
}

impl Drop for Guest {
    /// Kill the whole group and reap its leader. The group outlives its leader while QEMU runs, so
    /// the signal is sent in any case.
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
        let _ = self.child.wait();
        if let Some(console) = self.console.take() {
            let _ = console.join();
        }
    }
}

/// Return the evidence that a run left behind in its directory.
pub(crate) fn evidence(run: &Path, late: Option<Late>) -> Evidence {
    // The guest writes these files, so they need not be UTF-8.
    let text = |name| String::from_utf8_lossy(&fs::read(run.join(name)).unwrap_or_default()).into_owned();
    Evidence {
        started: run.join(guest::STARTED).exists(),
        failed: text(guest::FAILED),
        exit_code: text(guest::EXIT_CODE).trim().parse().ok(),
        late,
        console: text(CONSOLE),
        launcher: text(LAUNCHER_LOG),
        disk_full: nix::sys::statvfs::statvfs(run).is_ok_and(|disk| disk.blocks_available() == 0),
    }
}

/// Return the time that passed in the guest, and its rate per wall second, as text.
fn pace(virtual_time: Duration, wall: Duration) -> String {
    let (virtual_s, wall_s) = (virtual_time.as_secs_f64(), wall.as_secs_f64());
    format!("{virtual_s:.1} s in the guest, {:.2} s per second", virtual_s / wall_s.max(0.001))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_is_guest_time_by_wall_time() {
        let pace = pace(Duration::from_secs(3), Duration::from_secs(12));
        assert_eq!(pace, "3.0 s in the guest, 0.25 s per second");
    }
}
