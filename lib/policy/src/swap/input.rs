//! What the planner is told.

use super::cpuset::CpuSet;
use crate::table::{COMPONENTS, Class};

/// Weight of nice 0, as in the kernel.
pub const WEIGHT_DEFAULT: u32 = 100;
/// Largest weight; a larger one counts as this, zero as 1.
pub const WEIGHT_MAX: u32 = 10_000;

/// A CPU. One listed twice, or numbered from [`crate::table::MAX_CPUS`] on, takes no part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cpu {
    /// Kernel's CPU number.
    pub cpu: u32,
    /// Queue class.
    pub class: Class,
    /// NUMA node.
    pub node: u32,
    /// Cost of execute, internal and external work [permille of the best CPU of each].
    pub cost_permille: [u32; COMPONENTS],
    /// Does it run tasks?
    pub online: bool,
}

/// CPUs that a task or a cgroup may use. Small, so that ten thousand tasks are cheap: sets are shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Allowed {
    /// All.
    #[default]
    Everywhere,
    /// Those of [`Snapshot::sets`] at this index; none if there is no such set.
    Set(u32),
}

/// What a cgroup confines its tasks to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Group {
    /// Its CPUs (cpuset.cpus.effective).
    pub allowed: Allowed,
}

/// Does a task run, or wait for a CPU?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It runs: it can be swapped.
    Running,
    /// It is runnable and waits.
    Waiting {
        /// When it began to wait [ns].
        since_ns: u64,
    },
}

/// A runnable task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Runner {
    /// Its thread id.
    pub pid: u32,
    /// Where it runs, or ran last.
    pub cpu: u32,
    /// Runs or waits.
    pub state: State,
    /// Shares of its cycles on the reference CPU by component [permille], as in `struct bias_profile`; None while nothing is known.
    pub stack_permille: Option<[u32; COMPONENTS]>,
    /// Is the stack steady (`bias_profile_stable()`)?
    pub stable: bool,
    /// What its progress is worth, 1 to [`WEIGHT_MAX`], [`WEIGHT_DEFAULT`] for nice 0. The same for all: plain throughput.
    pub weight: u32,
    /// CPUs it may use.
    pub allowed: Allowed,
    /// Its cgroup: an index into [`Snapshot::groups`]; None without limits. An index without a group allows no CPU.
    pub group: Option<u32>,
    /// May it leave its NUMA node? Only if its memory is interleaved does it lose nothing there (seed 001, "NUMA").
    pub roams: bool,
    /// When it last changed class, by whomever: by a swap, or by the BPF side's rotation [ns]; None if it did not.
    pub moved_at_ns: Option<u64>,
    /// No swap before this time [ns]; 0 without. See [`crate::audit::Backoff`].
    pub backoff_until_ns: u64,
}

/// A system at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct Snapshot<'a> {
    /// Now, on the clock of the tasks' times [ns].
    pub now_ns: u64,
    /// How many plans were made before: the planner looks at another stretch of unlikely partners each time.
    pub round: u64,
    /// The CPUs.
    pub cpus: &'a [Cpu],
    /// Tasks that run or wait.
    pub runners: &'a [Runner],
    /// Sets of CPUs that [`Allowed::Set`] refers to.
    pub sets: &'a [CpuSet],
    /// Cgroups that [`Runner::group`] refers to.
    pub groups: &'a [Group],
}

/// How much a plan may do, and when a swap is worth it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most swaps of one plan, that is, of one interval.
    pub most_swaps: usize,
    /// Least gain of a swap, cost of the migrations deducted, in relation to what its two tasks do now [permille], up to 1000. Raise it above
    /// the error of predictions (see [`crate::model::Errors`]).
    pub min_gain_permille: u32,
    /// Time that a task loses by a migration, cold caches included [ns].
    pub migration_ns: u64,
    /// How long a swap is expected to last [ns], 1 ms to 68 s: the gain has to pay for the migration in this time, and a task that changed
    /// class rests for as long.
    pub residence_ns: u64,
    /// Tasks that wait for less are passing and keep no CPU from being swapped [ns].
    pub passing_ns: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            most_swaps: 32,
            min_gain_permille: 50,
            migration_ns: 100_000,
            residence_ns: 500_000_000,
            passing_ns: 10_000_000,
        }
    }
}

/// Shortest and longest residence [ns]: the longest still fits 64 bits with every weight.
const RESIDENCE_NS: (u64, u64) = (1_000_000, 1 << 36);

impl Limits {
    /// The same with every figure in its range.
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
    /// The set that `allowed` means.
    fn set(&self, allowed: Allowed) -> CpuSet {
        match allowed {
            Allowed::Everywhere => CpuSet::ALL,
            Allowed::Set(at) => self.sets.get(at as usize).copied().unwrap_or_default(),
        }
    }

    fn group_allowed(&self, group: Option<u32>) -> Allowed {
        // No set has this index, so a group that is not there allows nothing.
        let missing = Group { allowed: Allowed::Set(u32::MAX) };
        group.map_or(Allowed::Everywhere, |at| {
            self.groups.get(at as usize).copied().unwrap_or(missing).allowed
        })
    }

    fn permits(&self, allowed: Allowed, cpu: u32) -> bool {
        match allowed {
            Allowed::Everywhere => true,
            Allowed::Set(at) => self.sets.get(at as usize).is_some_and(|set| set.contains(cpu)),
        }
    }

    /// May `runner` run on `cpu`, as far as its affinity and its cgroup say?
    pub(super) fn may_run(&self, runner: &Runner, cpu: u32) -> bool {
        self.permits(runner.allowed, cpu) && self.permits(self.group_allowed(runner.group), cpu)
    }

    /// Where a task of this affinity and cgroup may run; None for everywhere.
    pub(super) fn confines(&self, allowed: Allowed, group: Option<u32>) -> Option<CpuSet> {
        match (allowed, self.group_allowed(group)) {
            (Allowed::Everywhere, Allowed::Everywhere) => None,
            (own, group) => Some(self.set(own).common(&self.set(group))),
        }
    }
}
