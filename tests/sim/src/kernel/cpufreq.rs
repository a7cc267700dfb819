// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Requests of clocks (scx_bpf_cpuperf_set()) and schedutil's reaction.
//!
//! # Limits
//! The clock itself is not modelled: a CPU keeps its speed whatever it requests.

use super::Kernel;
use super::cpu::Curr;
use crate::ffi;

impl Kernel {
    /// Return the capacity of `cpu` (arch_scale_cpu_capacity()): its speed, of
    /// [`ffi::SCX_CPUPERF_ONE`] for the best CPU.
    pub(crate) fn capacity(&self, cpu: usize) -> u32 {
        let cost = self.machine.cpus.get(cpu).map_or(1000, |cpu| cpu.cost_permille[0]);
        ffi::SCX_CPUPERF_ONE * 1000 / cost.max(1000)
    }

    /// Store the request of `cpu` and call the governor. schedutil ignores a call from a CPU
    /// outside of the policy, and each CPU has its own here (sugov_should_update_freq()).
    pub(crate) fn request_clock(&self, cpu: i32, target: u32) {
        let here = self.here.get();
        let Some(at) = usize::try_from(cpu).ok().filter(|cpu| *cpu < self.cpus.len()) else {
            self.broken("clock-request", format!("CPU {cpu} does not exist"));
            return;
        };
        if target > ffi::SCX_CPUPERF_ONE {
            self.broken("clock-request", format!("CPU {cpu} requests {target}"));
        }
        // The kernel ends a scheduler that holds the lock of another runqueue.
        if self.cpus[at].locked_by.get() != Some(here) {
            self.broken("clock-request", format!("CPU {here} sets the clock of the unlocked CPU {cpu}"));
        }
        let clock = &self.cpus[at].clock;
        if at == here && clock.target.replace(target) != target {
            clock.changes.set(clock.changes.get() + 1);
        }
    }

    /// Note what `cpu` does from now on.
    pub(crate) fn clock_switch(&self, cpu: usize, prev: Curr, next: Curr) {
        if std::mem::discriminant(&prev) != std::mem::discriminant(&next) {
            self.cpus[cpu].clock.since_ns.set(self.now());
        }
    }
}
