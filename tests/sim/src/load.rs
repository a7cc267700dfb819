// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Programs of tasks, in simple steps.

use serde::{Deserialize, Serialize};

/// One step of a program. Every step but `Run` is a system call, which takes a little work itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Op {
    /// Do work that takes `work_ns` on the reference CPU.
    Run {
        /// CPI stack of the work [permille].
        stack: [u32; 3],
        /// Time that it takes on the reference CPU.
        work_ns: u64,
    },
    /// Sleep for a time.
    Sleep {
        /// How long.
        ns: u64,
    },
    /// Sleep until the next multiple of a period, as a task with a frame to draw does.
    SleepUntil {
        /// The period.
        period_ns: u64,
    },
    /// Sleep until another task wakes this one; pass if one did since the last time.
    Wait,
    /// Wake a task.
    Wake {
        /// Which.
        task: usize,
        /// The waker announces that it is about to sleep (`WF_SYNC`).
        sync: bool,
    },
    /// Wake several tasks, one after the other.
    WakeAll {
        /// Which.
        tasks: Vec<usize>,
    },
    /// Sleep until all members have arrived.
    Barrier {
        /// Tasks that wait for each other.
        members: Vec<usize>,
    },
    /// Call sched_yield().
    Yield,
    /// Store a hint for the scheduler in the memory of the own process (`bias/hint.h`). It has an
    /// effect if [`Case::hints`](crate::case::Case::hints) is set.
    Hint {
        /// The hint, for example `BIAS_HINT_FAST`.
        hint: u32,
    },
    /// Fork a task of the case that has not started.
    Spawn {
        /// Which.
        task: usize,
    },
    /// Call migrate_disable(), as the kernel does for parts of system calls.
    MigrateDisable,
    /// Call migrate_enable().
    MigrateEnable,
    /// End.
    End,
}

/// The steps of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Steps in their order.
    pub ops: Vec<Op>,
    /// Begin again after the last step. Without it the task then ends.
    pub repeat: bool,
}

/// CPI stacks of typical work.
pub mod stacks {
    /// Executes only.
    pub const COMPUTE: [u32; 3] = [1000, 0, 0];
    /// Mispredicts branches.
    pub const BRANCHES: [u32; 3] = [500, 500, 0];
    /// Waits for memory.
    pub const MEMORY: [u32; 3] = [150, 50, 800];
    /// Follows pointers through memory, as bias-bench's chase does in the asymmetric VM: 0.950 of
    /// its speed on a CPU of 1/2.5 of the speed.
    pub const CHASE: [u32; 3] = [35, 0, 965];
    /// Spins on a word that another task will write, as a thread at a barrier does.
    pub const SPIN: [u32; 3] = [0, 1000, 0];
    /// Some of each.
    pub const MIXED: [u32; 3] = [600, 150, 250];
}

impl Program {
    /// A task that always runs.
    #[must_use]
    pub fn busy(stack: [u32; 3]) -> Self {
        Self { ops: vec![Op::Run { stack, work_ns: 50_000_000 }], repeat: true }
    }

    /// A task that runs and sleeps in turn.
    #[must_use]
    pub fn periodic(stack: [u32; 3], work_ns: u64, sleep_ns: u64) -> Self {
        Self { ops: vec![Op::Run { stack, work_ns }, Op::Sleep { ns: sleep_ns }], repeat: true }
    }
}
