// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Decide which affinity a thread gets: a pure function of what a sweep saw.
//!
//! # Problem
//!
//! At the end each thread shall have the affinity that it would have without scx_bias: its *home*.
//! Threads inherit the affinities that the agent gave to their makers, and change their own.
//!
//! # Approach
//!
//! A thread whose affinity is the one that it was given still has its recorded home. One with any
//! other affinity has chosen it, and that is its home now. Most homes are all CPUs. These are not
//! recorded: a thread without a record whose affinity is one that such a thread is given, has all
//! CPUs as home. So the record holds exceptions only, and survives any number of forks.
//!
//! # Invariants
//!
//! Tested below for any order of forks, moves and changes.
//!
//! * A thread inside never has the housekeeping CPU.
//! * A thread outside has only the housekeeping CPU, or its home if that excludes it.
//! * After a release every thread has its home.

use std::collections::BTreeMap;

use crate::optin::reconcile::{Id, Tid};

/// CPU numbers in ascending order.
pub type Cpus = Vec<u32>;

/// Record of a thread whose home is not all CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    /// Start time [clock ticks since boot].
    pub start: u64,
    /// Affinity without scx_bias.
    pub cpus: Cpus,
    /// Affinity that the agent gave to the thread.
    pub given: Cpus,
}

/// Records by pid.
pub type Homes = BTreeMap<Tid, Home>;

/// A thread as a sweep found it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenAffinity {
    /// Identity.
    pub id: Id,
    /// Online CPUs of its affinity.
    pub affinity: Cpus,
    /// True if the thread is in a selected cgroup.
    pub inside: bool,
    /// First thread of its process or, for a first thread, of the parent process. None if a sweep
    /// has decided about the thread before.
    pub maker: Option<Id>,
}

/// What the agent is about to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The first sweep: no thread has an affinity from the agent.
    Start,
    /// Keep threads where they belong.
    Keep,
    /// Give every thread its home.
    Release,
}

/// Decision about a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Affinity to set, None to leave it.
    pub set: Option<Cpus>,
    /// Record to keep, None for none.
    pub record: Option<Home>,
}

/// CPUs of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuSets {
    /// Housekeeping CPU.
    pub cpu: u32,
    /// CPUs that are online.
    pub online: Cpus,
    /// CPUs that can come online.
    pub possible: Cpus,
}

impl CpuSets {
    /// Return true if the housekeeping CPU is online, and another one.
    #[must_use]
    pub fn can_confine(&self) -> bool {
        self.online.contains(&self.cpu) && self.online.len() > 1
    }

    /// Decide about a thread. Makers should precede the threads that they made.
    #[must_use]
    pub fn decide(&self, thread: &SeenAffinity, homes: &Homes, phase: Phase) -> Decision {
        if thread.affinity.is_empty() && self.can_confine() {
            // The housekeeping CPU is going offline, and is listed as online for a moment longer.
            return Decision { set: None, record: homes.get(&thread.id.tid).cloned() };
        }
        let (home, is_ours) = self.home(thread, homes, phase == Phase::Start);
        if phase == Phase::Release {
            let record = homes.get(&thread.id.tid).cloned();
            return Decision { set: is_ours.then_some(home), record };
        }
        let given = self.given(&home, thread.inside);
        let differs = self.visible(&given) != thread.affinity;
        let is_plain = self.is_all(&home) || (given == home && !self.is_default(&home));
        let record = Home { start: thread.id.start, cpus: home, given: given.clone() };
        Decision { set: differs.then_some(given), record: (!is_plain).then_some(record) }
    }

    /// Return the home of a thread, and true if its affinity comes from the agent.
    fn home(&self, thread: &SeenAffinity, homes: &Homes, first: bool) -> (Cpus, bool) {
        let of = |id: Id| homes.get(&id.tid).filter(|home| home.start == id.start);
        let gave = |home: &&Home| {
            let given = self.visible(&home.given);
            // The kernel gives other CPUs to a thread whose only one goes offline.
            let driven_off =
                home.given == [self.cpu] && thread.affinity == self.visible(&self.others(&self.possible));
            given == thread.affinity || driven_off
        };
        let recorded = of(thread.id);
        if let Some(home) = recorded.or_else(|| of(thread.maker?)).filter(gave) {
            return (home.cpus.clone(), true);
        }
        if !first && recorded.is_none() && self.is_default(&thread.affinity) {
            return (self.possible.clone(), true);
        }
        let own = if thread.affinity == self.online { &self.possible } else { &thread.affinity };
        (own.clone(), false)
    }

    /// Return the affinity that a thread with this home is given.
    fn given(&self, home: &[u32], inside: bool) -> Cpus {
        if !inside {
            return if home.contains(&self.cpu) { vec![self.cpu] } else { home.to_vec() };
        }
        let rest = self.others(home);
        if self.visible(&rest).is_empty() { self.others(&self.possible) } else { rest }
    }

    /// Return true if a thread whose home is all CPUs may be given this affinity.
    fn is_default(&self, cpus: &[u32]) -> bool {
        let cpus = self.visible(cpus);
        cpus == self.visible(&[self.cpu]) || cpus == self.visible(&self.others(&self.possible))
    }

    fn is_all(&self, cpus: &[u32]) -> bool {
        self.visible(cpus) == self.online
    }

    /// Return the CPUs without the housekeeping CPU.
    fn others(&self, cpus: &[u32]) -> Cpus {
        cpus.iter().copied().filter(|cpu| *cpu != self.cpu).collect()
    }

    /// Return the online ones of these CPUs.
    #[must_use]
    pub fn visible(&self, cpus: &[u32]) -> Cpus {
        cpus.iter().copied().filter(|cpu| self.online.contains(cpu)).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "homes_tests.rs"]
mod tests;
