// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! A fake kernel side: CPUs with true costs, tasks that work, and swaps that succeed, fail or are
//! lost.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::cell::{Cell, RefCell};
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use anyhow::{Result, bail};
use bias_policy::ffi;
use bias_policy::swap::Resident;
use bias_policy::table::{COMPONENTS, CapacityTable, Class};
pub(crate) use bias_policy::testkit::{CHASE, LOOP, table};
use bias_policy::testkit::{FAST, SLOW};

use super::backend::{Refusal, SwapBackend, SwapRequest, Task};
use super::{SwapOptions, Swaps};
use crate::costs::Live;

pub(crate) const MS: u64 = 1_000_000;

/// Treatment of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum InjectedFault {
    /// The kernel side checks them and carries them out.
    #[default]
    Done,
    /// The kernel side accepts them and does nothing.
    Lost,
    Refused(Refusal),
    /// The call fails, and so does every query.
    Error,
    /// The task that was to migrate to the fast CPU ends before the check.
    Death,
}

#[derive(Debug, Clone)]
pub(crate) struct FakeTask {
    pub task: Task,
    pub stack: [u32; COMPONENTS],
}

#[derive(Debug, Default)]
pub(crate) struct FakeKernel {
    pub now_ns: Cell<u64>,
    pub fault: Cell<InjectedFault>,
    pub tasks: RefCell<Vec<FakeTask>>,
    pub asked: RefCell<Vec<SwapRequest>>,
    pub queries: Cell<usize>,
    pub waiting_since_ns: u64,
    /// True costs of the slow CPUs.
    pub truth: [u32; COMPONENTS],
    pub published: Vec<CapacityTable>,
    pub next_start: Cell<u64>,
}

fn time_permille(stack: [u32; COMPONENTS], cost: [u32; COMPONENTS]) -> u64 {
    stack.iter().zip(cost).map(|(share, cost)| u64::from(*share) * u64::from(cost)).sum::<u64>() / 1000
}

fn class_of(cpu: u32) -> Class {
    if cpu < 2 { Class::Fast } else { Class::Slow }
}

fn raw_class_of(cpu: u32) -> ffi::bias_class {
    if class_of(cpu) == Class::Slow { ffi::BIAS_SLOW } else { ffi::BIAS_FAST }
}

impl FakeKernel {
    /// Create one task per CPU, with these CPI stacks.
    pub(crate) fn new(stacks: &[[u32; COMPONENTS]]) -> Self {
        let fake = Self { truth: SLOW, ..Self::default() };
        fake.now_ns.set(1000 * MS);
        for (cpu, stack) in (0..).zip(stacks) {
            fake.spawn(100 + cpu, cpu, *stack);
        }
        fake
    }

    /// Two memory-bound tasks on fast CPUs, two computing ones on slow CPUs.
    pub(crate) fn worst() -> Self {
        Self::new(&[CHASE, CHASE, LOOP, LOOP])
    }

    pub(crate) fn spawn(&self, pid: u32, cpu: u32, stack: [u32; COMPONENTS]) {
        self.next_start.set(self.next_start.get() + 1);
        let task = Task {
            pid,
            start_ns: self.next_start.get(),
            name: format!("task{pid}"),
            cpu,
            runnable: true,
            movable: true,
            allowed: None,
            moved_ns: None,
            swapped: false,
            lost_ns: 0,
            work: ffi::bias_work::default(),
            stack_permille: Some(stack),
            stable: true,
        };
        self.tasks.borrow_mut().push(FakeTask { task, stack });
    }

    pub(crate) fn ends(&self, pid: u32) {
        self.tasks.borrow_mut().retain(|one| one.task.pid != pid);
    }

    /// Give `pid` another CPI stack from now on.
    pub(crate) fn changes(&self, pid: u32, stack: [u32; COMPONENTS]) {
        self.with(pid, |one| {
            one.stack = stack;
            one.task.stack_permille = Some(stack);
            one.task.work = ffi::bias_work::default();
        });
    }

    pub(crate) fn with(&self, pid: u32, change: impl Fn(&mut FakeTask)) {
        self.tasks.borrow_mut().iter_mut().filter(|one| one.task.pid == pid).for_each(change);
    }

    pub(crate) fn cpu_of(&self, pid: u32) -> Option<u32> {
        self.tasks.borrow().iter().find(|one| one.task.pid == pid).map(|one| one.task.cpu)
    }

    fn cost(&self, cpu: u32) -> [u32; COMPONENTS] {
        if class_of(cpu) == Class::Slow { self.truth } else { FAST }
    }

    /// Let time pass, in which every runnable task works.
    pub(crate) fn advance(&self, ns: u64) {
        self.now_ns.set(self.now_ns.get() + ns);
        for one in self.tasks.borrow_mut().iter_mut().filter(|one| one.task.runnable) {
            let mut left = ns;
            while left > 0 {
                let stretch = left.min(20 * MS);
                left -= stretch;
                let work = stretch * 1000 / time_permille(one.stack, self.cost(one.task.cpu)).max(1);
                let class = raw_class_of(one.task.cpu);
                // SAFETY: the function only accesses the data that the pointer refers to.
                unsafe { ffi::bias_work_add(&mut one.task.work, work, stretch, class) };
            }
        }
    }

    /// Check a request as `bpf/swap.bpf.h` does.
    fn check(&self, request: &SwapRequest) -> Result<(), Refusal> {
        let tasks = self.tasks.borrow();
        for (side, to) in [(request.up, request.down.cpu), (request.down, request.up.cpu)] {
            let task = tasks.iter().map(|one| &one.task).find(|task| task.pid == side.pid);
            let task = task.filter(|task| task.start_ns == side.start_ns).ok_or(Refusal::Gone)?;
            if task.cpu != side.cpu || !task.runnable {
                return Err(Refusal::Elsewhere);
            }
            if !task.movable || task.allowed.is_some_and(|cpus| !cpus.contains(to)) {
                return Err(Refusal::Confined);
            }
        }
        Ok(())
    }

    fn carry_out(&self, request: &SwapRequest) {
        let now_ns = self.now_ns.get();
        for (side, to) in [(request.up, request.down.cpu), (request.down, request.up.cpu)] {
            self.with(side.pid, |one| {
                (one.task.cpu, one.task.moved_ns) = (to, Some(now_ns + MS));
                one.task.lost_ns += MS;
                one.task.swapped = true;
                // SAFETY: as above.
                unsafe { ffi::bias_work_forget(&mut one.task.work, raw_class_of(to)) };
            });
        }
    }
}

impl SwapBackend for FakeKernel {
    fn residents(&self, residents: &mut Vec<Resident>) {
        residents.clear();
        for cpu in 0..4 {
            let tasks = self.tasks.borrow();
            let one = tasks.iter().find(|one| one.task.cpu == cpu && one.task.runnable);
            let speedup = |one: &FakeTask| {
                let stack = one.task.stack_permille?;
                Some((time_permille(stack, SLOW) * 1000 / time_permille(stack, FAST).max(1)) as u32)
            };
            residents.push(Resident {
                cpu,
                pid: one.map_or(0, |one| one.task.pid),
                speedup_permille: one.and_then(speedup).unwrap_or(0),
                waiting_since_ns: self.waiting_since_ns,
            });
        }
    }

    fn query(&self, pid: u32) -> Result<Option<Task>> {
        self.queries.set(self.queries.get() + 1);
        if self.fault.get() == InjectedFault::Error {
            bail!("query refused");
        }
        Ok(self.tasks.borrow().iter().find(|one| one.task.pid == pid).map(|one| one.task.clone()))
    }

    fn ask(&self, request: &SwapRequest) -> Result<Result<(), Refusal>> {
        self.asked.borrow_mut().push(*request);
        match self.fault.get() {
            InjectedFault::Error => bail!("request refused"),
            InjectedFault::Refused(why) => Ok(Err(why)),
            InjectedFault::Lost => Ok(self.check(request)),
            InjectedFault::Death => {
                self.ends(request.up.pid);
                Ok(self.check(request))
            }
            InjectedFault::Done => {
                let answer = self.check(request);
                if answer.is_ok() {
                    self.carry_out(request);
                }
                Ok(answer)
            }
        }
    }
}

impl FakeKernel {
    pub(crate) fn publish(&mut self, table: &CapacityTable) -> Result<()> {
        self.published.push(table.clone());
        Ok(())
    }
}

/// The loop with the costs that it reads and changes.
pub(crate) struct Loop {
    swaps: Swaps,
    pub(crate) live: Live,
}

impl Loop {
    pub(crate) fn step(&mut self, now_ns: u64, fake: &mut FakeKernel) -> Duration {
        let pause = self.swaps.step(now_ns, fake, &mut self.live);
        self.live.publish(|table| fake.publish(table));
        pause
    }

    /// Set these clocks as recalibration does.
    pub(crate) fn recalibrated(&mut self, clock_permille: Vec<u32>, fake: &mut FakeKernel) {
        self.live.costs.set_clocks(clock_permille);
        self.swaps.follow_costs(&mut self.live.costs);
        self.live.publish(|table| fake.publish(table));
    }
}

impl Deref for Loop {
    type Target = Swaps;

    fn deref(&self) -> &Swaps {
        &self.swaps
    }
}

impl DerefMut for Loop {
    fn deref_mut(&mut self) -> &mut Swaps {
        &mut self.swaps
    }
}

pub(crate) fn swaps() -> Loop {
    swaps_on(table())
}

pub(crate) fn swaps_on(table: CapacityTable) -> Loop {
    let live = Live::new(table);
    Loop { swaps: Swaps::new(&live, true, &SwapOptions::default()), live }
}

/// Return a loop that has learned other costs of slow CPUs from swaps, and its kernel side.
pub(crate) fn taught(truth: [u32; COMPONENTS]) -> (Loop, FakeKernel) {
    let mut fake = FakeKernel { truth, ..FakeKernel::worst() };
    let mut swaps = swaps();
    let mut natures = [CHASE, CHASE, LOOP, LOOP];
    for _ in 0..40 {
        run(&mut swaps, &mut fake, 3000);
        natures.rotate_left(2);
        (100..).zip(natures).for_each(|(pid, stack)| fake.changes(pid, stack));
    }
    (swaps, fake)
}

/// Run the loop for `ms`, with the pauses that it asks for.
pub(crate) fn run(swaps: &mut Loop, fake: &mut FakeKernel, ms: u64) {
    let end_ns = fake.now_ns.get() + ms * MS;
    while fake.now_ns.get() < end_ns {
        let pause = swaps.step(fake.now_ns.get(), fake).as_nanos() as u64;
        fake.advance(pause.clamp(MS, end_ns - fake.now_ns.get()));
    }
}
