//! When readings are believed.
//!
//! A reading that is off by no more than [`TOLERANCE`] confirms the entry. One that is off more is kept, and once enough of them in a row
//! are off in the same direction, their median is believed: the first of them may be half of the old and half of the new. A spot check takes
//! the median of several chunks by itself, so two are enough if they agree; of cycles it takes three; after a trigger two that agree, and of a
//! limit one.
//!
//! A CPU that changes again and again has to be seen longer: after [`CHANGES_A_MINUTE`] changes within a minute four times as long, and after twice
//! as many it keeps what it has until the minute is over.

use super::Cause;
use crate::samples::median;
use std::collections::VecDeque;

/// How far off a reading may be and still confirm an entry, as a factor either way: what is off from one entry is so back from the other, too.
pub const TOLERANCE: f64 = 0.04;
/// A CPU may change so often in a minute before it has to be seen longer.
pub const CHANGES_A_MINUTE: usize = 6;
/// Times as many readings are wanted of a CPU that changes too often.
const SLOWER: usize = 4;
/// Readings kept; more than are ever wanted.
const KEPT: usize = 16;
const MINUTE_MS: u64 = 60_000;

/// What was read of one CPU and is not believed yet.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// In a row, off in the same direction.
    off: Vec<f64>,
    /// When this CPU changed [ms], in the last minute.
    changed_ms: VecDeque<u64>,
    hurried: bool,
    settled: bool,
}

impl Filter {
    /// Takes in that the CPU was seen at `ratio` of its reference while it was believed to be at `present`. The new ratio, if it is believed.
    pub fn add(&mut self, ratio: f64, present: f64, now_ms: u64, cause: Cause) -> Option<f64> {
        let off = (ratio / present).max(present / ratio) - 1.0;
        self.settled = false;
        if off <= TOLERANCE {
            self.settled = true;
            self.hurried = false;
            self.off.clear();
            return None;
        }
        // NaN has been sorted out by then; were it not, it would be kept and lose against the others.
        if self.off.first().is_some_and(|first| (first > &present) != (ratio > present)) {
            self.off.clear();
        }
        if self.off.len() >= KEPT {
            self.off.remove(0);
        }
        self.off.push(ratio);
        let wanted = self.wanted(now_ms, cause)?;
        // Of two that disagree neither is better: a third decides.
        let wanted = if wanted == 2 && !self.last_agree() { 3 } else { wanted };
        if self.off.len() < wanted {
            return None;
        }
        let last = self.off.len() - wanted;
        let believed = self.off.get(last..).and_then(median);
        self.off.clear();
        self.hurried = false;
        self.changed_ms.push_back(now_ms);
        believed
    }

    fn last_agree(&self) -> bool {
        matches!(self.off.as_slice(), [.., before, last] if (last / before - 1.0).abs() <= TOLERANCE)
    }

    /// Believe sooner, once.
    pub fn hurry(&mut self) {
        self.hurried = true;
    }

    /// Is there a reading that another has to confirm?
    #[must_use]
    pub fn suspects(&self) -> bool {
        !self.off.is_empty()
    }

    /// Did the last reading confirm what is believed?
    #[must_use]
    pub fn settled(&self) -> bool {
        self.settled
    }

    /// How many readings in a row are believed; None if none are.
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
