// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Flags and ids of sched_ext, all as 64-bit words.

use crate::ffi;

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident = $from:ident;)*) => {
        $($(#[$doc])* pub const $name: u64 = ffi::$from as u64;)*
    };
}

words! {
    /// The global DSQ.
    DSQ_GLOBAL = SCX_DSQ_GLOBAL;
    /// The local DSQ of the CPU that a task is enqueued on.
    DSQ_LOCAL = SCX_DSQ_LOCAL;
    /// The local DSQ of a CPU; its number is added.
    DSQ_LOCAL_ON = SCX_DSQ_LOCAL_ON;
    /// Bits of that number.
    DSQ_LOCAL_CPU_MASK = SCX_DSQ_LOCAL_CPU_MASK;
    /// The task wakes.
    ENQ_WAKEUP = SCX_ENQ_WAKEUP;
    /// Insert at the head.
    ENQ_HEAD = SCX_ENQ_HEAD;
    /// ops.select_cpu was called.
    ENQ_CPU_SELECTED = SCX_ENQ_CPU_SELECTED;
    /// Insert at the head and preempt the running task.
    ENQ_PREEMPT = SCX_ENQ_PREEMPT;
    /// The task is enqueued again.
    ENQ_REENQ = SCX_ENQ_REENQ;
    /// The CPU has no other task.
    ENQ_LAST = SCX_ENQ_LAST;
    /// A new task wakes.
    WAKE_FORK = SCX_WAKE_FORK;
    /// try_to_wake_up() wakes it.
    WAKE_TTWU = SCX_WAKE_TTWU;
    /// The waker is about to sleep.
    WAKE_SYNC = SCX_WAKE_SYNC;
    /// Kick only an idle CPU.
    KICK_IDLE = SCX_KICK_IDLE;
    /// Kick and preempt.
    KICK_PREEMPT = SCX_KICK_PREEMPT;
    /// Pick only a wholly idle core.
    PICK_IDLE_CORE = SCX_PICK_IDLE_CORE;
    /// Iterate over a DSQ from its last task.
    DSQ_ITER_REV = SCX_DSQ_ITER_REV;
    /// Slice that the kernel gives [ns].
    SLICE_DFL = SCX_SLICE_DFL;
    /// A slice that does not end; the kernel may stop the tick.
    SLICE_INF = SCX_SLICE_INF;
    /// Create task storage.
    STORAGE_CREATE = BPF_LOCAL_STORAGE_GET_F_CREATE;
}

/// No flags of ops.enqueue.
pub const ENQ_NONE: u64 = 0;
/// Insert by vtime (`SCX_ENQ_DSQ_PRIQ`).
pub const ENQ_PRIQ: u64 = 1 << 57;
/// The task sleeps (`DEQUEUE_SLEEP`).
pub const DEQUEUE_SLEEP: u64 = 1;
/// The task comes back with other attributes (`DEQUEUE_SAVE`, `ENQUEUE_RESTORE`).
pub const SAVE_RESTORE: u64 = 2;
