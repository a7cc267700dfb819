// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The timer tick (sched_tick(), task_tick_scx()).

use super::Kernel;
use super::cpu::Curr;
use super::events::Event;
use super::timer::BpfTimer;

impl Kernel {
    /// The timer of `cpu` ticks. An idle CPU has stopped its tick, and so has one of nohz_full with
    /// a single task.
    pub(crate) fn tick(&self, cpu: usize) {
        self.push(self.now() + self.case.tick_ns, Event::Tick(cpu));
        self.remote_ticks(cpu);
        let this = &self.cpus[cpu];
        if this.curr.get() == Curr::Idle || !self.is_present(cpu) || self.tick_is_stopped(cpu) {
            return;
        }
        self.sync(cpu);
        self.fentry_tick();
        self.task_tick(cpu);
    }

    fn tick_is_stopped(&self, cpu: usize) -> bool {
        self.cpus[cpu].tick_stopped.get() && matches!(self.cpus[cpu].curr.get(), Curr::Task(_))
    }

    /// A CPU outside of nohz_full ticks now and then for those without a tick
    /// (sched_tick_remote()).
    fn remote_ticks(&self, cpu: usize) {
        if self.case.nohz_full.contains(&cpu) {
            return;
        }
        for other in &self.case.nohz_full {
            if self.tick_is_stopped(*other)
                && self.now() - self.cpus[*other].ticked_ns.get() >= self.case.remote_tick_ns
            {
                self.task_tick(*other);
            }
        }
    }

    fn task_tick(&self, cpu: usize) {
        let this = &self.cpus[cpu];
        this.ticked_ns.set(self.now());
        self.lock(cpu);
        if let Curr::Task(task) = this.curr.get() {
            let ticks = &self.tasks[task].stats.ticks;
            ticks.set(ticks.get() + 1);
            self.update_curr(cpu);
            self.op_tick(task);
            if self.tasks[task].slice() == 0 {
                self.resched(cpu);
            }
        }
        self.unlock(cpu);
    }

    /// Return the tick count (jiffies_64).
    pub(crate) fn jiffies(&self) -> u64 {
        // As in the kernel, the count does not begin at 0.
        1_000_000 + self.now() / self.case.tick_ns
    }

    /// The timer of BPF code whose start has the number `start` expires (bpf_timer_cb()).
    pub(crate) fn bpf_timer_expires(&self, start: u64) {
        let Some(BpfTimer { timer, map, callback: Some(callback), .. }) = self.bpf_timers.expired(start)
        else {
            return;
        };
        let mut key = 0;
        // SAFETY: the loaded scheduler set this callback for a timer in a map of the engine.
        self.within("timer", || unsafe { callback(map, &raw mut key, timer) });
    }
}
