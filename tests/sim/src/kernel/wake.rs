// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Wakeups and new tasks (try_to_wake_up(), wake_up_new_task()).

use super::Kernel;
use super::cpu::Curr;
use super::events::Event;
use super::task::{Blocking, Life, TaskId};
use crate::flags::{self, ENQ_NONE, SLICE_DFL};
use crate::mask::Mask;

/// Delay of the next start of a kernel thread whose CPU is offline [ns].
const RETRY_NS: u64 = 1_000_000;

impl Kernel {
    /// A task's timer expires.
    pub(crate) fn timer(&self, task: TaskId) {
        let this = &self.tasks[task];
        let sleeps = this.life.get() == Life::Blocked && this.asleep_on.get() == Some(Blocking::Timer);
        if sleeps && !self.is_parked_kthread(task) {
            self.wake(task, false);
        } else {
            this.timer_fired.set(true);
        }
    }

    /// Wake a task that waits for another one, or let its next wait pass.
    pub(crate) fn give_token(&self, task: TaskId, sync: bool) {
        let this = &self.tasks[task];
        let sleeps = this.life.get() == Life::Blocked && this.asleep_on.get() == Some(Blocking::Token);
        if sleeps && !self.is_parked_kthread(task) {
            self.wake(task, sync);
        } else {
            this.tokens.set(this.tokens.get() + 1);
        }
    }

    /// Wake a task from this CPU (try_to_wake_up()).
    pub(crate) fn wake(&self, task: TaskId, sync: bool) {
        let this = &self.tasks[task];
        this.life.set(Life::Waking);
        this.asleep_on.set(None);
        self.pi_lock(task);
        self.wait_while("the end of a switch", || this.on_cpu.get() && !self.is_broken());
        this.raw.change(|raw| raw.__state = 0);
        let flags = flags::WAKE_TTWU | if sync { flags::WAKE_SYNC } else { 0 };
        self.trace.line(self.now(), || format!("wake task {task} sync {sync} from cpu {}", self.here.get()));
        let (cpu, selected) = self.select(task, flags);
        this.life.set(Life::Active);
        self.activate(cpu, task, flags::ENQ_WAKEUP | selected, true);
        self.pi_unlock(task);
    }

    /// Start a new task from this CPU (copy_process(), wake_up_new_task()).
    pub(crate) fn start_task(&self, task: TaskId) {
        let this = &self.tasks[task];
        if this.life.get() != Life::New {
            return;
        }
        if self.is_parked_kthread(task) {
            self.push(self.now() + RETRY_NS, Event::Start(task));
            return;
        }
        let here = self.here.get();
        this.life.set(Life::Waking);
        self.pi_lock(task);
        this.raw.change(|raw| {
            raw.thread_info.cpu = here as u32;
            raw.start_boottime = self.now_ns.get() + 1;
            raw.scx.slice = SLICE_DFL;
        });
        self.trace.line(self.now(), || format!("start task {task} on cpu {here}"));
        self.op_init_task(task, true);
        self.op_enable(task);
        let (cpu, selected) = self.select(task, flags::WAKE_FORK);
        this.life.set(Life::Active);
        self.activate(cpu, task, ENQ_NONE | selected, false);
        self.pi_unlock(task);
    }

    /// Choose a CPU (select_task_rq(), select_task_rq_scx()), and return it with the flag that
    /// reports it to ops.enqueue.
    fn select(&self, task: TaskId, wake_flags: u64) -> (usize, u64) {
        let this = &self.tasks[task];
        let prev = this.cpu();
        let several = this.raw.read(|raw| raw.nr_cpus_allowed > 1) && !this.migration_disabled();
        let (cpu, flag) = if several {
            let cpu = self.op_select_cpu(task, prev, wake_flags);
            let valid = usize::try_from(cpu).is_ok_and(|cpu| cpu < self.cpus.len());
            if !valid {
                self.broken("select_cpu", format!("ops.select_cpu returned {cpu} for task {task}"));
            }
            let flag = if self.case.release.tells_selection() { flags::ENQ_CPU_SELECTED } else { 0 };
            (if valid { cpu as usize } else { prev }, flag)
        } else {
            (this.allowed().next(0).unwrap_or(prev), 0)
        };
        // A task whose migration is disabled may run on a CPU until the CPU is gone
        // (is_cpu_allowed()).
        let up = self.online.get().has(cpu) || (this.migration_disabled() && self.is_present(cpu));
        let cpu = if this.allowed().has(cpu) && up { cpu } else { self.fallback(task) };
        self.set_cpu(task, cpu);
        (cpu, flag)
    }

    /// Return an online CPU that the task may run on. Widen its affinity if there is none
    /// (select_fallback_rq()).
    pub(crate) fn fallback(&self, task: TaskId) -> usize {
        let this = &self.tasks[task];
        let online = self.online.get();
        if let Some(cpu) = this.allowed().and(&online).next(0) {
            return cpu;
        }
        this.set_affinity(&Mask::first_cpus(self.cpus.len()));
        self.trace.line(self.now(), || format!("affinity of task {task} is widened"));
        self.online_near(this.cpu())
    }

    /// Make a task runnable on `cpu` (ttwu_do_activate(), with what follows it).
    fn activate(&self, cpu: usize, task: TaskId, enq_flags: u64, wakeup: bool) {
        let this = &self.cpus[cpu];
        self.lock(cpu);
        this.in_wakeup.set(wakeup);
        self.enqueue(cpu, task, enq_flags, false, false);
        this.in_wakeup.set(false);
        self.wakeup_preempt(cpu);
        // task_woken_scx()
        self.run_deferred(cpu);
        self.unlock(cpu);
    }

    /// An idle CPU gives way to a task that becomes runnable on it (wakeup_preempt()).
    pub(crate) fn wakeup_preempt(&self, cpu: usize) {
        if self.cpus[cpu].curr.get() == Curr::Idle {
            self.resched(cpu);
        }
    }
}
