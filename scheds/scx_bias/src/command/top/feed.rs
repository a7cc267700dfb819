// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Successive answers of the running instance.
//!
//! # Problem
//! `top` runs on the machine that it shows. With thousands of tasks, an answer takes milliseconds
//! here and as many in the instance.
//!
//! # Approach
//! Each answer but the first contains only the tasks that ran. Where those are thousands and the
//! user has not chosen an interval, it becomes longer with the CPU time that an answer takes.

use std::time::{Duration, Instant};

use super::super::tasks::{Snapshot, Totals, confined};
use bias_agent::control::Client;
use bias_agent::failure::Failure;
use nix::time::{ClockId, clock_gettime};

/// A task with a smaller share of a CPU is no burden where it runs [permille].
const BUSY_PERMILLE: u32 = 50;

/// Time between answers if the user gives none and an answer costs little.
const SHORTEST: Duration = Duration::from_secs(2);
/// The same if an answer costs much.
const LONGEST: Duration = Duration::from_secs(10);
/// Such an interval is at least this multiple of the CPU time for an answer. The instance takes
/// about as much for it, so that both together take about 1 %.
const SPARED: u32 = 200;

/// Successive reports.
pub struct Feed {
    client: Client,
    totals: Totals,
    /// Number of the last answer.
    number: u32,
    at: Instant,
    /// The user's time between answers, if given.
    given: Option<Duration>,
    /// CPU time of this process after the last answer, and its growth since the previous one.
    cpu_time: (Duration, Duration),
}

impl Feed {
    /// Read the totals from which the first interval counts. `given` is the user's interval.
    pub fn open(mut client: Client, given: Option<Duration>) -> Result<Self, Failure> {
        let answer = client.tasks(None)?;
        let at = Instant::now();
        let mut totals = Totals::default();
        totals.advance(answer.tasks, true, Duration::ZERO);
        let cpu_time = (cpu_time(), Duration::ZERO);
        Ok(Self { client, totals, number: answer.next, at, given, cpu_time })
    }

    /// Return the activity since the last call.
    pub fn next(&mut self) -> Result<Snapshot, Failure> {
        // Few of thousands of tasks run in an interval, and the others cost time in both processes.
        let since = (!self.totals.are_outdated()).then_some(self.number);
        let answer = self.client.tasks(since)?;
        let at = Instant::now();
        let interval = at.duration_since(self.at);
        let rows = self.totals.advance(answer.tasks, since.is_none(), interval);
        let mut snapshot = Snapshot::new(answer.machine, answer.average_permille, rows, interval);
        let busy = snapshot.tasks.iter().filter(|row| row.share_permille >= BUSY_PERMILLE);
        snapshot.confined = confined(busy.map(|row| &row.task), &snapshot.machine);
        (self.number, self.at) = (answer.next, at);
        let now = cpu_time();
        self.cpu_time = (now, now.saturating_sub(self.cpu_time.0));
        Ok(snapshot)
    }

    /// Return the time until the next answer.
    pub fn interval(&self) -> Duration {
        self.given.unwrap_or_else(|| paced(self.cpu_time.1))
    }
}

/// Return the time between answers that cost this CPU time.
fn paced(cost: Duration) -> Duration {
    cost.saturating_mul(SPARED).clamp(SHORTEST, LONGEST)
}

/// Return the CPU time of this process. Return 0 if its clock is missing, which does not occur on
/// Linux.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Up to 50 ms for an answer, top takes half a percent at most, and it is never too slow.
        #[test]
        fn intervals_bound_the_cost(cost_us in 0u64..200_000) {
            let cost = Duration::from_micros(cost_us);
            let interval = paced(cost);
            prop_assert!((SHORTEST..=LONGEST).contains(&interval));
            prop_assert!(cost_us > 50_000 || cost * SPARED <= interval);
        }
    }
}
