// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Calls of the scheduler's callbacks and programs.

use super::Kernel;
use super::task::TaskId;
use crate::ffi;

/// What the kernel returns if it refuses to take a CPU offline.
const EBUSY: i32 = 16;

/// Call a callback of the scheduler, which has all that the engine calls.
macro_rules! call {
    ($kernel:expr, $name:ident $(, $arg:expr)*) => {{
        // SAFETY: sim_open() returned the table of a loaded library.
        let ops = unsafe { &*$kernel.unit().ops };
        match ops.$name {
            // SAFETY: unit.c assigns functions of these types. The engine holds no reference to
            // what they change: its state is in cells.
            Some(callback) => Some($kernel.within(stringify!($name), || unsafe { callback($($arg),*) })),
            None => {
                $kernel.broken("callback", concat!("the scheduler has no ops.", stringify!($name)));
                None
            }
        }
    }};
}

impl Kernel {
    /// Run BPF code. On some kernels the current task cannot migrate meanwhile (the trampoline's
    /// migrate_disable()).
    pub(crate) fn within<T>(&self, name: &'static str, code: impl FnOnce() -> T) -> T {
        self.counters.callbacks.set(self.counters.callbacks.get() + 1);
        let here = self.here.get();
        // A hotplug thread is not a task here.
        let disables = self.case.release.programs_disable_migration() && !self.cpus[here].in_hotplug.get();
        let current = self.current_raw(here);
        if disables {
            current.change(|raw| raw.migration_disabled += 1);
        }
        let before = self.steps();
        let result = code();
        // Traced code may lose an increment to another CPU.
        let steps = self.steps().saturating_sub(before);
        if steps > self.counters.longest.get().0 && self.case.interleave.is_none() && name != "init" {
            self.counters.longest.set((steps, name));
        }
        if disables {
            current.change(|raw| raw.migration_disabled -= 1);
        }
        self.watch_clock();
        result
    }

    pub(crate) fn raw(&self, task: TaskId) -> *mut ffi::task_struct {
        self.tasks[task].raw.address()
    }

    pub(crate) fn op_init(&self) -> i32 {
        call!(self, init).unwrap_or(-1)
    }

    pub(crate) fn op_select_cpu(&self, task: TaskId, prev: usize, wake_flags: u64) -> i32 {
        self.deciding[self.here.get()].set(Some(task));
        let cpu = call!(self, select_cpu, self.raw(task), prev as i32, wake_flags).unwrap_or(-1);
        self.deciding[self.here.get()].set(None);
        cpu
    }

    pub(crate) fn op_enqueue(&self, task: TaskId, enq_flags: u64) {
        let here = self.here.get();
        let outer = self.deciding[here].replace(Some(task));
        call!(self, enqueue, self.raw(task), enq_flags);
        self.deciding[here].set(outer);
    }

    pub(crate) fn op_dispatch(&self, cpu: usize, prev: Option<TaskId>) {
        let prev = prev.map_or(std::ptr::null_mut(), |task| self.raw(task));
        call!(self, dispatch, cpu as i32, prev);
    }

    pub(crate) fn op_yield(&self, task: TaskId) {
        call!(self, yield_, self.raw(task), std::ptr::null_mut());
    }

    pub(crate) fn op_running(&self, task: TaskId) {
        call!(self, running, self.raw(task));
    }

    pub(crate) fn op_stopping(&self, task: TaskId, runnable: bool) {
        call!(self, stopping, self.raw(task), runnable);
    }

    pub(crate) fn op_tick(&self, task: TaskId) {
        call!(self, tick, self.raw(task));
    }

    pub(crate) fn op_runnable(&self, task: TaskId, enq_flags: u64) {
        call!(self, runnable, self.raw(task), enq_flags);
    }

    pub(crate) fn op_quiescent(&self, task: TaskId, deq_flags: u64) {
        call!(self, quiescent, self.raw(task), deq_flags);
    }

    pub(crate) fn op_init_task(&self, task: TaskId, fork: bool) {
        let mut args = ffi::scx_init_task_args { fork };
        let err = call!(self, init_task, self.raw(task), &raw mut args).unwrap_or(-1);
        if err != 0 {
            self.broken("init_task", format!("task {task} got {err}"));
        }
    }

    pub(crate) fn op_enable(&self, task: TaskId) {
        call!(self, enable, self.raw(task));
    }

    /// Call ops.cpu_online or ops.cpu_offline, as the hotplug thread of `cpu` itself does.
    pub(crate) fn op_cpu_online(&self, cpu: usize, online: bool) {
        self.as_hotplug_thread(cpu, || {
            if online {
                call!(self, cpu_online, cpu as i32);
            } else {
                call!(self, cpu_offline, cpu as i32);
            }
        });
    }

    fn as_hotplug_thread(&self, cpu: usize, code: impl FnOnce()) {
        let here = self.here.replace(cpu);
        self.cpus[cpu].in_hotplug.set(true);
        code();
        self.cpus[cpu].in_hotplug.set(false);
        self.here.set(here);
    }

    /// Run the program at a tracepoint of hotplug, as the hotplug thread of `cpu` does: when the
    /// CPU is about to leave the active mask, or after the kernel refused that.
    pub(crate) fn tp_hotplug(&self, cpu: usize, leaves: bool) {
        let (unit, active) = (self.unit(), ffi::CPUHP_AP_ACTIVE as i32);
        self.as_hotplug_thread(cpu, || {
            // SAFETY: as in call!.
            self.within("hotplug", || unsafe {
                match (leaves, unit.cpu_leaves, unit.cpu_stays) {
                    (true, Some(program), _) => program(cpu as u32, 0, active),
                    (false, _, Some(program)) => program(cpu as u32, active, active, -EBUSY),
                    _ => 0,
                }
            });
        });
    }

    pub(crate) fn op_cpu_release(&self, cpu: usize, stopper: bool) {
        let this = &self.cpus[cpu];
        let (reason, task) = if stopper {
            (ffi::SCX_CPU_PREEMPT_STOP, &this.stopper_task)
        } else {
            (ffi::SCX_CPU_PREEMPT_RT, &this.realtime_task)
        };
        let mut args = ffi::scx_cpu_release_args { reason, task: task.address() };
        call!(self, cpu_release, cpu as i32, &raw mut args);
    }

    /// Call the programs on the tracepoint sched_switch that are loaded.
    pub(crate) fn tp_switch(&self, preempt: bool, prev: *mut ffi::task_struct, next: *mut ffi::task_struct) {
        let counts = self.unit().count_switch.filter(|_| self.counts());
        let releases = self.unit().release_switch.filter(|_| self.case.release.reenqueues_for_all());
        for program in [counts, releases].into_iter().flatten() {
            // SAFETY: as in call!.
            self.within("sched_switch", || unsafe { program(preempt, prev, next) });
        }
    }

    /// Call the program at the entry of sched_tick(), if it is loaded.
    pub(crate) fn fentry_tick(&self) {
        if let Some(program) = self.unit().count_tick.filter(|_| self.counts()) {
            // SAFETY: as in call!.
            self.within("sched_tick", || unsafe { program() });
        }
    }

    /// Run the program that puts the other copy of the capacity table in force.
    pub(crate) fn replace_table(&self) {
        if let Some(program) = self.unit().table_replace {
            // SAFETY: as in call!; the program ignores its context.
            self.within("bias_table_replace", || unsafe { program(std::ptr::null_mut()) });
        }
    }

    /// Run the program that requests a planned swap, and return its answer.
    pub(crate) fn ask_swap(&self, request: &mut ffi::bias_swap_request) -> i32 {
        let request = std::ptr::from_mut(request);
        let Some(program) = self.unit().swap_ask else { return -1 };
        // SAFETY: as in call!; the request outlives the call.
        self.within("bias_swap_ask", || unsafe { program(request) })
    }

    /// Return true if some CPU has counters: the counting programs are then loaded.
    fn counts(&self) -> bool {
        self.case.counters != crate::case::CountersOf::None
    }
}
