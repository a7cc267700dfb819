//! A process that does the measured work, and ends with the measurement at the latest.
//!
//! Problem: the process that runs a comparison has one thread, because forking a process of many is fragile; but several
//! workloads need threads. And a workload that hangs under a broken scheduler must not hang the comparison.
//!
//! Approach: the work lives in a forked child, which may start threads and returns what it found through shared memory. The
//! parent sleeps until the child ends or its time is over: it waits on the child's descriptor, without polling,
//! because waking up every few milliseconds would be a load of its own on a slow machine.
//!
//! Invariants: a [`Child`] is killed and reaped when dropped, whatever happened. A child ends when its parent does.

use crate::task::spawn;
use crate::{Error, Result};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

/// How much longer than its own time a workload may take before it counts as hung. A VM that is starved by its host takes
/// many times as long as planned and is still not hung.
const GRACE: Duration = Duration::from_secs(60);

/// Why a child gave up: its exit code.
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
    /// What a child's exit code says, with the remedy.
    fn text(code: i32) -> String {
        let known =
            [Fault::Start, Fault::Channel, Fault::Exec].into_iter().find(|fault| *fault as i32 == code);
        match known {
            Some(Fault::Start) => {
                "a thread or process could not be started; see 'ulimit -u' and free memory".into()
            }
            Some(Fault::Channel) => "a pipe or socket failed; see 'ulimit -n'".into(),
            Some(Fault::Exec) => "a program could not be run; see that /bin/true exists".into(),
            None if code == 101 => "a bug: its process panicked".into(),
            None => format!("its process ended with code {code}"),
        }
    }
}

/// A running child.
pub struct Child {
    pid: Pid,
    /// Readable once the child has ended.
    ended: OwnedFd,
}

impl Child {
    /// Forks a child that runs `body`.
    pub fn start(body: impl FnOnce() -> std::result::Result<(), Fault>) -> Result<Self> {
        let pid = spawn(|| body().map_or_else(|fault| fault as u8, |()| 0))?;
        let ended = open_pid(pid).inspect_err(|_| end(pid))?;
        Ok(Child { pid, ended })
    }

    /// Waits until the child has ended by itself, `time` from now plus a grace; an error if it failed or did not end.
    pub fn wait(self, time: Duration) -> Result<()> {
        let limit = time + GRACE;
        if !readable(self.ended.as_fd(), Instant::now() + limit)? {
            let why = format!("no end after {} s; is a task starved by the scheduler?", limit.as_secs());
            return Err(Error::failed("waiting for the workload", why));
        }
        let status = waitpid(self.pid, None);
        match status {
            Ok(WaitStatus::Exited(_, 0)) => Ok(()),
            Ok(WaitStatus::Exited(_, code)) => Err(Error::failed("the workload failed", Fault::text(code))),
            other => Err(Error::failed("the workload was ended from outside", format!("{other:?}"))),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // After `wait` the process is gone, and its number cannot belong to another child of ours: none was started since.
        end(self.pid);
    }
}

/// Kills and reaps; errors mean that it has ended already, which is what is wanted.
fn end(pid: Pid) {
    if matches!(waitpid(pid, Some(nix::sys::wait::WaitPidFlag::WNOHANG)), Ok(WaitStatus::StillAlive)) {
        let _ = kill(pid, Signal::SIGKILL);
        let _ = waitpid(pid, None);
    }
}

/// A descriptor that becomes readable when the process ends.
fn open_pid(pid: Pid) -> Result<OwnedFd> {
    // SAFETY: plain system call, no pointers.
    let fd = unsafe { nix::libc::syscall(nix::libc::SYS_pidfd_open, pid.as_raw(), 0) };
    match i32::try_from(fd) {
        // SAFETY: the descriptor was just opened and belongs to nobody else.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(Error::failed("watching a process (pidfd_open)", std::io::Error::last_os_error())),
    }
}

/// Waits until `fd` is readable or at its end; false if it was not by `deadline`.
pub fn readable(fd: BorrowedFd<'_>, deadline: Instant) -> Result<bool> {
    loop {
        // Rounded up to a millisecond, and short enough for poll's 32 bits.
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

/// Makes a program to be started the leader of a process group of its own, and makes it end when this process does.
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

/// A started program, and everything that it started and that kept its process group. Killed and reaped when dropped.
pub struct Program(pub std::process::Child);

impl Drop for Program {
    fn drop(&mut self) {
        // Also after the leader has ended: its group lives on while any member does. Errors mean that none does.
        if let Ok(pid) = i32::try_from(self.0.id()) {
            let _ = killpg(Pid::from_raw(pid), Signal::SIGKILL);
        }
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_fails_says_why() {
        assert!(Child::start(|| Ok(())).unwrap().wait(Duration::ZERO).is_ok());
        let error = Child::start(|| Err(Fault::Channel)).unwrap().wait(Duration::ZERO).unwrap_err();
        assert!(error.to_string().contains("ulimit -n"), "{error}");
        let dead = Child::start(|| std::process::abort()).unwrap().wait(Duration::ZERO).unwrap_err();
        assert!(dead.to_string().contains("from outside"), "{dead}");
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
