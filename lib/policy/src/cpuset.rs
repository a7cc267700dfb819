// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! A set of CPU numbers.

use crate::table::MAX_CPUS;
use std::fmt;

const WORDS: usize = (MAX_CPUS as usize).div_ceil(64);

/// CPUs below [`MAX_CPUS`], one bit each (128 bytes).
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuSet {
    words: [u64; WORDS],
}

impl CpuSet {
    /// No CPU.
    pub const EMPTY: Self = Self { words: [0; WORDS] };

    /// Add `cpu`. Ignore numbers that are not below [`MAX_CPUS`].
    pub fn insert(&mut self, cpu: u32) {
        if let Some(word) = self.words.get_mut((cpu / 64) as usize) {
            *word |= 1 << (cpu % 64);
        }
    }

    /// Return true if `cpu` is in the set.
    #[must_use]
    pub fn contains(&self, cpu: u32) -> bool {
        self.words.get((cpu / 64) as usize).is_some_and(|word| word & (1 << (cpu % 64)) != 0)
    }

    /// Add all CPUs of `other`.
    pub fn unite(&mut self, other: &Self) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word |= other);
    }

    /// Return the intersection with `other`.
    #[must_use]
    pub fn common(&self, other: &Self) -> Self {
        Self { words: std::array::from_fn(|i| self.words[i] & other.words[i]) }
    }

    /// Return true if the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries((0..MAX_CPUS).filter(|cpu| self.contains(*cpu))).finish()
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        let mut set = Self::default();
        cpus.into_iter().for_each(|cpu| set.insert(cpu));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn behaves_like_a_set(a in prop::collection::btree_set(0..MAX_CPUS + 100, 0..40), b in prop::collection::btree_set(0..MAX_CPUS + 100, 0..40)) {
            let kept = |set: &BTreeSet<u32>| set.iter().copied().filter(|cpu| *cpu < MAX_CPUS).collect::<BTreeSet<_>>();
            let listed = |set: &CpuSet| (0..MAX_CPUS + 200).filter(|cpu| set.contains(*cpu)).collect::<BTreeSet<_>>();
            let (x, y) = (CpuSet::from_iter(a.iter().copied()), CpuSet::from_iter(b.iter().copied()));
            let mut both = x;
            both.unite(&y);
            prop_assert_eq!(listed(&x), kept(&a));
            prop_assert_eq!(listed(&both), kept(&(&a | &b)));
            prop_assert_eq!(listed(&x.common(&y)), kept(&(&a & &b)));
            prop_assert_eq!(x.is_empty(), kept(&a).is_empty());
        }
    }

    #[test]
    fn it_is_printed_as_a_list() {
        assert_eq!(format!("{:?}", CpuSet::from_iter([64, 3])), "{3, 64}");
    }

    #[test]
    fn it_holds_every_cpu() {
        let all: CpuSet = (0..=MAX_CPUS).collect();
        assert!((0..MAX_CPUS).all(|cpu| all.contains(cpu)) && !all.contains(MAX_CPUS));
        assert!(CpuSet::EMPTY.is_empty());
    }
}
