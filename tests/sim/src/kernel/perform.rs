// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The steps of tasks' programs.

use super::Kernel;
use super::cpu::Curr;
use super::events::Event;
use super::task::{Blocking, TaskId};
use crate::ffi;
use crate::load::Op;

/// Work of a system call [ps on the reference CPU].
const SYSCALL_PS: u64 = 400_000;
/// State of a task that sleeps (`TASK_INTERRUPTIBLE`).
const SLEEPING: u32 = 1;

impl Kernel {
    /// The phase of `cpu`'s task ends, unless the plan is old.
    pub(crate) fn phase_ends(&self, cpu: usize, plan: u64) {
        let this = &self.cpus[cpu];
        if this.progress.plan.get() != plan {
            return;
        }
        let Curr::Task(task) = this.curr.get() else { return };
        self.sync(cpu);
        if self.tasks[task].left_ps.get() == 0 {
            self.step(cpu, task);
        }
        // A task that blocks leaves the CPU when the system call ends.
        if !this.need_resched.get() {
            self.plan(cpu);
        }
    }

    /// Carry out the next step of a running task.
    fn step(&self, cpu: usize, task: TaskId) {
        let this = &self.tasks[task];
        let program = &self.programs[task];
        let at = this.at.get();
        let Some(op) = program.ops.get(at) else {
            if program.repeat && !program.ops.is_empty() {
                this.at.set(0);
                this.rounds.set(this.rounds.get() + 1);
                self.work(task, SYSCALL_PS, [1000, 0, 0]);
            } else {
                self.end(cpu, task);
            }
            return;
        };
        this.at.set(at + 1);
        if let Op::Run { stack, work_ns } = op {
            self.work(task, work_ns * 1000, *stack);
            return;
        }
        self.work(task, SYSCALL_PS, [1000, 0, 0]);
        match op {
            Op::Run { .. } => {}
            Op::Sleep { ns } => self.sleep(cpu, task, *ns),
            Op::SleepUntil { period_ns } => {
                self.sleep(cpu, task, period_ns - self.now() % period_ns);
            }
            Op::Wait => self.block_on(cpu, task, Blocking::Token),
            Op::Wake { task, sync } => self.give_token(*task, *sync),
            Op::WakeAll { tasks } => {
                for task in tasks {
                    self.give_token(*task, false);
                }
            }
            Op::Barrier { members } => self.barrier(cpu, task, members),
            Op::Yield => {
                self.lock(cpu);
                self.update_curr(cpu);
                self.op_yield(task);
                self.unlock(cpu);
                self.cpus[cpu].need_resched.set(true);
            }
            Op::Hint { hint } => this.hint.set(Some(*hint)),
            Op::Spawn { task } => self.start_task(*task),
            Op::MigrateDisable => this.raw.change(|raw| raw.migration_disabled += 1),
            Op::MigrateEnable => self.migrate_enable(task),
            Op::End => self.end(cpu, task),
        }
    }

    fn work(&self, task: TaskId, work_ps: u64, stack: [u32; 3]) {
        self.tasks[task].left_ps.set(work_ps);
        self.tasks[task].stack.set(stack);
    }

    fn sleep(&self, cpu: usize, task: TaskId, ns: u64) {
        self.tasks[task].timer_fired.set(false);
        self.push(self.now() + ns + self.delay(self.case.timer_ns), Event::Timer(task));
        self.block_on(cpu, task, Blocking::Timer);
    }

    fn block_on(&self, cpu: usize, task: TaskId, blocking: Blocking) {
        let this = &self.tasks[task];
        this.blocking.set(Some(blocking));
        this.raw.change(|raw| raw.__state = SLEEPING);
        self.cpus[cpu].need_resched.set(true);
    }

    /// The last member that arrives wakes the others.
    fn barrier(&self, cpu: usize, task: TaskId, members: &[TaskId]) {
        let waits = |other: TaskId| {
            other == task || self.tasks[other].blocking.get() == Some(Blocking::Token) || {
                self.tasks[other].asleep_on.get() == Some(Blocking::Token)
            }
        };
        let alive = |other: TaskId| {
            !matches!(self.tasks[other].life.get(), super::task::Life::Dead | super::task::Life::New)
        };
        if members.iter().all(|other| waits(*other) || !alive(*other)) {
            for other in members.iter().filter(|other| **other != task && alive(**other)) {
                self.give_token(*other, false);
            }
        } else {
            self.block_on(cpu, task, Blocking::Token);
        }
    }

    fn migrate_enable(&self, task: TaskId) {
        let this = &self.tasks[task];
        this.raw.change(|raw| {
            raw.migration_disabled = raw.migration_disabled.saturating_sub(1);
            if raw.migration_disabled == 0 {
                raw.cpus_ptr = &raw const raw.cpus_mask;
            }
        });
        this.enabled_ns.set(self.now());
        if let Some(cpus) = this.wanted_cpus.take() {
            self.set_affinity(task, &cpus);
        }
    }

    fn end(&self, cpu: usize, task: TaskId) {
        self.tasks[task].raw.change(|raw| raw.flags |= ffi::PF_EXITING);
        self.block_on(cpu, task, Blocking::End);
    }
}
