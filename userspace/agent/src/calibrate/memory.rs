// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The sets of lines that the memory loops follow, shared by the CPUs that are compared.
//!
//! # Problem
//! A cache keeps more of some pages than of others, so equal CPUs that load from pages of their own
//! differ. A visit covers only a part of a large set. If all visits began at the same line, each
//! would find there the lines that the visit before it left in the cache.
//!
//! # Approach
//! All CPUs of a last-level cache load from the same pages. Where the set is too small for huge
//! pages, which is where this matters, all CPUs of a node do. One CPU at a time follows the set,
//! and each continues where the one before stopped. So a line is loaded again only after all others
//! of the set.
//!
//! # Limits
//! Nodes have sets of their own, and so do last-level caches with large sets. Huge pages leave
//! nothing to chance there.

use crate::failure::Failure;
use crate::loops::chase::{Chase, HUGE_FROM_BYTES};
use crate::loops::thread::on_cpu;
use crate::topology::Cpu;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Mutex, PoisonError};

/// Size of the set that fits every first-level cache [bytes].
pub const NEAR_BYTES: usize = 2 << 10;

/// Sizes of the sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// The middle set [bytes], None if no size was found.
    pub middle: Option<usize>,
    /// The far set [bytes].
    pub far: usize,
}

/// The sets of some CPUs.
#[derive(Debug)]
pub struct Memory {
    /// A set that fits every first-level cache.
    pub near: Chase,
    /// A set that fits second-level caches only.
    pub middle: Option<Chase>,
    /// A set beyond the caches, from the memory of the CPUs' node.
    pub far: Chase,
    /// Lock held while a CPU follows `far`. Its value is the line where that ended last, 0 before
    /// the first time.
    place: Mutex<usize>,
}

impl Memory {
    /// Allocate the sets from the calling thread's node.
    ///
    /// # Errors
    /// Runtime failure when there is too little memory.
    pub fn new(sizes: Sizes) -> Result<Self, Failure> {
        Ok(Self {
            near: Chase::new(NEAR_BYTES)?,
            middle: sizes.middle.map(Chase::new).transpose()?,
            far: Chase::new(sizes.far)?,
            place: Mutex::new(0),
        })
    }

    /// Wait until no other CPU follows the far set, then call `follow` with the line to continue
    /// from. `follow` must store the line where it ended.
    pub fn in_turn<T>(&self, follow: impl FnOnce(&mut usize) -> T) -> T {
        follow(&mut self.place.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The memory of all CPUs.
#[derive(Debug)]
pub struct Sets {
    sizes: Sizes,
    of: BTreeMap<u32, Memory>,
}

impl Sets {
    /// Build the sets for `cpus`. The first CPU that uses a set builds it, so that the
    /// memory is its node's.
    ///
    /// # Errors
    /// Runtime failure when a CPU is offline or forbidden, or when there is too little memory.
    /// Kernel failure for a CPU number that does not exist.
    pub fn build(cpus: &[Cpu], sizes: Sizes) -> Result<Self, Failure> {
        let mut sets = Self { sizes, of: BTreeMap::new() };
        for cpu in cpus {
            let key = sets.key(cpu.llc, cpu.node);
            if let Entry::Vacant(entry) = sets.of.entry(key) {
                entry.insert(on_cpu(cpu.cpu, || Memory::new(sizes))?);
            }
        }
        Ok(sets)
    }

    /// Return the sets of the CPUs of a last-level cache and a node.
    #[must_use]
    pub fn get(&self, llc: u32, node: u32) -> Option<&Memory> {
        self.of.get(&self.key(llc, node))
    }

    /// Return the key of a set: the last-level cache for sets of huge pages, else the node.
    fn key(&self, llc: u32, node: u32) -> u32 {
        if self.sizes.far < HUGE_FROM_BYTES { node } else { llc }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::topology::Topology;

    /// Two nodes of two last-level caches each. All use the number of one CPU that may run the
    /// test.
    fn cpus() -> Vec<Cpu> {
        let cpu = Topology::read().unwrap().cpus[0].cpu;
        (0..8).map(|at| Cpu { cpu, core: at, llc: at / 2 * 2, node: at / 4 }).collect()
    }

    #[test]
    fn equal_cpus_load_from_the_same_pages() {
        let cpus = cpus();
        let of_size = |far| Sizes { middle: None, far };
        let sets = Sets::build(&cpus, of_size(64 << 10)).unwrap();
        let memory = |at: usize| std::ptr::from_ref(sets.get(cpus[at].llc, cpus[at].node).unwrap());
        assert_eq!((sets.of.len(), memory(0), memory(4)), (2, memory(3), memory(7)));
        assert_ne!(memory(0), memory(4));
        let large = Sets::build(&cpus, of_size(HUGE_FROM_BYTES)).unwrap();
        assert_eq!(large.of.len(), 4);
        assert!(large.get(7, 0).is_none());
    }

    #[test]
    fn each_goes_on_where_the_one_before_stopped() {
        let memory = Memory::new(Sizes { middle: None, far: 64 << 10 }).unwrap();
        let places = memory.far.places(4);
        let follow = || {
            memory.in_turn(|at| {
                let from = *at;
                *at = memory.far.run(*at, 16);
                from
            })
        };
        assert_eq!([follow(), follow(), follow()], [0, places[1], places[2]]);
    }
}
