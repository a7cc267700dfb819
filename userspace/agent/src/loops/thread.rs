// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Placement of a measuring thread: on one CPU, ahead of ordinary tasks if permitted.

use crate::failure::{Failure, REPORT_TO};
use nix::libc;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// Pin the calling thread to `cpu`.
///
/// # Errors
/// Runtime failure when the CPU is offline or a cpuset forbids it, which may pass. Kernel failure
/// for a CPU number that does not exist.
pub fn pin(cpu: u32) -> Result<(), Failure> {
    let refused = |why: String| {
        format!(
            "cannot run on CPU {cpu} ({why}); widen this shell's cpuset and affinity, or bring the CPU online"
        )
    };
    let mut set = CpuSet::new();
    let most = CpuSet::count() - 1;
    set.set(cpu as usize).map_err(|_| Failure::kernel(refused(format!("CPU numbers end at {most}"))))?;
    sched_setaffinity(Pid::from_raw(0), &set).map_err(|error| Failure::runtime(refused(error.to_string())))
}

/// Give the calling thread SCHED_FIFO at the lowest priority, ahead of ordinary tasks. Return true
/// if that is permitted.
///
/// Children are not affected. A refusal is no error: the median is robust, and samples are only
/// noisier.
pub fn realtime() -> bool {
    set_policy(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, 1)
}

/// Give the calling thread a scheduling policy. Return true if that is permitted.
pub fn set_policy(policy: libc::c_int, priority: libc::c_int) -> bool {
    let param = libc::sched_param { sched_priority: priority };
    // SAFETY: pid 0 is the calling thread and `param` outlives the call.
    unsafe { libc::sched_setscheduler(0, policy, &raw const param) == 0 }
}

/// Run `work` on a thread of its own, pinned to `cpu`.
///
/// # Errors
/// Those of [`pin`] and of `work`.
pub fn on_cpu<T: Send>(cpu: u32, work: impl FnOnce() -> Result<T, Failure> + Send) -> Result<T, Failure> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| pin(cpu).and_then(|()| work()));
        join(thread)
    })
}

/// Join a measuring thread.
///
/// # Errors
/// Those of the thread. Runtime failure when it panicked.
pub fn join<T>(thread: std::thread::ScopedJoinHandle<Result<T, Failure>>) -> Result<T, Failure> {
    thread.join().unwrap_or_else(|_| {
        Err(Failure::runtime(format!(
            "a measuring thread stopped unexpectedly; please report this{REPORT_TO}"
        )))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Exit;

    #[test]
    fn a_cpu_that_is_not_there_now_may_be_later_and_one_that_cannot_be_may_not() {
        for (cpu, exit) in [(1022, Exit::Runtime), (u32::MAX, Exit::Kernel)] {
            let failure = pin(cpu);
            assert!(failure.is_err_and(|f| f.exit == exit && f.message.contains("bring the CPU online")));
        }
    }
}
