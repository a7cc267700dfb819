// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Activities: what a CPU does in the kernel, and how several CPUs' activities interleave.
//!
//! With interleaving, each activity is a coroutine. It is suspended at a point where another CPU
//! may run in between, for a time that the seed decides, and while it waits for a lock.
//!
//! A CPU in the middle of an activity takes no interrupt: its events wait until the activity ends.

use std::rc::Rc;

use corosensei::CoroutineResult;
use corosensei::stack::DefaultStack;

use super::Kernel;
use super::events::Event;
use super::stacks::Activity;
use super::task::TaskId;

/// How long a CPU spins before it checks a lock again [ns].
const SPIN_NS: u64 = 50;

/// Size of an activity's stack.
const STACK_BYTES: usize = 256 << 10;

impl Kernel {
    /// Begin to carry out an event.
    pub(crate) fn begin(self: &Rc<Self>, event: Event) {
        if let Event::Resume(at) = event {
            self.resume(at);
            return;
        }
        let cpu = self.cpu_of(event);
        if let Some(cpu) = cpu {
            if self.cpus[cpu].in_kernel.get() {
                self.cpus[cpu].pending.borrow_mut().push(event);
                return;
            }
            self.cpus[cpu].in_kernel.set(true);
        }
        let Some(_) = self.case.interleave.filter(|_| cpu.is_some()) else {
            self.here.set(cpu.unwrap_or(0));
            self.act(cpu, event);
            return;
        };
        let kernel = Rc::as_ptr(self);
        let stack = self.stacks.unused.borrow_mut().pop();
        let Some(stack) = stack.or_else(|| DefaultStack::new(STACK_BYTES).ok()) else {
            self.broken("memory", "no memory for a stack");
            return;
        };
        let activity = Activity::with_stack(stack, move |yielder, ()| {
            // SAFETY: the engine drops its activities before itself, see Stacks.
            let kernel = unsafe { &*kernel };
            kernel.stacks.yielder.set(yielder);
            kernel.here.set(cpu.unwrap_or(0));
            kernel.act(cpu, event);
        });
        let at = self.stacks.free.borrow_mut().pop();
        let at = at.unwrap_or_else(|| {
            let mut suspended = self.stacks.suspended.borrow_mut();
            suspended.push(None);
            suspended.len() - 1
        });
        self.stacks.suspended.borrow_mut()[at] = Some(activity);
        self.resume(at);
    }

    fn resume(&self, at: usize) {
        let Some(mut activity) = self.stacks.suspended.borrow_mut()[at].take() else { return };
        let result = activity.resume(());
        self.stacks.yielder.set(std::ptr::null());
        match result {
            CoroutineResult::Yield(delay_ns) => {
                self.stacks.suspended.borrow_mut()[at] = Some(activity);
                self.push(self.now() + delay_ns, Event::Resume(at));
            }
            CoroutineResult::Return(()) => {
                self.stacks.free.borrow_mut().push(at);
                self.stacks.unused.borrow_mut().push(activity.into_stack());
            }
        }
    }

    fn act(&self, cpu: Option<usize>, event: Event) {
        self.handle(event);
        let Some(cpu) = cpu else { return };
        let this = &self.cpus[cpu];
        // The return from an interrupt or a system call reschedules.
        while this.need_resched.get() && !self.is_broken() {
            self.schedule(cpu);
        }
        this.in_kernel.set(false);
        for event in this.pending.take() {
            self.push(self.now(), event);
        }
    }

    /// Suspend this activity for `delay_ns`. Do nothing outside of one.
    fn suspend(&self, delay_ns: u64) -> bool {
        let yielder = self.stacks.yielder.get();
        if yielder.is_null() {
            return false;
        }
        let here = self.here.get();
        // SAFETY: the yielder is that of the running activity: each one sets its own when it begins
        // or resumes, and resume() clears it.
        unsafe { (*yielder).suspend(delay_ns) };
        self.stacks.yielder.set(yielder);
        self.here.set(here);
        true
    }

    /// Let other CPUs run here, if the seed decides so.
    pub(crate) fn point(&self) {
        let Some(interleave) = self.case.interleave else { return };
        if self.stacks.yielder.get().is_null() || self.random(1000) >= u64::from(interleave.permille) {
            return;
        }
        self.suspend(1 + self.random(interleave.longest_ns));
    }

    /// Wait while `held`.
    pub(crate) fn wait_while(&self, what: &str, held: impl Fn() -> bool) {
        let mut spins = 0;
        while held() {
            spins += 1;
            if !self.suspend(SPIN_NS) || spins > 1_000_000 {
                self.broken("deadlock", format!("CPU {} waits for {what}", self.here.get()));
                return;
            }
        }
    }

    /// Let suspended activities end, without beginning others.
    pub(crate) fn finish_activities(&self) {
        let mut rounds = 0;
        while self.stacks.suspended.borrow().iter().any(Option::is_some) && !self.is_broken() {
            rounds += 1;
            if rounds > 1_000_000 {
                self.broken("deadlock", "activities do not end");
                return;
            }
            self.now_ns.set(self.now() + SPIN_NS);
            let all = self.stacks.suspended.borrow().len();
            (0..all).for_each(|at| self.resume(at));
        }
    }

    /// Keep other CPUs from waking or changing a task (p->pi_lock).
    pub(crate) fn pi_lock(&self, task: TaskId) {
        let this = &self.tasks[task];
        self.wait_while("a task", || this.pi_locked.get() && !self.is_broken());
        this.pi_locked.set(true);
    }

    /// Let other CPUs wake and change a task.
    pub(crate) fn pi_unlock(&self, task: TaskId) {
        self.tasks[task].pi_locked.set(false);
    }

    /// Lock the runqueue of `cpu`.
    pub(crate) fn lock(&self, cpu: usize) {
        self.wait_while("a runqueue", || self.cpus[cpu].locked_by.get().is_some() && !self.is_broken());
        self.cpus[cpu].locked_by.set(Some(self.here.get()));
    }

    /// Unlock the runqueue of `cpu`.
    pub(crate) fn unlock(&self, cpu: usize) {
        self.cpus[cpu].locked_by.set(None);
    }
}
