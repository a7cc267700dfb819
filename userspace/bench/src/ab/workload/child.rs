// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! A process that does the measured work and ends with the measurement at the latest.
//!
//! # Problem
//! The process that runs a comparison has one thread, because forking a multi-threaded process is
//! fragile. But several workloads need threads. A workload that hangs under a broken scheduler must
//! not hang the comparison.
//!
//! # Approach
//! The work runs in a forked child. The child may start threads, and returns its results through
//! shared memory. The parent sleeps until the child ends or its time is over. It waits on the
//! child's pidfd without polling, because a wakeup every few milliseconds is itself a load on a
//! slow machine.
//!
//! # Invariants
//! Dropping a [`Child`] kills and reaps it in all cases. A child ends when its parent does.

use crate::task::spawn;
use crate::{Error, Result};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Time beyond its own that a workload may take before it counts as hung. If the host starves a VM,
/// a workload takes many times as long as planned without being hung.
const GRACE: Duration = Duration::from_secs(60);

/// Reason for the failure of a child: its exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Fault {
    /// A thread or process could not be started.
    Start = 2,
    /// A pipe or socket failed.
    Channel = 3,
    /// A program could not be run.
    Exec = 4,
}

impl Fault {
    /// Return the meaning of a child's exit code, with the remedy.
    fn text(code: i32) -> String {
        let known =
            [Fault::Start, Fault::Channel, Fault::Exec].into_iter().find(|fault| *fault as i32 == code);
        match known {
            Some(Fault::Start) => {
                "a thread or process could not be started; see 'ulimit -u' and free memory".into()
            }
            Some(Fault::Channel) => "a pipe or socket failed; see 'ulimit -n'".into(),
            Some(Fault::Exec) => "a program could not be run; check that /bin/true exists".into(),
            None if code == 101 => "a bug: its process panicked".into(),
            None => format!("its process ended with code {code}"),
        }
    }
}

/// A child process.
pub struct Child {
    pid: Pid,
    /// Descriptor that becomes readable when the child has ended.
    ended: OwnedFd,
}

impl Child {
    /// Fork a child that runs `body`.
    pub fn start(body: impl FnOnce() -> std::result::Result<(), Fault>) -> Result<Self> {
        let pid = spawn(|| body().map_or_else(|fault| fault as u8, |()| 0))?;
        let ended = open_pid(pid).inspect_err(|_| end(pid))?;
        Ok(Child { pid, ended })
    }

    /// Wait until the child ends by itself, for at most `time` plus a grace period. Return an error
    /// if it fails or does not end.
    pub fn wait(self, time: Duration) -> Result<()> {
        let limit = time + GRACE;
        if !readable(self.ended.as_fd(), Instant::now() + limit)? {
            let why = format!("no end after {} s; does the scheduler starve a task?", limit.as_secs());
            return Err(Error::failed("waiting for the workload", why));
        }
        let status = waitpid(self.pid, None);
        match status {
            Ok(WaitStatus::Exited(_, 0)) => Ok(()),
            Ok(WaitStatus::Exited(_, code)) => Err(Error::failed("the workload failed", Fault::text(code))),
            other => Err(Error::failed("the workload was killed from outside", format!("{other:?}"))),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // After `wait` the process has been reaped. No child was started since, so its pid is not
        // that of another child.
        end(self.pid);
    }
}

/// Kill and reap a process. An error means that it has ended already, which is the goal.
fn end(pid: Pid) {
    if matches!(waitpid(pid, Some(nix::sys::wait::WaitPidFlag::WNOHANG)), Ok(WaitStatus::StillAlive)) {
        let _ = kill(pid, Signal::SIGKILL);
        let _ = waitpid(pid, None);
    }
}

/// Return a descriptor that becomes readable when the process ends.
fn open_pid(pid: Pid) -> Result<OwnedFd> {
    // SAFETY: this is a plain system call without pointers.
    let fd = unsafe { nix::libc::syscall(nix::libc::SYS_pidfd_open, pid.as_raw(), 0) };
    match i32::try_from(fd) {
        // SAFETY: the descriptor was just opened and has no other owner.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(Error::failed("watching a process (pidfd_open)", std::io::Error::last_os_error())),
    }
}

/// Wait until `fd` is readable or at its end. Return false if it is neither by `deadline`.
pub fn readable(fd: BorrowedFd<'_>, deadline: Instant) -> Result<bool> {
    loop {
        // Round the timeout up to a millisecond, and limit it to poll's 32 bits.
        let left = deadline.saturating_duration_since(Instant::now()).min(Duration::from_secs(3600));
        let timeout = PollTimeout::try_from(left + Duration::from_micros(999)).unwrap_or(PollTimeout::ZERO);
        match poll(&mut [PollFd::new(fd, PollFlags::POLLIN)], timeout) {
            Ok(0) if Instant::now() >= deadline => return Ok(false),
            Ok(0) | Err(nix::errno::Errno::EINTR) => {}
            Ok(_) => return Ok(true),
            Err(e) => return Err(Error::failed("waiting for the workload", e)),
        }
    }
}

/// Make a program the leader of its own process group, and let it end when this process does. Call
/// this before the program starts.
pub fn die_with_parent(command: &mut Command) {
    // SAFETY: prctl is safe between fork and exec.
    unsafe {
        command.pre_exec(|| {
            nix::libc::prctl(nix::libc::PR_SET_PDEATHSIG, nix::libc::SIGKILL);
            Ok(())
        });
    }
    command.process_group(0);
}

/// A started program, with all of its descendants in the same process group. Dropping it kills the
/// group and reaps the program.
pub struct Program(pub std::process::Child);

impl Drop for Program {
    fn drop(&mut self) {
        // Kill the group even if the leader has ended, because it lives on while any member does.
        // An error means that no member is left.
        if let Ok(pid) = i32::try_from(self.0.id()) {
            let _ = killpg(Pid::from_raw(pid), Signal::SIGKILL);
        }
        let _ = self.0.wait();
    }
}

/// Run a command to its end, for at most `limit`. Return the output of both streams and its run
/// time. `what` names it in errors. Processes of its group that outlive it are killed, and may hold
/// the output open until then.
///
/// # Errors
/// The command does not start, fails or does not end. The error shows its last line.
pub fn capture(command: &mut Command, what: &str, limit: Duration) -> Result<(String, Duration)> {
    let failed = |e: &dyn std::fmt::Display| Error::failed(what, e);
    let mut output = File::from(memfd_create("output", MFdFlags::MFD_CLOEXEC).map_err(|e| failed(&e))?);
    let input = || output.try_clone().map_err(|e| failed(&e));
    command.env("LC_ALL", "C").stdin(Stdio::null()).stdout(input()?).stderr(input()?);
    die_with_parent(command);
    let start = Instant::now();
    let mut running = Program(command.spawn().map_err(|e| failed(&e))?);
    let ended = open_pid(Pid::from_raw(i32::try_from(running.0.id()).unwrap_or(i32::MAX)))?;
    if !readable(ended.as_fd(), start + limit)? {
        return Err(failed(&format!("did not end within {} s", limit.as_secs())));
    }
    let status = running.0.wait().map_err(|e| failed(&e))?;
    let time = start.elapsed();
    drop(running);
    let mut text = Vec::new();
    output.rewind().and_then(|()| output.read_to_end(&mut text)).map_err(|e| failed(&e))?;
    let text = String::from_utf8_lossy(&text).into_owned();
    match status.success() {
        true => Ok((text, time)),
        false => Err(failed(&format!("{status}, its last line is '{}'", last(&text)))),
    }
}

/// Return the last line that is not empty, shortened.
pub fn last(output: &str) -> String {
    let line = output.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or("");
    line.chars().filter(|c| !c.is_control()).take(120).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_child_reports_the_reason() {
        assert!(Child::start(|| Ok(())).unwrap().wait(Duration::ZERO).is_ok());
        let error = Child::start(|| Err(Fault::Channel)).unwrap().wait(Duration::ZERO).unwrap_err();
        assert!(error.to_string().contains("ulimit -n"), "{error}");
        let dead = Child::start(|| std::process::abort()).unwrap().wait(Duration::ZERO).unwrap_err();
        assert!(dead.to_string().contains("from outside"), "{dead}");
    }

    #[test]
    fn a_captured_command_has_both_streams_and_ends_in_time() {
        let run = |line: &str, limit| capture(Command::new("sh").args(["-c", line]), line, limit);
        let (text, _) = run("echo out; echo err >&2", Duration::from_secs(100)).unwrap();
        assert!(text.contains("out") && text.contains("err"));
        let error = run("sleep 1000 & wait", Duration::from_millis(200)).unwrap_err();
        assert!(error.to_string().contains("did not end"), "{error}");
    }

    #[test]
    fn a_dropped_child_is_gone() {
        let child = Child::start(|| {
            loop {
                std::thread::sleep(Duration::from_secs(1));
            }
        });
        let child = child.unwrap();
        let pid = child.pid;
        drop(child);
        assert_eq!(waitpid(pid, None), Err(nix::errno::Errno::ECHILD));
    }

    #[test]
    fn waiting_ends_at_the_deadline_or_with_the_writer() {
        let (read, write) = nix::unistd::pipe().unwrap();
        assert!(!readable(read.as_fd(), Instant::now()).unwrap());
        drop(write);
        assert!(readable(read.as_fd(), Instant::now()).unwrap());
    }
}
