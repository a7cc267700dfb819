// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Memory that the driver of a storm shares with its workers.

use bias_bench::shared::SharedZero;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Request to all workers to end.
#[derive(Default)]
#[repr(C)]
pub(super) struct Control {
    pub stop: AtomicU64,
}

/// Figures that a worker publishes.
#[derive(Default)]
#[repr(C, align(64))]
pub(super) struct WorkerSlot {
    pub progress: AtomicU64,
    pub forks: AtomicU64,
    pub execs: AtomicU64,
    pub wakes: AtomicU64,
    pub signals: AtomicU64,
    pub errors: AtomicU64,
    /// Lives of threads that a racer has begun, and changes that it has made to them.
    pub lives: AtomicU64,
    pub races: AtomicU64,
    /// The player of a futex pair that plays next: 0 is the even one, 1 the odd one. Used in the
    /// slot of the even player only.
    pub turn: AtomicU32,
}

// SAFETY: the field is an atomic, and valid when zero.
unsafe impl SharedZero for Control {}
// SAFETY: the fields are atomics only, and valid when zero.
unsafe impl SharedZero for WorkerSlot {}
