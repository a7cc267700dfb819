// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The changes that a storm makes to its workers.

use crate::attributes::{self, Policy};
use crate::cgroup::Pair;
use bias_bench::cpus;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rand::RngExt;
use rand::rngs::ChaCha8Rng;
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

/// Source of random changes, with the CPUs and cgroups that they use.
pub(super) struct Changes {
    pub random: ChaCha8Rng,
    pub online: Vec<usize>,
    pub cgroups: Option<Pair>,
}

impl Changes {
    /// Make one random change to one random worker. Return the name of its counter, and true if the
    /// kernel made the change.
    pub(super) fn make(&mut self, workers: &[Pid]) -> (&'static str, bool) {
        let (change, name) = CHANGES[self.random.random_range(0..CHANGES.len())];
        let victim = workers[self.random.random_range(0..workers.len())];
        let done = match change {
            Change::Affinity => {
                let cpus = attributes::some_cpus(&mut self.random, &self.online);
                cpus::set_affinity(victim, &cpus).is_ok()
            }
            Change::Nice => attributes::set_nice(victim, self.random.random_range(-5..=10)),
            Change::Policy => {
                let policy = if self.random.random() { Policy::Batch } else { Policy::Other };
                attributes::set_policy(victim, policy)
            }
            Change::Cgroup => {
                let which = self.random.random_range(0..3);
                self.cgroups.as_ref().is_some_and(|pair| pair.move_to(victim, which).is_ok())
            }
            Change::Weight => {
                let (which, weight) = (self.random.random_range(0..2), self.random.random_range(50..450));
                self.cgroups.as_ref().is_some_and(|pair| pair.set_weight(which, weight))
            }
            Change::Signal => kill(victim, Signal::SIGUSR1).is_ok(),
            Change::StopContinue => {
                let stopped = kill(victim, Signal::SIGSTOP).is_ok();
                std::thread::sleep(STOPPED);
                kill(victim, Signal::SIGCONT).is_ok() && stopped
            }
        };
        (name, done)
    }

    /// Undo all changes to a worker.
    pub(super) fn undo(&self, worker: Pid) {
        // A worker whose changes cannot be undone may still end in time, which is enough.
        let _ = kill(worker, Signal::SIGCONT);
        attributes::reset(worker, &self.online);
        if let Some(pair) = &self.cgroups {
            let _ = pair.move_to(worker, 2);
        }
    }
}
