//! Loading and unloading a sched_ext scheduler around a measurement.
//!
//! Problem: a figure is worth nothing if the scheduler it is credited to was not scheduling. Schedulers take from a
//! second to minutes to load, some fail late, some are thrown out by the kernel halfway and leave their process
//! running.
//!
//! Approach: the kernel's own word counts, `/sys/kernel/sched_ext/state`. [`Loaded::start`] waits for "enabled",
//! [`Loaded::check`] after a measurement proves that the same scheduler ran all the time (state and the
//! kernel's enable counter), [`Loaded::stop`] waits for "disabled".
//!
//! Invariants: whatever ends this process, the scheduler gets a SIGINT (parent-death signal), so the machine is left
//! on its default scheduler. An active scheduler of somebody else is never touched.
//!
//! Limits: the command must stay in the foreground.

use crate::emulation::Emulation;
use crate::{Error, Result};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longest time a scheduler may take to end after SIGINT.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
/// Time between two looks at the state.
const POLL: Duration = Duration::from_millis(50);
/// Lines of a scheduler's output shown with an error.
const SHOWN_LINES: usize = 20;

/// The kernel's view of sched_ext, below one directory of sysfs.
#[derive(Debug, Clone)]
pub struct SchedExt {
    root: PathBuf,
}

impl SchedExt {
    /// This machine's.
    pub fn system() -> Self {
        SchedExt { root: PathBuf::from("/sys/kernel/sched_ext") }
    }

    /// One that reads the files below `root`, for tests.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        SchedExt { root: root.into() }
    }

    /// The state: "disabled", "enabling", "enabled", "disabling". A kernel without sched_ext is an error.
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

    /// Name of the active scheduler, None when there is none or the kernel does not say.
    pub fn active(&self) -> Option<String> {
        let name = std::fs::read_to_string(self.root.join("root/ops")).ok()?;
        Some(name.trim().to_string()).filter(|name| !name.is_empty())
    }

    /// How often a scheduler was enabled since boot; None if the kernel does not say.
    fn enable_seq(&self) -> Option<u64> {
        std::fs::read_to_string(self.root.join("enable_seq")).ok()?.trim().parse().ok()
    }
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
    /// Runs `command` (split by a shell) and waits until the kernel reports it enabled.
    pub fn start(kernel: SchedExt, command: &str, timeout: Duration) -> Result<Self> {
        let state = kernel.state()?;
        if state != "disabled" {
            let name = kernel.active().unwrap_or_else(|| "a sched_ext scheduler".into());
            return Err(Error::OtherScheduler(format!("{name} is already active ({state}); stop it first")));
        }
        let enabled_before = kernel.enable_seq();
        let mut loaded = Self::launch(kernel, command)?;
        loaded.wait_enabled(timeout)?;
        loaded.name = loaded.kernel.active();
        // Counted from before, because the kernel reports "enabled" a moment before it counts.
        loaded.enable_seq = enabled_before.map(|n| n + 1);
        Ok(loaded)
    }

    fn launch(kernel: SchedExt, command: &str) -> Result<Self> {
        let io_error = |e| Error::failed(format!("starting '{command}'"), e);
        // Memory, not a file: there may be no writable folder.
        let output = memfd_create("scheduler-output", MFdFlags::MFD_CLOEXEC);
        let output =
            std::fs::File::from(output.map_err(|e| Error::failed(format!("starting '{command}'"), e))?);
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("exec {command}")).stdin(Stdio::null()).process_group(0);
        shell.stdout(output.try_clone().map_err(io_error)?).stderr(output.try_clone().map_err(io_error)?);
        // SAFETY: prctl is safe between fork and exec; it makes the scheduler unload if this process dies.
        unsafe {
            shell.pre_exec(|| {
                nix::libc::prctl(nix::libc::PR_SET_PDEATHSIG, nix::libc::SIGINT);
                Ok(())
            });
        }
        let child = shell.spawn().map_err(io_error)?;
        Ok(Loaded { kernel, child, command: command.into(), output, name: None, enable_seq: None })
    }

    /// Name the kernel knows the scheduler by, or else its command.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.command)
    }

    /// Process id of the scheduler.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    /// Fails unless this scheduler, and no other, has been active ever since it was loaded.
    pub fn check(&mut self) -> Result<()> {
        let state = self.kernel.state()?;
        if let Some(status) = self.exited()? {
            return Err(self.error(&format!("ended during the measurement ({status})")));
        }
        if state != "enabled" {
            return Err(self.error(&format!("was thrown out during the measurement (state is {state})")));
        }
        if self.kernel.enable_seq() != self.enable_seq {
            return Err(self.error("was replaced or reloaded during the measurement"));
        }
        Ok(())
    }

    /// Kills it with SIGKILL, as a crash would end it, and waits until the kernel has unloaded what it loaded.
    pub fn crash(mut self) -> Result<()> {
        self.child.kill().map_err(|e| Error::failed("killing the scheduler", e))?;
        self.child.wait().map_err(|e| Error::failed("waiting for the scheduler", e))?;
        self.wait_disabled()
    }

    /// Unloads it: SIGINT, waits for its end with exit code 0 and for the kernel to report "disabled".
    pub fn stop(mut self) -> Result<()> {
        self.interrupt();
        match self.wait_exit(STOP_TIMEOUT)? {
            Some(status) if status.success() => {}
            Some(status) => return Err(self.error(&format!("ended with an error when stopped ({status})"))),
            None => return Err(self.error(&format!("did not end within {STOP_TIMEOUT:?} of SIGINT"))),
        }
        self.wait_disabled()
    }

    fn wait_disabled(&mut self) -> Result<()> {
        let deadline = Instant::now() + STOP_TIMEOUT;
        while self.kernel.state()? != "disabled" {
            if Instant::now() > deadline {
                return Err(self.error("has ended, but sched_ext is not disabled"));
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Waits until the kernel reports it enabled again, after an event that makes a scheduler restart.
    pub fn wait_enabled(&mut self, timeout: Duration) -> Result<()> {
        let deadline = Instant::now() + timeout;
        while self.kernel.state()? != "enabled" {
            if let Some(status) = self.exited()? {
                return Err(self.error(&format!("ended before it was enabled ({status})")));
            }
            if Instant::now() > deadline {
                return Err(self.error(&format!("was not enabled within {} s", timeout.as_secs())));
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    fn interrupt(&self) {
        // The process is ours and not reaped yet, so the id is still its own; ESRCH would mean it has ended.
        let _ = kill(self.pid(), Signal::SIGINT);
    }

    fn exited(&mut self) -> Result<Option<std::process::ExitStatus>> {
        self.child.try_wait().map_err(|e| Error::failed("waiting for the scheduler", e))
    }

    fn wait_exit(&mut self, timeout: Duration) -> Result<Option<std::process::ExitStatus>> {
        let deadline = Instant::now() + timeout;
        loop {
            match self.exited()? {
                None if Instant::now() < deadline => std::thread::sleep(POLL),
                status => return Ok(status),
            }
        }
    }

    /// An error about this scheduler, followed by the end of what it printed.
    fn error(&mut self, what: &str) -> Error {
        let printed = self.printed();
        let lines: Vec<&str> = printed.lines().collect();
        let end = &lines[lines.len().saturating_sub(SHOWN_LINES)..];
        let quoted: String = end.iter().map(|line| format!("\n  | {line}")).collect();
        let hint = if end.is_empty() { " and printed nothing" } else { "; it printed:" };
        Error::Runtime(format!("'{}' {what}{hint}{quoted}", self.command))
    }

    /// Everything it printed so far.
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
                // Its end makes the kernel unload whatever it loaded.
                let _ = self.child.kill();
                let _ = self.child.wait();
            }
        }
    }
}

/// Runs `measure` with a scheduler loaded: load, measure, prove that it stayed, unload.
///
/// With `unpaced` the asymmetric VM's emulation is suspended while it loads and unloads, which nobody measures and which
/// takes ten seconds at 60 MIPS. Not for a scheduler that measures the CPUs while it starts: it would find them all alike.
pub fn under<T>(
    kernel: SchedExt,
    command: &str,
    timeout: Duration,
    unpaced: bool,
    measure: impl FnOnce(&Loaded) -> Result<T>,
) -> Result<T> {
    let emulation = if unpaced { Emulation::find()? } else { None };
    let suspend = || emulation.as_ref().map(Emulation::suspend).transpose();
    let suspended = suspend()?;
    let mut loaded = Loaded::start(kernel, command, timeout)?;
    drop(suspended);
    let result = measure(&loaded);
    // A scheduler that vanished explains a failed measurement better than the failure itself.
    loaded.check()?;
    let value = result?;
    let _suspended = suspend()?;
    loaded.stop()?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory that looks like sched_ext's, and a fake scheduler that plays with it.
    fn fake(state: &str) -> (tempfile::TempDir, SchedExt) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("state"), state).unwrap();
        std::fs::write(dir.path().join("enable_seq"), "3").unwrap();
        let kernel = SchedExt::at(dir.path());
        (dir, kernel)
    }

    fn script(dir: &tempfile::TempDir, body: &str) -> String {
        let path = dir.path().join("fake.sh");
        std::fs::write(&path, format!("cd {}\n{body}", dir.path().display())).unwrap();
        format!("sh {}", path.display())
    }

    const GOOD: &str = "trap 'echo disabled >state; exit 0' INT; echo 4 >enable_seq; echo enabled >state; \
         while :; do sleep 0.05; done";
    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn loads_measures_and_unloads() {
        let (dir, kernel) = fake("disabled\n");
        let command = script(&dir, GOOD);
        let state = under(kernel.clone(), &command, LONG, false, |_| kernel.state()).unwrap();
        assert_eq!(state, "enabled");
        assert_eq!(kernel.state().unwrap(), "disabled");
    }

    #[test]
    fn a_scheduler_that_fails_to_load_is_quoted() {
        let (dir, kernel) = fake("disabled");
        let command = script(&dir, "echo no BTF here >&2; exit 3");
        let error = Loaded::start(kernel, &command, LONG).err().unwrap();
        let text = error.to_string();
        assert!(text.contains("no BTF here") && text.contains("exit status: 3"), "{text}");
        assert_eq!(error.exit_code(), 1);
    }

    #[test]
    fn one_that_never_enables_is_stopped() {
        let (dir, kernel) = fake("disabled");
        let command = script(&dir, "trap 'touch ended; exit 0' INT; while :; do sleep 0.05; done");
        let error = Loaded::start(kernel, &command, Duration::from_millis(300)).err().unwrap();
        assert!(error.to_string().contains("not enabled within"), "{error}");
        assert!(dir.path().join("ended").exists());
    }

    #[test]
    fn one_that_is_thrown_out_midway_spoils_the_measurement() {
        let (dir, kernel) = fake("disabled");
        let command = script(&dir, GOOD);
        let thrown_out = |_: &Loaded| {
            std::fs::write(dir.path().join("state"), "disabled").unwrap();
            Ok(())
        };
        let error = under(kernel.clone(), &command, LONG, false, thrown_out).unwrap_err();
        assert!(error.to_string().contains("thrown out"), "{error}");
        let (dir, kernel) = fake("disabled");
        let command = script(&dir, GOOD);
        let replaced = |_: &Loaded| {
            std::fs::write(dir.path().join("enable_seq"), "6").unwrap();
            Ok(())
        };
        let error = under(kernel, &command, LONG, false, replaced).unwrap_err();
        assert!(error.to_string().contains("replaced"), "{error}");
    }

    #[test]
    fn another_scheduler_is_left_alone() {
        let (dir, kernel) = fake("enabled");
        let error = Loaded::start(kernel, &script(&dir, "touch started"), LONG).err().unwrap();
        assert_eq!(error.exit_code(), 4);
        assert!(!dir.path().join("started").exists());
    }

    #[test]
    fn a_kernel_without_sched_ext_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let error = SchedExt::at(dir.path()).state().unwrap_err();
        assert_eq!(error.exit_code(), 3);
    }
}
