// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Insertion of tasks into queues and removal (enqueue_task_scx(), dequeue_task_scx()).

use std::rc::Rc;

use super::Kernel;
use super::cpu::Curr;
use super::events::Event;
use super::task::{Place, TaskId};
use crate::flags::{self, ENQ_PRIQ, SAVE_RESTORE, SLICE_DFL};

impl Kernel {
    /// Make a task runnable on `cpu` (enqueue_task_scx()). `sticky`: it goes to the local DSQ.
    /// `migrating`: it was runnable on another CPU.
    pub(crate) fn enqueue(&self, cpu: usize, task: TaskId, enq_flags: u64, sticky: bool, migrating: bool) {
        let this = &self.tasks[task];
        if this.queued() {
            return;
        }
        this.set_queued(true);
        this.migrating.set(false);
        self.set_runnable(task);
        let running = self.cpus[cpu].curr.get() == Curr::Task(task);
        if !running && this.waiting_since_ns.get() == 0 {
            this.waiting_since_ns.set(self.now());
        }
        if !migrating {
            self.op_runnable(task, enq_flags);
        }
        let sticky = sticky || (enq_flags & SAVE_RESTORE != 0 && running);
        self.do_enqueue(cpu, task, enq_flags, sticky);
    }

    /// Note since when a task is runnable, if it has run (set_task_runnable()).
    pub(crate) fn set_runnable(&self, task: TaskId) {
        if self.tasks[task].has_run.replace(false) {
            self.tasks[task].raw.change(|raw| raw.scx.runnable_at = self.jiffies());
        }
    }

    /// Find a queue for a runnable task (do_enqueue_task()).
    pub(crate) fn do_enqueue(&self, cpu: usize, task: TaskId, enq_flags: u64, sticky: bool) {
        let this = &self.tasks[task];
        if sticky {
            this.direct.set(None);
            self.insert_local(cpu, task, enq_flags);
            return;
        }
        if !self.rq_online(cpu) {
            this.set_slice(SLICE_DFL);
            this.direct.set(None);
            self.insert_local(cpu, task, enq_flags);
            return;
        }
        if this.direct.get().is_none() {
            self.trace.line(self.now(), || format!("enqueue task {task} cpu {cpu} flags {enq_flags:#x}"));
            self.op_enqueue(task, enq_flags);
        }
        match this.direct.get() {
            Some((dsq, flags)) => self.direct_dispatch(cpu, task, dsq, flags | enq_flags),
            None => self.broken("lost", format!("ops.enqueue inserts task {task} nowhere")),
        }
    }

    /// Carry out the insertion that ops.select_cpu or ops.enqueue decided (direct_dispatch()).
    fn direct_dispatch(&self, cpu: usize, task: TaskId, dsq: u64, enq_flags: u64) {
        let this = &self.tasks[task];
        if let Some(target) = self.local_target(cpu, dsq) {
            if target != cpu {
                this.direct.set(Some((dsq, enq_flags)));
                this.place.set(Place::Deferred(cpu));
                self.cpus[cpu].deferred.borrow_mut().push_back(task);
                self.schedule_deferred(cpu);
                return;
            }
            this.direct.set(None);
            self.insert_local(cpu, task, enq_flags);
            return;
        }
        this.direct.set(None);
        self.insert_user(task, dsq, enq_flags);
    }

    /// Return the CPU whose local DSQ `dsq` names, seen from `cpu`. None for another DSQ.
    pub(crate) fn local_target(&self, cpu: usize, dsq: u64) -> Option<usize> {
        if dsq == flags::DSQ_LOCAL {
            return Some(cpu);
        }
        if dsq & flags::DSQ_LOCAL_ON != flags::DSQ_LOCAL_ON {
            return None;
        }
        let target = (dsq & flags::DSQ_LOCAL_CPU_MASK) as usize;
        if target < self.cpus.len() {
            return Some(target);
        }
        self.broken("dsq", format!("SCX_DSQ_LOCAL_ON of CPU {target}, which does not exist"));
        Some(cpu)
    }

    /// Schedule deferred insertions for soon (schedule_deferred()).
    pub(crate) fn schedule_deferred(&self, cpu: usize) {
        let this = &self.cpus[cpu];
        if this.in_wakeup.get() {
            return;
        }
        if this.in_balance.get() {
            this.deferred_callback.set(true);
            return;
        }
        // The interrupt comes to this CPU, for the runqueue of `cpu`.
        self.push(self.now() + self.delay(self.case.irq_ns), Event::Deferred(self.here.get(), cpu));
    }

    /// Insert a task into the local DSQ of `cpu` (dispatch_enqueue(), local_dsq_post_enq()).
    pub(crate) fn insert_local(&self, cpu: usize, task: TaskId, enq_flags: u64) {
        let this = &self.cpus[cpu];
        self.tasks[task].place.set(Place::Local(cpu));
        if enq_flags & (flags::ENQ_HEAD | flags::ENQ_PREEMPT) != 0 {
            this.local.borrow_mut().push_front(task);
        } else {
            this.local.borrow_mut().push_back(task);
        }
        self.trace.line(self.now(), || format!("local task {task} cpu {cpu}"));
        if this.in_balance.get() {
            return;
        }
        match this.curr.get() {
            Curr::Task(curr) if enq_flags & flags::ENQ_PREEMPT != 0 && curr != task => {
                self.tasks[curr].set_slice(0);
                self.resched(cpu);
            }
            Curr::Idle => self.resched(cpu),
            Curr::Task(_) | Curr::RealTime | Curr::Stopper => {}
        }
    }

    pub(crate) fn insert_user(&self, task: TaskId, id: u64, enq_flags: u64) {
        let this = &self.tasks[task];
        if id == flags::DSQ_GLOBAL {
            self.insert_global(task);
            return;
        }
        let Some(dsq) = self.dsqs.get(id) else {
            self.broken("dsq", format!("task {task} is inserted into DSQ {id:#x}, which does not exist"));
            return;
        };
        let vtime = (enq_flags & ENQ_PRIQ != 0).then(|| this.raw.read(|raw| raw.scx.dsq_vtime));
        match dsq.insert(task, vtime) {
            Some(key) => {
                this.key.set(key);
                this.place.set(Place::User(id));
                this.placed_ns.set(self.now());
                self.trace.line(self.now(), || format!("queue task {task} dsq {id:#x} vtime {}", key.0));
            }
            None => self.broken("dsq", format!("DSQ {id:#x} is used both as a FIFO and by vtime")),
        }
    }

    /// Insert a task into the kernel's global DSQ.
    pub(crate) fn insert_global(&self, task: TaskId) {
        if let Some(key) = self.dsqs.global.insert(task, None) {
            self.tasks[task].key.set(key);
            self.tasks[task].place.set(Place::Global);
        }
    }

    /// Remove a task from its queue (dispatch_dequeue()).
    pub(crate) fn dispatch_dequeue(&self, task: TaskId) {
        let this = &self.tasks[task];
        match this.place.replace(Place::None) {
            Place::Local(cpu) => self.cpus[cpu].local.borrow_mut().retain(|other| *other != task),
            Place::Deferred(cpu) => self.cpus[cpu].deferred.borrow_mut().retain(|other| *other != task),
            Place::User(id) => {
                if let Some(dsq) = self.dsqs.get(id) {
                    Rc::as_ref(&dsq).remove(this.key.get());
                }
            }
            Place::Global => self.dsqs.global.remove(this.key.get()),
            // The CPU that holds it notices that it is gone.
            Place::Moving(_) | Place::None => {}
        }
    }

    /// Make a task not runnable on `cpu` (dequeue_task_scx()).
    pub(crate) fn dequeue(&self, cpu: usize, task: TaskId, deq_flags: u64, migrating: bool) {
        let this = &self.tasks[task];
        if !this.queued() {
            return;
        }
        if self.cpus[cpu].curr.get() == Curr::Task(task) {
            self.update_curr(cpu);
            self.op_stopping(task, false);
        }
        if !migrating {
            self.op_quiescent(task, deq_flags);
            this.waiting_since_ns.set(0);
        }
        this.set_queued(false);
        this.migrating.set(migrating);
        self.dispatch_dequeue(task);
        this.direct.set(None);
    }
}
