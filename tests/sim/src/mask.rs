// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Sets of CPUs, in the kernel's layout.

use std::cell::UnsafeCell;

use crate::ffi;

/// CPUs that a mask can hold.
pub const MAX_CPUS: usize = ffi::SIM_NR_CPUS as usize;
const WORD: usize = 64;

/// A set of CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(transparent)]
pub struct Mask(pub(crate) [u64; MAX_CPUS / WORD]);

impl Mask {
    /// Return the set of the first `count` CPUs.
    #[must_use]
    pub fn first_cpus(count: usize) -> Self {
        (0..count).collect()
    }

    /// Return true if `cpu` is in the set.
    #[must_use]
    pub fn has(&self, cpu: usize) -> bool {
        self.0.get(cpu / WORD).is_some_and(|word| word >> (cpu % WORD) & 1 == 1)
    }

    /// Add or remove `cpu`.
    pub fn set(&mut self, cpu: usize, is_in: bool) {
        if let Some(word) = self.0.get_mut(cpu / WORD) {
            let bit = 1 << (cpu % WORD);
            *word = if is_in { *word | bit } else { *word & !bit };
        }
    }

    /// Return the number of CPUs.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Return true if the set has no CPU.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// Return the CPUs that are in both sets.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] & other.0[at]))
    }

    /// Return the CPUs in either.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] | other.0[at]))
    }

    /// Return the CPUs that are not in `other`.
    #[must_use]
    pub fn and_not(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] & !other.0[at]))
    }

    /// Return the first CPU at or after `from`.
    #[must_use]
    pub fn next(&self, from: usize) -> Option<usize> {
        let start = from / WORD;
        for at in start..self.0.len() {
            let word = if at == start { self.0[at] & (u64::MAX << (from % WORD)) } else { self.0[at] };
            if word != 0 {
                return Some(at * WORD + word.trailing_zeros() as usize);
            }
        }
        None
    }

    /// Iterate over the CPUs, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let mut from = 0;
        std::iter::from_fn(move || {
            let cpu = self.next(from)?;
            from = cpu + 1;
            Some(cpu)
        })
    }
}

impl FromIterator<usize> for Mask {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> Self {
        let mut mask = Self::default();
        for cpu in cpus {
            mask.set(cpu, true);
        }
        mask
    }
}

/// A mask that BPF code reads through a pointer while the engine changes it.
#[derive(Debug)]
pub struct SharedMask(Box<UnsafeCell<Mask>>);

impl SharedMask {
    /// Return a mask with the given CPUs.
    #[must_use]
    pub fn new(mask: Mask) -> Self {
        Self(Box::new(UnsafeCell::new(mask)))
    }

    /// Return the present CPUs.
    #[must_use]
    pub fn get(&self) -> Mask {
        // SAFETY: the engine has one thread, and BPF code does not run within this function.
        unsafe { *self.0.get() }
    }

    /// Replace the CPUs.
    pub fn put(&self, mask: Mask) {
        // SAFETY: as above. BPF code holds no Rust reference.
        unsafe { *self.0.get() = mask }
    }

    /// Add or remove one CPU.
    pub fn set(&self, cpu: usize, is_in: bool) {
        let mut mask = self.get();
        mask.set(cpu, is_in);
        self.put(mask);
    }

    /// Return the address that BPF code gets.
    #[must_use]
    pub fn address(&self) -> *const ffi::cpumask {
        self.0.get().cast()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A mask holds what was put in, in order, and nothing else.
        #[test]
        fn holds_exactly_its_elements(cpus in proptest::collection::btree_set(0..MAX_CPUS, 0..40), probe in 0..MAX_CPUS) {
            let mask: Mask = cpus.iter().copied().collect();
            prop_assert_eq!(mask.count(), cpus.len());
            prop_assert_eq!(mask.is_empty(), cpus.is_empty());
            prop_assert_eq!(mask.has(probe), cpus.contains(&probe));
            prop_assert_eq!(mask.next(probe), cpus.range(probe..).next().copied());
            prop_assert_eq!(mask.iter().collect::<Vec<_>>(), cpus.iter().copied().collect::<Vec<_>>());
        }

        /// Intersection and difference partition a set.
        #[test]
        fn parts_add_up(a in proptest::collection::btree_set(0..MAX_CPUS, 0..40), b in proptest::collection::btree_set(0..MAX_CPUS, 0..40)) {
            let (a, b): (Mask, Mask) = (a.into_iter().collect(), b.into_iter().collect());
            prop_assert_eq!(a.and(&b).count() + a.and_not(&b).count(), a.count());
            prop_assert!(a.and(&b).and_not(&b).is_empty());
        }
    }
}
