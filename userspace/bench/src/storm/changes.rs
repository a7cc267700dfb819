//! The changes that a storm makes to its workers.

use super::Storm;
use crate::cpus;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::time::Duration;

/// Time for which a stopped worker stays stopped.
const STOPPED: Duration = Duration::from_millis(2);

/// A kind of change.
#[derive(Debug, Clone, Copy)]
enum Change {
    Affinity,
    Nice,
    Policy,
    Cgroup,
    Weight,
    Signal,
    StopContinue,
}

/// All kinds, with the name of their counter.
const CHANGES: [(Change, &str); 7] = [
    (Change::Affinity, "affinity changes"),
    (Change::Nice, "nice changes"),
    (Change::Policy, "policy changes"),
    (Change::Cgroup, "cgroup moves"),
    (Change::Weight, "cgroup weight changes"),
    (Change::Signal, "signals sent"),
    (Change::StopContinue, "stops and continues"),
];

impl Storm {
    /// Make one random change to one random worker.
    pub(super) fn change(&mut self) {
        let (change, name) = CHANGES[self.random.below(CHANGES.len() as u64) as usize];
        let victim = self.workers[self.random.below(self.workers.len() as u64) as usize].pid;
        let done = match change {
            Change::Affinity => cpus::set_affinity(victim, &self.some_cpus()).is_ok(),
            Change::Nice => set_nice(victim, self.random.below(16) as i32 - 5),
            Change::Policy => set_policy(victim, self.random.below(2) == 0),
            Change::Cgroup => {
                let which = self.random.below(3) as usize;
                self.cgroups.as_ref().is_some_and(|pair| pair.move_to(victim, which).is_ok())
            }
            Change::Weight => {
                let (which, weight) = (self.random.below(2) as usize, 50 + self.random.below(400));
                self.cgroups.as_ref().is_some_and(|pair| pair.set_weight(which, weight))
            }
            Change::Signal => kill(victim, Signal::SIGUSR1).is_ok(),
            Change::StopContinue => {
                let stopped = kill(victim, Signal::SIGSTOP).is_ok();
                std::thread::sleep(STOPPED);
                kill(victim, Signal::SIGCONT).is_ok() && stopped
            }
        };
        self.count(name, u64::from(done));
    }

    /// Return a random set of the CPUs that are online, never empty.
    fn some_cpus(&mut self) -> Vec<usize> {
        let mask = self.random.next();
        let chosen = self.online.iter().enumerate().filter(|(i, _)| (mask >> (i % 64)) & 1 == 1);
        let set: Vec<usize> = chosen.map(|(_, &cpu)| cpu).collect();
        if set.is_empty() { self.online.clone() } else { set }
    }
}

/// Set a process's nice value. Return false if this is not permitted.
pub(super) fn set_nice(pid: Pid, nice: i32) -> bool {
    // SAFETY: this is a plain system call without pointers.
    unsafe { nix::libc::setpriority(nix::libc::PRIO_PROCESS, pid.as_raw() as u32, nice) == 0 }
}

/// Make a process SCHED_BATCH or SCHED_OTHER. Return false if this is not permitted.
pub(super) fn set_policy(pid: Pid, batch: bool) -> bool {
    let policy = if batch { nix::libc::SCHED_BATCH } else { nix::libc::SCHED_OTHER };
    let parameters = nix::libc::sched_param { sched_priority: 0 };
    // SAFETY: the structure is valid and outlives the call.
    unsafe { nix::libc::sched_setscheduler(pid.as_raw(), policy, &parameters) == 0 }
}
