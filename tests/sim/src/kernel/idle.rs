// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The kernel's masks of idle CPUs and of wholly idle cores (ext_idle.c, in 6.12 in ext.c).

use super::Kernel;
use crate::flags;
use crate::mask::Mask;

const EBUSY: i32 = 16;

impl Kernel {
    /// Mark `cpu` as idle or busy (update_builtin_idle()).
    pub(crate) fn update_idle(&self, cpu: usize, idle: bool) {
        self.idle_cpus.set(cpu, idle);
        if let Some(since) = self.watch.unmarked.borrow_mut().get_mut(cpu) {
            *since = 0;
        }
        let core = self.machine.cpus[cpu].siblings;
        let cores = self.idle_cores.get();
        if !idle {
            self.idle_cores.put(cores.and_not(&core));
        } else if core.and_not(&self.idle_cpus.get()).is_empty() {
            self.idle_cores.put(core.iter().fold(cores, |mut cores, cpu| {
                cores.set(cpu, true);
                cores
            }));
        }
    }

    /// Claim `cpu` if it is marked idle (test_and_clear_cpu_idle()).
    pub(crate) fn claim_idle(&self, cpu: usize) -> bool {
        if cpu >= self.cpus.len() {
            return false;
        }
        if self.machine.smt() {
            self.idle_cores.put(self.idle_cores.get().and_not(&self.machine.cpus[cpu].siblings));
        }
        let was = self.idle_cpus.get().has(cpu);
        self.idle_cpus.set(cpu, false);
        was
    }

    /// Pick and claim an idle CPU among `allowed` (scx_pick_idle_cpu()).
    pub(crate) fn pick_idle(&self, allowed: &Mask, flags: u64) -> i32 {
        loop {
            let mut found = None;
            if self.machine.smt() {
                found = self.distribute(&self.idle_cores.get().and(allowed));
                if found.is_none() && flags & flags::PICK_IDLE_CORE != 0 {
                    return -EBUSY;
                }
            }
            let Some(cpu) = found.or_else(|| self.distribute(&self.idle_cpus.get().and(allowed))) else {
                return -EBUSY;
            };
            if self.claim_idle(cpu) {
                return cpu as i32;
            }
        }
    }

    /// Pick a CPU of `mask`, each time the next one (cpumask_any_and_distribute()).
    fn distribute(&self, mask: &Mask) -> Option<usize> {
        let last = &self.cpus[self.here.get()].distribute;
        let cpu = mask.next(last.get() + 1).or_else(|| mask.next(0))?;
        last.set(cpu);
        Some(cpu)
    }
}
