// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! A task process: it works, and accounts its CPU time by CPU and stall state.

use super::slot::{PHASE_STOP, PHASE_WAIT, PHASE_WORK, Slot, Stay};
use crate::spec::WorkKind;
use crate::{cpus, work};
use nix::unistd::Pid;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Run a task process: build the set, wait for the start, work and account, stop.
pub(super) fn run_task(
    kind: &WorkKind,
    nth: usize,
    pin: Option<usize>,
    phase: &AtomicU64,
    slot: &Slot,
) -> u8 {
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
    /// Whether the last finished step stalled. Always false for kinds that never change.
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

    /// Account the last step: charge the time so far if the CPU or the stall state changed.
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
