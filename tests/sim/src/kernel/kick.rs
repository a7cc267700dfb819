// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Kicks (scx_bpf_kick_cpu(), kick_cpus_irq_workfn()).

use super::Kernel;
use super::cpu::Curr;
use super::events::Event;
use crate::flags;

const IDLE: u64 = flags::KICK_IDLE;
const PREEMPT: u64 = flags::KICK_PREEMPT;

impl Kernel {
    /// Note that `cpu` is to be kicked, and send this CPU the interrupt that does it.
    pub(crate) fn kick(&self, cpu: usize, flags: u64) {
        let here = &self.cpus[self.here.get()];
        self.trace.line(self.now(), || format!("kick cpu {cpu} flags {flags}"));
        if flags & IDLE != 0 && self.cpus[cpu].locked_by.get().is_none() && self.skips_idle_kick(cpu) {
            return;
        }
        here.kicks.borrow_mut().push((cpu, flags));
        if !here.kick_queued.replace(true) {
            self.push(self.now() + self.delay(self.case.irq_ns), Event::Kicks(self.here.get()));
        }
    }

    /// Return true if `cpu` passes through a whole dispatch before it idles (can_skip_idle_kick()).
    fn skips_idle_kick(&self, cpu: usize) -> bool {
        let this = &self.cpus[cpu];
        this.curr.get() != Curr::Idle && !this.in_balance.get()
    }

    /// The interrupt on `cpu` that kicks others.
    pub(crate) fn carry_out_kicks(&self, cpu: usize) {
        let this = &self.cpus[cpu];
        this.kick_queued.set(false);
        let mut kicks = this.kicks.take();
        kicks.sort_unstable();
        kicks.dedup();
        // An unconditional kick includes one that needs an idle CPU.
        let certain: Vec<usize> =
            kicks.iter().filter(|(_, flags)| flags & IDLE == 0).map(|kick| kick.0).collect();
        for (target, flags) in kicks {
            if flags & IDLE == 0 || !certain.contains(&target) {
                self.kick_one(cpu, target, flags);
            }
        }
    }

    /// Kick one CPU (kick_one_cpu(), kick_one_cpu_if_idle()).
    fn kick_one(&self, here: usize, cpu: usize, flags: u64) {
        let this = &self.cpus[cpu];
        self.lock(cpu);
        let present = self.is_present(cpu) || cpu == here;
        if flags & IDLE != 0 {
            if present && !self.skips_idle_kick(cpu) {
                self.resched(cpu);
            }
        } else if present && !(self.case.release.spares_higher() && this.curr.get().is_higher()) {
            if flags & PREEMPT != 0
                && let Curr::Task(task) = this.curr.get()
            {
                self.tasks[task].set_slice(0);
            }
            self.resched(cpu);
        }
        self.unlock(cpu);
    }
}
