// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Oracles: rules that every run must keep, whatever the scheduler decides.
//!
//! # Approach
//!
//! The engine reports an illegal call immediately. An audit every [`AUDIT_NS`] finds what lasts: a
//! task that waits although a CPU idles, a fast CPU that idles although a slow one runs a task that
//! may migrate, a task in the local DSQ of an idle CPU, a request that is never carried out. Each
//! may last for its bound, because a tick, an interrupt or the end of a slice ends it.
//!
//! After the run all tasks end, and sums of weights must be zero.

use crate::case::Case;
use crate::ffi;
use crate::kernel::Kernel;
use crate::kernel::cpu::Curr;
use crate::kernel::events::Event;
use crate::kernel::task::{Life, Place, TaskId};
use crate::mask::Mask;

/// Time between two audits [ns]. Every [`AUDIT_TASKS`] tasks add as much, because an audit visits
/// all tasks.
pub const AUDIT_NS: u64 = 500_000;
const AUDIT_TASKS: u64 = 100;

/// Steps of loops in one callback, and of walks through DSQs in its kfuncs: some 100 us.
const MAX_STEPS: u64 = 2000;

/// Consecutive audits at which a runnable task may be in no queue.
const LOST_LOOKS: u32 = 3;

/// Bounds, in addition to ticks [ns].
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// A task waits while an allowed CPU idles. A wakee behind its waker waits for the tick after
    /// the waker's least slice.
    pub idle_ns: u64,
    /// A task is in a DSQ of the scheduler while an allowed CPU idles. A kick ends that. If other
    /// CPUs act during the insertion, a CPU that idles then may get none. The next tick ends it.
    pub queued_ns: u64,
    /// A task is in the local DSQ of an idle CPU. An interrupt ends that.
    pub stranded_ns: u64,
    /// A CPU idles without its mark, so that no wakeup finds it. An interrupt ends that.
    pub unmarked_ns: u64,
    /// A fast CPU idles while a task runs on a slow one, which it was running before.
    pub fast_idle_ns: u64,
    /// A move request is pending while its task runs.
    pub request_ns: u64,
    /// A CPU that runs SCHED_EXT tasks without a pause requests less than its maximum clock.
    pub clock_up_ns: u64,
    /// An idle CPU requests a clock.
    pub clock_down_ns: u64,
}

impl Bounds {
    /// Return the bounds of a case.
    #[must_use]
    pub fn new(case: &Case) -> Self {
        let tick_ns = case.tick_ns;
        Self {
            idle_ns: 3 * tick_ns + 2 * crate::agent::slice_min_ns(),
            // A CPU waits for a task whose affinity changed on the way (ARRIVAL_NS).
            queued_ns: 420_000 + if case.is_limited() || case.interleave.is_some() { tick_ns } else { 0 },
            stranded_ns: 200_000,
            unmarked_ns: 500_000,
            fast_idle_ns: 4 * tick_ns + 2_000_000,
            request_ns: 3 * tick_ns + 2_000_000,
            clock_up_ns: 20_000_000,
            clock_down_ns: 200_000_000,
        }
    }
}

impl Kernel {
    /// Check after each callback that the global vtime has not gone back.
    pub(crate) fn watch_clock(&self) {
        // SAFETY: the global is a u64, and no BPF code runs now.
        let now = unsafe { *self.unit().vtime_now };
        let before = self.watch.vtime_now.replace(now);
        if (now.wrapping_sub(before) as i64) < 0 {
            self.broken("clock", format!("the global vtime goes back from {before} to {now}"));
        }
    }

    /// Find rules that are broken for too long.
    pub(crate) fn audit(&self) {
        let looks_ns = AUDIT_NS * (1 + self.tasks.len() as u64 / AUDIT_TASKS);
        self.push(self.now() + looks_ns, Event::Audit);
        let bounds = Bounds::new(&self.case);
        self.audit_idle(&bounds);
        self.audit_starved();
        self.audit_lost();
        self.audit_queued(&bounds);
        self.audit_stranded(&bounds);
        self.audit_marks(&bounds);
        self.audit_fast(&bounds);
        self.audit_requests(&bounds);
        self.audit_leaving(bounds.idle_ns);
        self.audit_quotas();
        self.audit_owed();
        self.audit_clocks(&bounds);
    }

    /// Check that clocks follow load that comes and goes.
    fn audit_clocks(&self, bounds: &Bounds) {
        for (cpu, this) in self.cpus.iter().enumerate().filter(|(cpu, _)| self.online.get().has(*cpu)) {
            let (clock, since_ns) = (&this.clock, self.now() - this.clock.since_ns.get());
            let off = match this.curr.get() {
                Curr::Task(_) => since_ns > bounds.clock_up_ns && clock.target.get() < self.capacity(cpu),
                Curr::Idle => since_ns > bounds.clock_down_ns && clock.target.get() > 0,
                Curr::RealTime | Curr::Stopper => false,
            };
            if off {
                let what = format!("CPU {cpu} requests {} of {}", clock.target.get(), self.capacity(cpu));
                let since = format!("in {:?} for {} us", this.curr.get(), since_ns / 1000);
                self.broken("clock-request", format!("{what}, {since}"));
            }
        }
    }

    /// Check that a CPU that idles owes no weight to a cgroup.
    fn audit_owed(&self) {
        for cpu in (0..self.cpus.len()).filter(|cpu| self.idles(*cpu)) {
            // SAFETY: a global of this type and length.
            let owed = unsafe { (*self.unit().cpu_ctxs.add(cpu)).owed_weight };
            if owed != 0 {
                self.broken("owed", format!("CPU {cpu} idles and owes weight {owed} to a cgroup"));
            }
        }
    }

    /// Return true if `cpu` idles and has no interrupt under way that ends it.
    fn idles(&self, cpu: usize) -> bool {
        let this = &self.cpus[cpu];
        this.curr.get() == Curr::Idle
            && !this.need_resched.get()
            && !this.in_kernel.get()
            && self.online.get().has(cpu)
    }

    fn idle_for(&self, time_ns: u64) -> Mask {
        let since = |cpu: usize| self.cpus[cpu].idle_since_ns.get();
        (0..self.cpus.len()).filter(|cpu| self.idles(*cpu) && since(*cpu) + time_ns <= self.now()).collect()
    }

    pub(crate) fn waits(&self, task: TaskId) -> bool {
        let this = &self.tasks[task];
        this.life.get() == Life::Active && this.queued() && this.waiting_since_ns.get() > 0
    }

    /// Check that no runnable task waits while a CPU idles that it may run on.
    fn audit_idle(&self, bounds: &Bounds) {
        let idle = self.idle_for(bounds.idle_ns);
        for (task, this) in self.tasks.iter().enumerate() {
            if !self.waits(task) || self.is_parked(task) {
                continue;
            }
            let waited_ns = self.now() - this.waiting_since_ns.get();
            // The rule `offline` is for tasks of a CPU that is about to go offline.
            if matches!(this.place.get(), Place::Local(cpu) if self.cpus[cpu].leaves_ns.get().is_some()) {
                continue;
            }
            let confined = this.migration_disabled() || this.affinity_ns.get() + bounds.idle_ns > self.now();
            if waited_ns < bounds.idle_ns || confined {
                continue;
            }
            if let Some(cpu) = this.allowed().and(&idle).next(0) {
                let reports = self.case.release.reenqueues_for_all();
                let rule = match this.place.get() {
                    Place::Global => "idle-global",
                    // It should have been sent elsewhere when the CPU was taken.
                    Place::Local(at) if self.cpus[at].curr.get().is_higher() => {
                        if reports {
                            "idle-taken"
                        } else {
                            "idle-released"
                        }
                    }
                    _ if self.idle_cpus.get().has(cpu) => "idle",
                    _ => "idle-unmarked",
                };
                self.broken(
                    rule,
                    format!(
                        "task {task} waits for {} us in {:?} while CPU {cpu} idles for {} us",
                        waited_ns / 1000,
                        this.place.get(),
                        (self.now() - self.cpus[cpu].idle_since_ns.get()) / 1000
                    ),
                );
            }
        }
    }

    /// Check that every runnable task is in a queue or on a CPU, except during a switch or
    /// migration.
    fn audit_lost(&self) {
        let mut lost = self.watch.lost.borrow_mut();
        lost.resize(self.tasks.len(), (0, 0));
        for (task, (since, looks)) in lost.iter_mut().enumerate() {
            let this = &self.tasks[task];
            if !self.waits(task) || this.place.get() != Place::None || this.on_cpu.get() {
                *looks = 0;
            } else if *since == this.waiting_since_ns.get() {
                *looks += 1;
            } else {
                (*since, *looks) = (this.waiting_since_ns.get(), 1);
            }
            if *looks >= LOST_LOOKS {
                self.broken("lost", format!("task {task} is runnable and in no queue"));
                return;
            }
        }
    }

    /// Check that no task is in a DSQ while a CPU idles that serves it.
    fn audit_queued(&self, bounds: &Bounds) {
        let idle = self.idle_for(bounds.queued_ns);
        if idle.is_empty() {
            return;
        }
        for (task, this) in self.tasks.iter().enumerate() {
            let Place::User(dsq) = this.place.get() else { continue };
            let since = this.placed_ns.get().max(this.affinity_ns.get());
            if since + bounds.queued_ns > self.now() || this.migration_disabled() || self.is_parked(task) {
                continue;
            }
            let allowed = this.allowed().and(&idle).and(&self.idle_cpus.get());
            if let Some(cpu) = allowed.next(0).filter(|_| this.raw.read(|raw| raw.nr_cpus_allowed > 1)) {
                let rule = if self.case.is_limited() { "queued-unparked" } else { "queued" };
                let what = format!("task {task} is in DSQ {dsq:#x} for {} us", (self.now() - since) / 1000);
                self.broken(rule, format!("{what} while CPU {cpu} idles"));
            }
        }
    }

    /// Check that every idle CPU is marked, so that a wakeup finds it.
    fn audit_marks(&self, bounds: &Bounds) {
        let mut unmarked = self.watch.unmarked.borrow_mut();
        unmarked.resize(self.cpus.len(), 0);
        for (cpu, since) in unmarked.iter_mut().enumerate() {
            if !self.idles(cpu) || self.idle_cpus.get().has(cpu) {
                *since = 0;
            } else if *since == 0 {
                *since = self.now();
            } else if self.now() - self.cpus[cpu].idle_since_ns.get().max(*since) > bounds.unmarked_ns {
                self.broken("unmarked", format!("CPU {cpu} idles and is not marked idle"));
            }
        }
    }

    /// Check that no task stays in the local DSQ of an idle CPU.
    fn audit_stranded(&self, bounds: &Bounds) {
        let mut stranded = self.watch.stranded.borrow_mut();
        stranded.resize(self.cpus.len(), 0);
        for (cpu, since) in stranded.iter_mut().enumerate() {
            if !self.idles(cpu) || self.cpus[cpu].local.borrow().is_empty() {
                *since = 0;
            } else if *since == 0 {
                *since = self.now();
            } else if self.now() - self.cpus[cpu].idle_since_ns.get().max(*since) > bounds.stranded_ns {
                let task = self.cpus[cpu].local.borrow().front().copied().unwrap_or(0);
                self.broken("stranded", format!("task {task} is in the local DSQ of CPU {cpu}, which idles"));
            }
        }
    }

    /// Check that no fast core idles while a slow CPU of its node runs a task that may migrate.
    fn audit_fast(&self, bounds: &Bounds) {
        // The scheduler searches a part of a larger machine.
        let searches_all = self.machine.cpus.len() <= 64;
        if !self.case.moving || !searches_all || self.watch.table_ns.get() + bounds.fast_idle_ns > self.now()
        {
            return;
        }
        let slow_now = |cpu: usize| self.class_of(cpu) == ffi::BIAS_SLOW;
        let idle = self.idle_for(bounds.fast_idle_ns);
        let whole = |cpu: usize| self.machine.cpus[cpu].siblings.and_not(&idle).is_empty();
        let fast: Vec<usize> = idle.iter().filter(|cpu| !slow_now(*cpu) && whole(*cpu)).collect();
        if fast.is_empty() {
            return;
        }
        for cpu in (0..self.cpus.len()).filter(|cpu| slow_now(*cpu)) {
            let Curr::Task(task) = self.cpus[cpu].curr.get() else { continue };
            let this = &self.tasks[task];
            // A tick must see the task while it may migrate.
            let ticks_ns = if self.case.nohz_full.contains(&cpu) { self.case.remote_tick_ns } else { 0 };
            let since = this.running_since_ns.get().max(this.affinity_ns.get()).max(this.enabled_ns.get());
            let begins_ns = since.max(self.watch.table_ns.get() + ticks_ns);
            if this.migration_disabled() || begins_ns + bounds.fast_idle_ns > self.now() {
                continue;
            }
            let node = self.machine.cpus[cpu].node;
            let target =
                fast.iter().find(|fast| this.allowed().has(**fast) && self.machine.cpus[**fast].node == node);
            if let Some(target) = target {
                let idle_ns = self.now() - self.cpus[*target].idle_since_ns.get();
                self.broken(
                    "fast-idle",
                    format!(
                        "CPU {target} is fast and idles for {} us while task {task} runs on slow CPU {cpu}",
                        idle_ns / 1000
                    ),
                );
                return;
            }
        }
    }

    /// Return the class that the scheduler's table gives `cpu`.
    pub(crate) fn class_of(&self, cpu: usize) -> u32 {
        let unit = self.unit();
        // SAFETY: globals of these types and lengths; no BPF code runs now.
        unsafe {
            let copy = (*unit.table_seq & 1) as usize;
            (*unit.speeds.add(cpu * ffi::BIAS_TABLE_COPIES as usize + copy)).cpu_class
        }
    }

    /// Check that every request is carried out or dropped.
    fn audit_requests(&self, bounds: &Bounds) {
        let mut requests = self.watch.requests.borrow_mut();
        requests.resize(self.cpus.len(), (0, 0));
        for (cpu, request) in requests.iter_mut().enumerate() {
            // SAFETY: a global of this type and length; no BPF code runs now.
            let (move_to, move_pid, run_pid) = unsafe {
                let cctx = &*self.unit().cpu_ctxs.add(cpu);
                (cctx.move_to, cctx.move_pid, cctx.run_pid)
            };
            let runs = matches!(self.cpus[cpu].curr.get(), Curr::Task(_));
            // A request of the agent waits for the return of its task.
            if !runs || move_to == 0 || move_to != request.0 || (move_pid != 0 && move_pid != run_pid) {
                *request = (move_to, self.now());
            } else if self.now() - request.1 > bounds.request_ns {
                self.broken("request", format!("CPU {cpu} has the request {move_to:#x} for too long"));
            }
        }
    }

    /// Check that no callback makes more steps than [`MAX_STEPS`]: interrupts are off, and mostly a
    /// runqueue is locked. Skip cases whose callbacks interleave, because steps of other CPUs count
    /// there.
    pub(crate) fn audit_steps(&self) {
        let (steps, name) = self.counters.longest.get();
        if steps > MAX_STEPS {
            self.broken("steps", format!("one call of ops.{name} makes {steps} steps"));
        }
    }

    /// Let every task end, and check that no weight is left in any sum.
    pub(crate) fn final_checks(&self) {
        self.finish_activities();
        if self.is_broken() {
            return;
        }
        self.here.set(self.online_near(0));
        for task in 0..self.tasks.len() {
            if self.tasks[task].queued() {
                let cpu = self.tasks[task].cpu();
                // There its CPU adds what it owes to the sums of cgroups.
                self.here.set(cpu);
                self.lock(cpu);
                self.dequeue(cpu, task, crate::flags::DEQUEUE_SLEEP, false);
                self.unlock(cpu);
            }
        }
        let unit = self.unit();
        // SAFETY: globals of these types and lengths; no BPF code runs now.
        unsafe {
            let sum: i64 = (0..self.cpus.len()).map(|cpu| (*unit.cpu_ctxs.add(cpu)).weight).sum();
            if sum != 0 {
                self.broken(
                    "weight",
                    format!("the weight of all runnable tasks is {sum} after the last one"),
                );
            }
            for group in 0..unit.nr_groups as usize {
                let active = (*unit.groups.add(group)).active;
                if active != 0 {
                    self.broken("weight", format!("cgroup {group} has weight {active} after its last task"));
                }
            }
        }
    }
}
