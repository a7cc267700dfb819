// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! CPU time for answers: one part in [`SHARE`] of a CPU, after a burst of [`BURST`].

use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

/// Answers take at most 1/`SHARE` of a CPU.
const SHARE: u32 = 4;
/// Most CPU time for answers that is saved up.
pub(crate) const BURST: Duration = Duration::from_millis(500);

/// Return the CPU time of this process, because other threads work on answers, too.
pub(crate) fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// CPU time left for answers: one part in [`SHARE`] of the time that passes, saved up to [`BURST`].
pub(crate) struct Budget {
    left_ns: i64,
    at: Instant,
}

const BURST_NS: i64 = BURST.as_nanos() as i64;

impl Budget {
    pub(crate) fn new(now: Instant) -> Self {
        Self { left_ns: BURST_NS, at: now }
    }

    /// Charge the CPU time of this process since the reading `spent`, and update the reading.
    pub(crate) fn charge(&mut self, spent: &mut Duration) {
        let now = cpu_time();
        self.spend(now.saturating_sub(*spent));
        *spent = now;
    }

    /// Charge `time`, at most [`BURST`]. A longer time includes other work of this process.
    pub(crate) fn spend(&mut self, time: Duration) {
        self.left_ns -= time.min(BURST).as_nanos() as i64;
    }

    /// Return how long no answer may be given, None if one may be given now.
    pub(crate) fn pause(&mut self, now: Instant) -> Option<Duration> {
        let passed = now.saturating_duration_since(self.at).min(BURST * 2 * SHARE) / SHARE;
        self.at = self.at.max(now);
        self.left_ns = (self.left_ns + passed.as_nanos() as i64).min(BURST_NS);
        let owed = Duration::from_nanos(self.left_ns.min(0).unsigned_abs());
        (self.left_ns <= 0).then(|| owed * SHARE + Duration::from_millis(1))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Answers get their share of the time and no more, for any costs and pauses between them.
        #[test]
        fn answers_take_their_share(costs in proptest::collection::vec((0u64..2_000_000_000, 0u64..50_000_000), 1..200)) {
            let start = Instant::now();
            let mut budget = Budget::new(start);
            let (mut now, mut spent, mut waited) = (start, Duration::ZERO, 0u32);
            for (cost_ns, idle_ns) in costs {
                now += Duration::from_nanos(idle_ns);
                while let Some(pause) = budget.pause(now) {
                    prop_assert!(pause <= BURST * (SHARE + 1), "{pause:?}");
                    now += pause;
                    waited += 1;
                    prop_assert!(waited < 1000, "a pause is not enough");
                }
                // One answer is charged no more than this.
                let cost = Duration::from_nanos(cost_ns).min(BURST);
                now += cost;
                budget.spend(Duration::from_nanos(cost_ns));
                spent += cost;
            }
            let allowed = (now - start) / SHARE + BURST * 2;
            prop_assert!(spent <= allowed, "{spent:?} of {:?}", now - start);
        }
    }

    #[test]
    fn an_answer_that_took_an_hour_does_not_close_the_socket_for_hours() {
        let start = Instant::now();
        let mut budget = Budget::new(start);
        budget.spend(Duration::from_secs(3600));
        let pause = budget.pause(start + Duration::from_secs(3600));
        assert_eq!(pause, None);
    }
}
