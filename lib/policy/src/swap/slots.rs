// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The running task of each CPU, and the CPUs for which a task waits.

use super::input::{Allowed, Runner, Snapshot, State};
use crate::cpuset::CpuSet;
use crate::table::{CpuCapacity, MAX_CPUS};

/// A CPU and its running task.
pub(super) struct CpuSlot<'a> {
    pub cpu: &'a CpuCapacity,
    pub runner: Option<&'a Runner>,
    /// The snapshot lists the CPU twice, or two tasks running on it, so its task is unknown.
    doubtful: bool,
}

/// CPUs and their running tasks, by CPU number.
pub(super) struct Slots<'a> {
    slots: Vec<Option<CpuSlot<'a>>>,
}

impl<'a> Slots<'a> {
    /// Assign the running tasks of `snapshot` to their CPUs.
    pub(super) fn new(snapshot: &Snapshot<'a>) -> Self {
        let mut slots: Vec<Option<CpuSlot>> = Vec::new();
        let known = snapshot.cpus.iter().filter(|cpu| cpu.cpu < MAX_CPUS);
        slots.resize_with(known.clone().map(|cpu| cpu.cpu as usize + 1).max().unwrap_or(0), || None);
        for cpu in known {
            if let Some(slot) = slots.get_mut(cpu.cpu as usize) {
                *slot = Some(CpuSlot { cpu, runner: None, doubtful: slot.is_some() });
            }
        }
        for runner in snapshot.runners.iter().filter(|runner| runner.state == State::Running) {
            if let Some(slot) = slots.get_mut(runner.cpu as usize).and_then(Option::as_mut) {
                slot.doubtful |= slot.runner.is_some();
                slot.runner = Some(runner);
            }
        }
        Self { slots }
    }

    /// Return the entry of a CPU; None if the CPU is unknown.
    pub(super) fn get(&self, cpu: u32) -> Option<&CpuSlot<'a>> {
        self.slots.get(cpu as usize)?.as_ref()
    }

    /// Iterate over the CPUs that have exactly one running task, in ascending order.
    pub(super) fn taken(&self) -> impl Iterator<Item = (&'a CpuCapacity, &'a Runner)> {
        self.slots
            .iter()
            .flatten()
            .filter(|slot| !slot.doubtful)
            .filter_map(|slot| Some((slot.cpu, slot.runner?)))
    }
}

/// Return the pids that the snapshot lists as running more than once, in ascending order. The CPU
/// of such a task is unknown.
pub(super) fn doubles(snapshot: &Snapshot) -> Vec<u32> {
    let running = snapshot.runners.iter().filter(|runner| runner.state == State::Running);
    let mut pids: Vec<u32> = running.map(|runner| runner.pid).collect();
    pids.sort_unstable();
    pids.chunk_by(|a, b| a == b)
        .filter(|same| same.len() > 1)
        .filter_map(|same| same.first().copied())
        .collect()
}

/// Return the CPUs whose next dispatch chooses a task anyway, because a task of their node that may
/// run on them waits.
///
/// Fast CPUs serve the slow DSQs too, so the class of the DSQ does not matter. Each distinct limit
/// is evaluated once per node.
pub(super) fn awaited(snapshot: &Snapshot, slots: &Slots, passing_ns: u64) -> CpuSet {
    let waits = |runner: &&Runner| match runner.state {
        State::Waiting { since_ns } => snapshot.now_ns.saturating_sub(since_ns) >= passing_ns,
        State::Running => false,
    };
    let mut limits: Vec<(u32, Allowed)> = snapshot
        .runners
        .iter()
        .filter(waits)
        .filter_map(|runner| Some((slots.get(runner.cpu)?.cpu.node, runner.allowed)))
        .collect();
    limits.sort_unstable();
    limits.dedup();
    let mut awaited = CpuSet::default();
    for same_node in limits.chunk_by(|a, b| a.0 == b.0) {
        let Some((node, _)) = same_node.first() else { continue };
        let of_node: CpuSet = slots
            .slots
            .iter()
            .flatten()
            .filter(|slot| slot.cpu.node == *node)
            .map(|slot| slot.cpu.cpu)
            .collect();
        for (_, allowed) in same_node {
            awaited.unite(&snapshot.confines(*allowed).map_or(of_node, |set| set.common(&of_node)));
        }
    }
    awaited
}
