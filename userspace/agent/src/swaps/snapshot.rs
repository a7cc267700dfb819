// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The planner's input, from a snapshot of the CPUs and queries of their resident tasks.

use std::collections::BTreeMap;

use anyhow::Result;
use bias_policy::cpuset::CpuSet;
use bias_policy::sharing::Sharing;
use bias_policy::swap::{Allowed, Resident, Runner, Snapshot, State};
use bias_policy::table::{CapacityTable, CpuCapacity};

use super::backend::Task;

/// Time that a task must have run on its class of CPUs before it is swapped [ns]. With less, its
/// rate after the swap could not be compared. The time counts recent runs, or the runs until the
/// task was moved away from that class.
pub(super) const MIN_BEFORE_NS: u64 = 50_000_000;

/// Resident tasks and what waits, in the planner's form.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// Tasks by pid.
    pub tasks: BTreeMap<u32, Task>,
    /// Cores that several tasks share.
    pub sharing: Sharing,
    runners: Vec<Runner>,
    /// CPUs that run a task, known or not.
    busy: CpuSet,
    sets: Vec<CpuSet>,
}

impl Gathered {
    /// Query every resident task. `resting_until_ns` returns the time before which a task must not
    /// be swapped.
    ///
    /// # Errors
    /// That of `query`.
    pub(super) fn gather(
        table: &CapacityTable,
        residents: &[Resident],
        mut query: impl FnMut(u32) -> Result<Option<Task>>,
        resting_until_ns: impl Fn(&Task) -> u64,
    ) -> Result<Self> {
        let mut gathered = Self::default();
        for resident in residents {
            let Some(cpu) = table.get(resident.cpu) else { continue };
            if resident.waiting_since_ns != 0 {
                gathered.runners.push(waiting(resident));
            }
            if resident.pid != 0 {
                gathered.busy.insert(resident.cpu);
            }
            if resident.pid == 0 || resident.speedup_permille == 0 {
                continue;
            }
            let Some(task) = query(resident.pid)? else { continue };
            // The last tick saw the task here. Since then it migrated or went to sleep.
            if task.cpu != resident.cpu || !task.runnable {
                continue;
            }
            let runner = gathered.runner(&task, cpu, resting_until_ns(&task));
            gathered.runners.push(runner);
            gathered.tasks.insert(task.pid, task);
        }
        gathered.sharing = gathered.snapshot(table, 0, 0).sharing();
        Ok(gathered)
    }

    fn runner(&mut self, task: &Task, cpu: &CpuCapacity, backoff_until_ns: u64) -> Runner {
        let comparable = task.rate(cpu.class).ran_ns >= MIN_BEFORE_NS;
        Runner {
            pid: task.pid,
            cpu: cpu.cpu,
            state: State::Running,
            stack_permille: task.stack_permille,
            stable: task.stable && task.movable && comparable,
            allowed: task.allowed.map_or(Allowed::Everywhere, |cpus| self.set(cpus)),
            moved_at_ns: task.moved_ns,
            backoff_until_ns,
        }
    }

    /// Return the index of a set of CPUs.
    fn set(&mut self, set: CpuSet) -> Allowed {
        let at = self.sets.iter().position(|other| *other == set).unwrap_or_else(|| {
            self.sets.push(set);
            self.sets.len() - 1
        });
        Allowed::Set(at as u32)
    }

    /// Return the snapshot for the planner.
    pub(super) fn snapshot<'a>(&'a self, table: &'a CapacityTable, now_ns: u64, round: u64) -> Snapshot<'a> {
        Snapshot {
            now_ns,
            round,
            cpus: &table.cpus,
            runners: &self.runners,
            busy: self.busy,
            sets: &self.sets,
        }
    }
}

/// Describe the tasks that wait for this CPU. Only the fact that they wait is known.
fn waiting(resident: &Resident) -> Runner {
    Runner {
        pid: 0,
        cpu: resident.cpu,
        state: State::Waiting { since_ns: resident.waiting_since_ns },
        stack_permille: None,
        stable: false,
        allowed: Allowed::Everywhere,
        moved_at_ns: None,
        backoff_until_ns: 0,
    }
}
