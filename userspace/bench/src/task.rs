//! Processes that run workloads at the same time.
//!
//! # Problem
//! A measurement must know exactly how much work a task did in a window of time, and on which CPUs.
//! It must not cost the task anything that a scheduler could notice.
//!
//! # Approach
//! Every task is a forked process: it shares no mmap lock and is a scheduling entity of its own. It
//! publishes its work in shared memory after each step. The measuring process sleeps, and reads all
//! counters at once at both ends of the window, so a window's work is exact to a step. The task
//! itself accounts its run time per CPU. It reads its CPU number after each step (one read of
//! thread-local memory). It reads its CPU clock only when the CPU, the phase, or the nature of the
//! work has changed.
//!
//! # Invariants
//! All tasks start working together, after the last one has built its set. A task ends on request,
//! or when its parent dies.
//!
//! # Limits
//! A step in which the task migrates is charged to the old CPU as a whole (0.3 ms in the VM).

use crate::shared::{Shared, SharedZero};
use crate::spec::{Kind, MAX_CPUS};
use crate::{Error, Result, cpus, sched, work};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
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

/// Phases of a group, as stored in shared memory.
const PHASE_WAIT: u64 = 0;
const PHASE_WORK: u64 = 1;
const PHASE_MEASURE: u64 = 2;
const PHASE_STOP: u64 = 3;

/// Stays per window that are kept: enough for minutes of phases of some seconds.
const MAX_STAYS: usize = 512;

/// Figures that a task publishes. Times are in nanoseconds.
#[repr(C, align(64))]
struct Slot {
    /// Units of work so far.
    work: AtomicU64,
    /// 1 once the set is built.
    ready: AtomicU64,
    /// Changes of CPU between steps, inside the window.
    cpu_changes: AtomicU64,
    /// Context switches inside the window: the task blocked, or was preempted.
    voluntary: AtomicU64,
    involuntary: AtomicU64,
    /// CPU time spent on each CPU inside the window.
    cpu_ns: [AtomicU64; MAX_CPUS],
    /// The part of that CPU time in which the task was stalled, for kinds that change their nature.
    stalled_ns: [AtomicU64; MAX_CPUS],
    /// Number of stays so far, and the first [`MAX_STAYS`] of them, see [`Stay::word`].
    nr_stays: AtomicU64,
    stays: [AtomicU64; MAX_STAYS],
}

// SAFETY: the fields are atomics only, and valid when zero.
unsafe impl SharedZero for Slot {}

/// A part of a task's run on one CPU and of one nature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stay {
    /// The CPU.
    pub cpu: usize,
    /// True if the task stalled, false if it computed.
    pub stalled: bool,
    /// CPU time, nanoseconds.
    pub ns: u64,
}

impl Stay {
    /// Bits of the time. They hold more than a day.
    const NS_BITS: u32 = 47;

    /// Pack nature, CPU and time in one word, so that no reader sees a torn value.
    fn word(self) -> u64 {
        let ns = self.ns.min((1 << Self::NS_BITS) - 1);
        u64::from(self.stalled) << 63 | (self.cpu as u64) << Self::NS_BITS | ns
    }

    fn of_word(word: u64) -> Self {
        Stay {
            stalled: word >> 63 == 1,
            cpu: ((word & !(1 << 63)) >> Self::NS_BITS) as usize,
            ns: word & ((1 << Self::NS_BITS) - 1),
        }
    }
}

/// Figures of one task inside a window.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskWindow {
    /// Units of work.
    pub units: u64,
    /// CPU time by CPU, nanoseconds. The length is the highest used CPU plus one.
    pub cpu_ns: Vec<u64>,
    /// The part of `cpu_ns` in which a task that changes its nature was stalled, of the same
    /// length. Zeros for all other tasks.
    pub stalled_ns: Vec<u64>,
    /// The first [`MAX_STAYS`] stays, in their order.
    pub stays: Vec<Stay>,
    /// Changes of CPU observed between steps.
    pub cpu_changes: u64,
    /// Context switches in which the task blocked.
    pub voluntary: u64,
    /// Context switches in which the task was preempted.
    pub involuntary: u64,
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
    pub fn start(kinds: &[Kind], pins: &[Option<usize>]) -> Result<Self> {
        let phase = Shared::new(1)?;
        let slots: Shared<Slot> = Shared::new(kinds.len())?;
        let mut group = Group { phase, slots, pids: Vec::new(), len: kinds.len() };
        for (i, kind) in kinds.iter().enumerate() {
            let (phase, slot) = (&group.phase.all()[0], &group.slots.all()[i]);
            let pin = pins.get(i).copied().flatten();
            let nth = kinds[..i].iter().filter(|earlier| *earlier == kind).count();
            let child = spawn(|| run_task(kind, nth, pin, phase, slot))?;
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
                return Err(Error::failed(
                    format!("task {pid} ended before its time"),
                    format!("{status:?}"),
                ));
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
        for &pid in &self.pids {
            // An error means that the task has ended already, as intended.
            let _ = kill(pid, Signal::SIGKILL);
            let _ = waitpid(pid, None);
        }
    }
}

impl Slot {
    fn window(&self, units: u64) -> TaskWindow {
        let load = |of: &[AtomicU64; MAX_CPUS]| of.iter().map(|ns| ns.load(Relaxed)).collect::<Vec<u64>>();
        let (mut cpu_ns, mut stalled_ns) = (load(&self.cpu_ns), load(&self.stalled_ns));
        let used = cpu_ns.iter().rposition(|&ns| ns > 0).map_or(0, |last| last + 1);
        cpu_ns.truncate(used);
        stalled_ns.truncate(used);
        TaskWindow {
            units,
            cpu_ns,
            stalled_ns,
            stays: self.stays[..(self.nr_stays.load(Relaxed) as usize).min(MAX_STAYS)]
                .iter()
                .map(|word| Stay::of_word(word.load(Relaxed)))
                .collect(),
            cpu_changes: self.cpu_changes.load(Relaxed),
            voluntary: self.voluntary.load(Relaxed),
            involuntary: self.involuntary.load(Relaxed),
        }
    }
}

/// Run a task process: build the set, wait for the start, work and account, stop.
fn run_task(kind: &Kind, nth: usize, pin: Option<usize>, phase: &AtomicU64, slot: &Slot) -> u8 {
    if let Some(cpu) = pin
        && cpus::set_affinity(Pid::from_raw(0), &[cpu]).is_err()
    {
        return 1;
    }
    let mut work = work::build_nth(kind, nth);
    work.step();
    slot.ready.store(1, Relaxed);
    while phase.load(Relaxed) == PHASE_WAIT {
        std::thread::sleep(Duration::from_millis(2));
    }
    let mut units = 0;
    let mut account = Account::start(slot);
    let mut seen = PHASE_WORK;
    loop {
        units += work.step();
        slot.work.store(units, Relaxed);
        account.step(work.stalls());
        let now = phase.load(Relaxed);
        if now == seen {
            continue;
        }
        if now == PHASE_STOP {
            account.finish();
            return 0;
        }
        seen = now;
        account = Account::start(slot);
        account.counting = true;
    }
}

/// Account of a task's CPU time.
struct Account<'a> {
    slot: &'a Slot,
    counting: bool,
    cpu: usize,
    /// Whether the last finished step was one of stalls. Always false for kinds that never change.
    stalled: bool,
    since_ns: u64,
    voluntary: u64,
    involuntary: u64,
}

impl<'a> Account<'a> {
    fn start(slot: &'a Slot) -> Self {
        let (voluntary, involuntary) = switches();
        Account {
            slot,
            counting: false,
            cpu: cpus::current(),
            stalled: false,
            since_ns: cpu_time_ns(),
            voluntary,
            involuntary,
        }
    }

    /// Account the last step: charge the time so far if the CPU or the nature of the work changed.
    #[inline]
    fn step(&mut self, stalled: bool) {
        let cpu = cpus::current();
        if stalled != self.stalled {
            self.charge();
            self.stalled = stalled;
        }
        if cpu != self.cpu {
            self.charge();
            self.cpu = cpu;
            if self.counting {
                self.slot.cpu_changes.fetch_add(1, Relaxed);
            }
        }
    }

    fn charge(&mut self) {
        let now = cpu_time_ns();
        if self.counting {
            self.slot.cpu_ns[self.cpu].fetch_add(now - self.since_ns, Relaxed);
            if self.stalled {
                self.slot.stalled_ns[self.cpu].fetch_add(now - self.since_ns, Relaxed);
            }
            let at = self.slot.nr_stays.fetch_add(1, Relaxed) as usize;
            if let Some(word) = self.slot.stays.get(at) {
                let stay = Stay { cpu: self.cpu, stalled: self.stalled, ns: now - self.since_ns };
                word.store(stay.word(), Relaxed);
            }
        }
        self.since_ns = now;
    }

    fn finish(&mut self) {
        self.charge();
        let (voluntary, involuntary) = switches();
        self.slot.voluntary.store(voluntary - self.voluntary, Relaxed);
        self.slot.involuntary.store(involuntary - self.involuntary, Relaxed);
    }
}

/// Return the CPU time of the calling thread, nanoseconds.
pub fn cpu_time_ns() -> u64 {
    let clock = nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID;
    // The clock exists on every Linux. A 0 would show as an impossible rate.
    let now = nix::time::clock_gettime(clock).map(Duration::from).unwrap_or_default();
    now.as_nanos() as u64
}

/// Return the voluntary and involuntary context switches of this process so far.
fn switches() -> (u64, u64) {
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF);
    usage.map_or((0, 0), |u| (u.voluntary_context_switches() as u64, u.involuntary_context_switches() as u64))
}

/// Example data for tests of other modules.
#[cfg(test)]
pub(crate) mod example {
    use super::TaskWindow;

    /// Make a task with this work and CPU time by CPU, 4 changes of CPU and 5 context switches.
    pub(crate) fn task(units: u64, cpu_ns: &[u64]) -> TaskWindow {
        let stalled_ns = vec![0; cpu_ns.len()];
        TaskWindow {
            units,
            cpu_ns: cpu_ns.to_vec(),
            stalled_ns,
            stays: Vec::new(),
            cpu_changes: 4,
            voluntary: 2,
            involuntary: 3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pinned_tasks_are_charged_to_their_cpu_only() {
        let cpu = cpus::online().unwrap().0[0];
        let group = Group::start(&[Kind::Compute, Kind::Branchy], &[Some(cpu), Some(cpu)]).unwrap();
        let window = group.measure(Duration::from_millis(50), Duration::from_millis(300)).unwrap();
        assert_eq!(window.tasks.len(), 2);
        for task in &window.tasks {
            assert!(task.units > 0);
            assert_eq!(task.cpu_changes, 0);
            assert_eq!(task.cpu_ns.len(), cpu + 1);
            assert!(task.cpu_ns[cpu] > 0 && task.cpu_ns[..cpu].iter().all(|&ns| ns == 0));
        }
    }

    #[test]
    fn the_time_of_each_nature_is_told_apart() {
        let kinds = ["phases:50".parse().unwrap(), Kind::Compute];
        let window =
            Group::start(&kinds, &[]).unwrap().measure(Duration::from_millis(30), Duration::from_millis(300));
        let tasks = window.unwrap().tasks;
        let sums = |task: &TaskWindow| (task.cpu_ns.iter().sum::<u64>(), task.stalled_ns.iter().sum::<u64>());
        let (all, stalled) = sums(&tasks[0]);
        assert!(stalled > 0 && stalled < all, "{stalled} of {all}");
        let stays = &tasks[0].stays;
        assert_eq!(stays.iter().map(|stay| stay.ns).sum::<u64>(), all, "stays are all there is");
        assert!(stays.windows(2).any(|pair| pair[0].stalled != pair[1].stalled));
        let stay = Stay { cpu: MAX_CPUS - 1, stalled: true, ns: 86_400_000_000_000 };
        assert_eq!(Stay::of_word(stay.word()), stay);
        assert_eq!(sums(&tasks[1]).1, 0, "a kind of one nature");
    }

    #[test]
    fn a_task_that_cannot_start_is_reported() {
        let error = Group::start(&[Kind::Compute], &[Some(MAX_CPUS - 1)]).err().unwrap();
        assert!(error.to_string().contains("ended before its time"), "{error}");
    }

    #[test]
    fn a_panic_in_a_child_is_its_exit_code() {
        let pid = spawn(|| std::panic::resume_unwind(Box::new(()))).unwrap();
        assert_eq!(waitpid(pid, None), Ok(WaitStatus::Exited(pid, 101)));
    }
}
