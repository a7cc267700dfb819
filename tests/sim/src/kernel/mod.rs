//! The engine: what sched_ext promises, as discrete events in virtual time.
//!
//! # Problem
//!
//! The scheduler's callbacks are correct only in the order, and under the locks, in which the
//! kernel calls them. So each rule here follows a function of `kernel/sched/ext.c` (in 7.x
//! `kernel/sched/ext/ext.c`) or of `kernel/sched/core.c`, which its comment names.
//!
//! # Approach
//!
//! Time advances from event to event. An event runs an *activity*: what one CPU does in the kernel
//! with interrupts off, such as a tick or a switch. All state is in cells, so that a callback can
//! come back into the engine through a kfunc while the engine waits for it.
//!
//! An activity takes no virtual time by itself. With [`Case::interleave`], it runs on a stack of its
//! own and may be suspended at each kfunc (and, with traced code, at each access to shared memory).
//! Other CPUs run meanwhile. Runqueue locks then keep out what the kernel's locks keep out.
//!
//! # Invariants
//!
//! Equal cases give equal traces: nothing depends on addresses, time or hash seeds. A task is in at
//! most one queue. A broken rule stops the run with a [`Fault`] and is never repaired silently.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use anyhow::Result;

use crate::agent;
use crate::case::{Case, Disturbance};
use crate::ffi;
use crate::host;
use crate::load::Program;
use crate::machine::Machine;
use crate::mask::{Mask, SharedMask};
use crate::oracle::Oracle;
use crate::rng::Rng;
use crate::trace::Trace;
use crate::unit::{Image, Unit};

pub mod activity;
pub mod callbacks;
pub mod change;
pub mod cpu;
pub mod dispatch;
pub mod dsq;
pub mod enqueue;
pub mod events;
pub mod groups;
pub mod hotplug;
pub mod idle;
pub mod kick;
pub mod memory;
pub mod perform;
pub mod progress;
pub mod release;
pub mod schedule;
pub mod task;
pub mod tick;
pub mod wake;

use cpu::Cpu;
use dsq::Dsqs;
use events::{Event, Events};
use task::{Task, TaskId};

pub use release::Release;

/// A broken rule.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Interleave {
    /// Probability that an activity is suspended at a point [permille].
    pub permille: u32,
    /// Longest suspension [ns].
    pub longest_ns: u64,
    /// Suspend also at accesses to shared memory.
    pub memory: bool,
}

/// The engine.
pub struct Kernel {
    pub(crate) case: Case,
    pub(crate) machine: Machine,
    pub(crate) programs: Vec<Program>,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) dsqs: Dsqs,
    pub(crate) online: SharedMask,
    pub(crate) idle_cpus: SharedMask,
    pub(crate) idle_cores: SharedMask,
    pub(crate) single_cpus: Vec<SharedMask>,
    pub(crate) groups: groups::Groups,
    pub(crate) memory: memory::Memory,
    pub(crate) trace: Trace,
    pub(crate) oracle: Oracle,
    pub(crate) now_ns: Cell<u64>,
    pub(crate) here: Cell<usize>,
    /// Task that ops.select_cpu or ops.enqueue decides about on each CPU.
    pub(crate) deciding: Vec<Cell<Option<TaskId>>>,
    pub(crate) fault: RefCell<Option<Fault>>,
    pub(crate) counters: Totals,
    events: RefCell<Events>,
    rng: Rng,
    stacks: activity::Stacks,
    host: Box<ffi::sim_host>,
    unit: OnceCell<Unit>,
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
    /// Callbacks.
    pub callbacks: Cell<u64>,
}

impl Kernel {
    /// Build the machine and the load of `case`, load the scheduler from `image`, and start both.
    ///
    /// # Errors
    /// Fail if the case is impossible or the image cannot be loaded.
    pub fn new(case: Case, image: Image<'_>) -> Result<Rc<Self>> {
        let machine = Machine::parse(&case.machine)?;
        case.check(&machine)?;
        let nr_cpus = machine.cpus.len();
        let all = Mask::first_cpus(nr_cpus);
        let (groups, programs) = (groups::Groups::new(&case.groups), case.programs());
        let kernel = Rc::new(Self {
            programs,
            cpus: (0..nr_cpus).map(Cpu::new).collect(),
            tasks: case.tasks.iter().enumerate().map(|(id, spec)| spec.task(id, nr_cpus, &groups)).collect(),
            dsqs: Dsqs::default(),
            online: SharedMask::new(all),
            idle_cpus: SharedMask::new(all),
            idle_cores: SharedMask::new(all),
            single_cpus: (0..nr_cpus).map(|cpu| SharedMask::new([cpu].into_iter().collect())).collect(),
            groups,
            memory: memory::Memory::new(nr_cpus),
            trace: Trace::new(case.trace),
            oracle: Oracle::default(),
            now_ns: Cell::new(0),
            here: Cell::new(0),
            deciding: (0..nr_cpus).map(|_| Cell::new(None)).collect(),
            fault: RefCell::default(),
            counters: Totals::default(),
            events: RefCell::default(),
            rng: Rng::new(case.seed),
            stacks: activity::Stacks::default(),
            host: Box::new(host::table()),
            unit: OnceCell::new(),
            machine,
            case,
        });
        let host = std::ptr::from_ref(&*kernel.host).cast_mut();
        // SAFETY: the functions of host::table() expect the address of a Kernel. The unit is a
        // field of this one and ends with it.
        let unit = unsafe { Unit::open(image, host, Rc::as_ptr(&kernel).cast_mut().cast()) }?;
        drop(kernel.unit.set(unit));
        agent::start(&kernel)?;
        kernel.start()?;
        Ok(kernel)
    }

    /// Return the loaded scheduler. It is set before anything else runs.
    #[allow(clippy::expect_used)]
    pub(crate) fn unit(&self) -> &ffi::sim_unit {
        self.unit.get().expect("new() sets it first").get()
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
        self.events.borrow_mut().push(at_ns.max(self.now()), tie, event);
    }

    fn start(self: &Rc<Self>) -> Result<()> {
        let err = self.op_init();
        if err != 0 {
            anyhow::bail!("ops.init returned {err}");
        }
        for cpu in 0..self.cpus.len() {
            // Ticks are not aligned: each CPU has its own offset.
            self.push(self.random(self.case.tick_ns) + 1, Event::Tick(cpu));
        }
        for (task, spec) in self.case.tasks.iter().enumerate() {
            if let Some(start_ns) = spec.start_ns {
                self.push(start_ns, Event::Start(task));
            }
        }
        for at in 0..self.case.disturbances.len() {
            self.push(self.case.disturbances[at].at_ns, Event::Disturb(at));
        }
        self.push(crate::oracle::AUDIT_NS, Event::Audit);
        Ok(())
    }

    /// Run until `until_ns`, or until a rule is broken.
    pub fn run_until(self: &Rc<Self>, until_ns: u64) {
        loop {
            if self.is_broken() {
                return;
            }
            let Some((at_ns, event)) = self.events.borrow_mut().pop(until_ns) else { break };
            self.now_ns.set(at_ns);
            self.counters.events.set(self.counters.events.get() + 1);
            self.begin(event);
        }
        self.now_ns.set(until_ns);
    }

    /// Run the whole case, let every task end, and check the final state.
    ///
    /// # Errors
    /// Return the first broken rule.
    pub fn run(self: &Rc<Self>) -> Result<(), Fault> {
        self.run_until(self.case.duration_ns);
        for cpu in 0..self.cpus.len() {
            self.sync(cpu);
        }
        self.final_checks();
        self.fault().map_or(Ok(()), Err)
    }

    /// Carry out an event. `here` is a CPU on which interrupts are on.
    pub(crate) fn handle(&self, event: Event) {
        match event {
            Event::Tick(cpu) => self.tick(cpu),
            Event::PhaseEnds(cpu, plan) => self.phase_ends(cpu, plan),
            Event::Resched(_) => {}
            Event::Kicks(cpu) => self.carry_out_kicks(cpu),
            Event::Deferred(cpu) => self.carry_out_deferred(cpu),
            Event::Timer(task) => self.timer(task),
            Event::Start(task) => self.start_task(task),
            Event::HigherEnds(cpu, stay) => self.higher_ends(cpu, stay),
            Event::Disturb(at) => self.disturb(at),
            Event::Resume(_) => {}
            Event::Audit => self.audit(),
        }
    }

    /// Return the CPU whose interrupts an event needs, None if it needs none.
    pub(crate) fn cpu_of(&self, event: Event) -> Option<usize> {
        match event {
            Event::Tick(cpu)
            | Event::PhaseEnds(cpu, _)
            | Event::Resched(cpu)
            | Event::Kicks(cpu)
            | Event::Deferred(cpu)
            | Event::HigherEnds(cpu, _) => Some(cpu),
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
}

impl Kernel {
    /// Return the text of the trace.
    #[must_use]
    pub fn trace_text(&self) -> String {
        self.trace.text()
    }
}

impl Kernel {
    /// Return the trace for Perfetto.
    #[must_use]
    pub fn perfetto(&self) -> String {
        self.trace.perfetto()
    }

    /// Return the numbers of events, switches, DSQs visited, and steps of bounded loops so far.
    #[must_use]
    pub fn counts_so_far(&self) -> (u64, u64, u64, u64) {
        let counts = &self.counters;
        // SAFETY: a global of the loaded scheduler; no BPF code runs now.
        let steps = unsafe { *self.unit().steps };
        (counts.events.get(), counts.switches.get(), counts.visits.get(), steps)
    }
}
