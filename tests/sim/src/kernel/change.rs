// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Changes of a task's attributes at any time, and other disturbances of a case.

use super::Kernel;
use super::cpu::Curr;
use super::events::Event;
use super::task::{Life, TaskId};
use crate::case::Disturbance;
use crate::ffi;
use crate::flags::{ENQ_NONE, SAVE_RESTORE};
use crate::mask::Mask;

/// Delay of the next attempt to bring a CPU online that is still going offline [ns].
const ONLINE_AGAIN_NS: u64 = 1_000_000;

impl Kernel {
    /// Carry out a disturbance.
    pub(crate) fn disturb(&self, at: usize) {
        let what = self.case.disturbances[at].what.clone();
        self.trace.line(self.now(), || format!("disturb {what:?}"));
        match what {
            Disturbance::Affinity { task, cpus } => self.set_affinity(task, &cpus.into_iter().collect()),
            Disturbance::Nice { task, weight } => {
                self.change(task, || self.tasks[task].raw.change(|raw| raw.scx.weight = weight));
            }
            Disturbance::Group { task, group } => self.change(task, || {
                self.tasks[task].raw.change(|raw| raw.sched_task_group = self.groups.address(group));
            }),
            Disturbance::GroupWeight { group, weight } => self.groups.set_weight(group, weight),
            Disturbance::GroupMax { group, max_us } => self.groups.set_max(group, max_us),
            Disturbance::RealTime { cpu, ns } => self.take(cpu, ns),
            Disturbance::Offline { cpu } => self.offline(cpu),
            Disturbance::Online { cpu } => {
                if !self.bring_online(cpu) {
                    self.push(self.now() + ONLINE_AGAIN_NS, Event::Disturb(at));
                }
            }
            Disturbance::Speed { cpu, permille, told } => self.set_speed(cpu, permille, told),
            Disturbance::Swap { up, down } => self.request_swap(up, down),
        }
    }

    /// A real-time task wakes on `cpu`.
    fn take(&self, cpu: usize, ns: u64) {
        if !self.online.get().has(cpu) {
            return;
        }
        let this = &self.cpus[cpu];
        self.lock(cpu);
        if this.realtime_ns.get() == 0 {
            this.realtime_ns.set(ns.max(1));
            if !this.curr.get().is_higher() {
                self.resched(cpu);
            }
        }
        self.unlock(cpu);
    }

    /// Change attributes of a task (sched_change_begin() and _end(), in 6.12 open-coded).
    fn change(&self, task: TaskId, change: impl FnOnce()) {
        let this = &self.tasks[task];
        self.pi_lock(task);
        if this.life.get() == Life::Active {
            let cpu = self.lock_task(task);
            self.change_locked(cpu, task, change);
            self.unlock(cpu);
        } else {
            change();
        }
        self.pi_unlock(task);
    }

    /// Lock the runqueue that a task belongs to (task_rq_lock()).
    fn lock_task(&self, task: TaskId) -> usize {
        loop {
            let this = &self.tasks[task];
            let cpu = this.cpu();
            self.lock(cpu);
            if (this.cpu() == cpu && !this.migrating.get()) || self.is_broken() {
                return cpu;
            }
            self.unlock(cpu);
            self.wait_while("a task", || this.migrating.get() && !self.is_broken());
        }
    }

    fn change_locked(&self, cpu: usize, task: TaskId, change: impl FnOnce()) {
        let queued = self.tasks[task].queued();
        let running = self.cpus[cpu].curr.get() == Curr::Task(task);
        if queued {
            self.dequeue(cpu, task, SAVE_RESTORE, false);
        }
        change();
        if queued {
            self.enqueue(cpu, task, SAVE_RESTORE, false, false);
        }
        if running {
            self.tasks[task].waiting_since_ns.set(0);
            self.set_next_task(cpu, task);
        }
    }

    /// Set the affinity of a task (set_cpus_allowed_ptr(), affine_move_task()).
    pub(crate) fn set_affinity(&self, task: TaskId, cpus: &Mask) {
        self.pi_lock(task);
        self.set_affinity_locked(task, cpus);
        self.pi_unlock(task);
    }

    fn set_affinity_locked(&self, task: TaskId, cpus: &Mask) {
        let this = &self.tasks[task];
        if cpus.and(&self.online.get()).is_empty() || this.life.get() == Life::Dead {
            return;
        }
        if this.migration_disabled() {
            this.wanted_cpus.set(Some(*cpus));
            return;
        }
        if this.life.get() != Life::Active {
            this.set_affinity(cpus);
            return;
        }
        this.affinity_ns.set(self.now());
        let cpu = self.lock_task(task);
        self.change_locked(cpu, task, || this.set_affinity(cpus));
        if !this.queued() || (cpus.has(cpu) && self.online.get().has(cpu)) {
            self.unlock(cpu);
            return;
        }
        if self.cpus[cpu].curr.get() == Curr::Task(task) {
            self.stop_for(cpu, task);
            self.unlock(cpu);
        } else {
            self.move_queued(cpu, task);
        }
    }

    /// Have the stopper of `cpu` push a running task away.
    pub(crate) fn stop_for(&self, cpu: usize, task: TaskId) {
        let this = &self.cpus[cpu];
        if !this.stops.borrow().contains(&task) {
            this.stops.borrow_mut().push_back(task);
        }
        if this.curr.get() != Curr::Stopper {
            self.resched(cpu);
        }
    }

    /// The stopper of `cpu` pushes a task away (migration_cpu_stop(), __migrate_task()).
    pub(crate) fn push_away(&self, cpu: usize, task: TaskId) {
        let this = &self.tasks[task];
        self.lock(cpu);
        // A task that has disabled migration meanwhile may run here for now, but does not stay.
        let stays = this.affinity().has(cpu) && self.online.get().has(cpu);
        if this.cpu() != cpu || !this.queued() || stays {
            self.unlock(cpu);
            return;
        }
        if this.migration_disabled() {
            // It leaves when it enables migration (migrate_enable(), balance_push()).
            this.wanted_cpus.set(Some(this.wanted_cpus.get().unwrap_or(this.affinity())));
            self.unlock(cpu);
            return;
        }
        self.move_queued(cpu, task);
    }

    /// Move a runnable task from `cpu`, which is locked and then unlocked, to a CPU that it may run
    /// on (move_queued_task()).
    pub(crate) fn move_queued(&self, cpu: usize, task: TaskId) {
        self.dequeue(cpu, task, 0, true);
        let to = self.fallback(task);
        self.set_cpu(task, to);
        self.unlock(cpu);
        self.lock(to);
        self.enqueue(to, task, ENQ_NONE, false, true);
        self.wakeup_preempt(to);
        self.unlock(to);
    }

    /// The agent requests a planned swap of two tasks.
    fn request_swap(&self, up: TaskId, down: TaskId) {
        let start = |task: TaskId| self.tasks[task].raw.read(|raw| raw.start_boottime);
        let pid = |task: TaskId| self.tasks[task].raw.read(|raw| raw.pid as u32);
        let mut request = ffi::bias_swap_request {
            up_start_ns: start(up),
            down_start_ns: start(down),
            up_pid: pid(up),
            up_cpu: self.tasks[up].cpu() as u32,
            down_pid: pid(down),
            down_cpu: self.tasks[down].cpu() as u32,
        };
        let answer = self.ask_swap(&mut request);
        self.trace.line(self.now(), || format!("swap up {up} down {down}: {answer}"));
    }
}
