//! `mixed` and `phases`: compute and chase in one task, either all the time or in turns.
//!
//! `mixed:P` does P % of a step of compute and 100 - P % of a step of chase, in [`TURNS`] turns within each step: far below
//! any scheduler's slice, so all it can see is a task that is a bit of both. `phases:MS` is the opposite: a task that changes its
//! nature, twice per period of wall time, and asks whether the scheduler notices.
//!
//! Limits: the clock of `phases` is the kernel's coarse one (a tick, 1 to 10 ms, is its grain), because that one is read without
//! a system call on every clock source, the VM's included.

use super::Step;
use super::chase::{Chase, DEFAULT_SET_BYTES};
use super::compute::Compute;
use nix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Turns of a step of `mixed`; a unit is one turn.
const TURNS: u64 = 5;
/// Per turn and percent: rounds of compute and loads of chase. 100 % of either is about 20 000 cycles a step.
const ROUNDS_PER_PERCENT: u64 = 8;
const LOADS_PER_PERCENT: u64 = 1;

/// Both, finely interleaved.
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

/// One after the other.
pub(super) struct Phases {
    compute: Compute,
    chase: Chase,
    half: Duration,
    /// Whether the first phase is the chase.
    chase_first: bool,
    /// Whether the last step was a chase.
    chased: bool,
    /// When the first step began.
    start: Option<Duration>,
}

impl Phases {
    /// Tasks of even `index` begin with compute, those of odd index with chase, so that several of them are not all of
    /// the same nature at the same time, which no placement could make use of.
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

    /// Whether it is time to chase, so long after the start.
    fn chases(&self, elapsed: Duration) -> bool {
        let second = (elapsed.as_nanos() / self.half.as_nanos().max(1)) % 2 == 1;
        second != self.chase_first
    }
}

impl Step for Phases {
    /// Steps of both kinds are of like length; a unit is one step.
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

/// Time since boot, to a tick.
fn coarse_now() -> Duration {
    // The clock exists on every Linux; without it the task would stay in its first phase.
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
    fn the_coarse_clock_is_there() {
        assert!(coarse_now() > Duration::ZERO);
    }
}
