// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! State of the engine, and functions that every part needs.

use std::cell::{Cell, OnceCell, RefCell};

use super::cpu::Cpu;
use super::dsq::Dsqs;
use super::events::{Event, Events};
use super::groups::Groups;
use super::memory::Memory;
use super::stacks::Stacks;
use super::task::{Task, TaskId};
use super::timer::BpfTimers;
use super::trace::{Stay, Trace};
use super::watch::Watch;
use crate::case::{Case, Disturbance, Fault};
use crate::ffi;
use crate::load::Program;
use crate::machine::Machine;
use crate::mask::SharedMask;
use crate::rng::Rng;
use crate::unit::Unit;

/// The engine.
pub struct Kernel {
    pub(crate) case: Case,
    pub(crate) machine: Machine,
    pub(crate) programs: Vec<Program>,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) dsqs: Dsqs,
    /// CPUs that are active (`cpu_active_mask`).
    pub(crate) online: SharedMask,
    pub(crate) idle_cpus: SharedMask,
    pub(crate) idle_cores: SharedMask,
    pub(crate) single_cpus: Vec<SharedMask>,
    pub(crate) groups: Groups,
    pub(crate) memory: Memory,
    pub(crate) trace: Trace,
    pub(crate) watch: Watch,
    pub(crate) bpf_timers: BpfTimers,
    pub(crate) now_ns: Cell<u64>,
    pub(crate) here: Cell<usize>,
    /// Task that ops.select_cpu or ops.enqueue decides about on each CPU.
    pub(crate) deciding: Vec<Cell<Option<TaskId>>>,
    pub(crate) fault: RefCell<Option<Fault>>,
    pub(crate) counters: Totals,
    pub(crate) queue: RefCell<Events>,
    pub(crate) rng: Rng,
    pub(crate) stacks: Stacks,
    pub(crate) host: Box<ffi::sim_host>,
    pub(crate) unit: OnceCell<Unit>,
}

/// Counts over a whole run.
#[derive(Debug, Default)]
pub struct Totals {
    /// Events handled.
    pub events: Cell<u64>,
    /// Switches to another task.
    pub switches: Cell<u64>,
    /// DSQs that ops.dispatch asked for a task.
    pub visits: Cell<u64>,
    /// Tasks that the kernel visited in DSQs to find one that may run on a CPU.
    pub walked: Cell<u64>,
    /// Most steps of one callback, see [`Kernel::steps`].
    pub longest: Cell<(u64, &'static str)>,
    /// Stores to words that several CPUs write.
    pub shared_stores: Cell<u64>,
    /// Callbacks.
    pub callbacks: Cell<u64>,
}

impl Kernel {
    /// Return the loaded scheduler. It is set before anything else runs.
    #[allow(clippy::expect_used)]
    pub(crate) fn unit(&self) -> &ffi::sim_unit {
        self.unit.get().expect("new() sets it first").get()
    }

    /// Return the sum over CPUs of a statistic of the scheduler (`enum bias_stat`).
    pub(crate) fn stat(&self, stat: u32) -> u64 {
        let cpus = self.unit().cpu_ctxs;
        // SAFETY: the unit has BIAS_MAX_CPUS contexts, more than a machine has CPUs, and no program
        // runs.
        (0..self.cpus.len()).map(|cpu| unsafe { (*cpus.add(cpu)).stats[stat as usize] }).sum()
    }

    /// Return the time in which the scheduler counted cycles [ns].
    pub(crate) fn counted_ns(&self) -> u64 {
        let cpus = self.unit().cpu_ctxs;
        // SAFETY: as in `stat()`.
        (0..self.cpus.len()).map(|cpu| unsafe { (*cpus.add(cpu)).seen_ns }).sum()
    }

    /// Return the time [ns].
    #[must_use]
    pub fn now(&self) -> u64 {
        self.now_ns.get()
    }

    /// Return the first broken rule.
    #[must_use]
    pub fn fault(&self) -> Option<Fault> {
        self.fault.borrow().clone()
    }

    /// Report a broken rule. The run ends; the first report stays.
    pub(crate) fn broken(&self, rule: &str, what: impl Into<String>) {
        let mut fault = self.fault.borrow_mut();
        if fault.is_none() {
            let what = what.into();
            self.trace.line(self.now(), || format!("BROKEN {rule}: {what}"));
            *fault = Some(Fault { rule: rule.into(), what, at_ns: self.now() });
        }
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.fault.borrow().is_some()
    }

    /// Return a number below `bound`, by the seed.
    pub(crate) fn random(&self, bound: u64) -> u64 {
        self.rng.below(bound)
    }

    /// Return a time from `range` [ns], by the seed.
    pub(crate) fn delay(&self, range: (u64, u64)) -> u64 {
        range.0 + self.random(range.1.saturating_sub(range.0) + 1)
    }

    /// Add an event. Events of the same instant come in a random order.
    pub(crate) fn push(&self, at_ns: u64, event: Event) {
        let tie = self.random(1 << 16) as u32;
        self.queue.borrow_mut().push(at_ns.max(self.now()), tie, event);
    }

    /// Return the CPU whose interrupts an event needs, None if it needs none.
    pub(crate) fn cpu_of(&self, event: Event) -> Option<usize> {
        match event {
            Event::Tick(cpu)
            | Event::PhaseEnds(cpu, _)
            | Event::Resched(cpu)
            | Event::Kicks(cpu)
            | Event::Deferred(cpu, _)
            | Event::Deactivate(cpu)
            | Event::RqOffline(cpu)
            | Event::WaitEmpty(cpu)
            | Event::HigherEnds(cpu, _) => Some(cpu),
            Event::BpfTimer(cpu, _) => Some(self.online_near(cpu)),
            Event::Timer(task) => Some(self.online_near(self.tasks[task].cpu())),
            Event::Start(task) => Some(self.online_near(self.case.tasks[task].start_cpu)),
            Event::Disturb(at) => match self.case.disturbances[at].what {
                Disturbance::RealTime { cpu, .. } => Some(cpu),
                // A system call of some task that the load does not contain, on any CPU.
                _ => Some(self.online_near(at % self.cpus.len())),
            },
            Event::Resume(_) | Event::Audit => None,
        }
    }

    /// Return `cpu` if it is online, else another CPU.
    pub(crate) fn online_near(&self, cpu: usize) -> usize {
        let online = self.online.get();
        online.next(cpu).or_else(|| online.next(0)).unwrap_or(0)
    }

    /// Return the stays on CPUs up to now, if the case records them.
    #[must_use]
    pub fn stays(&self) -> Vec<Stay> {
        self.trace.stays(self.now(), self.cpus.iter().map(|cpu| cpu.curr.get()))
    }

    /// Return the waits of each task up to now [ns], if the case records them.
    #[must_use]
    pub fn waits_so_far(&self) -> Vec<Vec<u64>> {
        let of = |task: &Task| {
            let mut waits = task.stats.waits_ns.borrow().clone();
            let since_ns = task.waiting_since_ns.get();
            waits.extend((since_ns > 0).then(|| self.now() - since_ns));
            waits
        };
        self.tasks.iter().map(of).collect()
    }

    /// Return the text of the trace.
    #[must_use]
    pub fn trace_text(&self) -> String {
        self.trace.text()
    }

    /// Return the trace for Perfetto.
    #[must_use]
    pub fn perfetto(&self) -> String {
        self.trace.perfetto()
    }

    /// Return the number of writes by `bpf/` to words that other CPUs write, too. Only the traced
    /// variant counts stores other than atomic operations.
    #[must_use]
    pub fn shared_writes(&self) -> u64 {
        // SAFETY: a global of the loaded scheduler; no BPF code runs now.
        let atomics = unsafe { *self.unit().atomics };
        atomics + self.counters.shared_stores.get()
    }

    /// Return the numbers of events, switches, DSQs visited, and steps of loops so far.
    #[must_use]
    pub fn counts_so_far(&self) -> (u64, u64, u64, u64) {
        let counts = &self.counters;
        (counts.events.get(), counts.switches.get(), counts.visits.get(), self.steps())
    }

    /// Return the number of steps so far: of loops in BPF code, and of walks in kfuncs.
    pub(crate) fn steps(&self) -> u64 {
        // SAFETY: a global of the loaded scheduler; no BPF code runs at the same time.
        unsafe { *self.unit().steps + self.counters.walked.get() }
    }
}
