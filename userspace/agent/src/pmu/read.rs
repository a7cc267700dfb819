// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Reading of a group: counts since it was opened, and differences of two readings.
//!
//! When events outnumber counters, perf multiplexes groups. A reading includes the time for which
//! the group was enabled and the time for which it counted. Differences are scaled by their ratio.
//!
//! A counter may run backwards after a driver's error or a CPU's sleep. It gives no negative time:
//! the difference is 0 and marked.

use super::roles::{ROLES, Role};

/// Counts since the group was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CounterReading {
    /// Counts by role; None where the CPU has no such counter.
    pub counts: [Option<u64>; ROLES],
    /// Time since opening [ns].
    pub enabled: u64,
    /// Time for which the group counted [ns].
    pub running: u64,
}

/// Counts between two readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delta {
    /// Counts by role; None where the CPU has no such counter.
    pub counts: [Option<u64>; ROLES],
    /// Time between the readings [ns].
    pub enabled: u64,
    /// Part of that time for which the group counted [ns].
    pub running: u64,
    /// True if a value ran backwards and was replaced by 0.
    pub backwards: bool,
}

/// Words before the counts: the number of counts, time enabled, time running.
const HEAD: usize = 3;
/// Length of the longest reading [bytes].
pub const LONGEST: usize = (HEAD + ROLES) * 8;

impl CounterReading {
    /// Parse the bytes that the kernel returns; None when they do not match the open counters.
    #[must_use]
    pub fn parse(bytes: &[u8], open: [bool; ROLES]) -> Option<Self> {
        let (words, rest) = bytes.as_chunks::<8>();
        let mut words = words.iter().map(|word| u64::from_ne_bytes(*word));
        let (number, enabled, running) = (words.next()?, words.next()?, words.next()?);
        let expected = open.iter().filter(|open| **open).count();
        if !rest.is_empty() || number != expected as u64 || words.len() != expected {
            return None;
        }
        let counts = open.map(|open| if open { words.next() } else { None });
        Some(Self { counts, enabled, running })
    }

    /// Return the counts since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Delta {
        let mut backwards = false;
        let mut less = |now: u64, then: u64| {
            backwards |= now < then;
            now.saturating_sub(then)
        };
        let mut counts = [None; ROLES];
        for (slot, count) in counts.iter_mut().enumerate() {
            *count = self.counts[slot].zip(earlier.counts[slot]).map(|(now, then)| less(now, then));
        }
        let (enabled, running) = (less(self.enabled, earlier.enabled), less(self.running, earlier.running));
        Delta { counts, enabled, running, backwards }
    }
}

impl Delta {
    /// Return one counter's difference.
    #[must_use]
    pub fn count(&self, role: Role) -> Option<u64> {
        self.counts[role.index()]
    }

    /// Return the sum of both deltas.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let mut counts = [None; ROLES];
        for (slot, count) in counts.iter_mut().enumerate() {
            *count = self.counts[slot].zip(other.counts[slot]).map(|(one, two)| one.saturating_add(two));
        }
        Self {
            counts,
            enabled: self.enabled.saturating_add(other.enabled),
            running: self.running.saturating_add(other.running),
            backwards: self.backwards || other.backwards,
        }
    }

    /// Estimate the counts if the group had counted all the time; None when it never did.
    #[must_use]
    pub fn scaled(&self) -> Option<Self> {
        let (enabled, running) = (u128::from(self.enabled), u128::from(self.running));
        if running == 0 {
            return None;
        }
        // The kernel reads the two times one after the other: running may exceed enabled by a
        // little and must not shrink counts.
        let scale = |count: u64| match enabled > running {
            true => u64::try_from(u128::from(count) * enabled / running).unwrap_or(u64::MAX),
            false => count,
        };
        Some(Self { counts: self.counts.map(|count| count.map(scale)), ..*self })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn counts_go_to_the_open_slots() {
        let reading =
            CounterReading::parse(&bytes(&[3, 100, 50, 7, 8, 9]), [true, true, true, false]).unwrap();
        assert_eq!(reading.counts, [Some(7), Some(8), Some(9), None]);
        assert_eq!((reading.enabled, reading.running), (100, 50));
        let skipping =
            CounterReading::parse(&bytes(&[3, 100, 50, 7, 8, 9]), [true, true, false, true]).unwrap();
        assert_eq!(skipping.counts, [Some(7), Some(8), None, Some(9)]);
        assert_eq!(CounterReading::parse(&bytes(&[3, 100, 50, 7, 8, 9]), [true; 4]), None);
        assert_eq!(CounterReading::parse(&bytes(&[4, 100, 50, 7, 8, 9]), [true; 4]), None);
    }

    #[test]
    fn taking_turns_is_scaled_and_running_backwards_marked() {
        let reading = |count, enabled, running| CounterReading {
            counts: [Some(count), Some(count), None, Some(1)],
            enabled,
            running,
        };
        let delta = reading(300, 2000, 500).since(&reading(100, 1000, 250));
        assert_eq!((delta.counts, delta.backwards), ([Some(200), Some(200), None, Some(0)], false));
        assert_eq!(delta.scaled().unwrap().counts, [Some(800), Some(800), None, Some(0)]);
        let back = reading(100, 2000, 500).since(&reading(300, 1000, 250));
        assert_eq!((back.count(Role::Cycles), back.backwards), (Some(0), true));
        assert_eq!(reading(1, 10, 5).since(&reading(1, 0, 5)).scaled(), None);
    }

    #[test]
    fn differences_add_up() {
        let delta = |count: u64, backwards| Delta {
            counts: [Some(count), None, Some(u64::MAX), Some(count)],
            enabled: count,
            running: count,
            backwards,
        };
        let sum =
            delta(1, false).plus(&Delta { counts: [Some(2), Some(3), Some(1), None], ..delta(2, true) });
        assert_eq!(sum.counts, [Some(3), None, Some(u64::MAX), None]);
        assert_eq!((sum.enabled, sum.running, sum.backwards), (3, 3, true));
    }

    fn any_reading() -> impl Strategy<Value = CounterReading> {
        (any::<[Option<u64>; 4]>(), any::<u64>(), any::<u64>())
            .prop_map(|(counts, enabled, running)| CounterReading { counts, enabled, running })
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..80), open: [bool; 4]) {
            let _ = CounterReading::parse(&bytes, open);
        }

        #[test]
        fn scaling_never_shrinks_or_panics(one in any_reading(), two in any_reading()) {
            let delta = one.since(&two);
            if let Some(scaled) = delta.scaled() {
                for (scaled, raw) in scaled.counts.iter().zip(delta.counts) {
                    prop_assert!(*scaled >= raw);
                }
            }
        }
    }
}
