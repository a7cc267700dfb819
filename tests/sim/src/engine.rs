// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Construction of an engine from a case, and its event loop.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use anyhow::Result;

use crate::agent;
use crate::case::{Case, FIRST_PID, Fault, TaskSpec};
use crate::ffi;
use crate::host;
use crate::kernel::Kernel;
use crate::kernel::cpu::Cpu;
use crate::kernel::dsq::Dsqs;
use crate::kernel::events::Event;
use crate::kernel::groups::Groups;
use crate::kernel::memory::Memory;
use crate::kernel::stacks::Stacks;
use crate::kernel::state::Totals;
use crate::kernel::task::{RawTask, Task};
use crate::kernel::timer::BpfTimers;
use crate::kernel::trace::Trace;
use crate::kernel::watch::Watch;
use crate::machine::Machine;
use crate::mask::{Mask, SharedMask};
use crate::oracle::AUDIT_NS;
use crate::rng::Rng;
use crate::unit::{Image, Unit};

/// A memory policy. Tasks only read it.
struct Policy(ffi::mempolicy);

// SAFETY: nothing writes it.
unsafe impl Sync for Policy {}

/// The policy of tasks whose memory is spread over all nodes (`MPOL_INTERLEAVE`).
static INTERLEAVED: Policy = Policy(ffi::mempolicy { mode: 3 });

/// Return the task that the kernel sees.
fn task(spec: &TaskSpec, id: usize, nr_cpus: usize, groups: &Groups) -> Task {
    let raw = RawTask::new(&format!("task{id}"), (FIRST_PID + id) as i32);
    raw.change(|raw| {
        raw.sim_id = id as u32;
        raw.scx.weight = spec.weight;
        raw.sched_task_group = groups.address(spec.group);
        raw.policy = 7;
        if spec.kthread {
            raw.flags |= ffi::PF_KTHREAD;
        }
        if spec.interleaved {
            raw.mempolicy = (&raw const INTERLEAVED.0).cast_mut();
        }
    });
    let task = Task::new(raw);
    let cpus = spec.cpus.as_ref().map(|cpus| cpus.iter().copied().collect());
    task.set_affinity(&cpus.unwrap_or_else(|| Mask::first_cpus(nr_cpus)));
    task
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
        let (groups, programs) = (Groups::new(&case.groups), case.programs());
        let kernel = Rc::new(Self {
            programs,
            cpus: (0..nr_cpus).map(Cpu::new).collect(),
            tasks: case.tasks.iter().enumerate().map(|(id, spec)| task(spec, id, nr_cpus, &groups)).collect(),
            dsqs: Dsqs::default(),
            online: SharedMask::new(all),
            idle_cpus: SharedMask::new(all),
            idle_cores: SharedMask::new(all),
            single_cpus: (0..nr_cpus).map(|cpu| SharedMask::new([cpu].into_iter().collect())).collect(),
            groups,
            memory: Memory::new(nr_cpus),
            trace: Trace::new(case.trace, case.trace || case.record),
            watch: Watch::default(),
            bpf_timers: BpfTimers::default(),
            now_ns: Cell::new(0),
            here: Cell::new(0),
            deciding: (0..nr_cpus).map(|_| Cell::new(None)).collect(),
            fault: RefCell::default(),
            counters: Totals::default(),
            queue: RefCell::default(),
            rng: Rng::new(case.seed),
            stacks: Stacks::default(),
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

    fn start(self: &Rc<Self>) -> Result<()> {
        for cpu in 0..self.cpus.len() {
            // Ticks are not aligned: each CPU has its own offset.
            self.push(self.random(self.case.tick_ns) + 1, Event::Tick(cpu));
        }
        let err = self.op_init();
        if err != 0 {
            anyhow::bail!("ops.init returned {err}");
        }
        for (task, spec) in self.case.tasks.iter().enumerate() {
            if let Some(start_ns) = spec.start_ns {
                self.push(start_ns, Event::Start(task));
            }
        }
        for at in 0..self.case.disturbances.len() {
            self.push(self.case.disturbances[at].at_ns, Event::Disturb(at));
        }
        self.push(AUDIT_NS, Event::Audit);
        Ok(())
    }

    /// Run until `until_ns`, or until a rule is broken.
    pub fn run_until(self: &Rc<Self>, until_ns: u64) {
        loop {
            if self.is_broken() {
                return;
            }
            let Some((at_ns, event)) = self.queue.borrow_mut().pop(until_ns) else { break };
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
        self.audit_shares();
        self.audit_steps();
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
            Event::Deferred(_, of) => self.carry_out_deferred(of),
            Event::Deactivate(cpu) => self.deactivate(cpu),
            Event::RqOffline(cpu) => self.rq_offline(cpu),
            Event::WaitEmpty(cpu) => self.wait_empty(cpu),
            Event::Timer(task) => self.timer(task),
            Event::BpfTimer(_, start) => self.bpf_timer_expires(start),
            Event::Start(task) => self.start_task(task),
            Event::HigherEnds(cpu, stay) => self.higher_ends(cpu, stay),
            Event::Disturb(at) => self.disturb(at),
            Event::Resume(_) => {}
            Event::Audit => self.audit(),
        }
    }
}
