// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! How a CPU without a task gets one (balance_one()), and insertions into other CPUs' local DSQs.

use super::Kernel;
use super::cpu::Curr;
use super::dsq::Dsq;
use super::task::{Place, TaskId};
use crate::flags::{self, ENQ_NONE};

/// Rounds of ops.dispatch before the CPU takes a break (`SCX_DSP_MAX_LOOPS`).
const MAX_LOOPS: u32 = 32;

impl Kernel {
    /// Get a task into the local DSQ of `cpu`, or decide to keep `prev` (balance_one()).
    pub(crate) fn balance_one(&self, cpu: usize, prev: Curr) {
        let this = &self.cpus[cpu];
        this.in_balance.set(true);
        this.keep.set(self.find_task(cpu, prev));
        this.in_balance.set(false);
    }

    /// Return true if `prev` keeps running.
    fn find_task(&self, cpu: usize, prev: Curr) -> bool {
        let this = &self.cpus[cpu];
        this.released.set(false);
        let prev_task = if let Curr::Task(task) = prev { Some(task) } else { None };
        let runnable = prev_task.filter(|task| self.tasks[*task].queued());
        let has_slice = || runnable.is_some_and(|task| self.tasks[task].slice() > 0);
        if has_slice() {
            return true;
        }
        if !this.local.borrow().is_empty() || self.consume(cpu, None) || !self.may_dispatch(cpu) {
            return false;
        }
        for _ in 0..MAX_LOOPS {
            this.dispatched.set(0);
            self.op_dispatch(cpu, prev_task);
            if has_slice() {
                return true;
            }
            if !this.local.borrow().is_empty() || self.consume(cpu, None) || this.dispatched.get() == 0 {
                return false;
            }
            if self.is_broken() {
                return false;
            }
        }
        self.kick(cpu, 0);
        false
    }

    /// Move the first task of a DSQ that may run on `cpu` to its local DSQ (consume_dispatch_q()).
    /// `id` is None for the global DSQ.
    pub(crate) fn consume(&self, cpu: usize, id: Option<u64>) -> bool {
        let user = id.and_then(|id| self.dsqs.get(id));
        let dsq: &Dsq = match (&user, id) {
            (Some(dsq), _) => dsq,
            (None, None) => &self.dsqs.global,
            (None, Some(id)) => {
                self.broken("dsq", format!("CPU {cpu} consumes DSQ {id:#x}, which does not exist"));
                return false;
            }
        };
        let mut after = None;
        while let Some((key, task)) = dsq.next(after, u64::MAX) {
            self.counters.walked.set(self.counters.walked.get() + 1);
            let this = &self.tasks[task];
            let from = this.cpu();
            if from == cpu {
                dsq.remove(key);
                self.insert_local(cpu, task, ENQ_NONE);
                return true;
            }
            if self.can_run_on(task, cpu, false) {
                if self.consume_remote(cpu, task, dsq) {
                    return true;
                }
                // Another CPU was first: start again.
                after = None;
                continue;
            }
            after = Some(key);
        }
        false
    }

    /// Move a task that belongs to another CPU (consume_remote_task()). This CPU's runqueue is
    /// unlocked meanwhile.
    fn consume_remote(&self, cpu: usize, task: TaskId, dsq: &Dsq) -> bool {
        let this = &self.tasks[task];
        let from = this.cpu();
        dsq.remove(this.key.get());
        this.place.set(Place::Moving(cpu));
        self.unlock(cpu);
        self.lock(from);
        if this.place.get() != Place::Moving(cpu) || this.cpu() != from {
            self.unlock(from);
            self.lock(cpu);
            return false;
        }
        self.move_to_local(task, from, cpu, ENQ_NONE);
        true
    }

    /// Move a task from the locked `from` to the local DSQ of `to`, which is then locked instead
    /// (move_remote_task_to_local_dsq()).
    fn move_to_local(&self, task: TaskId, from: usize, to: usize, enq_flags: u64) {
        self.dequeue(from, task, 0, true);
        self.set_cpu(task, to);
        self.unlock(from);
        self.lock(to);
        let enq_flags = if self.case.release.truncates_flags() { enq_flags & 0xffff_ffff } else { enq_flags };
        self.enqueue(to, task, enq_flags, true, true);
    }

    /// Move a task from DSQ `from`, where an iteration that began at `newest` found it, to the DSQ
    /// `to` (scx_dsq_move(), move_task_between_dsqs()), by `vtime` or as the last one. Return false
    /// if it has left. The runqueue of the CPU that dispatches is unlocked meanwhile. The callbacks
    /// of hotplug run without a lock.
    pub(crate) fn move_between(
        &self,
        task: TaskId,
        from: u64,
        newest: u64,
        to: u64,
        vtime: Option<u64>,
    ) -> bool {
        let (this, here) = (&self.tasks[task], self.here.get());
        let (dispatches, unlocked) = (self.cpus[here].in_balance.get(), self.cpus[here].in_hotplug.get());
        if !dispatches && !unlocked {
            self.broken("move", format!("CPU {here} moves task {task} outside of ops.dispatch"));
            return false;
        }
        let cpu = this.cpu();
        let other = unlocked || cpu != here;
        if other {
            if !unlocked {
                self.unlock(here);
            }
            self.lock(cpu);
        }
        let stays = this.place.get() == Place::User(from) && this.key.get().1 <= newest && this.cpu() == cpu;
        if stays {
            let was_parked = self.is_parked(task);
            self.dispatch_dequeue(task);
            if let Some(vtime) = vtime {
                this.raw.change(|raw| raw.scx.dsq_vtime = vtime);
            }
            self.insert_user(task, to, if vtime.is_some() { flags::ENQ_PRIQ } else { ENQ_NONE });
            if was_parked {
                // Until now it waited for its quota, from now on for a CPU.
                this.waiting_since_ns.set(self.now());
            }
        }
        if other {
            self.unlock(cpu);
            if !unlocked {
                self.lock(here);
            }
        }
        stays
    }

    /// Set the CPU that a task belongs to (set_task_cpu()).
    pub(crate) fn set_cpu(&self, task: TaskId, cpu: usize) {
        let this = &self.tasks[task];
        if this.cpu() != cpu {
            this.stats.migrations.set(this.stats.migrations.get() + 1);
            this.raw.change(|raw| raw.thread_info.cpu = cpu as u32);
        }
    }

    /// Return true if a task of another CPU may run on `cpu` (task_can_run_on_remote_rq()).
    fn can_run_on(&self, task: TaskId, cpu: usize, enforce: bool) -> bool {
        let this = &self.tasks[task];
        if this.migration_disabled() {
            if enforce {
                self.broken(
                    "insertion",
                    format!(
                        "task {task} has migration disabled on CPU {} and is inserted on CPU {cpu}",
                        this.cpu()
                    ),
                );
            }
            return false;
        }
        if !this.allowed().has(cpu) {
            if enforce {
                self.broken(
                    "insertion",
                    format!("task {task} may not run on CPU {cpu}, where it is inserted"),
                );
            }
            return false;
        }
        self.rq_online(cpu)
    }

    /// The interrupt for deferred insertions (deferred_irq_workfn()).
    pub(crate) fn carry_out_deferred(&self, cpu: usize) {
        self.lock(cpu);
        self.run_deferred(cpu);
        self.unlock(cpu);
    }

    /// Carry out the deferred insertions of `cpu`, which is locked
    /// (process_ddsp_deferred_locals()).
    pub(crate) fn run_deferred(&self, cpu: usize) {
        if self.cpus[cpu].reenqueue.take() {
            self.reenqueue_now(cpu);
        }
        loop {
            let next = self.cpus[cpu].deferred.borrow_mut().pop_front();
            let Some(task) = next else { return };
            let Some((dsq, flags)) = self.tasks[task].direct.take() else { continue };
            self.tasks[task].place.set(Place::None);
            let Some(to) = self.local_target(cpu, dsq) else { continue };
            self.dispatch_to_local(cpu, to, task, flags);
        }
    }

    /// Insert a task into another CPU's local DSQ (dispatch_to_local_dsq()).
    fn dispatch_to_local(&self, cpu: usize, to: usize, task: TaskId, enq_flags: u64) {
        let this = &self.tasks[task];
        let from = this.cpu();
        if from != to && !self.can_run_on(task, to, true) {
            self.insert_global(task);
            // Every CPU that looks for work serves the global DSQ.
            return;
        }
        this.place.set(Place::Moving(cpu));
        if cpu != from {
            self.unlock(cpu);
            self.lock(from);
        }
        let mut locked = from;
        if this.place.get() == Place::Moving(cpu) && this.cpu() == from {
            if from == to {
                self.insert_local(to, task, enq_flags);
            } else {
                self.move_to_local(task, from, to, enq_flags);
                locked = to;
            }
            if self.cpus[to].curr.get() == Curr::Idle {
                self.resched(to);
            }
        }
        if locked != cpu {
            self.unlock(locked);
            self.lock(cpu);
        }
    }

    /// Enqueue all tasks of the local DSQ again, now or soon (scx_bpf_reenqueue_local()).
    pub(crate) fn reenqueue_local(&self, cpu: usize) -> u32 {
        if !self.case.release.reenqueues_for_all() {
            return self.reenqueue_now(cpu);
        }
        self.cpus[cpu].reenqueue.set(true);
        self.schedule_deferred(cpu);
        0
    }

    fn reenqueue_now(&self, cpu: usize) -> u32 {
        let tasks: Vec<TaskId> = self.cpus[cpu].local.borrow().iter().copied().collect();
        let stops = self.cpus[cpu].stops.borrow().clone();
        let tasks: Vec<TaskId> = tasks.into_iter().filter(|task| !stops.contains(task)).collect();
        for task in &tasks {
            self.dispatch_dequeue(*task);
        }
        for task in &tasks {
            self.do_enqueue(cpu, *task, flags::ENQ_REENQ, false);
        }
        tasks.len() as u32
    }
}
