// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Figures that a task publishes in shared memory, and that its group reads.

use crate::shared::SharedZero;
use crate::spec::MAX_CPUS;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Phases of a group, as stored in shared memory.
pub(super) const PHASE_WAIT: u64 = 0;
pub(super) const PHASE_WORK: u64 = 1;
pub(super) const PHASE_MEASURE: u64 = 2;
pub(super) const PHASE_STOP: u64 = 3;

/// Stays per window that are kept: enough for minutes of phases of some seconds.
const MAX_STAYS: usize = 512;

/// Figures that a task publishes. Times are in nanoseconds.
#[repr(C, align(64))]
pub(super) struct Slot {
    /// Units of work so far.
    pub work: AtomicU64,
    /// 1 once the set is built.
    pub ready: AtomicU64,
    /// Changes of CPU between steps, inside the window.
    pub cpu_changes: AtomicU64,
    /// Context switches inside the window: the task blocked, or was preempted.
    pub voluntary: AtomicU64,
    pub involuntary: AtomicU64,
    /// CPU time spent on each CPU inside the window.
    pub cpu_ns: [AtomicU64; MAX_CPUS],
    /// The part of that CPU time in which the task was stalled, for kinds with phases.
    pub stalled_ns: [AtomicU64; MAX_CPUS],
    /// Number of stays so far, and the first [`MAX_STAYS`] of them, see [`Stay::word`].
    pub nr_stays: AtomicU64,
    pub stays: [AtomicU64; MAX_STAYS],
}

// SAFETY: the fields are atomics only, and valid when zero.
unsafe impl SharedZero for Slot {}

/// A part of a task's run on one CPU, all computing or all stalled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stay {
    /// The CPU.
    pub cpu: usize,
    /// True if the task stalled, false if it computed.
    pub stalled: bool,
    /// CPU time, nanoseconds.
    pub ns: u64,
}

impl Stay {
    /// Bits of the time. They hold more than a day.
    const NS_BITS: u32 = 47;

    /// Pack stall state, CPU and time in one word, so that no reader sees a torn value.
    pub(super) fn word(self) -> u64 {
        let ns = self.ns.min((1 << Self::NS_BITS) - 1);
        u64::from(self.stalled) << 63 | (self.cpu as u64) << Self::NS_BITS | ns
    }

    pub(super) fn of_word(word: u64) -> Self {
        Stay {
            stalled: word >> 63 == 1,
            cpu: ((word & !(1 << 63)) >> Self::NS_BITS) as usize,
            ns: word & ((1 << Self::NS_BITS) - 1),
        }
    }
}

/// Figures of one task inside a window.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskWindow {
    /// Units of work.
    pub units: u64,
    /// CPU time by CPU, nanoseconds. The length is the highest used CPU plus one.
    pub cpu_ns: Vec<u64>,
    /// The part of `cpu_ns` in which a task with phases was stalled, of the same length. Zeros for
    /// all other tasks.
    pub stalled_ns: Vec<u64>,
    /// The first [`MAX_STAYS`] stays, in their order.
    pub stays: Vec<Stay>,
    /// Changes of CPU observed between steps.
    pub cpu_changes: u64,
    /// Context switches in which the task blocked.
    pub voluntary: u64,
    /// Context switches in which the task was preempted.
    pub involuntary: u64,
}

impl Slot {
    /// Return the figures of a window in which the task did `units`.
    pub(super) fn window(&self, units: u64) -> TaskWindow {
        let load = |of: &[AtomicU64; MAX_CPUS]| of.iter().map(|ns| ns.load(Relaxed)).collect::<Vec<u64>>();
        let (mut cpu_ns, mut stalled_ns) = (load(&self.cpu_ns), load(&self.stalled_ns));
        let used = cpu_ns.iter().rposition(|&ns| ns > 0).map_or(0, |last| last + 1);
        cpu_ns.truncate(used);
        stalled_ns.truncate(used);
        TaskWindow {
            units,
            cpu_ns,
            stalled_ns,
            stays: self.stays[..(self.nr_stays.load(Relaxed) as usize).min(MAX_STAYS)]
                .iter()
                .map(|word| Stay::of_word(word.load(Relaxed)))
                .collect(),
            cpu_changes: self.cpu_changes.load(Relaxed),
            voluntary: self.voluntary.load(Relaxed),
            involuntary: self.involuntary.load(Relaxed),
        }
    }
}

/// Example data for tests of other modules.
#[cfg(test)]
pub(crate) mod example {
    use super::TaskWindow;

    /// Make a task with this work and CPU time by CPU, 4 changes of CPU and 5 context switches.
    pub(crate) fn task(units: u64, cpu_ns: &[u64]) -> TaskWindow {
        let stalled_ns = vec![0; cpu_ns.len()];
        TaskWindow {
            units,
            cpu_ns: cpu_ns.to_vec(),
            stalled_ns,
            stays: Vec::new(),
            cpu_changes: 4,
            voluntary: 2,
            involuntary: 3,
        }
    }
}
