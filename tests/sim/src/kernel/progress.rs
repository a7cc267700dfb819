// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Progress of tasks: how fast each CPU does the work of its task, and what its counters show.
//!
//! A unit of work of a CPI stack takes `sum over k of stack[k] * cost[k]` on a CPU, by the same
//! function as in the scheduler (`bias_time_permille()`). A core that several tasks share has other
//! costs. A switch takes time in which the task makes no progress.

use bias_policy::ffi as policy;

use super::Kernel;
use super::cpu::Curr;
use super::events::Event;
use crate::case::CountersOf;
use crate::ffi;
use crate::flags::SLICE_INF;

/// Work that takes a second of the reference CPU is this many instructions, if it only executes.
const INSTRUCTIONS_PER_US: u64 = 2_000;
/// Cycles of the reference CPU in a microsecond.
const CYCLES_PER_US: u64 = 3_000;

impl Kernel {
    /// Charge run time up to now (update_curr_scx()).
    pub(crate) fn update_curr(&self, cpu: usize) {
        self.sync(cpu);
        let this = &self.cpus[cpu];
        let Curr::Task(task) = this.curr.get() else { return };
        let ran_ns = self.now() - this.progress.charged_ns.replace(self.now()).min(self.now());
        if ran_ns == 0 {
            return;
        }
        let task = &self.tasks[task];
        task.raw.change(|raw| {
            raw.se.exec_start = self.now();
            raw.se.sum_exec_runtime += ran_ns;
            if raw.scx.slice != SLICE_INF {
                raw.scx.slice -= raw.scx.slice.min(ran_ns);
            }
        });
        task.stats.ran_ns.set(task.stats.ran_ns.get() + ran_ns);
        if self.machine.cpus[cpu].slow {
            task.stats.slow_ns.set(task.stats.slow_ns.get() + ran_ns);
        }
    }

    /// Count the work that `cpu` has done up to now.
    pub(crate) fn sync(&self, cpu: usize) {
        let this = &self.cpus[cpu];
        let progress = &this.progress;
        let from = progress.counted_ns.get();
        if self.now() <= from {
            return;
        }
        progress.counted_ns.set(self.now());
        let Curr::Task(task) = this.curr.get() else { return };
        let (task, time_ns) = (&self.tasks[task], self.now() - from);
        let done_ps = (time_ns * 1_000_000 / progress.rate.get().max(1)).min(task.left_ps.get());
        task.left_ps.set(task.left_ps.get() - done_ps);
        task.stats.work_ps.set(task.stats.work_ps.get() + done_ps);
        self.count(cpu, task.stack.get(), time_ns, done_ps);
    }

    /// Let the counters of `cpu` see `time_ns` of a task's run.
    fn count(&self, cpu: usize, stack: [u32; 3], time_ns: u64, done_ps: u64) {
        let cost = self.cost(cpu);
        let parts: [u64; 3] = std::array::from_fn(|k| u64::from(stack[k]) * u64::from(cost[k]));
        let sum: u64 = parts.iter().sum::<u64>().max(1);
        let cycles = time_ns * CYCLES_PER_US / 1000;
        let counts = &self.cpus[cpu].counters.counts;
        let add = |at: usize, n: u64| counts[at].set(counts[at].get() + n);
        add(0, cycles);
        add(1, done_ps / 1000 * INSTRUCTIONS_PER_US / 1000 * u64::from(stack[0].max(50)) / 1000);
        add(2, (u128::from(cycles) * u128::from(parts[2]) / u128::from(sum)) as u64);
        add(3, (u128::from(cycles) * u128::from(parts[1]) / u128::from(sum)) as u64);
    }

    /// Return what a unit of work costs on `cpu` at the moment.
    fn cost(&self, cpu: usize) -> [u32; 3] {
        let spec = &self.machine.cpus[cpu];
        let shared =
            spec.siblings.iter().any(|other| other != cpu && self.cpus[other].curr.get() != Curr::Idle);
        spec.cost(shared)
    }

    /// Plan the end of the present phase of `cpu`'s task at its present speed.
    pub(crate) fn plan(&self, cpu: usize) {
        self.sync(cpu);
        let this = &self.cpus[cpu];
        let plan = this.progress.plan.get() + 1;
        this.progress.plan.set(plan);
        let Curr::Task(task) = this.curr.get() else { return };
        let task = &self.tasks[task];
        let stack = policy::bias_stack { permille: task.stack.get() };
        let cost = policy::bias_cost { permille: self.cost(cpu) };
        // SAFETY: a pure function of two valid structures.
        let rate = u64::from(unsafe { policy::bias_time_permille(&raw const stack, &raw const cost) }).max(1);
        this.progress.rate.set(rate);
        let time_ns = (task.left_ps.get() * rate).div_ceil(1_000_000);
        self.push(this.progress.counted_ns.get().max(self.now()) + time_ns, Event::PhaseEnds(cpu, plan));
    }

    /// `cpu` has become busy or idle: its siblings run at another speed.
    pub(crate) fn siblings_change(&self, cpu: usize) {
        for sibling in self.machine.cpus[cpu].siblings.iter().filter(|other| *other != cpu) {
            self.plan(sibling);
        }
    }

    /// Read counter `index` of the events map for BPF code (bpf_perf_event_read_value()).
    pub(crate) fn read_counter(&self, index: u64, value: &mut ffi::bpf_perf_event_value) -> i32 {
        const ENOENT: i32 = 2;
        const EINVAL: i32 = 22;
        let (cpu, at) = ((index / 4) as usize, (index % 4) as usize);
        if cpu != self.here.get() {
            return -EINVAL;
        }
        if self.case.counters == CountersOf::Failing && self.random(4) == 0 {
            return -ENOENT;
        }
        self.sync(cpu);
        value.counter = self.cpus[cpu].counters.counts[at].get();
        value.enabled = self.now();
        value.running = self.now();
        0
    }
}
