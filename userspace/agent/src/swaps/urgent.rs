//! The thread that swaps as a real-time one, so that looking changes nothing.
//!
//! Problem. On a machine whose CPUs are all busy whoever looks takes a CPU from a task. In our own class that task is queued, another CPU takes
//! it, and what was seen is no longer so when it is acted upon; in the VM a third of the plans came to nothing for it.
//!
//! Approach. A real-time thread preempts without that: the task stays at the head of its CPU's own queue and goes on afterwards. The thread is one
//! while it waits and while it swaps, some tens of microseconds at a time; whatever else it has to do, which users can make as much as they like,
//! it does with its own policy.
//!
//! Limits. Without the right to it (RLIMIT_RTPRIO, RestrictRealtime=, real-time cgroups) swaps work as before, and more of them are refused.

use nix::libc;
use tracing::debug;

/// The calling thread's policy.
#[derive(Debug)]
pub struct Urgency {
    /// The one it had; None where it cannot be raised.
    own: Option<libc::c_int>,
    raised: bool,
}

impl Urgency {
    /// Not raised; never to be if not `wanted`.
    #[must_use]
    pub fn new(wanted: bool) -> Self {
        // SAFETY: the call takes a number only, 0 for the calling thread.
        let own = unsafe { libc::sched_getscheduler(0) };
        Self { own: (wanted && own >= 0).then_some(own & !libc::SCHED_RESET_ON_FORK), raised: false }
    }

    /// Real-time from now on.
    pub fn raise(&mut self) {
        if self.own.is_some() && !self.raised {
            // What is started meanwhile does not inherit it.
            self.raised = set(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, 1);
            if !self.raised {
                debug!("swaps: no right to be real-time");
                self.own = None;
            }
        }
    }

    /// As before.
    pub fn lower(&mut self) {
        if let Some(own) = self.own.filter(|_| self.raised) {
            self.raised = !set(own, 0);
        }
    }
}

impl Drop for Urgency {
    fn drop(&mut self) {
        self.lower();
    }
}

fn set(policy: libc::c_int, priority: libc::c_int) -> bool {
    let parameter = libc::sched_param { sched_priority: priority };
    // SAFETY: the structure lives across the call, which only reads it; 0 is the calling thread.
    unsafe { libc::sched_setscheduler(0, policy, &raw const parameter) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> libc::c_int {
        // SAFETY: as above.
        unsafe { libc::sched_getscheduler(0) }
    }

    #[test]
    fn whatever_happens_the_policy_is_given_back() {
        let own = policy();
        let mut urgency = Urgency::new(true);
        urgency.lower();
        assert_eq!(policy(), own);
        for _ in 0..2 {
            urgency.raise();
            urgency.raise();
            assert_eq!(urgency.raised, policy() == libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK);
            urgency.lower();
            assert_eq!(policy() & !libc::SCHED_RESET_ON_FORK, own);
        }
        urgency.raise();
        drop(urgency);
        assert_eq!(policy() & !libc::SCHED_RESET_ON_FORK, own);
        let mut never = Urgency::new(false);
        never.raise();
        assert_eq!(policy() & !libc::SCHED_RESET_ON_FORK, own);
    }
}
