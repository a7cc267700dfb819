// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Processes that run workloads at the same time.
//!
//! # Problem
//! A measurement must know exactly how much work a task did in a window of time, and on which CPUs.
//! It must not cost the task anything that a scheduler could notice.
//!
//! # Approach
//! Every task is a forked process: it shares no mmap lock and is a scheduling entity of its own. It
//! publishes its work in shared memory after each step. The measuring process sleeps, and reads all
//! counters together at both ends of the window, so a window's work is exact to a step. The task
//! itself accounts its run time per CPU. It reads its CPU number after each step (one read of
//! thread-local memory). It reads its CPU clock only when the CPU, the phase, or the stall state
//! has changed.
//!
//! # Invariants
//! All tasks start working together, after the last one has built its set. A task ends on request,
//! or when its parent dies.
//!
//! # Limits
//! A step in which the task migrates is charged to the old CPU as a whole (0.3 ms in the VM).

mod account;
mod slot;

pub use account::cpu_time_ns;
#[cfg(test)]
pub(crate) use slot::example;
pub use slot::{Stay, TaskWindow};

use crate::shared::Shared;
use crate::spec::WorkKind;
use crate::{Error, Result, cpus, sched};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use slot::{PHASE_MEASURE, PHASE_STOP, PHASE_WORK, Slot};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Longest wait for all tasks to have built their sets.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// Fork a child that runs `body` and exits with the code that it returns, or with 101 if it panics.
/// The kernel kills the child when the calling thread ends.
///
/// `body` may allocate: the programs of this crate have one thread, and glibc keeps its allocator
/// usable after fork in any case.
pub fn spawn(body: impl FnOnce() -> u8) -> Result<Pid> {
    let parent = nix::unistd::getpid();
    // SAFETY: the child runs `body` and leaves by _exit, so no destructor or buffer of the parent
    // runs twice.
    match unsafe { fork() } {
        Ok(ForkResult::Parent { child }) => Ok(child),
        Ok(ForkResult::Child) => {
            // SAFETY: this is a plain system call with the arguments that PR_SET_PDEATHSIG takes.
            unsafe { nix::libc::prctl(nix::libc::PR_SET_PDEATHSIG, nix::libc::SIGKILL) };
            // The parent may have died before the prctl.
            let orphan = nix::unistd::getppid() != parent;
            let run = std::panic::AssertUnwindSafe(|| if orphan { 1 } else { body() });
            let code = std::panic::catch_unwind(run).unwrap_or(101);
            // SAFETY: this ends the process without running anything of the parent's.
            unsafe { nix::libc::_exit(code.into()) }
        }
        Err(e) => Err(Error::failed("starting a process", e)),
    }
}

/// Kill and reap children. An error means that one has ended already, as intended.
pub fn end(children: &[Pid]) {
    for &pid in children {
        let _ = kill(pid, Signal::SIGKILL);
        let _ = waitpid(pid, None);
    }
}

/// Figures of all tasks inside a window.
#[derive(Debug, Clone)]
pub struct Window {
    /// Length of the window, nanoseconds of wall clock.
    pub wall_ns: u64,
    /// One entry per task, in the order given to [`Group::start`].
    pub tasks: Vec<TaskWindow>,
}

/// The beginning of a window: its time, and each task's work until then.
#[derive(Debug)]
pub struct Started {
    at: Instant,
    work: Vec<u64>,
}

/// Running tasks. Dropping it kills and reaps them.
pub struct Group {
    phase: Shared<AtomicU64>,
    slots: Shared<Slot>,
    pids: Vec<Pid>,
    len: usize,
}

impl Group {
    /// Start one process per kind. Each builds its set and waits. `pins[i]`, if given, pins task i.
    /// Return when all are ready.
    pub fn start(kinds: &[WorkKind], pins: &[Option<usize>]) -> Result<Self> {
        let phase = Shared::new(1)?;
        let slots: Shared<Slot> = Shared::new(kinds.len())?;
        let mut group = Group { phase, slots, pids: Vec::new(), len: kinds.len() };
        for (i, kind) in kinds.iter().enumerate() {
            let (phase, slot) = (&group.phase.all()[0], &group.slots.all()[i]);
            let pin = pins.get(i).copied().flatten();
            let nth = kinds[..i].iter().filter(|earlier| *earlier == kind).count();
            let child = spawn(|| account::run_task(kind, nth, pin, phase, slot))?;
            group.pids.push(child);
        }
        group.await_ready()?;
        Ok(group)
    }

    fn await_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + READY_TIMEOUT;
        while !self.slots.all()[..self.len].iter().all(|slot| slot.ready.load(Relaxed) == 1) {
            self.check_alive()?;
            if Instant::now() > deadline {
                return Err(Error::failed("starting the tasks", format!("not ready in {READY_TIMEOUT:?}")));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Fail if any task has ended.
    pub fn check_alive(&self) -> Result<()> {
        for &pid in &self.pids {
            let status = waitpid(pid, Some(nix::sys::wait::WaitPidFlag::WNOHANG));
            if !matches!(status, Ok(WaitStatus::StillAlive)) {
                return Err(Error::failed(format!("task {pid} ended early"), format!("{status:?}")));
            }
        }
        Ok(())
    }

    /// Let all tasks work for `warmup`, measure them for `window`, and end them.
    pub fn measure(self, warmup: Duration, window: Duration) -> Result<Window> {
        let started = self.begin(warmup);
        std::thread::sleep(window);
        self.end(started)
    }

    /// Let all tasks work for `warmup`, then begin to measure.
    pub fn begin(&self, warmup: Duration) -> Started {
        self.set_phase(PHASE_WORK);
        std::thread::sleep(warmup);
        self.set_phase(PHASE_MEASURE);
        let (at, work) = self.read_work();
        Started { at, work }
    }

    /// End the window that began with `started`, and all tasks.
    pub fn end(mut self, started: Started) -> Result<Window> {
        let (end, after) = self.read_work();
        self.check_alive()?;
        self.set_phase(PHASE_STOP);
        self.reap()?;
        let units = started.work.iter().zip(&after).map(|(before, after)| after - before);
        let slots = &self.slots.all()[..self.len];
        let tasks = slots.iter().zip(units).map(|(slot, units)| slot.window(units)).collect();
        Ok(Window { wall_ns: (end - started.at).as_nanos() as u64, tasks })
    }

    /// Return true if any of the tasks runs under sched_ext. None if the kernel does not report it.
    pub fn is_on_ext(&self) -> Option<bool> {
        let mut on_ext = false;
        for pid in &self.pids {
            on_ext |= sched::runs(*pid)?;
        }
        Some(on_ext)
    }

    /// Return the number of tasks.
    pub fn tasks(&self) -> usize {
        self.len
    }

    /// Restrict a task to these CPUs from now on.
    pub fn place(&self, task: usize, cpus: &[usize]) -> Result<()> {
        self.pids.get(task).map_or(Ok(()), |&pid| cpus::set_affinity(pid, cpus))
    }

    /// Let all tasks work, unmeasured, until [`Group::finish`].
    pub fn work(&self) {
        self.set_phase(PHASE_WORK);
    }

    /// Return the units of work of each task so far.
    pub fn units(&self) -> Vec<u64> {
        self.read_work().1
    }

    /// End all tasks. Fail if one had ended before, or ends with an error.
    pub fn finish(mut self) -> Result<()> {
        self.check_alive()?;
        self.set_phase(PHASE_STOP);
        self.reap()
    }

    fn set_phase(&self, phase: u64) {
        self.phase.all()[0].store(phase, Relaxed);
    }

    fn read_work(&self) -> (Instant, Vec<u64>) {
        let now = Instant::now();
        (now, self.slots.all()[..self.len].iter().map(|slot| slot.work.load(Relaxed)).collect())
    }

    fn reap(&mut self) -> Result<()> {
        for pid in std::mem::take(&mut self.pids) {
            match waitpid(pid, None) {
                Ok(WaitStatus::Exited(_, 0)) => {}
                other => return Err(Error::failed(format!("task {pid} failed"), format!("{other:?}"))),
            }
        }
        Ok(())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        end(&self.pids);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::MAX_CPUS;

    /// Return a window that suffices. On a busy host, a task may get no CPU in a short one.
    fn window(
        kinds: &[WorkKind],
        pins: &[Option<usize>],
        suffices: impl Fn(&[TaskWindow]) -> bool,
    ) -> Vec<TaskWindow> {
        for ms in [300, 3000, 30_000] {
            let group = Group::start(kinds, pins).unwrap();
            let window = group.measure(Duration::from_millis(50), Duration::from_millis(ms)).unwrap();
            if suffices(&window.tasks) {
                return window.tasks;
            }
        }
        panic!("no window suffices");
    }

    #[test]
    fn pinned_tasks_are_charged_to_their_cpu_only() {
        let cpu = cpus::online().unwrap().0[0];
        let (kinds, pins) = ([WorkKind::Compute, WorkKind::Branchy], [Some(cpu), Some(cpu)]);
        let tasks = window(&kinds, &pins, |tasks| tasks.iter().all(|task| task.units > 0));
        assert_eq!(tasks.len(), 2);
        for task in &tasks {
            assert_eq!(task.cpu_changes, 0);
            assert_eq!(task.cpu_ns.len(), cpu + 1);
            assert!(task.cpu_ns[cpu] > 0 && task.cpu_ns[..cpu].iter().all(|&ns| ns == 0));
        }
    }

    #[test]
    fn computing_and_stalled_time_are_counted_separately() {
        let kinds = ["phases:50".parse().unwrap(), WorkKind::Compute];
        let sums = |task: &TaskWindow| (task.cpu_ns.iter().sum::<u64>(), task.stalled_ns.iter().sum::<u64>());
        let both = |tasks: &[TaskWindow]| {
            let (all, stalled) = sums(&tasks[0]);
            stalled > 0 && stalled < all
        };
        let tasks = window(&kinds, &[], both);
        let (all, _) = sums(&tasks[0]);
        let stays = &tasks[0].stays;
        assert_eq!(stays.iter().map(|stay| stay.ns).sum::<u64>(), all, "stays cover all time");
        assert!(stays.windows(2).any(|pair| pair[0].stalled != pair[1].stalled));
        let stay = Stay { cpu: MAX_CPUS - 1, stalled: true, ns: 86_400_000_000_000 };
        assert_eq!(Stay::of_word(stay.word()), stay);
        assert_eq!(sums(&tasks[1]).1, 0, "a kind without phases");
    }

    #[test]
    fn a_task_that_cannot_start_is_reported() {
        let error = Group::start(&[WorkKind::Compute], &[Some(MAX_CPUS - 1)]).err().unwrap();
        assert!(error.to_string().contains("ended early"), "{error}");
    }

    #[test]
    fn a_panic_in_a_child_is_its_exit_code() {
        let pid = spawn(|| std::panic::resume_unwind(Box::new(()))).unwrap();
        assert_eq!(waitpid(pid, None), Ok(WaitStatus::Exited(pid, 101)));
    }
}
