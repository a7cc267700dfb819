// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Input of the planner: CPUs, tasks and limits.

use crate::cpuset::CpuSet;
use crate::sharing::Sharing;
use crate::table::{COMPONENTS, CpuCapacity};

/// A task that waits for a CPU. Its pid and its other CPUs are unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// A CPU that may run the task.
    pub cpu: u32,
    /// Time at which it began to wait [ns].
    pub since_ns: u64,
}

/// A running task, which can be swapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Runner {
    /// pid of the task.
    pub pid: u32,
    /// CPU on which it runs.
    pub cpu: u32,
    /// CPI stack: shares of its cycles on the reference CPU by component [permille], as in
    /// `struct bias_profile`; None while unknown.
    pub stack_permille: Option<[u32; COMPONENTS]>,
    /// True if the stack is steady (`bias_profile_stable()`).
    pub stable: bool,
    /// CPUs that its affinity allows; None for all CPUs. A cgroup confines a task through its
    /// affinity.
    pub allowed: Option<CpuSet>,
    /// Time of its last migration between the classes, by a swap or by the BPF side's rotation
    /// [ns]; None if there was none.
    pub moved_at_ns: Option<u64>,
    /// Earliest time of the next swap [ns]; 0 without a wait. See [`crate::audit::Backoffs`].
    pub backoff_until_ns: u64,
}

/// A system at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct Snapshot<'a> {
    /// Current time, on the clock of the tasks' times [ns].
    pub now_ns: u64,
    /// Number of earlier plans. Each plan tries another section of unlikely partners.
    pub round: u64,
    /// CPUs of the system. One that is listed twice, or whose id is not below
    /// [`crate::table::MAX_CPUS`], takes no part.
    pub cpus: &'a [CpuCapacity],
    /// Tasks that run.
    pub runners: &'a [Runner],
    /// Tasks that wait. A dispatch on the nodes of their CPUs chooses a task anyway.
    pub waiting: &'a [Waiting],
    /// CPUs that run a task which may be missing in `runners`. Their siblings share a core.
    pub busy: CpuSet,
}

/// Limits of a plan, and the threshold of a swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of swaps in one plan, that is, in one interval of the agent.
    pub max_swaps: usize,
    /// Least gain of a swap, less the cost of the migrations, relative to its two tasks' present
    /// progress [permille], up to 1000. Raise it above the error of predictions (see
    /// [`crate::model::Errors`]).
    pub min_gain_permille: u32,
    /// Time that a task loses by a migration, including cold caches [ns].
    pub migration_ns: u64,
    /// Expected duration of a swap [ns], 1 ms to 68 s. The gain has to pay for the migration in
    /// this time. A task that migrated between the classes rests for as long.
    pub residence_ns: u64,
    /// Waits shorter than this are transient and do not exclude a CPU from swaps [ns].
    pub passing_ns: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_swaps: 32,
            min_gain_permille: 50,
            migration_ns: 100_000,
            residence_ns: 500_000_000,
            passing_ns: 10_000_000,
        }
    }
}

/// Shortest and longest residence [ns]. Values of the longest fit 64 bits.
const RESIDENCE_NS: (u64, u64) = (1_000_000, 1 << 36);

impl Limits {
    /// Return the limits with every value clamped to its range.
    #[must_use]
    pub fn sane(self) -> Self {
        let residence_ns = self.residence_ns.clamp(RESIDENCE_NS.0, RESIDENCE_NS.1);
        Self {
            min_gain_permille: self.min_gain_permille.min(1000),
            migration_ns: self.migration_ns.min(residence_ns),
            residence_ns,
            ..self
        }
    }
}

impl Snapshot<'_> {
    /// Return which cores are shared now.
    #[must_use]
    pub fn sharing(&self) -> Sharing {
        let mut busy: CpuSet = self.runners.iter().map(|runner| runner.cpu).collect();
        busy.unite(&self.busy);
        Sharing::new(self.cpus, &busy)
    }
}
