// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! CPUs that go offline and come online (sched_cpu_deactivate(), sched_cpu_activate()).
//!
//! # Approach
//!
//! The hotplug thread of a CPU that goes offline takes these steps:
//!
//! 0. A tracepoint reports that the CPU is about to leave the active mask. The kernel may refuse
//!    that (dl_bw_deactivate()).
//! 1. The CPU is no longer active. Tasks enqueued on it go to its local DSQ, wakeups go elsewhere,
//!    and balance_push() has the stopper push away each task that a switch selects.
//! 2. After a grace period sched_ext counts the CPU as offline and calls ops.cpu_offline. The CPU
//!    no longer calls ops.dispatch. It takes tasks only from its local DSQ and the global one.
//! 3. The thread waits until no task is left (sched_cpu_wait_empty()). A task that stays in a DSQ
//!    of the scheduler, and that only this CPU may run, would block the thread for ever.
//!
//! Late 6.12.y moves the CPU's tasks to its local DSQ in step 2, and calls ops.dispatch until then.
//! Kernel threads bound to the CPU run until they sleep, and then wait until the CPU is back.
//!
//! # Limits
//!
//! The hotplug thread is not a task here: it needs no CPU time, and no other task delays it.

use super::Kernel;
use super::cpu::Curr;
use super::events::Event;
use super::task::{Blocking, Life, Place, TaskId};
use crate::flags::SAVE_RESTORE;

/// Least and longest time from the tracepoint until the CPU leaves the active mask [ns].
const MARK_NS: (u64, u64) = (1_000, 100_000);

/// The kernel refuses one attempt in this many.
const REFUSES: u64 = 16;

/// Least and longest grace period (synchronize_rcu()) [ns].
const GRACE_NS: (u64, u64) = (200_000, 10_000_000);

/// Time between two checks whether a CPU is empty [ns].
const LOOK_NS: u64 = 500_000;

/// Time within which tasks must leave that only this CPU may run [ns]. A task whose migration is
/// disabled leaves when it enables migration.
const EMPTY_NS: u64 = 100_000_000;

/// Time within which all tasks must leave [ns]. Tasks in shared DSQs wait for other CPUs.
const ALL_EMPTY_NS: u64 = 1_000_000_000;

impl Kernel {
    /// Begin to take `cpu` offline.
    pub(crate) fn offline(&self, cpu: usize) {
        let active = self.online.get();
        // One lock serialises all hotplug.
        let busy = self.cpus.iter().any(|this| this.leaves_ns.get().is_some());
        if busy || !active.has(cpu) || active.count() == 1 || cpu == self.here.get() {
            return;
        }
        self.cpus[cpu].leaves_ns.set(Some(self.now()));
        self.tp_hotplug(cpu, true);
        self.push(self.now() + self.delay(MARK_NS), Event::Deactivate(cpu));
    }

    /// `cpu` leaves the active mask, or the kernel refuses that.
    pub(crate) fn deactivate(&self, cpu: usize) {
        let this = &self.cpus[cpu];
        if self.random(REFUSES) == 0 {
            this.leaves_ns.set(None);
            self.tp_hotplug(cpu, false);
            // The hotplug thread sleeps.
            self.resched(cpu);
            return;
        }
        self.online.set(cpu, false);
        this.leaves_ns.set(Some(self.now()));
        this.realtime_ns.set(0);
        // The hotplug thread sleeps until the grace period is over.
        self.resched(cpu);
        self.push(self.now() + self.delay(GRACE_NS), Event::RqOffline(cpu));
    }

    /// sched_ext counts `cpu` as offline from now on (rq_offline_scx(), scx_rq_deactivate()).
    pub(crate) fn rq_offline(&self, cpu: usize) {
        let this = &self.cpus[cpu];
        this.online.set(false);
        if self.case.release.drains_offline() {
            self.drain(cpu);
        }
        self.op_cpu_online(cpu, false);
        this.need_resched.set(true);
        this.leaves_ns.set(Some(self.now()));
        self.push(self.now() + LOOK_NS, Event::WaitEmpty(cpu));
    }

    /// Check that no CPU outside of the active mask idles beside a task that only it may run. The
    /// grace period waits for a task that was preempted inside of rcu_read_lock().
    pub(crate) fn audit_leaving(&self, idle_ns: u64) {
        let active = self.online.get();
        // While higher classes have all other CPUs, none dispatches.
        let dispatches = active.iter().any(|cpu| !self.cpus[cpu].curr.get().is_higher());
        for (cpu, this) in self.cpus.iter().enumerate() {
            let idles = this.curr.get() == Curr::Idle && this.idle_since_ns.get() + idle_ns < self.now();
            if !dispatches || !idles || this.leaves_ns.get().is_none() || active.has(cpu) {
                continue;
            }
            let waits = |task: &TaskId| {
                let that = &self.tasks[*task];
                matches!(that.place.get(), Place::User(_))
                    && that.placed_ns.get() + idle_ns < self.now()
                    && that.cpu() == cpu
                    && (that.migration_disabled() || self.bound_to(*task, cpu))
                    && !self.is_parked(*task)
            };
            if let Some(task) = (0..self.tasks.len()).find(waits) {
                self.broken("leaving", format!("CPU {cpu}, which leaves, idles beside its task {task}"));
            }
        }
    }

    /// Enqueue all waiting tasks of `cpu` again, which puts them into its local DSQ.
    fn drain(&self, cpu: usize) {
        for task in 0..self.tasks.len() {
            let this = &self.tasks[task];
            self.lock(cpu);
            let runs = self.cpus[cpu].curr.get() == Curr::Task(task);
            let waits = this.queued() && !this.migrating.get() && this.place.get() != Place::Local(cpu);
            if this.cpu() == cpu && waits && !runs {
                self.dequeue(cpu, task, SAVE_RESTORE, false);
                self.enqueue(cpu, task, SAVE_RESTORE, false, false);
            }
            self.unlock(cpu);
        }
    }

    /// Return true for a task that `cpu` must get rid of. Sleeping kernel threads are parked.
    fn must_leave(&self, cpu: usize, task: TaskId) -> bool {
        let this = &self.tasks[task];
        this.cpu() == cpu && (this.queued() || (this.migration_disabled() && this.life.get() != Life::Dead))
    }

    /// Check whether `cpu` is empty and may end (sched_cpu_wait_empty()).
    pub(crate) fn wait_empty(&self, cpu: usize) {
        let this = &self.cpus[cpu];
        let Some(since_ns) = this.leaves_ns.get() else { return };
        let stay = || (0..self.tasks.len()).filter(|task| self.must_leave(cpu, *task));
        let bound = |task: &TaskId| self.tasks[*task].migration_disabled() || self.bound_to(*task, cpu);
        let (any, own) = (stay().next(), stay().find(bound));
        if any.is_none() {
            this.leaves_ns.set(None);
            return;
        }
        let waited_ns = self.now() - since_ns;
        let late = if waited_ns > ALL_EMPTY_NS { any } else { None };
        // A task without quota leaves when its period ends.
        if (0..self.tasks.len()).any(|task| self.tasks[task].cpu() == cpu && self.is_parked(task)) {
            this.leaves_ns.set(Some(self.now()));
        } else if let Some(task) = own.filter(|_| waited_ns > EMPTY_NS).or(late) {
            let rule = if own.is_some() { "offline" } else { "offline-late" };
            let place = self.tasks[task].place.get();
            self.broken(rule, format!("CPU {cpu} stays online: task {task} is still there, in {place:?}"));
        }
        self.push(self.now() + LOOK_NS, Event::WaitEmpty(cpu));
    }

    /// Have the stopper push away what a switch on a CPU that is not active has selected, unless it
    /// is bound to the CPU (balance_push()).
    pub(crate) fn balance_push(&self, cpu: usize) {
        let Curr::Task(task) = self.cpus[cpu].curr.get() else { return };
        if !self.is_bound_kthread(task) && !self.tasks[task].migration_disabled() {
            self.stop_for(cpu, task);
        }
    }

    /// Return true for a task that only `cpu` may run.
    fn bound_to(&self, task: TaskId, cpu: usize) -> bool {
        let affinity = self.tasks[task].affinity();
        affinity.count() == 1 && affinity.has(cpu)
    }

    /// Return true for a kernel thread of one CPU (kthread_is_per_cpu()).
    fn is_bound_kthread(&self, task: TaskId) -> bool {
        let this = &self.tasks[task];
        self.case.tasks[task].kthread && this.affinity().count() == 1
    }

    /// Return true for a kernel thread whose CPU is offline or about to be (kthread_park()).
    pub(crate) fn is_parked_kthread(&self, task: TaskId) -> bool {
        self.is_bound_kthread(task) && self.tasks[task].affinity().and(&self.online.get()).is_empty()
    }

    /// Bring `cpu` online. Return false if it is about to go offline: the caller tries again.
    pub(crate) fn bring_online(&self, cpu: usize) -> bool {
        let this = &self.cpus[cpu];
        if this.leaves_ns.get().is_some() {
            return false;
        }
        if self.online.get().has(cpu) {
            return true;
        }
        self.online.set(cpu, true);
        self.op_cpu_online(cpu, true);
        this.online.set(true);
        if this.curr.get() == Curr::Idle {
            this.idle_since_ns.set(self.now());
            this.clock.since_ns.set(self.now());
            self.update_idle(cpu, true);
        }
        // The CPU's own hotplug thread has done this and sleeps.
        self.resched(cpu);
        for task in (0..self.tasks.len()).filter(|task| self.is_bound_kthread(*task)) {
            if self.tasks[task].affinity().has(cpu) {
                self.unpark_kthread(task);
            }
        }
        true
    }

    /// Wake a kernel thread that has slept since its CPU went offline, if it is due.
    fn unpark_kthread(&self, task: TaskId) {
        let this = &self.tasks[task];
        let due = match this.asleep_on.get() {
            Some(Blocking::Timer) => this.timer_fired.take(),
            Some(Blocking::Token) if this.tokens.get() > 0 => {
                this.tokens.set(this.tokens.get() - 1);
                true
            }
            _ => false,
        };
        if due && this.life.get() == Life::Blocked {
            self.wake(task, false);
        }
    }

    /// Return true if tasks may be enqueued for `cpu` to schedule them (scx_rq_online()).
    pub(crate) fn rq_online(&self, cpu: usize) -> bool {
        self.cpus[cpu].online.get() && self.online.get().has(cpu)
    }

    /// Return true if `cpu` may call ops.dispatch.
    pub(crate) fn may_dispatch(&self, cpu: usize) -> bool {
        self.cpus[cpu].online.get() && (self.case.release.drains_offline() || self.online.get().has(cpu))
    }

    /// Return true while `cpu` takes interrupts (cpu_online()).
    pub(crate) fn is_present(&self, cpu: usize) -> bool {
        self.online.get().has(cpu) || self.cpus[cpu].leaves_ns.get().is_some()
    }
}
