// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The event queue. Events of the same instant come in an order that the seed decides.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::task::TaskId;

/// An event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// The timer of a CPU ticks.
    Tick(usize),
    /// The phase of a CPU's task ends, by the plan of this number.
    PhaseEnds(usize, u64),
    /// The interrupt that makes a CPU reschedule arrives.
    Resched(usize),
    /// The interrupt in which a CPU kicks others.
    Kicks(usize),
    /// The interrupt in which a CPU carries out the deferred insertions of another one, or its own.
    Deferred(usize, usize),
    /// A task's timer expires.
    Timer(TaskId),
    /// A timer of BPF code expires on this CPU, by the start of this number.
    BpfTimer(usize, u64),
    /// A task starts.
    Start(TaskId),
    /// A CPU that goes offline leaves the active mask.
    Deactivate(usize),
    /// sched_ext counts a CPU as offline from now on.
    RqOffline(usize),
    /// A CPU that goes offline checks whether a task is left on it.
    WaitEmpty(usize),
    /// The higher class leaves a CPU, by the stay of this number.
    HigherEnds(usize, u64),
    /// A disturbance of the case happens.
    Disturb(usize),
    /// A suspended activity resumes.
    Resume(usize),
    /// The oracles check the state.
    Audit,
}

/// Events in the order of time.
#[derive(Debug, Default)]
pub struct Events {
    heap: BinaryHeap<Reverse<(u64, u32, u64, Event)>>,
    pushed: u64,
}

impl Events {
    /// Add an event. `tie` orders events of the same time.
    pub fn push(&mut self, at_ns: u64, tie: u32, event: Event) {
        self.pushed += 1;
        self.heap.push(Reverse((at_ns, tie, self.pushed, event)));
    }

    /// Remove the next event up to `until_ns`.
    pub fn pop(&mut self, until_ns: u64) -> Option<(u64, Event)> {
        if self.heap.peek()?.0.0 > until_ns {
            return None;
        }
        self.heap.pop().map(|Reverse((at_ns, _, _, event))| (at_ns, event))
    }

    /// Return the number of events so far.
    #[must_use]
    pub fn pushed(&self) -> u64 {
        self.pushed
    }
}
