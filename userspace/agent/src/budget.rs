// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! A budget of CPU time, for work that may never become more than a small part of the machine.

use std::time::{Duration, Instant};

/// A share of the CPU time of one CPU. Unspent time is saved up to a limit.
pub(crate) struct Budget {
    /// One in this many parts of the time that passes is added.
    share: u32,
    burst: Duration,
    /// CPU time left, negative after work that took more [ns].
    left_ns: i64,
    /// Time of the last addition.
    at: Instant,
}

impl Budget {
    /// Return a budget of 1/`share` of a CPU that has saved `burst`, the most it saves.
    pub(crate) fn new(share: u32, burst: Duration, now: Instant) -> Self {
        Self { share: share.max(1), burst, left_ns: burst.as_nanos() as i64, at: now }
    }

    /// Charge `time`, at most the burst: a longer time is not the work's alone, and would block
    /// further work for long.
    pub(crate) fn charge(&mut self, time: Duration) {
        self.left_ns -= time.min(self.burst).as_nanos() as i64;
    }

    /// Return how long no work may begin, None if it may begin now.
    pub(crate) fn pause(&mut self, now: Instant) -> Option<Duration> {
        let most = self.burst * 2 * self.share;
        let passed = now.saturating_duration_since(self.at).min(most) / self.share;
        self.at = self.at.max(now);
        self.left_ns = (self.left_ns + passed.as_nanos() as i64).min(self.burst.as_nanos() as i64);
        let owed = Duration::from_nanos(self.left_ns.min(0).unsigned_abs());
        (self.left_ns <= 0).then(|| owed * self.share + Duration::from_millis(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Work gets its share of the time and no more, for any costs and pauses between them.
        #[test]
        fn work_takes_its_share(
            share in 1u32..30, burst_ms in 100u64..4000,
            costs in proptest::collection::vec((0u64..5_000_000_000, 0u64..50_000_000), 1..200),
        ) {
            let (start, burst) = (Instant::now(), Duration::from_millis(burst_ms));
            let mut budget = Budget::new(share, burst, start);
            let (mut now, mut spent, mut waited) = (start, Duration::ZERO, 0u32);
            for (cost_ns, idle_ns) in costs {
                now += Duration::from_nanos(idle_ns);
                while let Some(pause) = budget.pause(now) {
                    prop_assert!(pause <= burst * (share + 1), "{pause:?}");
                    now += pause;
                    waited += 1;
                    prop_assert!(waited < 1000, "a pause is not enough");
                }
                // One piece of work is charged no more than this.
                let cost = Duration::from_nanos(cost_ns).min(burst);
                now += cost;
                budget.charge(Duration::from_nanos(cost_ns));
                spent += cost;
            }
            let allowed = (now - start) / share + burst * 2;
            prop_assert!(spent <= allowed, "{spent:?} of {:?}", now - start);
        }
    }

    #[test]
    fn work_that_took_an_hour_does_not_block_further_work() {
        let start = Instant::now();
        let mut budget = Budget::new(4, Duration::from_millis(500), start);
        budget.charge(Duration::from_secs(3600));
        let pause = budget.pause(start + Duration::from_secs(3600));
        assert_eq!(pause, None);
    }
}
