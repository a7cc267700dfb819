// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Oracles for `cpu.max`: throttled tasks stop at a tick, and parked ones come back when they are
//! due.

use crate::case::Disturbance;
use crate::ffi;
use crate::kernel::Kernel;
use crate::kernel::cpu::Curr;
use crate::kernel::task::{Place, TaskId};

/// DSQ of throttled tasks (`bias_dsq_parked()`).
const PARKED: u64 = (ffi::BIAS_DSQ_PARKED as u64) << ffi::BIAS_DSQ_KIND_SHIFT;

/// Time after which a timer has fired [ns].
const TIMER_NS: u64 = 1_500_000;

/// The same if two CPUs have started it at the same time (`MAX_SLEEP_NS`).
const RACED_TIMER_NS: u64 = 102_000_000;

impl Kernel {
    /// Return true if a task waits for its quota.
    pub(crate) fn is_parked(&self, task: TaskId) -> bool {
        self.tasks[task].place.get() == Place::User(PARKED)
    }

    /// Return true if the scheduler has throttled a cgroup of a task. With `still`, ignore cgroups
    /// that no longer have a limit.
    fn is_throttled(&self, task: TaskId, still: bool) -> bool {
        let this = &self.tasks[task];
        let (mut at, storage, flags) =
            this.raw.read(|raw| (raw.sched_task_group.cast_const(), raw.sim_storage, raw.flags));
        if storage.is_null() || flags & ffi::PF_KTHREAD != 0 {
            return false;
        }
        while !at.is_null() {
            // SAFETY: groups live as long as the engine. The index is within the global, whose last
            // entry stands for all groups beyond it, and no BPF code runs now.
            unsafe {
                let index = ((*at).css.id as usize).min(self.unit().nr_groups as usize - 1);
                let until_ns = (*self.unit().groups.add(index)).throttled_until_ns;
                if until_ns > self.now() && (!still || (*at).cfs_bandwidth.quota != u64::MAX) {
                    return true;
                }
                at = (*at).parent;
            }
        }
        false
    }

    /// Return true if a limit of a cgroup has changed recently.
    fn limit_changed(&self) -> bool {
        self.case.disturbances.iter().any(|disturb| {
            let since_ns = self.now().checked_sub(disturb.at_ns);
            matches!(disturb.what, Disturbance::GroupMax { .. })
                && since_ns.is_some_and(|ns| ns < RACED_TIMER_NS)
        })
    }

    /// Check that no CPU runs a throttled task beyond its next tick, and that no task stays parked
    /// while its groups are not throttled. After the end of a limit, they are throttled until the
    /// next period.
    pub(crate) fn audit_quotas(&self) {
        let mut since = self.watch.throttled.borrow_mut();
        since.resize(self.cpus.len(), 0);
        for (cpu, since) in since.iter_mut().enumerate() {
            let this = &self.cpus[cpu];
            match this.curr.get() {
                Curr::Task(task) if self.is_throttled(task, true) && !this.in_kernel.get() => {
                    if *since <= self.tasks[task].running_since_ns.get() {
                        *since = self.now();
                    }
                    if self.now() - *since > 2 * self.case.tick_ns {
                        self.broken("quota", format!("CPU {cpu} runs task {task}, which is throttled"));
                    }
                }
                _ => *since = 0,
            }
        }
        let late_ns = if self.case.interleave.is_some() { RACED_TIMER_NS } else { TIMER_NS };
        // While higher classes have all CPUs, none dispatches.
        let dispatches = self.online.get().iter().any(|cpu| !self.cpus[cpu].curr.get().is_higher());
        if !self.dsqs.global.is_empty() {
            self.watch.overdue_ns.set(self.now());
        }
        // The kernel serves the global DSQ before it calls ops.dispatch, which then follows a tick.
        let serves_overdue = self.watch.overdue_ns.get() + 2 * self.case.tick_ns > self.now();
        let mut due = self.watch.due.borrow_mut();
        due.resize(self.tasks.len(), 0);
        for (task, due) in due.iter_mut().enumerate() {
            if !self.is_parked(task) || self.is_throttled(task, false) || !dispatches {
                *due = 0;
            } else if *due == 0 {
                *due = self.now();
            } else if self.now() - *due > late_ns {
                let rule = match self.limit_changed() {
                    _ if serves_overdue => "parked-overdue",
                    true => "parked-changed",
                    false => "parked",
                };
                self.broken(rule, format!("task {task} is parked, and its cgroups are not throttled"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::case::{Case, GroupSpec, TaskSpec};
    use crate::load::{Program, stacks};
    use crate::unit::Image;

    /// The kernel gives the id of a removed cgroup to the next one.
    #[test]
    fn a_new_cgroup_does_not_inherit_the_debt_of_a_removed_one() {
        let mut case = Case::new("2P", 1);
        case.duration_ns = 1_000_000_000;
        case.groups = vec![GroupSpec::new(0, 100).limited(50_000, 100_000)];
        case.tasks = vec![TaskSpec { group: 1, ..TaskSpec::new(Program::busy(stacks::COMPUTE)) }];
        let kernel = Kernel::new(case, Image::Plain).unwrap();
        // SAFETY: no BPF code runs now, and group 1 has id 2, which is within the global.
        unsafe {
            let removed = kernel.unit().groups.add(2);
            ((*removed).serial, (*removed).used_ns) = (99, 10_000_000_000);
        }
        kernel.run().unwrap();
        let ran_ns = kernel.figures(0).ran_ns;
        assert!(ran_ns > 450_000_000, "half of a CPU is granted, and {ran_ns} ns of a second were used");
    }
}
