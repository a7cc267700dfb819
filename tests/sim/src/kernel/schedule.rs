// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! A switch: `__schedule()` of core.c with the functions of the ext class that it calls.

use super::Kernel;
use super::cpu::Curr;
use super::events::Event;
use super::task::{Blocking, Life, RawTask, TaskId};
use crate::flags::{self, DEQUEUE_SLEEP, ENQ_NONE, SLICE_DFL, SLICE_INF};

/// Time that the stopper needs to push a task away [ns].
const STOPPER_NS: u64 = 3_000;

impl Kernel {
    /// Return the structure of the task that `cpu` runs, its `current`.
    pub(crate) fn current_raw(&self, cpu: usize) -> &RawTask {
        self.raw_of(cpu, self.cpus[cpu].curr.get())
    }

    fn raw_of(&self, cpu: usize, curr: Curr) -> &RawTask {
        match curr {
            Curr::Idle => &self.cpus[cpu].idle_task,
            Curr::Task(task) => &self.tasks[task].raw,
            Curr::RealTime => &self.cpus[cpu].realtime_task,
            Curr::Stopper => &self.cpus[cpu].stopper_task,
        }
    }

    /// Reschedule `cpu` (resched_curr()): mark its task and interrupt the CPU if it is another one.
    pub(crate) fn resched(&self, cpu: usize) {
        if self.cpus[cpu].need_resched.replace(true) {
            return;
        }
        if cpu != self.here.get() {
            self.push(self.now() + self.delay(self.case.ipi_ns), Event::Resched(cpu));
        }
    }

    /// Switch `cpu` to the next task (__schedule()).
    pub(crate) fn schedule(&self, cpu: usize) {
        let this = &self.cpus[cpu];
        self.lock(cpu);
        let prev = this.curr.get();
        self.update_curr(cpu);
        if let Curr::Task(task) = prev {
            self.block(cpu, task);
        }
        self.balance(cpu, prev);
        let next = self.pick(cpu, prev);
        if next == prev {
            if let Curr::Task(task) = next
                && self.tasks[task].slice() == 0
            {
                self.tasks[task].set_slice(SLICE_DFL);
            }
            if next == Curr::Idle {
                // pick_task_idle() marks the CPU again.
                self.update_idle(cpu, true);
            }
        } else {
            self.put_prev(cpu, prev, next);
            self.set_next(cpu, next);
        }
        // __schedule() clears what was set during the pick.
        this.need_resched.set(this.resched_next.take());
        if next != prev {
            self.switch(cpu, prev, next);
        }
        if this.deferred_callback.take() {
            self.run_deferred(cpu);
        }
        if !self.online.get().has(cpu) {
            self.balance_push(cpu);
        }
        self.unlock(cpu);
        self.plan(cpu);
    }

    /// Dequeue the running task if it blocks (try_to_block_task()).
    fn block(&self, cpu: usize, task: TaskId) {
        let this = &self.tasks[task];
        let Some(blocking) = this.blocking.take() else { return };
        let cancelled = match blocking {
            Blocking::Timer => this.timer_fired.take(),
            Blocking::Token => this.tokens.get() > 0,
            Blocking::End => false,
        };
        if cancelled {
            if blocking == Blocking::Token {
                this.tokens.set(this.tokens.get() - 1);
            }
            this.raw.change(|raw| raw.__state = 0);
            return;
        }
        this.asleep_on.set(Some(blocking));
        self.dequeue(cpu, task, DEQUEUE_SLEEP, false);
        this.life.set(if blocking == Blocking::End { Life::Dead } else { Life::Blocked });
    }

    /// Let the ext class fetch a task (prev_balance(); in 7.x the pick itself does it).
    fn balance(&self, cpu: usize, prev: Curr) {
        let this = &self.cpus[cpu];
        this.keep.set(false);
        let higher = self.higher(cpu).is_some();
        let skip = higher && (prev.is_higher() || !self.case.release.balances_below_higher());
        if !skip {
            self.balance_one(cpu, prev);
        }
    }

    /// Return the class above sched_ext that wants `cpu`.
    pub(crate) fn higher(&self, cpu: usize) -> Option<Curr> {
        let this = &self.cpus[cpu];
        if !this.stops.borrow().is_empty() {
            Some(Curr::Stopper)
        } else if this.realtime_ns.get() > 0 {
            Some(Curr::RealTime)
        } else {
            None
        }
    }

    /// Pick what runs next (__pick_next_task(), pick_task_scx()).
    fn pick(&self, cpu: usize, prev: Curr) -> Curr {
        if let Some(higher) = self.higher(cpu) {
            return higher;
        }
        if self.cpus[cpu].keep.get() {
            return prev;
        }
        let first = self.cpus[cpu].local.borrow().front().copied();
        let Some(task) = first else { return Curr::Idle };
        if self.tasks[task].slice() == 0 {
            self.tasks[task].set_slice(SLICE_DFL);
        }
        Curr::Task(task)
    }

    fn put_prev(&self, cpu: usize, prev: Curr, next: Curr) {
        match prev {
            Curr::Task(task) => self.put_prev_task(cpu, task, next),
            Curr::Idle => self.update_idle(cpu, false),
            Curr::RealTime | Curr::Stopper => {}
        }
    }

    /// Put the running task back (put_prev_task_scx()).
    fn put_prev_task(&self, cpu: usize, task: TaskId, next: Curr) {
        let this = &self.tasks[task];
        self.update_curr(cpu);
        if this.queued() {
            self.op_stopping(task, true);
            self.set_runnable(task);
            this.waiting_since_ns.set(self.now());
            if this.slice() > 0 {
                self.insert_local(cpu, task, flags::ENQ_HEAD);
            } else if next == Curr::Idle {
                self.do_enqueue(cpu, task, flags::ENQ_LAST, false);
                if self.case.release.reschedules_after_last()
                    && this.place.get() == super::task::Place::Local(cpu)
                {
                    self.cpus[cpu].resched_next.set(true);
                }
            } else {
                self.do_enqueue(cpu, task, ENQ_NONE, false);
            }
        }
        let reports = !self.case.release.reenqueues_for_all();
        if reports && next.is_higher() && !self.cpus[cpu].released.replace(true) {
            // switch_class()
            self.op_cpu_release(cpu, next == Curr::Stopper);
        }
    }

    fn set_next(&self, cpu: usize, next: Curr) {
        match next {
            Curr::Task(task) => self.set_next_task(cpu, task),
            Curr::Idle => {
                self.update_idle(cpu, true);
                self.cpus[cpu].idle_since_ns.set(self.now());
            }
            Curr::RealTime | Curr::Stopper => {}
        }
    }

    /// Make `task` the running one (set_next_task_scx()).
    pub(crate) fn set_next_task(&self, cpu: usize, task: TaskId) {
        let this = &self.tasks[task];
        let queued = this.queued();
        if queued {
            self.dispatch_dequeue(task);
        }
        self.cpus[cpu].progress.charged_ns.set(self.now());
        this.raw.change(|raw| raw.se.exec_start = self.now());
        if queued {
            self.op_running(task);
        }
        // clr_task_runnable()
        this.has_run.set(true);
        // Only here does the kernel check whether the tick may stop (scx_can_stop_tick()).
        let stops = this.slice() == SLICE_INF && self.case.nohz_full.contains(&cpu);
        self.cpus[cpu].tick_stopped.set(stops);
    }

    /// Change the context of `cpu` (context_switch()).
    fn switch(&self, cpu: usize, prev: Curr, next: Curr) {
        let this = &self.cpus[cpu];
        self.tp_switch(true, self.raw_of(cpu, prev).address(), self.raw_of(cpu, next).address());
        self.trace.switch(self.now(), cpu, prev, next);
        self.clock_switch(cpu, prev, next);
        this.curr.set(next);
        let was_busy = prev != Curr::Idle;
        this.progress.counted_ns.set(self.now() + self.case.switch_ns);
        if let Curr::Task(task) = prev {
            self.switched_out(cpu, task);
        }
        match next {
            Curr::Task(task) => self.switched_in(cpu, task),
            Curr::RealTime => self.stay(cpu, this.realtime_ns.get()),
            Curr::Stopper => self.stay(cpu, STOPPER_NS),
            Curr::Idle => {}
        }
        if was_busy != (next != Curr::Idle) {
            self.siblings_change(cpu);
        }
    }

    fn switched_out(&self, cpu: usize, task: TaskId) {
        let this = &self.tasks[task];
        this.on_cpu.set(false);
        if this.migration_disabled() {
            // migrate_disable_switch()
            this.raw.change(|raw| raw.cpus_ptr = self.single_cpus[cpu].address());
        }
    }

    fn switched_in(&self, cpu: usize, task: TaskId) {
        let this = &self.tasks[task];
        this.on_cpu.set(true);
        this.running_since_ns.set(self.now());
        self.counters.switches.set(self.counters.switches.get() + 1);
        this.stats.switches.set(this.stats.switches.get() + 1);
        let since = this.waiting_since_ns.take();
        if since > 0 {
            let waited = self.now() - since;
            this.stats.waited_ns.set(this.stats.waited_ns.get() + waited);
            this.stats.longest_wait_ns.set(this.stats.longest_wait_ns.get().max(waited));
            if self.case.record {
                this.stats.waits_ns.borrow_mut().push(waited);
            }
        }
        if this.cpu() != cpu {
            self.broken("cpu", format!("task {task} of CPU {} runs on CPU {cpu}", this.cpu()));
        }
        if !this.allowed().has(cpu) && !self.cpus[cpu].stops.borrow().contains(&task) {
            self.broken("affinity", format!("task {task} runs on CPU {cpu}, which it may not"));
        }
    }

    /// Plan the end of a higher class's stay on `cpu`.
    fn stay(&self, cpu: usize, time_ns: u64) {
        let this = &self.cpus[cpu];
        this.higher_stay.set(this.higher_stay.get() + 1);
        self.push(self.now() + time_ns, Event::HigherEnds(cpu, this.higher_stay.get()));
    }

    /// The higher class leaves `cpu`.
    pub(crate) fn higher_ends(&self, cpu: usize, stay: u64) {
        let this = &self.cpus[cpu];
        if this.higher_stay.get() != stay {
            return;
        }
        match this.curr.get() {
            Curr::RealTime => this.realtime_ns.set(0),
            Curr::Stopper => {
                let next = this.stops.borrow_mut().pop_front();
                if let Some(task) = next {
                    self.push_away(cpu, task);
                }
                if !this.stops.borrow().is_empty() {
                    self.stay(cpu, STOPPER_NS);
                    return;
                }
            }
            Curr::Idle | Curr::Task(_) => return,
        }
        this.need_resched.set(true);
    }
}
