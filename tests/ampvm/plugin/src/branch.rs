// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Branch prediction: which user-space branches would have stalled a core.
//!
//! # Approach
//! Conditional branches use gshare: two-bit counters, selected by the branch's address mixed with
//! the outcomes of the last [`HISTORY_BITS`] branches. Indirect jumps and calls use their last
//! target. Returns and direct jumps are always predicted. A return stack rarely errs, and a model
//! of it would cost a callback per return.
//!
//! # Invariants
//! Both are tested.
//!
//! * A branch that always goes the same way is missed only while its counters warm up.
//! * Random outcomes are missed half of the time.
//!
//! # Limits
//! The tables are not cleared on a context switch, and processes alias, as on many real cores.

/// Number of outcomes in the history.
const HISTORY_BITS: u32 = 6;
const COUNTERS: usize = 4096;
const TARGETS: usize = 256;
/// Counter values from here on predict "taken".
const WEAKLY_TAKEN: u8 = 2;
const STRONGLY_TAKEN: u8 = 3;

/// One vCPU's predictor.
pub struct Predictor {
    counters: [u8; COUNTERS],
    history: u64,
    targets: [(u64, u64); TARGETS],
}

impl Predictor {
    /// Return a predictor with all counters weakly not-taken and no targets.
    pub fn new() -> Self {
        Self { counters: [1; COUNTERS], history: 0, targets: [(0, 0); TARGETS] }
    }

    /// Record the outcome of a conditional branch, identified by its fall-through address. Return
    /// true if it was mispredicted.
    #[inline]
    pub fn conditional(&mut self, fall_through: u64, taken: bool) -> bool {
        let site = fall_through ^ (fall_through >> 12);
        let slot = (site ^ (self.history << (12 - HISTORY_BITS))) as usize % COUNTERS;
        self.history = (self.history << 1 | u64::from(taken)) & ((1 << HISTORY_BITS) - 1);
        let Some(counter) = self.counters.get_mut(slot) else { return false };
        let miss = (*counter >= WEAKLY_TAKEN) != taken;
        *counter = if taken { (*counter + 1).min(STRONGLY_TAKEN) } else { counter.saturating_sub(1) };
        miss
    }

    /// Record the target of an indirect jump or call, identified by the address after it. Return
    /// true if it was mispredicted.
    #[inline]
    pub fn indirect(&mut self, next: u64, target: u64) -> bool {
        let slot = (next ^ (next >> 8)) as usize % TARGETS;
        let Some(entry) = self.targets.get_mut(slot) else { return false };
        let miss = *entry != (next, target);
        *entry = (next, target);
        miss
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn misses(outcomes: impl Iterator<Item = (u64, bool)>) -> usize {
        let mut p = Predictor::new();
        outcomes.filter(|&(site, taken)| p.conditional(site, taken)).count()
    }

    proptest! {
        #[test]
        fn a_steady_branch_misses_only_while_warming_up(site in 0_u64..1 << 47, taken: bool) {
            // Each history before the steady one has its own counter.
            prop_assert!(misses((0..1000).map(|_| (site, taken))) <= HISTORY_BITS as usize + 2);
        }

        #[test]
        fn a_short_pattern_is_learnt(site in 0_u64..1 << 47, pattern in proptest::collection::vec(any::<bool>(), 1..5)) {
            let n = pattern.len();
            let count = misses((0..4000).map(|i| (site, pattern[i % n])));
            prop_assert!(count <= 40, "{} of 4000", count);
        }

        #[test]
        fn a_steady_target_misses_once(next in 1_u64..1 << 47, target in 1_u64..1 << 47) {
            let mut p = Predictor::new();
            prop_assert_eq!((0..100).filter(|_| p.indirect(next, target)).count(), 1);
        }
    }

    #[test]
    fn random_outcomes_are_missed_half_of_the_time() {
        let mut x = 88_172_645_463_325_252_u64;
        let mut random = || {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x & 1 == 1
        };
        let count = misses((0..100_000).map(|_| (0x40_1234, random())));
        assert!((48_000..52_000).contains(&count), "{count}");
    }

    #[test]
    fn alternating_targets_are_always_missed() {
        let mut p = Predictor::new();
        assert_eq!((0..100_u64).filter(|i| p.indirect(64, 1000 + i % 2)).count(), 100);
    }
}
