//! Virtual time: how far each vCPU may run, and when time moves on.
//!
//! Problem: results must not depend on the host. So the guest's clocks follow the model, and the host only decides
//! how long a run takes.
//!
//! Approach: time moves on in quanta. Each running vCPU has a local time, the modelled time of what it executed. It
//! runs while its local time is below [`Clock::limit`], then waits. When all running vCPUs wait, the machine's time
//! [`Clock::now`] moves to the limit, QEMU's main loop runs the timers that are due, and the next quantum opens. A
//! quantum ends early at the next timer's deadline, so most timers fire exactly when they are due. While every
//! vCPU is halted, the main loop moves the time on itself, up to the next deadline.
//!
//! A vCPU that was kicked but whose host thread has not run yet is [`State::Waking`]: time stands still for it, so a
//! wakeup takes no longer on a busy host. It resumes at its waker's local time.
//!
//! Invariants (property-tested): no running vCPU is more than a quantum plus its last step ahead of another; local
//! times and the machine's time never go back; a timer that the main loop knows at the start of a quantum fires
//! when it is due, any other at most a quantum late; whatever the order of halts, wakeups and steps, some party
//! can always go on.
//!
//! Limits: within a quantum the host chooses the order in which vCPUs execute. An interrupt to a *running* vCPU can
//! therefore arrive up to a quantum early or late.

/// What a vCPU is doing, as far as time is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It sleeps in QEMU and does not hold up the time.
    Halted,
    /// It has been kicked; its thread has not said yet whether it runs or sleeps again.
    Waking,
    /// It executes, or waits for the others.
    Running,
}

/// One vCPU's place in time.
#[derive(Debug, Clone, Copy)]
struct Vcpu {
    state: State,
    local_ns: i64,
    /// Start of the running period that `busy_ns` does not contain yet.
    busy_from_ns: i64,
    /// Running time in the present quantum.
    busy_ns: i64,
}

/// The main loop, as far as time is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MainLoop {
    /// It runs handlers, or is about to: its next deadline is not known.
    Busy,
    /// It sleeps until this time.
    Polling(i64),
}

/// The machine's time. All times in ns since the model started.
#[derive(Debug)]
pub struct Clock {
    now_ns: i64,
    limit_ns: i64,
    quantum_ns: i64,
    main: MainLoop,
    vcpus: Vec<Vcpu>,
}

impl Clock {
    /// A clock at zero; all vCPUs are halted. The main loop has not polled yet.
    pub fn new(vcpus: usize, quantum_ns: i64) -> Self {
        let vcpu = Vcpu { state: State::Halted, local_ns: 0, busy_from_ns: 0, busy_ns: 0 };
        let quantum_ns = quantum_ns.max(1);
        Self { now_ns: 0, limit_ns: 0, quantum_ns, main: MainLoop::Busy, vcpus: vec![vcpu; vcpus] }
    }

    /// The machine's time: no running vCPU is behind it.
    pub fn now(&self) -> i64 {
        self.now_ns
    }

    /// Running vCPUs stop when their local time reaches this.
    pub fn limit(&self) -> i64 {
        self.limit_ns
    }

    /// State of a vCPU; one that does not exist is halted.
    pub fn state(&self, cpu: usize) -> State {
        self.vcpus.get(cpu).map_or(State::Halted, |v| v.state)
    }

    /// Local time of a vCPU.
    pub fn local(&self, cpu: usize) -> i64 {
        self.vcpus.get(cpu).map_or(self.now_ns, |v| v.local_ns)
    }

    /// Return true if every vCPU is halted: the main loop moves the time on.
    pub fn is_idle(&self) -> bool {
        self.vcpus.iter().all(|v| v.state == State::Halted)
    }

    /// Every running vCPU starts at the machine's time: for the moment at which virtual time takes over.
    pub fn level(&mut self) {
        for v in &mut self.vcpus {
            (v.local_ns, v.busy_from_ns, v.busy_ns) = (self.now_ns, self.now_ns, 0);
        }
    }

    /// A waker kicks a halted vCPU at time `at`.
    pub fn wake(&mut self, cpu: usize, at: i64) {
        let now = self.now_ns;
        if let Some(v) = self.vcpus.get_mut(cpu).filter(|v| v.state == State::Halted) {
            v.state = State::Waking;
            v.local_ns = v.local_ns.max(at).max(now);
        }
    }

    /// A kicked vCPU found nothing to do.
    pub fn sleep_again(&mut self, cpu: usize) {
        if let Some(v) = self.vcpus.get_mut(cpu).filter(|v| v.state == State::Waking) {
            v.state = State::Halted;
        }
    }

    /// A vCPU runs from now on, or from when it was kicked. Return its local time.
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

    /// A vCPU halts at this local time.
    pub fn halt(&mut self, cpu: usize, local_ns: i64) {
        if let Some(v) = self.vcpus.get_mut(cpu) {
            v.local_ns = v.local_ns.max(local_ns);
            if v.state == State::Running {
                v.busy_ns += (v.local_ns - v.busy_from_ns).max(0);
            }
            v.state = State::Halted;
        }
    }

    /// A running vCPU has come to this local time. Return true if it may go on.
    pub fn arrive(&mut self, cpu: usize, local_ns: i64) -> bool {
        let limit = self.limit_ns;
        let Some(v) = self.vcpus.get_mut(cpu) else { return true };
        v.local_ns = v.local_ns.max(local_ns);
        v.local_ns < limit
    }

    /// Return true if no vCPU can go on within this quantum: all that run wait at the limit, and none wakes.
    pub fn is_over(&self) -> bool {
        let arrived = |v: &Vcpu| match v.state {
            State::Halted => true,
            State::Waking => false,
            State::Running => v.local_ns >= self.limit_ns,
        };
        !self.is_idle() && self.vcpus.iter().all(arrived)
    }

    /// Move the machine's time to the limit. Return the length of the quantum that ended, or None if it is not over.
    pub fn end_quantum(&mut self) -> Option<i64> {
        if !self.is_over() || self.limit_ns <= self.now_ns {
            return None;
        }
        let elapsed = self.limit_ns - self.now_ns;
        self.now_ns = self.limit_ns;
        Some(elapsed)
    }

    /// Open the next quantum if the present one is over and the main loop has run what is due.
    pub fn open_quantum(&mut self) -> bool {
        let MainLoop::Polling(deadline) = self.main else { return false };
        if self.limit_ns > self.now_ns || deadline <= self.now_ns {
            return false;
        }
        // Timers that follow each other closely must not make quanta that cost more than they tell.
        let least = self.now_ns + (self.quantum_ns / 8).max(1);
        self.limit_ns = (self.now_ns + self.quantum_ns).min(deadline.max(least));
        true
    }

    /// What the main loop does from now on.
    pub fn set_main(&mut self, main: MainLoop) {
        self.main = main;
    }

    /// What the main loop does.
    pub fn main(&self) -> MainLoop {
        self.main
    }

    /// Return true if the main loop has a timer to run.
    pub fn is_due(&self) -> bool {
        matches!(self.main, MainLoop::Polling(deadline) if deadline <= self.now_ns)
    }

    /// While all vCPUs are halted: move the time on to `to`, but not past the main loop's deadline.
    pub fn idle_to(&mut self, to: i64) {
        if let (true, MainLoop::Polling(deadline)) = (self.is_idle(), self.main) {
            self.now_ns = self.now_ns.max(to.min(deadline));
            self.limit_ns = self.now_ns;
        }
    }

    /// Share of the quantum of `elapsed_ns` that just ended in which a vCPU ran, in thousandths. Starts the next account.
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
