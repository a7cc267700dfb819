// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Real-time policy for the thread that swaps, so that taking a snapshot does not change the
//! machine.
//!
//! # Problem
//! On a machine whose CPUs are all busy, the agent takes a CPU from a task. As a SCHED_EXT task the
//! agent would send that task to a queue, and another CPU would take it. The snapshot would be
//! wrong by the time the agent acts on it. In the VM a third of the plans failed for this reason.
//!
//! # Approach
//! A real-time thread preempts without this effect: the preempted task stays first on its CPU's
//! local DSQ and continues afterwards. The thread is real-time while it waits and while it swaps,
//! for some tens of microseconds at a time. It does all other work, which users can make
//! arbitrarily long, under its own policy.
//!
//! # Limits
//! Without permission (RLIMIT_RTPRIO, RestrictRealtime=, real-time cgroups) swaps work as well, but
//! the kernel side refuses more of them.

use crate::affinity;
use nix::libc;
use tracing::debug;

/// The calling thread's policy.
#[derive(Debug)]
pub struct RtGuard {
    /// The original policy; None where it cannot be raised.
    own: Option<libc::c_int>,
    raised: bool,
}

impl RtGuard {
    /// Create the state without raising the policy. Unless `wanted`, it is never raised.
    #[must_use]
    pub fn new(wanted: bool) -> Self {
        // SAFETY: the call takes only a pid, 0 for the calling thread.
        let own = unsafe { libc::sched_getscheduler(0) };
        Self { own: (wanted && own >= 0).then_some(own & !libc::SCHED_RESET_ON_FORK), raised: false }
    }

    /// Make the thread real-time.
    pub fn raise(&mut self) {
        if self.own.is_some() && !self.raised {
            // Threads and processes that start meanwhile do not inherit it.
            self.raised = affinity::realtime();
            if !self.raised {
                debug!("swaps: no permission for a real-time policy");
                self.own = None;
            }
        }
    }

    /// Restore the original policy.
    pub fn lower(&mut self) {
        if let Some(own) = self.own.filter(|_| self.raised) {
            self.raised = !affinity::set_policy(own, 0);
        }
    }
}

impl Drop for RtGuard {
    fn drop(&mut self) {
        self.lower();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> libc::c_int {
        // SAFETY: the call takes only a pid, 0 for the calling thread.
        unsafe { libc::sched_getscheduler(0) }
    }

    #[test]
    fn the_original_policy_is_always_restored() {
        let own = policy();
        let mut rt_guard = RtGuard::new(true);
        rt_guard.lower();
        assert_eq!(policy(), own);
        for _ in 0..2 {
            rt_guard.raise();
            rt_guard.raise();
            assert_eq!(rt_guard.raised, policy() == libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK);
            rt_guard.lower();
            assert_eq!(policy() & !libc::SCHED_RESET_ON_FORK, own);
        }
        rt_guard.raise();
        drop(rt_guard);
        assert_eq!(policy() & !libc::SCHED_RESET_ON_FORK, own);
        let mut never = RtGuard::new(false);
        never.raise();
        assert_eq!(policy() & !libc::SCHED_RESET_ON_FORK, own);
    }
}
