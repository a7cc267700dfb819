// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Synchronisation of vCPU threads and QEMU's main loop: [`Clock`] with a lock and a futex to sleep
//! on.
//!
//! # Problem
//! QEMU stops all vCPUs for its exclusive sections. The vCPU that requests the section waits for
//! all others to stop. If one of them waited here for the requesting vCPU to advance, both would
//! wait for ever.
//!
//! # Approach
//! A wait ends after [`PATIENCE`]. The vCPU then executes one more block, and QEMU can stop it at
//! the start of that block. The block counts in the vCPU's local time as usual.
//!
//! The main loop's deadline is known only while it polls. A vCPU that arms a timer writes to an
//! event file of the main loop ([`Gate::notify_main`]). From then on the deadline is unknown until
//! the main loop has polled again. The end of the quantum and the time of an idle machine wait for
//! that poll. So no timer is late because the host delays the main loop.
//!
//! # Invariants
//! Lock order: a thread takes QEMU's lock before this one. No function here takes QEMU's lock. A
//! function that may open a quantum ends with [`Gate::release`].

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::{Clock, MainLoop, State};
use crate::host;
use crate::lines::Lines;
use crate::numa::Nodes;
use crate::settlement::{Deeds, Owed, Settlement};

/// Longest wait before a vCPU executes one more block.
const PATIENCE: Duration = Duration::from_millis(1);

/// The part of a vCPU's state that needs no lock.
#[derive(Default)]
struct Place {
    /// Futex word. It counts wakeups.
    bell: AtomicU32,
    /// True if the vCPU's thread sleeps on the word or is about to.
    asleep: AtomicBool,
    /// Share of the last quantum in which the vCPU's SMT siblings ran [permille].
    rivals_permille: AtomicU32,
}

/// State that the lock protects.
struct Inner {
    clock: Clock,
    settlement: Settlement,
    /// [`Gate::calls`] when the main loop last checked its events before it slept.
    calls_seen: u32,
    /// Sleeping vCPUs to wake once the lock is free; see [`Gate::release`].
    to_wake: Vec<usize>,
}

/// The point at which vCPUs and the main loop wait for each other.
pub struct Gate {
    inner: Mutex<Inner>,
    places: Vec<Place>,
    /// Holders of cache lines, if the machine tracks transfers.
    pub lines: Option<Lines>,
    /// True while virtual time is in force.
    on: AtomicBool,
    /// Number of times that virtual time came into force. A vCPU with an older value must reset its
    /// local time.
    epoch: AtomicU32,
    /// Copy of the clock's time.
    now_ns: AtomicI64,
    /// How often vCPUs have notified the main loop.
    calls: AtomicU32,
    /// Sum of the shares of the last quantum in which the vCPUs ran [permille].
    busy_permille: AtomicU32,
}

/// A vCPU's next action after it has passed the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// Run for this many ns of local time.
    Run(i64),
    /// Charge this, then return to the gate.
    Charge(Owed),
    /// Execute one block, then return to the gate.
    OneBlock,
}

/// How long the machine stays idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idle {
    /// At least one vCPU is not halted.
    Not,
    /// The machine is idle for this many ns, until the main loop's deadline.
    For(i64),
    /// The main loop must check its events first.
    LookAgain,
}

impl Gate {
    /// Return a gate for vCPUs that still follow the host's clocks.
    pub fn new(
        vcpus: usize,
        quantum_ns: i64,
        threads_per_core: usize,
        nodes: Nodes,
        lines: Option<Lines>,
    ) -> Self {
        let inner = Inner {
            clock: Clock::new(vcpus, quantum_ns),
            settlement: Settlement::new(vcpus, threads_per_core, nodes),
            calls_seen: 0,
            to_wake: Vec::new(),
        };
        Self {
            inner: Mutex::new(inner),
            places: (0..vcpus).map(|_| Place::default()).collect(),
            lines,
            on: AtomicBool::new(false),
            epoch: AtomicU32::new(0),
            now_ns: AtomicI64::new(0),
            calls: AtomicU32::new(0),
            busy_permille: AtomicU32::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Release the lock and wake the vCPUs that may continue. If they woke earlier, they would wait
    /// for the lock.
    fn release(&self, mut inner: MutexGuard<'_, Inner>) {
        let to_wake = std::mem::take(&mut inner.to_wake);
        drop(inner);
        for place in to_wake.into_iter().filter_map(|cpu| self.places.get(cpu)) {
            host::futex_wake(&place.bell);
        }
    }

    /// Return true while virtual time is in force.
    pub fn is_on(&self) -> bool {
        self.on.load(Acquire)
    }

    /// Return how often virtual time has come into force.
    pub fn epoch(&self) -> u32 {
        self.epoch.load(Relaxed)
    }

    /// Return the machine's time [ns].
    pub fn now(&self) -> i64 {
        self.now_ns.load(SeqCst)
    }

    /// Put virtual time in force or suspend it. `at_switch` gets the machine's time and runs under
    /// the lock, so that time does not advance meanwhile.
    pub fn switch(&self, on: bool, at_switch: impl FnOnce(i64)) {
        let mut inner = self.lock();
        if self.on.load(Relaxed) == on {
            return;
        }
        if on {
            inner.clock.level();
            self.epoch.fetch_add(1, Relaxed);
        }
        at_switch(inner.clock.now());
        self.on.store(on, Release);
        // The main loop sleeps by the previous clock, so it must poll again.
        inner.clock.set_main(MainLoop::Busy);
        for (cpu, place) in self.places.iter().enumerate() {
            inner.ring(cpu, place);
        }
        self.release(inner);
        host::kick_main();
    }

    /// Report a vCPU's local time and its actions since the last call, and wait until it may
    /// continue. Return its next action and its local time. That time is later than `local_ns` if
    /// the clock counted the vCPU as halted meanwhile.
    pub fn pass(&self, cpu: usize, local_ns: i64, deeds: Deeds) -> (Leave, i64) {
        let Some(place) = self.places.get(cpu) else { return (Leave::OneBlock, local_ns) };
        let mut inner = self.lock();
        inner.clock.resume(cpu);
        inner.settlement.record(cpu, deeds);
        let mut may_run = inner.clock.arrive(cpu, local_ns);
        loop {
            if !may_run {
                self.advance(&mut inner);
            }
            let local = inner.clock.local(cpu);
            if let Some(owed) = inner.settlement.take(cpu) {
                self.release(inner);
                return (Leave::Charge(owed), local);
            }
            may_run = inner.clock.arrive(cpu, local_ns);
            if may_run {
                let left = inner.clock.limit() - local;
                self.release(inner);
                return (Leave::Run(left), local);
            }
            let seen = place.bell.load(SeqCst);
            place.asleep.store(true, Relaxed);
            self.release(inner);
            let rung = host::futex_wait(&place.bell, seen, PATIENCE);
            inner = self.lock();
            place.asleep.store(false, Relaxed);
            let is_late = !rung && !inner.clock.arrive(cpu, local_ns);
            if is_late || !self.is_on() {
                return (Leave::OneBlock, inner.clock.local(cpu));
            }
        }
    }

    /// End the quantum and open the next one, as far as both are possible now. The caller then
    /// calls [`Gate::release`].
    fn advance(&self, inner: &mut Inner) {
        loop {
            let ended = inner.clock.end_quantum();
            if let Some(elapsed) = ended {
                self.now_ns.store(inner.clock.now(), SeqCst);
                self.share_out(inner, elapsed);
            }
            let is_stale = self.calls.load(SeqCst) != inner.calls_seen;
            if matches!(inner.clock.main(), MainLoop::Polling(_)) && (is_stale || inner.clock.is_due()) {
                // The kick makes the main loop poll again even if the vCPU wrote to a file that
                // the main loop does not poll.
                inner.clock.set_main(MainLoop::Busy);
                host::kick_main();
            }
            let opened = inner.clock.open_quantum();
            if opened {
                self.ring_runnable(inner);
            }
            if !(opened && inner.clock.is_over()) {
                return;
            }
        }
    }

    /// Charge the vCPUs of a core or a node for the resources that they shared in the quantum that
    /// ended.
    fn share_out(&self, inner: &mut Inner, elapsed: i64) {
        let busy: Vec<_> =
            (0..self.places.len()).map(|cpu| inner.clock.take_busy_permille(cpu, elapsed)).collect();
        self.busy_permille.store(busy.iter().sum(), Relaxed);
        let rivals = inner.settlement.settle(&busy, elapsed, self.lines.as_ref());
        for (place, rivals) in self.places.iter().zip(rivals) {
            place.rivals_permille.store(rivals, Relaxed);
        }
    }

    fn ring_runnable(&self, inner: &mut Inner) {
        for (cpu, place) in self.places.iter().enumerate() {
            if inner.clock.state(cpu) == State::Running && inner.clock.local(cpu) < inner.clock.limit() {
                inner.ring(cpu, place);
            }
        }
    }

    /// Return the share of the last quantum in which a vCPU's siblings ran, in thousandths of one
    /// sibling.
    pub fn rivals_permille(&self, cpu: usize) -> u32 {
        self.places.get(cpu).map_or(0, |place| place.rivals_permille.load(Relaxed))
    }

    /// Return the sum of the shares of the last quantum in which the vCPUs ran, in thousandths of
    /// one vCPU.
    pub fn busy_permille(&self) -> u32 {
        self.busy_permille.load(Relaxed)
    }

    /// Mark a vCPU as running. Return its local time.
    pub fn resume(&self, cpu: usize) -> i64 {
        self.lock().clock.resume(cpu)
    }

    /// Halt a vCPU at this local time and record its actions.
    pub fn halt(&self, cpu: usize, local_ns: i64, deeds: Deeds) {
        let mut inner = self.lock();
        inner.settlement.record(cpu, deeds);
        inner.clock.halt(cpu, local_ns);
        self.after_halt(inner);
    }

    /// Halt a kicked vCPU that sleeps again without having run.
    pub fn sleep_again(&self, cpu: usize) {
        let mut inner = self.lock();
        if inner.clock.state(cpu) == State::Waking {
            inner.clock.sleep_again(cpu);
            self.after_halt(inner);
        }
    }

    fn after_halt(&self, mut inner: MutexGuard<'_, Inner>) {
        if !self.is_on() {
            return;
        }
        match inner.clock.is_idle() {
            true => host::kick_main(),
            false => self.advance(&mut inner),
        }
        self.release(inner);
    }

    /// Kick a halted vCPU at the waker's time `at`.
    pub fn wake(&self, cpu: usize, at: i64) {
        self.lock().clock.wake(cpu, at);
    }

    /// Note that a vCPU wrote to an event file, so that the main loop's deadline may change.
    pub fn notify_main(&self) {
        self.calls.fetch_add(1, SeqCst);
    }

    /// Return the count of notifications before the main loop checks its events. The main loop
    /// passes it on to [`Gate::main_polls`].
    pub fn main_looks(&self) -> u32 {
        self.calls.load(SeqCst)
    }

    /// Note that the main loop found no event and sleeps until the deadline. Return how long the
    /// machine stays idle. If a vCPU has notified the main loop meanwhile, the deadline may be
    /// stale and the main loop must check again.
    pub fn main_polls(&self, deadline: i64, calls_seen: u32) -> Idle {
        let mut inner = self.lock();
        if self.calls.load(SeqCst) != calls_seen {
            inner.clock.set_main(MainLoop::Busy);
            return Idle::LookAgain;
        }
        inner.calls_seen = calls_seen;
        inner.clock.set_main(MainLoop::Polling(deadline));
        if inner.clock.is_idle() {
            return Idle::For((deadline - inner.clock.now()).max(0));
        }
        self.advance(&mut inner);
        self.release(inner);
        Idle::Not
    }

    /// Note that the main loop has events to handle.
    pub fn main_works(&self) {
        self.lock().clock.set_main(MainLoop::Busy);
    }

    /// Advance an idle machine's time by `by_ns`, but not past the deadline.
    pub fn idle_by(&self, by_ns: i64) {
        let mut inner = self.lock();
        // Another QEMU thread may have woken a vCPU that notified the main loop and halted again.
        if self.calls.load(SeqCst) != inner.calls_seen {
            return;
        }
        let to = inner.clock.now() + by_ns;
        inner.clock.idle_to(to);
        self.now_ns.store(inner.clock.now(), SeqCst);
        if inner.clock.is_idle() {
            self.share_out(&mut inner, i64::MAX);
        }
    }
}

impl Inner {
    /// Let a vCPU check the gate again, and note that its thread must be woken if it sleeps.
    fn ring(&mut self, cpu: usize, place: &Place) {
        place.bell.fetch_add(1, SeqCst);
        if place.asleep.swap(false, Relaxed) {
            self.to_wake.push(cpu);
        }
    }
}
