// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Filter that decides when readings are believed.
//!
//! A reading within [`TOLERANCE`] confirms the entry. The filter keeps a reading that is off by
//! more. Once enough consecutive readings are off in the same direction, their median is believed.
//! The first of them may be half of the old speed and half of the new. Of two spot checks that
//! agree the faster is believed: interrupts and cold caches only lengthen them.
//!
//! | reading | required |
//! |---|---|
//! | cycles | 3 |
//! | cycles after a trigger | 2 that agree, else 3 |
//! | spot check, itself the median of several chunks | 2 that agree, else 3 |
//! | limit | 1 |
//!
//! A CPU that changes often needs more. After [`CHANGES_A_MINUTE`] changes within a minute it needs
//! four times as many readings. After twice as many changes it keeps its entry until the minute is
//! over.

use super::evidence::Cause;
use crate::samples::median;
use std::collections::VecDeque;

/// Largest deviation that still confirms an entry, as a factor in either direction. So a step that
/// exceeds it also exceeds it on the way back.
pub const TOLERANCE: f64 = 0.04;
/// Changes of a CPU in a minute from which the filter requires more readings.
pub const CHANGES_A_MINUTE: usize = 6;
/// Factor on the required readings of a CPU that changes too often.
const SLOWER: usize = 4;
/// Number of readings kept, which exceeds every requirement.
const KEPT: usize = 16;
const MINUTE_MS: u64 = 60_000;

/// Readings of one CPU that are not believed yet.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Consecutive readings that are off in the same direction.
    off: Vec<f64>,
    /// Times of the CPU's changes in the last minute [ms].
    changed_ms: VecDeque<u64>,
    hurried: bool,
    settled: bool,
}

impl Filter {
    /// Add a reading at `ratio` of the CPU's reference while the believed ratio is `present`.
    /// Return the new ratio if it is believed.
    pub fn add(&mut self, ratio: f64, present: f64, now_ms: u64, cause: Cause) -> Option<f64> {
        let off = (ratio / present).max(present / ratio) - 1.0;
        self.settled = false;
        if off <= TOLERANCE {
            self.settled = true;
            self.hurried = false;
            self.off.clear();
            return None;
        }
        // The caller has already rejected NaN. A NaN here would be kept and lose against the
        // others.
        if self.off.first().is_some_and(|first| (first > &present) != (ratio > present)) {
            self.off.clear();
        }
        if self.off.len() >= KEPT {
            self.off.remove(0);
        }
        self.off.push(ratio);
        let wanted = self.wanted(now_ms, cause)?;
        // If two readings disagree, a third one decides.
        let wanted = if wanted == 2 && !self.last_agree() { 3 } else { wanted };
        if self.off.len() < wanted {
            return None;
        }
        let last = self.off.len() - wanted;
        let readings = self.off.get(last..)?;
        let believed = match (cause, wanted) {
            (Cause::SpotCheck, 2) => readings.iter().copied().reduce(f64::max),
            _ => median(readings),
        };
        self.off.clear();
        self.hurried = false;
        self.changed_ms.push_back(now_ms);
        believed
    }

    fn last_agree(&self) -> bool {
        matches!(self.off.as_slice(), [.., before, last] if (last / before - 1.0).abs() <= TOLERANCE)
    }

    /// Require fewer readings for the next decision.
    pub fn hurry(&mut self) {
        self.hurried = true;
    }

    /// Return true if there is a reading that another one has to confirm.
    #[must_use]
    pub fn suspects(&self) -> bool {
        !self.off.is_empty()
    }

    /// Return true if the last reading confirmed the believed ratio.
    #[must_use]
    pub fn settled(&self) -> bool {
        self.settled
    }

    /// Return the number of consecutive readings required; None if none are believed now.
    fn wanted(&mut self, now_ms: u64, cause: Cause) -> Option<usize> {
        while self.changed_ms.front().is_some_and(|at| now_ms.saturating_sub(*at) >= MINUTE_MS) {
            self.changed_ms.pop_front();
        }
        let least = match cause {
            Cause::Limit => 1,
            Cause::SpotCheck => 2,
            _ if self.hurried => 2,
            _ => 3,
        };
        match self.changed_ms.len() / CHANGES_A_MINUTE {
            0 => Some(least),
            1 => Some(least * SLOWER),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_spot_checks_that_agree_the_faster_is_believed() {
        let mut filter = Filter::default();
        assert_eq!(filter.add(0.94, 0.33, 0, Cause::SpotCheck), None);
        assert_eq!(filter.add(0.97, 0.33, 100, Cause::SpotCheck), Some(0.97));
        // The first of three may have begun before the CPU slowed down.
        assert_eq!(filter.add(0.60, 0.97, 200, Cause::SpotCheck), None);
        assert_eq!(filter.add(0.33, 0.97, 300, Cause::SpotCheck), None);
        assert_eq!(filter.add(0.32, 0.97, 400, Cause::SpotCheck), Some(0.33));
    }
}
