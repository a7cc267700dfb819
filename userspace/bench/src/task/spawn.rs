// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Children that cannot outlive their parent.

use crate::{Error, Result};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork};

/// Fork a child that runs `body` and exits with the code that it returns, or with 101 if it panics.
/// The kernel kills the child when the calling thread ends.
///
/// `body` may allocate: the programs of this crate have one thread, and glibc keeps its allocator
/// usable after fork in any case.
pub fn spawn(body: impl FnOnce() -> u8) -> Result<Pid> {
    let parent = nix::unistd::getpid();
    // SAFETY: the child runs `body` and leaves by _exit, so no destructor or buffer of the parent
    // runs twice.
    match unsafe { fork() } {
        Ok(ForkResult::Parent { child }) => Ok(child),
        Ok(ForkResult::Child) => {
            // SAFETY: this is a plain system call with the arguments that PR_SET_PDEATHSIG takes.
            unsafe { nix::libc::prctl(nix::libc::PR_SET_PDEATHSIG, nix::libc::SIGKILL) };
            // The parent may have died before the prctl.
            let orphan = nix::unistd::getppid() != parent;
            let run = std::panic::AssertUnwindSafe(|| if orphan { 1 } else { body() });
            let code = std::panic::catch_unwind(run).unwrap_or(101);
            // SAFETY: this ends the process without running anything of the parent's.
            unsafe { nix::libc::_exit(code.into()) }
        }
        Err(e) => Err(Error::failed("starting a process", e)),
    }
}

/// Kill and reap children. An error means that one has ended already, as intended.
pub fn end(children: &[Pid]) {
    for &pid in children {
        let _ = kill(pid, Signal::SIGKILL);
        let _ = waitpid(pid, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::wait::WaitStatus;

    #[test]
    fn a_panic_in_a_child_is_its_exit_code() {
        let pid = spawn(|| std::panic::resume_unwind(Box::new(()))).unwrap();
        assert_eq!(waitpid(pid, None), Ok(WaitStatus::Exited(pid, 101)));
    }
}
