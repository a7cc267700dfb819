// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! CPUs that go offline and come online (sched_cpu_deactivate(), sched_cpu_activate()).

use super::Kernel;
use super::cpu::Curr;
use super::task::{Life, TaskId};

impl Kernel {
    /// Take `cpu` offline. Its tasks are pushed to other CPUs.
    pub(crate) fn offline(&self, cpu: usize) {
        let this = &self.cpus[cpu];
        if !self.online.get().has(cpu) || self.online.get().count() == 1 || cpu == self.here.get() {
            return;
        }
        self.online.set(cpu, false);
        this.online.set(false);
        self.op_cpu_online(cpu, false);
        this.realtime_ns.set(0);
        let tasks: Vec<TaskId> = (0..self.tasks.len())
            .filter(|task| self.tasks[*task].cpu() == cpu && self.tasks[*task].life.get() == Life::Active)
            .collect();
        for task in tasks {
            self.lock(cpu);
            let task_is_here = self.tasks[task].cpu() == cpu && self.tasks[task].queued();
            if !task_is_here {
                self.unlock(cpu);
            } else if self.tasks[task].migration_disabled() {
                // It runs on until it enables migration.
                self.tasks[task].wanted_cpus.set(Some(self.tasks[task].affinity()));
                self.unlock(cpu);
            } else if this.curr.get() == Curr::Task(task) {
                self.stop_for(cpu, task);
                self.unlock(cpu);
            } else {
                self.move_queued(cpu, task);
            }
        }
        if this.curr.get() == Curr::RealTime {
            self.resched(cpu);
        }
    }

    /// Bring `cpu` online.
    pub(crate) fn bring_online(&self, cpu: usize) {
        if self.online.get().has(cpu) {
            return;
        }
        self.online.set(cpu, true);
        self.cpus[cpu].online.set(true);
        self.op_cpu_online(cpu, true);
        if self.cpus[cpu].curr.get() == Curr::Idle {
            self.cpus[cpu].idle_since_ns.set(self.now());
            self.update_idle(cpu, true);
        }
        // The CPU's own hotplug thread has done this and sleeps.
        self.resched(cpu);
    }
}
