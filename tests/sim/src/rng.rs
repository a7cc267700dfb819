// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Random numbers that are the same on every machine and with every version of every library: a
//! seed in a report repeats a run years later.
//!
//! The generator is SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): a counter through a mixing
//! function. It is not meant to be unpredictable.

use std::cell::Cell;

/// A sequence of random numbers.
#[derive(Debug)]
pub struct Rng(Cell<u64>);

impl Rng {
    /// Return the sequence of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Cell::new(seed))
    }

    /// Return the next 64 bits.
    pub fn bits(&self) -> u64 {
        self.0.set(self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15));
        let mut mixed = self.0.get();
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Return a number below `bound`, 0 if there is none.
    pub fn below(&self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// Return a number from `least` to `most`.
    pub fn within(&self, least: u64, most: u64) -> u64 {
        least + self.below(most.saturating_sub(least).saturating_add(1))
    }

    /// Return true with a probability [percent].
    pub fn chance(&self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Return an element of a slice that is not empty.
    ///
    /// # Panics
    /// Panic if it is empty.
    pub fn pick<'a, T>(&self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Rng;

    proptest! {
        /// Numbers stay in their range, and a seed repeats them.
        #[test]
        fn numbers_stay_in_range(seed: u64, least in 0u64..1000, more in 0u64..1000) {
            let (a, b) = (Rng::new(seed), Rng::new(seed));
            for _ in 0..100 {
                let number = a.within(least, least + more);
                prop_assert!((least..=least + more).contains(&number));
                prop_assert_eq!(number, b.within(least, least + more));
            }
        }
    }

    #[test]
    fn the_sequence_is_that_of_the_paper() {
        // First outputs of SplitMix64 for seed 1234567, which the reference code prints.
        let rng = Rng::new(1_234_567);
        assert_eq!(rng.bits(), 6_457_827_717_110_365_317);
        assert_eq!(rng.bits(), 3_203_168_211_198_807_973);
    }
}
