//! What the planner is told, from a glance at CPUs and a look at who sits there.

use std::collections::BTreeMap;

use anyhow::Result;
use bias_policy::swap::{Allowed, Cpu, CpuSet, Runner, Snapshot, State, WEIGHT_DEFAULT};

use super::kernel::{Seat, Task};
use super::machine::Machine;

/// A task has to have run this long on its class of CPUs, lately or until it was displaced from there, before it is swapped [ns], or what it does afterwards could not be compared.
pub(super) const LEAST_BEFORE_NS: u64 = 50_000_000;

/// Tasks where they sit.
#[derive(Debug, Default)]
pub(super) struct Scene {
    /// By number.
    pub tasks: BTreeMap<u32, Task>,
    runners: Vec<Runner>,
    sets: Vec<CpuSet>,
}

impl Scene {
    /// Looks at everyone who sits somewhere. `resting_until_ns` tells before when a task is not to be swapped.
    ///
    /// # Errors
    /// That of `look`.
    pub(super) fn gather(
        machine: &Machine,
        seats: &[Seat],
        mut look: impl FnMut(u32) -> Result<Option<Task>>,
        resting_until_ns: impl Fn(&Task) -> u64,
    ) -> Result<Self> {
        let mut scene = Self::default();
        for seat in seats {
            let Some(cpu) = machine.cpu(seat.cpu) else { continue };
            if seat.waiting_since_ns != 0 {
                scene.runners.push(waiting(seat));
            }
            if seat.pid == 0 || seat.speedup_permille == 0 {
                continue;
            }
            let Some(task) = look(seat.pid)? else { continue };
            // It was there at the last tick, and is elsewhere or asleep now.
            if task.cpu != seat.cpu || !task.runnable {
                continue;
            }
            let runner = scene.runner(&task, cpu, resting_until_ns(&task));
            scene.runners.push(runner);
            scene.tasks.insert(task.pid, task);
        }
        Ok(scene)
    }

    fn runner(&mut self, task: &Task, cpu: &Cpu, backoff_until_ns: u64) -> Runner {
        let comparable = task.work.on(cpu.class).ran_ns >= LEAST_BEFORE_NS;
        Runner {
            pid: task.pid,
            cpu: cpu.cpu,
            state: State::Running,
            stack_permille: task.stack_permille,
            stable: task.stable && task.movable && comparable,
            // Plain throughput, as the kernel side's own swaps have it: with weights the two would undo each other's work.
            weight: WEIGHT_DEFAULT,
            allowed: task.allowed.map_or(Allowed::Everywhere, |cpus| self.set(cpus)),
            // The kernel confines a task to its cgroup's CPUs through its affinity.
            group: None,
            roams: false,
            moved_at_ns: task.moved_ns,
            backoff_until_ns,
        }
    }

    /// The set of these of the first 64 CPUs.
    fn set(&mut self, cpus: u64) -> Allowed {
        let set: CpuSet = (0..64).filter(|cpu| cpus & (1 << cpu) != 0).collect();
        let at = self.sets.iter().position(|other| *other == set).unwrap_or_else(|| {
            self.sets.push(set);
            self.sets.len() - 1
        });
        Allowed::Set(at as u32)
    }

    /// For the planner.
    pub(super) fn snapshot<'a>(&'a self, machine: &'a Machine, now_ns: u64, round: u64) -> Snapshot<'a> {
        Snapshot { now_ns, round, cpus: &machine.cpus, runners: &self.runners, sets: &self.sets, groups: &[] }
    }
}

/// Whoever waits for this CPU: that it does is all that is known.
fn waiting(seat: &Seat) -> Runner {
    Runner {
        pid: 0,
        cpu: seat.cpu,
        state: State::Waiting { since_ns: seat.waiting_since_ns },
        stack_permille: None,
        stable: false,
        weight: WEIGHT_DEFAULT,
        allowed: Allowed::Everywhere,
        group: None,
        roams: false,
        moved_at_ns: None,
        backoff_until_ns: 0,
    }
}
