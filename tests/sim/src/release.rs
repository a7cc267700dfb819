// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Differences between releases of the kernel.

/// Release of the kernel, where releases differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Release {
    /// 6.12 as first released.
    V6_12,
    /// Late 6.12.y, with later repairs.
    V6_12_117,
    /// 6.18 as first released.
    V6_18,
    /// 7.x.
    V7,
}

impl Release {
    /// Every release.
    pub const ALL: [Self; 4] = [Self::V6_12, Self::V6_12_117, Self::V6_18, Self::V7];

    /// Return the version in the form of `LINUX_VERSION_CODE`.
    #[must_use]
    pub fn code(self) -> u32 {
        match self {
            Self::V6_12 => (6 << 16) + (12 << 8),
            Self::V6_12_117 => (6 << 16) + (12 << 8) + 117,
            Self::V6_18 => (6 << 16) + (18 << 8),
            Self::V7 => 7 << 16,
        }
    }

    /// Return true if rq_offline_scx() moves the tasks of a CPU that goes offline to its local DSQ.
    #[must_use]
    pub fn drains_offline(self) -> bool {
        self == Self::V6_12_117
    }

    /// Return true if put_prev_task_scx() reschedules the next task after SCX_ENQ_LAST put a task
    /// into the local DSQ.
    #[must_use]
    pub fn reschedules_after_last(self) -> bool {
        matches!(self, Self::V6_12_117 | Self::V7)
    }

    /// Return true if flags above bit 31 get lost on the way to another CPU's local DSQ:
    /// enqueue_task_scx() keeps them in an int.
    #[must_use]
    pub fn truncates_flags(self) -> bool {
        matches!(self, Self::V6_12 | Self::V6_12_117)
    }

    /// Return true if prev_balance() calls balance_scx() although a higher class has a task.
    #[must_use]
    pub fn balances_below_higher(self) -> bool {
        self != Self::V7
    }

    /// Return true if kick_one_cpu() leaves alone a CPU that runs a higher class.
    #[must_use]
    pub fn spares_higher(self) -> bool {
        matches!(self, Self::V6_18 | Self::V7)
    }

    /// Return true if ops.enqueue learns that ops.select_cpu was called (SCX_ENQ_CPU_SELECTED).
    #[must_use]
    pub fn tells_selection(self) -> bool {
        matches!(self, Self::V6_18 | Self::V7)
    }

    /// Return true if any program may have a local DSQ enqueued again, by an interrupt soon after.
    #[must_use]
    pub fn reenqueues_for_all(self) -> bool {
        self == Self::V7
    }

    /// Return true if a BPF program disables the migration of the current task.
    #[must_use]
    pub fn programs_disable_migration(self) -> bool {
        matches!(self, Self::V6_12 | Self::V6_12_117)
    }
}
