// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Virtual time: how far each vCPU may run, and when the machine's time advances.
//!
//! # Problem
//! Results must not depend on the host. The guest's clocks must follow the model, and the host may
//! only affect how long a run takes.
//!
//! # Approach
//! Time advances in quanta. Each running vCPU has a local time, which is the modelled time of the
//! code that it executed. A vCPU runs while its local time is below [`Clock::limit`], then it
//! waits. When all running vCPUs wait:
//!
//! 1. The machine's time, [`Clock::now`], advances to the limit.
//! 2. QEMU's main loop runs the timers that are due.
//! 3. The next quantum opens.
//!
//! A quantum ends early at the next timer's deadline, so most timers fire exactly when they are
//! due. While every vCPU is halted, the main loop itself advances the time, up to its next
//! deadline.
//!
//! A vCPU is [`State::Waking`] from the kick until its host thread has run. Time does not advance
//! past that vCPU, so a wakeup takes no longer on a busy host. The vCPU resumes at its waker's
//! local time.
//!
//! # Invariants
//! All of these are property-tested.
//!
//! * No running vCPU is ahead of another one by more than a quantum plus its own last step.
//! * Neither a local time nor the machine's time goes back.
//! * A timer fires when it is due if the main loop knows it at the start of a quantum. Any other
//!   timer fires at most one quantum late.
//! * No order of halts, wakeups and steps leads to a deadlock.

/// Scheduling state of a vCPU, as far as time depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The vCPU sleeps in QEMU. Time advances without it.
    Halted,
    /// The vCPU was kicked. Its thread has not reported yet whether it runs or sleeps again.
    Waking,
    /// The vCPU executes, or waits at the limit for the other vCPUs.
    Running,
}

#[derive(Debug, Clone, Copy)]
struct VcpuTime {
    state: State,
    local_ns: i64,
    /// Start of the part of the current run that `busy_ns` does not include yet.
    busy_from_ns: i64,
    /// Running time in the current quantum.
    busy_ns: i64,
}

/// State of the main loop, as far as time depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MainLoop {
    /// The main loop runs handlers or is about to. Its next deadline is not known.
    Busy,
    /// The main loop sleeps until this time [ns].
    Polling(i64),
}

/// The machine's time. All times are in ns since the model started.
#[derive(Debug)]
pub struct Clock {
    now_ns: i64,
    limit_ns: i64,
    quantum_ns: i64,
    main: MainLoop,
    vcpus: Vec<VcpuTime>,
}

impl Clock {
    /// Return a clock at zero with every vCPU halted and a main loop that has not polled yet.
    pub fn new(vcpus: usize, quantum_ns: i64) -> Self {
        let vcpu = VcpuTime { state: State::Halted, local_ns: 0, busy_from_ns: 0, busy_ns: 0 };
        let quantum_ns = quantum_ns.max(1);
        Self { now_ns: 0, limit_ns: 0, quantum_ns, main: MainLoop::Busy, vcpus: vec![vcpu; vcpus] }
    }

    /// Return the machine's time. No running vCPU is behind it.
    pub fn now(&self) -> i64 {
        self.now_ns
    }

    /// Return the local time at which running vCPUs stop.
    pub fn limit(&self) -> i64 {
        self.limit_ns
    }

    /// Return a vCPU's state. A vCPU that does not exist counts as halted.
    pub fn state(&self, cpu: usize) -> State {
        self.vcpus.get(cpu).map_or(State::Halted, |v| v.state)
    }

    /// Return a vCPU's local time, or the machine's time for a vCPU that does not exist.
    pub fn local(&self, cpu: usize) -> i64 {
        self.vcpus.get(cpu).map_or(self.now_ns, |v| v.local_ns)
    }

    /// Return true if every vCPU is halted, so that the main loop advances the time.
    pub fn is_idle(&self) -> bool {
        self.vcpus.iter().all(|v| v.state == State::Halted)
    }

    /// Set every vCPU to the machine's time. The caller does this when virtual time takes over.
    pub fn level(&mut self) {
        for v in &mut self.vcpus {
            (v.local_ns, v.busy_from_ns, v.busy_ns) = (self.now_ns, self.now_ns, 0);
        }
    }

    /// Kick a halted vCPU at the waker's time `at`.
    pub fn wake(&mut self, cpu: usize, at: i64) {
        let now = self.now_ns;
        if let Some(v) = self.vcpus.get_mut(cpu).filter(|v| v.state == State::Halted) {
            v.state = State::Waking;
            v.local_ns = v.local_ns.max(at).max(now);
        }
    }

    /// Halt a kicked vCPU that found nothing to do.
    pub fn sleep_again(&mut self, cpu: usize) {
        if let Some(v) = self.vcpus.get_mut(cpu).filter(|v| v.state == State::Waking) {
            v.state = State::Halted;
        }
    }

    /// Mark a vCPU as running, from the machine's time or from the time of its kick if that is
    /// later. Return its local time.
    pub fn resume(&mut self, cpu: usize) -> i64 {
        let now = self.now_ns;
        let Some(v) = self.vcpus.get_mut(cpu) else { return now };
        if v.state != State::Running {
            v.state = State::Running;
            v.local_ns = v.local_ns.max(now);
            v.busy_from_ns = v.local_ns;
        }
        v.local_ns
    }

    /// Halt a vCPU at this local time.
    pub fn halt(&mut self, cpu: usize, local_ns: i64) {
        if let Some(v) = self.vcpus.get_mut(cpu) {
            v.local_ns = v.local_ns.max(local_ns);
            if v.state == State::Running {
                v.busy_ns += (v.local_ns - v.busy_from_ns).max(0);
            }
            v.state = State::Halted;
        }
    }

    /// Advance a running vCPU to this local time. Return true if it may continue.
    pub fn arrive(&mut self, cpu: usize, local_ns: i64) -> bool {
        let limit = self.limit_ns;
        let Some(v) = self.vcpus.get_mut(cpu) else { return true };
        v.local_ns = v.local_ns.max(local_ns);
        v.local_ns < limit
    }

    /// Return true if no vCPU can continue within this quantum: all running ones wait at the limit,
    /// and none is waking.
    pub fn is_over(&self) -> bool {
        let arrived = |v: &VcpuTime| match v.state {
            State::Halted => true,
            State::Waking => false,
            State::Running => v.local_ns >= self.limit_ns,
        };
        !self.is_idle() && self.vcpus.iter().all(arrived)
    }

    /// Advance the machine's time to the limit. Return the length of the quantum that ended, or
    /// None if the quantum is not over.
    pub fn end_quantum(&mut self) -> Option<i64> {
        if !self.is_over() || self.limit_ns <= self.now_ns {
            return None;
        }
        let elapsed = self.limit_ns - self.now_ns;
        self.now_ns = self.limit_ns;
        Some(elapsed)
    }

    /// Open the next quantum if the current one is over and the main loop has run the timers that
    /// are due. Return true if it opened.
    pub fn open_quantum(&mut self) -> bool {
        let MainLoop::Polling(deadline) = self.main else { return false };
        if self.limit_ns > self.now_ns || deadline <= self.now_ns {
            return false;
        }
        // Timers in quick succession would make quanta too short to be worth their overhead.
        let least = self.now_ns + (self.quantum_ns / 8).max(1);
        self.limit_ns = (self.now_ns + self.quantum_ns).min(deadline.max(least));
        true
    }

    pub fn set_main(&mut self, main: MainLoop) {
        self.main = main;
    }

    pub fn main(&self) -> MainLoop {
        self.main
    }

    /// Return true if the main loop has a timer to run.
    pub fn is_due(&self) -> bool {
        matches!(self.main, MainLoop::Polling(deadline) if deadline <= self.now_ns)
    }

    /// Advance the time to `to`, but not past the main loop's deadline, if all vCPUs are halted.
    pub fn idle_to(&mut self, to: i64) {
        if let (true, MainLoop::Polling(deadline)) = (self.is_idle(), self.main) {
            self.now_ns = self.now_ns.max(to.min(deadline));
            self.limit_ns = self.now_ns;
        }
    }

    /// Return the share of the quantum of `elapsed_ns` that just ended in which a vCPU ran
    /// [permille], and reset it for the next quantum.
    pub fn take_busy_permille(&mut self, cpu: usize, elapsed_ns: i64) -> u32 {
        let now = self.now_ns;
        let Some(v) = self.vcpus.get_mut(cpu) else { return 0 };
        if v.state == State::Running {
            v.busy_ns += (now - v.busy_from_ns).max(0);
            v.busy_from_ns = v.busy_from_ns.max(now);
        }
        let busy = std::mem::take(&mut v.busy_ns);
        (busy.saturating_mul(1000) / elapsed_ns.max(1)).clamp(0, 1000) as u32
    }
}

#[cfg(test)]
#[path = "clock_tests.rs"]
mod tests;
