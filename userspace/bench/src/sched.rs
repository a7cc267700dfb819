// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Loading and unloading a sched_ext scheduler around a measurement.
//!
//! # Problem
//! A figure is worthless if the scheduler that it is credited to was not active. Schedulers take
//! from a second to minutes to load, and some fail late. The kernel ejects some halfway, and their
//! process keeps running.
//!
//! # Approach
//! Only the kernel's state counts, `/sys/kernel/sched_ext/state`. [`Loaded::start`] waits for
//! "enabled". After a measurement, [`Loaded::check`] proves that the same scheduler ran all the
//! time, by the state and the kernel's enable counter. [`Loaded::stop`] waits for "disabled".
//!
//! # Invariants
//! However this process ends, the scheduler gets a SIGINT (parent-death signal), so the machine
//! returns to its default scheduler. A scheduler that was active before is never touched.
//!
//! # Limits
//! The command must stay in the foreground.

use crate::emulation::Emulation;
use crate::options::{SchedulerOptions, seconds};
use crate::{Error, Result};
use clap::Args;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Longest time that a scheduler may take to end after SIGINT.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
/// Time between two reads of the state.
const POLL: Duration = Duration::from_millis(50);
/// Lines of a scheduler's output shown with an error.
const SHOWN_LINES: usize = 20;
/// Characters of the last of these lines in the error's first line.
const SHOWN_CHARS: usize = 200;

/// The kernel's view of sched_ext, below one directory of sysfs.
#[derive(Debug, Clone)]
pub struct SchedExt {
    root: PathBuf,
}

impl SchedExt {
    /// Return the view of this machine.
    pub fn system() -> Self {
        SchedExt { root: PathBuf::from("/sys/kernel/sched_ext") }
    }

    /// Return a view that reads the files below `root`, for tests.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        SchedExt { root: root.into() }
    }

    /// Return the state: "disabled", "enabling", "enabled" or "disabling". A kernel without
    /// sched_ext is an error.
    pub fn state(&self) -> Result<String> {
        let path = self.root.join("state");
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(text.trim().to_string()),
            Err(_) => Err(Error::Kernel(format!(
                "this kernel has no sched_ext ({} is missing); boot one with CONFIG_SCHED_CLASS_EXT=y, 6.12 or later",
                path.display()
            ))),
        }
    }

    /// Return the name of the active scheduler. None if there is none or the kernel does not report
    /// it.
    pub fn active(&self) -> Option<String> {
        let name = std::fs::read_to_string(self.root.join("root/ops")).ok()?;
        Some(name.trim().to_string()).filter(|name| !name.is_empty())
    }

    /// Return how often a scheduler was enabled since boot. None if the kernel does not report it.
    fn enable_seq(&self) -> Option<u64> {
        std::fs::read_to_string(self.root.join("enable_seq")).ok()?.trim().parse().ok()
    }
}

/// Return true if the kernel runs this task under sched_ext (its `task_on_scx()`). None if the
/// kernel does not report it, or the task is gone.
pub fn runs(task: Pid) -> Option<bool> {
    enabled_in(&std::fs::read_to_string(format!("/proc/{task}/sched")).ok()?)
}

/// Read the sched_ext state of a task from the text of its `/proc/PID/sched`.
fn enabled_in(text: &str) -> Option<bool> {
    let line = text.lines().find(|line| line.starts_with("ext.enabled"))?;
    Some(line.rsplit(':').next()?.trim() != "0")
}

/// A scheduler that this process loaded.
pub struct Loaded {
    kernel: SchedExt,
    child: Child,
    command: String,
    output: std::fs::File,
    name: Option<String>,
    enable_seq: Option<u64>,
}

impl Loaded {
    /// Run `command` (split by a shell) and wait until the kernel reports the scheduler enabled.
    pub fn start(kernel: SchedExt, command: &str, timeout: Duration) -> Result<Self> {
        Self::start_unless(kernel, command, timeout, &AtomicBool::new(false))
    }

    /// Start a scheduler like [`Loaded::start`], but give up when `interrupted` is set.
    pub fn start_unless(
        kernel: SchedExt,
        command: &str,
        timeout: Duration,
        interrupted: &AtomicBool,
    ) -> Result<Self> {
        let state = kernel.state()?;
        if state != "disabled" {
            let name = kernel.active().unwrap_or_else(|| "a sched_ext scheduler".into());
            return Err(Error::OtherScheduler(format!("{name} is already active ({state}); stop it first")));
        }
        let enabled_before = kernel.enable_seq();
        let mut loaded = Self::launch(kernel, command)?;
        loaded.wait_enabled_unless(timeout, interrupted)?;
        loaded.name = loaded.kernel.active();
        // The kernel reports "enabled" a moment before it counts, so the earlier count is the base.
        loaded.enable_seq = enabled_before.map(|n| n + 1);
        Ok(loaded)
    }

    fn launch(kernel: SchedExt, command: &str) -> Result<Self> {
        let io_error = |e| Error::failed(format!("starting '{command}'"), e);
        // The output goes to memory, because there may be no writable directory.
        let output = memfd_create("scheduler-output", MFdFlags::MFD_CLOEXEC);
        let output =
            std::fs::File::from(output.map_err(|e| Error::failed(format!("starting '{command}'"), e))?);
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("exec {command}")).stdin(Stdio::null()).process_group(0);
        shell.stdout(output.try_clone().map_err(io_error)?).stderr(output.try_clone().map_err(io_error)?);
        // SAFETY: prctl is safe between fork and exec. It makes the scheduler unload if this
        // process dies.
        unsafe {
            shell.pre_exec(|| {
                nix::libc::prctl(nix::libc::PR_SET_PDEATHSIG, nix::libc::SIGINT);
                Ok(())
            });
        }
        let child = shell.spawn().map_err(io_error)?;
        Ok(Loaded { kernel, child, command: command.into(), output, name: None, enable_seq: None })
    }

    /// Return the kernel's name for the scheduler, or else its command.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.command)
    }

    /// Return the pid of the scheduler.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    /// Fail unless this scheduler, and no other, has been active since it was loaded.
    pub fn check(&mut self) -> Result<()> {
        let state = self.kernel.state()?;
        if let Some(status) = self.exited()? {
            let remedy = "run it by hand under the same load, and read the kernel log (dmesg)";
            return Err(self.error(&format!("ended during the measurement ({status})"), remedy));
        }
        if state != "enabled" {
            let what = format!("was ejected during the measurement (state is {state})");
            return Err(self.error(&what, "the kernel log has the reason (dmesg)"));
        }
        if self.kernel.enable_seq() != self.enable_seq {
            let what = "was replaced or reloaded during the measurement";
            return Err(self.error(what, "stop other programs that load schedulers, e.g. a service"));
        }
        Ok(())
    }

    /// Kill the scheduler with SIGKILL, like a crash, and wait until the kernel has unloaded it.
    pub fn crash(mut self) -> Result<()> {
        self.child.kill().map_err(|e| Error::failed("killing the scheduler", e))?;
        self.child.wait().map_err(|e| Error::failed("waiting for the scheduler", e))?;
        self.wait_disabled()
    }

    /// Unload the scheduler: send SIGINT, wait for its end and for the kernel to report "disabled".
    /// It must end with exit code 0, or by the SIGINT itself.
    pub fn stop(mut self) -> Result<()> {
        self.interrupt();
        match self.wait_exit(STOP_TIMEOUT)? {
            Some(status) if status.success() || is_by_sigint(status) => {}
            Some(status) => {
                let what = format!("ended with an error when stopped ({status})");
                return Err(self.error(&what, "check its handling of SIGINT"));
            }
            None => {
                let what = format!("did not end within {} s of SIGINT", STOP_TIMEOUT.as_secs());
                return Err(self.error(&what, "it was killed; check its handling of SIGINT"));
            }
        }
        self.wait_disabled()
    }

    fn wait_disabled(&mut self) -> Result<()> {
        let deadline = Instant::now() + STOP_TIMEOUT;
        while self.kernel.state()? != "disabled" {
            if Instant::now() > deadline {
                let remedy = "another program keeps a scheduler loaded: see /sys/kernel/sched_ext/root/ops";
                return Err(self.error("has ended, but sched_ext is not disabled", remedy));
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Wait until the kernel reports the scheduler enabled again, after an event that makes it
    /// restart.
    pub fn wait_enabled(&mut self, timeout: Duration) -> Result<()> {
        self.wait_enabled_unless(timeout, &AtomicBool::new(false))
    }

    fn wait_enabled_unless(&mut self, timeout: Duration, interrupted: &AtomicBool) -> Result<()> {
        let deadline = Instant::now() + timeout;
        while self.kernel.state()? != "enabled" {
            if let Some(status) = self.exited()? {
                let remedy = "run it by hand to see why";
                return Err(self.error(&format!("ended before it was enabled ({status})"), remedy));
            }
            if interrupted.load(Relaxed) {
                return Err(self.error("was not enabled yet when interrupted", "start again"));
            }
            if Instant::now() > deadline {
                let what = format!("was not enabled within {} s", timeout.as_secs());
                return Err(self
                    .error(&what, "the command must load a sched_ext scheduler and stay in the foreground"));
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    fn interrupt(&self) {
        // The child is not reaped yet, so its pid cannot have been reused. ESRCH would mean that it
        // has ended.
        let _ = kill(self.pid(), Signal::SIGINT);
    }

    fn exited(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().map_err(|e| Error::failed("waiting for the scheduler", e))
    }

    fn wait_exit(&mut self, timeout: Duration) -> Result<Option<ExitStatus>> {
        let deadline = Instant::now() + timeout;
        loop {
            match self.exited()? {
                None if Instant::now() < deadline => std::thread::sleep(POLL),
                status => return Ok(status),
            }
        }
    }

    /// Make an error about this scheduler: one line with the last line of its output, then the
    /// lines before that.
    fn error(&mut self, what: &str, remedy: &str) -> Error {
        let printed = self.printed();
        let lines: Vec<&str> = printed.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
        let said = match lines.last() {
            Some(last) => {
                format!(", saying \"{}\"", last.trim().chars().take(SHOWN_CHARS).collect::<String>())
            }
            None => " and printed nothing".into(),
        };
        let end = if lines.len() > 1 { &lines[lines.len().saturating_sub(SHOWN_LINES)..] } else { &[] };
        let quoted: String = end.iter().map(|line| format!("\n  | {line}")).collect();
        Error::Runtime(format!("'{}' {what}{said}; {remedy}{quoted}", self.command))
    }

    /// Return the scheduler's output so far, at most the last 64 KiB.
    pub fn printed(&mut self) -> String {
        use std::os::unix::fs::FileExt;
        let mut text = vec![0; 1 << 16];
        let length = self.output.metadata().map_or(0, |m| m.len());
        // The descriptor's offset is shared with the scheduler: read at a position, never seek.
        let from = length.saturating_sub(text.len() as u64);
        let n = self.output.read_at(&mut text, from).unwrap_or(0);
        String::from_utf8_lossy(&text[..n]).into_owned()
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        if matches!(self.exited(), Ok(None)) {
            self.interrupt();
            if !matches!(self.wait_exit(STOP_TIMEOUT), Ok(Some(_))) {
                // The end of the process makes the kernel unload the scheduler.
                let _ = self.child.kill();
                let _ = self.child.wait();
            }
        }
    }
}

/// Return true if SIGINT ended the process: the status names the signal, or a shell around the
/// process reports it as an exit code.
fn is_by_sigint(status: ExitStatus) -> bool {
    status.signal() == Some(Signal::SIGINT as i32) || status.code() == Some(128 + Signal::SIGINT as i32)
}

/// Run `measure` with a scheduler loaded: load, measure, prove that the scheduler stayed enabled,
/// unload.
///
/// With `unpaced`, the asymmetric VM's emulation is suspended during loading and unloading. These
/// are not measured and can take a minute at 60 MIPS. Do not use it for a scheduler that measures
/// the CPUs while it starts, because it would find them all alike.
pub fn under<T>(
    kernel: SchedExt,
    scheduler: &SchedulerOptions,
    unpaced: bool,
    measure: impl FnOnce(&Loaded) -> Result<T>,
) -> Result<T> {
    let emulation = if unpaced { Emulation::find() } else { None };
    let suspend = || emulation.as_ref().map(Emulation::suspend).transpose();
    let suspended = suspend()?;
    let mut loaded = Loaded::start(kernel, &scheduler.scheduler_cmd, scheduler.load_timeout)?;
    drop(suspended);
    let result = measure(&loaded);
    // A scheduler that vanished explains a failed measurement better than the failure itself.
    loaded.check()?;
    let value = result?;
    let _suspended = suspend()?;
    loaded.stop()?;
    Ok(value)
}

/// Run any other command while a scheduler is loaded
#[derive(Debug, Args)]
pub struct UnderOptions {
    #[command(flatten)]
    scheduler: SchedulerOptions,
    /// In the asymmetric VM, suspend the emulation while the scheduler loads and unloads. This
    /// saves ten seconds of guest time. Not for a scheduler that measures the CPUs while it starts
    /// (give scx_bias a --capacity-file)
    #[arg(long)]
    unpaced_load: bool,
    /// Seconds that the scheduler runs before the command. Without it, the first placements and
    /// swaps count, as for a program that starts with the scheduler
    #[arg(long, value_parser = seconds, value_name = "SECONDS")]
    settle: Option<Duration>,
    /// A command of this program with its options, after --
    #[arg(last = true, required = true)]
    pub command: Vec<String>,
}

impl UnderOptions {
    /// Run `measure` with the scheduler loaded, once it has settled.
    pub fn run<T>(&self, measure: impl FnOnce() -> Result<T>) -> Result<T> {
        under(SchedExt::system(), &self.scheduler, self.unpaced_load, |_| {
            std::thread::sleep(self.settle.unwrap_or_default());
            measure()
        })
    }
}

#[cfg(test)]
mod tests;
