// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! `mixed` and `phases`: compute and chase in one task, either finely interleaved or in long
//! phases.
//!
//! `mixed:P` does P % of a step of compute and 100 - P % of a step of chase, in [`TURNS`] parts
//! within each step. The parts are far shorter than the slice of any scheduler, so a scheduler sees
//! one blend of both. `phases:MS` is the opposite: the task changes between computing and stalling
//! twice per period of wall time, which shows whether the scheduler notices.
//!
//! # Limits
//! `phases` uses the kernel's coarse clock, whose grain is a tick, 1 to 10 ms. Reading this clock
//! needs no system call on any clock source, including that of the VM.

use super::Step;
use super::chase::{Chase, DEFAULT_SET_BYTES};
use super::compute::Compute;
use nix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Parts of a step of `mixed`. A unit is one part.
const TURNS: u64 = 5;
/// Per part and percent: rounds of compute and loads of chase. 100 % of either is about 20 000
/// cycles per step.
const ROUNDS_PER_PERCENT: u64 = 8;
const LOADS_PER_PERCENT: u64 = 1;

/// Compute and chase, finely interleaved.
pub(super) struct Mixed {
    compute: Compute,
    chase: Chase,
    rounds: u64,
    loads: u64,
}

impl Mixed {
    pub(super) fn new(compute_percent: u8) -> Self {
        let percent = u64::from(compute_percent.min(100));
        Mixed {
            compute: Compute::new(),
            chase: Chase::new(DEFAULT_SET_BYTES, 0),
            rounds: percent * ROUNDS_PER_PERCENT,
            loads: (100 - percent) * LOADS_PER_PERCENT,
        }
    }
}

impl Step for Mixed {
    fn step(&mut self) -> u64 {
        for _ in 0..TURNS {
            self.compute.rounds(self.rounds);
            self.chase.loads(self.loads);
        }
        TURNS
    }
}

/// Compute and chase, one after the other.
pub(super) struct Phases {
    compute: Compute,
    chase: Chase,
    half: Duration,
    /// Whether the first phase is the chase.
    chase_first: bool,
    /// Whether the last step was a chase.
    chased: bool,
    /// Start of the first step.
    start: Option<Duration>,
}

impl Phases {
    /// Make the task of this `index`. Tasks of even index begin with compute, those of odd index
    /// with chase. If all tasks were in the same phase, no placement could use it.
    pub(super) fn new(period: Duration, index: usize) -> Self {
        Phases {
            compute: Compute::new(),
            chase: Chase::new(DEFAULT_SET_BYTES, 0),
            half: period / 2,
            chase_first: index % 2 == 1,
            chased: false,
            start: None,
        }
    }

    /// Return true if the task chases at this time after the start.
    fn chases(&self, elapsed: Duration) -> bool {
        let second = (elapsed.as_nanos() / self.half.as_nanos().max(1)) % 2 == 1;
        second != self.chase_first
    }
}

impl Step for Phases {
    /// Steps of both kinds have about the same length. A unit is one step.
    fn step(&mut self) -> u64 {
        let now = coarse_now();
        let elapsed = now.saturating_sub(*self.start.get_or_insert(now));
        self.chased = self.chases(elapsed);
        if self.chased {
            self.chase.step()
        } else {
            self.compute.step()
        };
        1
    }

    fn stalls(&self) -> bool {
        self.chased
    }
}

/// Return the time since boot, to a tick.
fn coarse_now() -> Duration {
    // The clock exists on every Linux. Without it the task would stay in its first phase.
    clock_gettime(ClockId::CLOCK_MONOTONIC_COARSE).map(Duration::from).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_a_step() {
        for (percent, rounds, loads) in [(0, 0, 100), (60, 480, 40), (80, 640, 20), (100, 800, 0)] {
            let mixed = Mixed::new(percent);
            assert_eq!((mixed.rounds, mixed.loads), (rounds, loads), "{percent}");
        }
    }

    #[test]
    fn phases_take_turns_and_odd_tasks_are_opposite() {
        let ms = Duration::from_millis;
        let (even, odd) = (Phases::new(ms(100), 0), Phases::new(ms(100), 1));
        for (at, chases) in [(0, false), (49, false), (50, true), (99, true), (100, false), (150, true)] {
            assert_eq!(even.chases(ms(at)), chases, "{at} ms");
            assert_eq!(odd.chases(ms(at)), !chases, "{at} ms");
        }
    }

    #[test]
    fn the_coarse_clock_exists() {
        assert!(coarse_now() > Duration::ZERO);
    }
}
