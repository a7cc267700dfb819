// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Waits of tasks whose swaps do not pay.
//!
//! Each failed swap raises a task's level by one, and each swap that paid halves it. Level n means
//! a wait of `base_ns * 2^(n - 1)`, at most `max_ns`. After the wait, each `forgive_ns` lowers the
//! level by one, so that a task which has changed gets a new start.

use std::collections::BTreeMap;

/// Maximum number of tasks whose waits are kept.
pub const MAX_TASKS: usize = 4096;

/// Durations of waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackoffLimits {
    /// Wait after the first failure [ns].
    pub base_ns: u64,
    /// Longest wait [ns].
    pub max_ns: u64,
    /// Time after a wait that lowers the level by one [ns]; 0 resets the level immediately.
    pub forgive_ns: u64,
}

impl Default for BackoffLimits {
    fn default() -> Self {
        Self { base_ns: 2_000_000_000, max_ns: 300_000_000_000, forgive_ns: 30_000_000_000 }
    }
}

/// Highest level: 2^63 ns are 292 years, so a higher level would change nothing.
const LEVEL_MAX: u32 = 63;

/// One task's wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Backoff {
    level: u32,
    since_ns: u64,
}

impl Backoff {
    /// Return the backoff after a swap of the task that ended at `now_ns`.
    pub(super) fn after(self, paid: bool, now_ns: u64, limits: &BackoffLimits) -> Self {
        let level = self.level(now_ns, limits);
        let level = if paid { level / 2 } else { (level + 1).min(LEVEL_MAX) };
        // A swap that paid ends the wait; a failed one begins a wait.
        let since_ns = if paid { now_ns.saturating_sub(wait_ns(level, limits)) } else { now_ns };
        Self { level, since_ns }
    }

    /// Return the number of failures that still count.
    pub(super) fn level(&self, now_ns: u64, limits: &BackoffLimits) -> u32 {
        let rested_ns = now_ns.saturating_sub(self.until_ns(limits));
        let forgiven = rested_ns.checked_div(limits.forgive_ns).unwrap_or(u64::from(LEVEL_MAX));
        self.level.saturating_sub(u32::try_from(forgiven).unwrap_or(LEVEL_MAX))
    }

    /// Return the earliest time of the task's next swap [ns]; 0 without a failure. The value is for
    /// [`crate::swap::Runner::backoff_until_ns`].
    pub(super) fn until_ns(&self, limits: &BackoffLimits) -> u64 {
        if self.level == 0 { 0 } else { self.since_ns.saturating_add(wait_ns(self.level, limits)) }
    }
}

fn wait_ns(level: u32, limits: &BackoffLimits) -> u64 {
    let doubled = level.checked_sub(1).map_or(0, |n| 1u64 << n.min(LEVEL_MAX));
    limits.base_ns.saturating_mul(doubled).min(limits.max_ns)
}

/// Waits of a bounded number of tasks, by pid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backoffs {
    limits: BackoffLimits,
    max_tasks: usize,
    tasks: BTreeMap<u32, Backoff>,
}

impl Backoffs {
    /// Start without waits. Remember at most `max_tasks` tasks, preferably those whose waits end
    /// last.
    #[must_use]
    pub fn new(limits: BackoffLimits, max_tasks: usize) -> Self {
        Self { limits, max_tasks, tasks: BTreeMap::new() }
    }

    /// Note that a swap of the task `pid` ended at `now_ns` and whether it paid.
    pub fn note(&mut self, pid: u32, paid: bool, now_ns: u64) {
        let before = self.tasks.get(&pid).copied().unwrap_or_default();
        let after = before.after(paid, now_ns, &self.limits);
        if after.level == 0 {
            self.tasks.remove(&pid);
            return;
        }
        self.tasks.insert(pid, after);
        if self.tasks.len() > self.max_tasks {
            let limits = self.limits;
            self.tasks.retain(|_, backoff| backoff.level(now_ns, &limits) > 0);
        }
        while self.tasks.len() > self.max_tasks {
            let first =
                self.tasks.iter().min_by_key(|(pid, backoff)| (backoff.until_ns(&self.limits), **pid));
            let Some(pid) = first.map(|(pid, _)| *pid) else { break };
            self.tasks.remove(&pid);
        }
    }

    /// Return the earliest time of the next swap of the task `pid` [ns]; 0 for a task that does not
    /// wait.
    #[must_use]
    pub fn until_ns(&self, pid: u32) -> u64 {
        self.tasks.get(&pid).map_or(0, |backoff| backoff.until_ns(&self.limits))
    }

    /// Forget the task `pid`, which has ended. The kernel may reuse the pid.
    pub fn forget(&mut self, pid: u32) {
        self.tasks.remove(&pid);
    }

    /// Return the number of tasks that are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Return true if no task is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }
}
