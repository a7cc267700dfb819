// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! A case: everything that a run depends on. Equal cases give equal runs.

use anyhow::{Result, ensure};
use bias_agent::options::RunOptions;
use serde::{Deserialize, Serialize};

use crate::load::{Op, Program};
use crate::machine::Machine;
use crate::release::Release;

/// pid of the first task.
pub const FIRST_PID: usize = 1000;

/// A broken rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The rule, in one word: faults of one rule are alike.
    pub rule: String,
    /// What happened.
    pub what: String,
    /// When [ns].
    pub at_ns: u64,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} us: {}: {}", self.at_ns / 1000, self.rule, self.what)
    }
}

/// Whether and how CPUs interleave within callbacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Interleave {
    /// Probability that an activity is suspended at a point [permille].
    pub permille: u32,
    /// Longest suspension [ns].
    pub longest_ns: u64,
    /// Suspend also at accesses to shared memory.
    pub memory: bool,
}

/// Behaviour of the CPUs' counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CountersOf {
    /// Everything.
    Good,
    /// Occasional errors.
    Failing,
    /// There are none: the counting programs are not loaded.
    None,
}

/// A task of a case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSpec {
    /// What it does.
    pub program: Program,
    /// When it starts; None if another task forks it.
    pub start_ns: Option<u64>,
    /// CPU on which it is forked.
    pub start_cpu: usize,
    /// CPUs that it may run on; None for all.
    pub cpus: Option<Vec<usize>>,
    /// Weight, 100 for nice 0.
    pub weight: u32,
    /// Index of its cgroup; 0 is the root, n the group n - 1 of the case.
    pub group: usize,
    /// It is a kernel thread.
    pub kthread: bool,
    /// Its memory is spread over all nodes.
    #[serde(default)]
    pub interleaved: bool,
}

impl TaskSpec {
    /// A task of nice 0 in the root cgroup that starts immediately, on any CPU.
    #[must_use]
    pub fn new(program: Program) -> Self {
        Self {
            program,
            start_ns: Some(0),
            start_cpu: 0,
            cpus: None,
            weight: 100,
            group: 0,
            kthread: false,
            interleaved: false,
        }
    }

    /// The same, forked on `cpu`.
    #[must_use]
    pub fn on(self, cpu: usize) -> Self {
        Self { start_cpu: cpu, ..self }
    }

    /// The same, confined to `cpus`.
    #[must_use]
    pub fn within(self, cpus: impl IntoIterator<Item = usize>) -> Self {
        Self { cpus: Some(cpus.into_iter().collect()), ..self }
    }
}

/// A cgroup of a case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupSpec {
    /// Its parent; 0 is the root, n the group n - 1 of the case.
    pub parent: usize,
    /// `cpu.weight`.
    pub weight: u32,
    /// `cpu.max`: quota and period [us]; None for no limit.
    pub max_us: Option<(u64, u64)>,
}

impl GroupSpec {
    /// A cgroup without a limit.
    #[must_use]
    pub fn new(parent: usize, weight: u32) -> Self {
        Self { parent, weight, max_us: None }
    }

    /// The same with a limit.
    #[must_use]
    pub fn limited(self, quota_us: u64, period_us: u64) -> Self {
        Self { max_us: Some((quota_us, period_us)), ..self }
    }
}

/// Something that happens to the machine or its tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Disturbance {
    /// A task's affinity changes.
    Affinity { task: usize, cpus: Vec<usize> },
    /// A task's weight changes.
    Nice { task: usize, weight: u32 },
    /// A task moves to another cgroup.
    Group { task: usize, group: usize },
    /// A cgroup's weight changes.
    GroupWeight { group: usize, weight: u32 },
    /// A cgroup's limit changes.
    GroupMax { group: usize, max_us: Option<(u64, u64)> },
    /// A real-time task takes a CPU.
    RealTime { cpu: usize, ns: u64 },
    /// A CPU goes offline.
    Offline { cpu: usize },
    /// A CPU comes online.
    Online { cpu: usize },
    /// A CPU's costs become this many permille of the specified ones; `told` updates the table.
    Speed { cpu: usize, permille: u32, told: bool },
    /// The agent requests a planned swap.
    Swap { up: usize, down: usize },
}

/// A disturbance and its time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disturb {
    /// When.
    pub at_ns: u64,
    /// What.
    pub what: Disturbance,
}

/// Topic of a case of shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Topic {
    Plain,
    Weights,
    Groups,
    Affinity,
    Crowd,
    Sleep,
    Fork,
    Yield,
    Hop,
    Kthread,
}

impl Topic {
    /// Every topic.
    pub const ALL: [Self; 10] = [
        Self::Plain,
        Self::Weights,
        Self::Groups,
        Self::Affinity,
        Self::Crowd,
        Self::Sleep,
        Self::Fork,
        Self::Yield,
        Self::Hop,
        Self::Kthread,
    ];

    /// Return the rule that unfair shares break.
    #[must_use]
    pub fn rule(self) -> &'static str {
        match self {
            Self::Plain => "share-plain",
            Self::Weights => "share-weights",
            Self::Groups => "share-groups",
            Self::Affinity => "share-affinity",
            Self::Crowd => "share-crowd",
            Self::Sleep => "share-sleep",
            Self::Fork => "share-fork",
            Self::Yield => "share-yield",
            Self::Hop => "share-hop",
            Self::Kthread => "share-kthread",
        }
    }
}

/// Everything that a run depends on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// Decides all random choices.
    pub seed: u64,
    /// The machine, see [`Machine::parse`].
    pub machine: String,
    /// Release of the kernel.
    pub release: Release,
    /// Tasks.
    pub tasks: Vec<TaskSpec>,
    /// Cgroups.
    pub groups: Vec<GroupSpec>,
    /// Disturbances during the run.
    pub disturbances: Vec<Disturb>,
    /// Length of the run.
    pub duration_ns: u64,
    /// Time between two ticks of a CPU.
    pub tick_ns: u64,
    /// Time of a switch, during which no work is done.
    pub switch_ns: u64,
    /// Least and longest delay of an interrupt to another CPU.
    pub ipi_ns: (u64, u64),
    /// Least and longest delay of an interrupt that a CPU sends itself.
    pub irq_ns: (u64, u64),
    /// Least and longest delay of a timer.
    pub timer_ns: (u64, u64),
    /// Interleaving within callbacks; None if callbacks are atomic.
    pub interleave: Option<Interleave>,
    /// Behaviour of the counters.
    pub counters: CountersOf,
    /// Task storage cannot always be allocated.
    pub memory_fails: bool,
    /// CPUs request migrations by themselves.
    pub moving: bool,
    /// All tasks are marked programs. Those that store no hints announce sections at random.
    #[serde(default)]
    pub hints: bool,
    /// Compare shares of CPU time with the tasks' entitlements.
    #[serde(default)]
    pub shares: Option<Topic>,
    /// CPUs whose tick the kernel stops for a single task.
    #[serde(default)]
    pub nohz_full: Vec<usize>,
    /// Time between two ticks that another CPU makes for one without a tick. The kernel's is
    /// [`REMOTE_TICK_NS`]. A shorter one makes rare events more frequent.
    #[serde(default = "remote_tick_ns")]
    pub remote_tick_ns: u64,
    /// The knob `max_unfairness_permille`.
    #[serde(default = "max_unfairness_permille")]
    pub max_unfairness_permille: u32,
    /// Write a trace.
    #[serde(skip)]
    pub trace: bool,
    /// Record all stays on CPUs, and all waits.
    #[serde(skip)]
    pub record: bool,
}

/// Time between two ticks that another CPU makes for one without a tick (sched_tick_remote()).
pub const REMOTE_TICK_NS: u64 = 1_000_000_000;

fn remote_tick_ns() -> u64 {
    REMOTE_TICK_NS
}

/// A value of that knob without effect.
pub const UNFAIR_WITHOUT_BOUND: u32 = 1_000_000;

/// Return the default of the knob `max_unfairness_permille`.
#[must_use]
pub fn max_unfairness_permille() -> u32 {
    *RunOptions::default().max_unfairness_permille as u32
}

impl Case {
    /// A quiet case without tasks: 1000 ticks a second, all callbacks atomic.
    #[must_use]
    pub fn new(machine: &str, seed: u64) -> Self {
        Self {
            seed,
            machine: machine.into(),
            release: Release::V6_12_117,
            tasks: Vec::new(),
            groups: Vec::new(),
            disturbances: Vec::new(),
            duration_ns: 1_000_000_000,
            tick_ns: 1_000_000,
            switch_ns: 1_500,
            ipi_ns: (500, 5_000),
            irq_ns: (100, 2_000),
            timer_ns: (0, 50_000),
            interleave: None,
            counters: CountersOf::Good,
            memory_fails: false,
            moving: true,
            hints: false,
            shares: None,
            nohz_full: Vec::new(),
            remote_tick_ns: REMOTE_TICK_NS,
            max_unfairness_permille: max_unfairness_permille(),
            trace: false,
            record: false,
        }
    }

    /// Return the case as text that [`Case::parse`] reads.
    #[must_use]
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Read a case.
    ///
    /// # Errors
    /// Fail if the text is not a case of this version.
    pub fn parse(text: &str) -> Result<Self> {
        Ok(serde_json::from_str(text)?)
    }

    /// Return true if a cgroup has a limit at any time.
    pub(crate) fn is_limited(&self) -> bool {
        let sets_limit =
            |disturb: &Disturb| matches!(disturb.what, Disturbance::GroupMax { max_us: Some(_), .. });
        self.groups.iter().any(|group| group.max_us.is_some()) || self.disturbances.iter().any(sets_limit)
    }

    /// Return the programs of all tasks.
    #[must_use]
    pub(crate) fn programs(&self) -> Vec<Program> {
        self.tasks.iter().map(|task| task.program.clone()).collect()
    }

    /// Check that the case is possible on `machine`.
    ///
    /// # Errors
    /// The error names the impossible part.
    pub fn check(&self, machine: &Machine) -> Result<()> {
        let (cpus, tasks) = (machine.cpus.len(), self.tasks.len());
        ensure!(self.tick_ns >= 100_000, "a tick every {} ns: give at least 100000", self.tick_ns);
        for (id, task) in self.tasks.iter().enumerate() {
            ensure!(task.start_cpu < cpus, "task {id} starts on CPU {}, of {cpus}", task.start_cpu);
            let allowed = task.cpus.iter().flatten();
            ensure!(task.cpus.as_ref().is_none_or(|cpus| !cpus.is_empty()), "task {id} may run nowhere");
            for cpu in allowed {
                ensure!(*cpu < cpus, "task {id} may run on CPU {cpu}, of {cpus}");
            }
            ensure!(
                (1..=10_000).contains(&task.weight),
                "task {id} has weight {}, not 1 to 10000",
                task.weight
            );
            for op in &task.program.ops {
                let others: &[usize] = match op {
                    Op::Wake { task, .. } | Op::Spawn { task } => std::slice::from_ref(task),
                    Op::WakeAll { tasks } | Op::Barrier { members: tasks } => tasks,
                    Op::Run { stack, .. } => {
                        ensure!(
                            stack.iter().sum::<u32>() == 1000,
                            "a CPI stack of task {id} does not sum to 1000"
                        );
                        &[]
                    }
                    _ => &[],
                };
                ensure!(
                    others.iter().all(|other| *other < tasks),
                    "task {id} names a task that does not exist"
                );
            }
        }
        for disturb in &self.disturbances {
            let (cpu, task) = match &disturb.what {
                Disturbance::Affinity { task, cpus } => (cpus.iter().max().copied(), Some(*task)),
                Disturbance::Nice { task, .. } | Disturbance::Group { task, .. } => (None, Some(*task)),
                Disturbance::Swap { up, down } => (None, Some(*up.max(down))),
                Disturbance::GroupWeight { .. } | Disturbance::GroupMax { .. } => (None, None),
                Disturbance::RealTime { cpu, .. }
                | Disturbance::Offline { cpu }
                | Disturbance::Online { cpu }
                | Disturbance::Speed { cpu, .. } => (Some(*cpu), None),
            };
            ensure!(cpu.is_none_or(|cpu| cpu < cpus), "{:?} names a CPU that does not exist", disturb.what);
            ensure!(
                task.is_none_or(|task| task < tasks),
                "{:?} names a task that does not exist",
                disturb.what
            );
        }
        Ok(())
    }
}
