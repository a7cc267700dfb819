//! Waits of tasks whose swaps do not pay.
//!
//! Each swap that failed for a task raises its level by one, each that paid halves it. A level of n is a wait of `base_ns * 2^(n - 1)`, at most
//! `most_ns`. Once the wait is over, each `forgive_ns` that passes takes a level off, so that a task which has changed is tried again
//! with a clean slate.

use std::collections::BTreeMap;

/// How long tasks wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackoffLimits {
    /// Wait after the first failure [ns].
    pub base_ns: u64,
    /// Longest wait [ns].
    pub most_ns: u64,
    /// A level is forgiven for each such time after a wait [ns]; 0 forgives at once.
    pub forgive_ns: u64,
}

impl Default for BackoffLimits {
    fn default() -> Self {
        Self { base_ns: 2_000_000_000, most_ns: 300_000_000_000, forgive_ns: 30_000_000_000 }
    }
}

/// Levels beyond this change nothing: 2^63 ns are 292 years.
const LEVEL_MAX: u32 = 63;

/// One task's wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backoff {
    level: u32,
    since_ns: u64,
}

impl Backoff {
    /// The same after a swap of the task ended at `now_ns`, and `paid` or not.
    #[must_use]
    pub fn after(self, paid: bool, now_ns: u64, limits: &BackoffLimits) -> Self {
        let level = self.level(now_ns, limits);
        let level = if paid { level / 2 } else { (level + 1).min(LEVEL_MAX) };
        // What paid ends the wait; what failed begins one.
        let since_ns = if paid { now_ns.saturating_sub(wait_ns(level, limits)) } else { now_ns };
        Self { level, since_ns }
    }

    /// Failures that still count.
    #[must_use]
    pub fn level(&self, now_ns: u64, limits: &BackoffLimits) -> u32 {
        let rested_ns = now_ns.saturating_sub(self.until_ns(limits));
        let forgiven = rested_ns.checked_div(limits.forgive_ns).unwrap_or(u64::from(LEVEL_MAX));
        self.level.saturating_sub(u32::try_from(forgiven).unwrap_or(LEVEL_MAX))
    }

    /// The task is not to be swapped before this time [ns]; 0 without a failure. For [`crate::swap::Runner::backoff_until_ns`].
    #[must_use]
    pub fn until_ns(&self, limits: &BackoffLimits) -> u64 {
        if self.level == 0 { 0 } else { self.since_ns.saturating_add(wait_ns(self.level, limits)) }
    }
}

fn wait_ns(level: u32, limits: &BackoffLimits) -> u64 {
    let doubled = level.checked_sub(1).map_or(0, |n| 1u64 << n.min(LEVEL_MAX));
    limits.base_ns.saturating_mul(doubled).min(limits.most_ns)
}

/// The waits of all tasks, of a bounded number of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backoffs {
    limits: BackoffLimits,
    most_tasks: usize,
    tasks: BTreeMap<u32, Backoff>,
}

impl Backoffs {
    /// Nobody waits. At most `most_tasks` are remembered: of more, those whose wait ends last.
    #[must_use]
    pub fn new(limits: BackoffLimits, most_tasks: usize) -> Self {
        Self { limits, most_tasks, tasks: BTreeMap::new() }
    }

    /// A swap of task `pid` ended at `now_ns` and paid, or did not.
    pub fn note(&mut self, pid: u32, paid: bool, now_ns: u64) {
        let before = self.tasks.get(&pid).copied().unwrap_or_default();
        let after = before.after(paid, now_ns, &self.limits);
        if after.level == 0 {
            self.tasks.remove(&pid);
            return;
        }
        self.tasks.insert(pid, after);
        if self.tasks.len() > self.most_tasks {
            let limits = self.limits;
            self.tasks.retain(|_, backoff| backoff.level(now_ns, &limits) > 0);
        }
        while self.tasks.len() > self.most_tasks {
            let first =
                self.tasks.iter().min_by_key(|(pid, backoff)| (backoff.until_ns(&self.limits), **pid));
            let Some(pid) = first.map(|(pid, _)| *pid) else { break };
            self.tasks.remove(&pid);
        }
    }

    /// Task `pid` is not to be swapped before this time [ns]; 0 for one that does not wait.
    #[must_use]
    pub fn until_ns(&self, pid: u32) -> u64 {
        self.tasks.get(&pid).map_or(0, |backoff| backoff.until_ns(&self.limits))
    }

    /// Task `pid` has ended: its number may be another's soon.
    pub fn forget(&mut self, pid: u32) {
        self.tasks.remove(&pid);
    }

    /// Tasks that are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Is nobody remembered?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }
}
