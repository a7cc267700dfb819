// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Scheduling attributes of a thread: policy, nice value, affinity.

use bias_bench::cpus;
use nix::libc;
use nix::unistd::Pid;
use rand::{Rng, RngExt};

/// A scheduling policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    Other,
    Batch,
    Idle,
    /// SCHED_FIFO with the lowest priority.
    Fifo,
}

/// Set a thread's nice value. Return false if this is not permitted.
pub(crate) fn set_nice(tid: Pid, nice: i32) -> bool {
    // SAFETY: this is a plain system call without pointers.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, tid.as_raw() as u32, nice) == 0 }
}

/// Set a thread's policy. Return false if this is not permitted.
pub(crate) fn set_policy(tid: Pid, policy: Policy) -> bool {
    let (policy, sched_priority) = match policy {
        Policy::Other => (libc::SCHED_OTHER, 0),
        Policy::Batch => (libc::SCHED_BATCH, 0),
        Policy::Idle => (libc::SCHED_IDLE, 0),
        Policy::Fifo => (libc::SCHED_FIFO, 1),
    };
    let parameters = libc::sched_param { sched_priority };
    // SAFETY: the structure is valid and outlives the call.
    unsafe { libc::sched_setscheduler(tid.as_raw(), policy, &parameters) == 0 }
}

/// Return a thread to SCHED_OTHER with nice value 0 on all of `online`, as far as permitted.
pub(crate) fn reset(tid: Pid, online: &[usize]) {
    let _ = cpus::set_affinity(tid, online);
    set_policy(tid, Policy::Other);
    set_nice(tid, 0);
}

/// Return a random set of the CPUs that are online, never empty.
pub(crate) fn some_cpus(random: &mut impl Rng, online: &[usize]) -> Vec<usize> {
    let set: Vec<usize> = online.iter().copied().filter(|_| random.random()).collect();
    if set.is_empty() { online.to_vec() } else { set }
}
