// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The sets of lines that the memory loops follow: their sizes, and the CPUs that share one.
//!
//! # Problem
//! A cache keeps more of some pages than of others, so equal CPUs that load from pages of their own
//! differ. A visit covers only a part of a large set. If all visits began at the same line, each
//! would find lines that the previous visit left in the cache.
//!
//! Four times the last-level cache that sysfs reports is a correct size on hardware. In a guest,
//! sysfs repeats what the hypervisor claims. On an emulated CPU a set of 64 MiB takes a second to
//! build.
//!
//! # Approach
//! All CPUs of a last-level cache load from the same pages. Where the set is too small for huge
//! pages, which is where this matters, all CPUs of a node do. One CPU at a time follows the set,
//! and each continues where the previous one stopped. So a line is loaded again only after all
//! others of the set.
//!
//! A ladder of small sets is measured first. A size is memory if a load takes longer than any cache
//! does ([`SURELY_MEMORY_NS`]) and a set of twice the size is no slower. The choice is the smallest
//! such set, or the largest one tried if the latency never levels off. If no size reaches that
//! latency, the set is four times the reported cache, within bounds.
//!
//! The middle set is twice the smallest one that the first level does not hold
//! ([`choose_middle`]). Second-level caches have four times the size of first-level ones at least.
//!
//! # Limits
//! Nodes have sets of their own, and so do last-level caches with large sets. Huge pages leave
//! nothing to chance there. A hypervisor may hide a cache larger than it reports. On hardware with
//! fast memory the set then fits that cache in part. `--external-kib` overrides the size.

use crate::affinity::on_cpu;
use crate::failure::Failure;
use crate::loops::{Chase, HUGE_FROM_BYTES};
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

/// A load that takes this long comes from memory: hits of the slowest last-level caches take less
/// than half [ns].
pub const SURELY_MEMORY_NS: f64 = 250.0;
/// Smallest and largest set of the ladder [bytes].
pub const LADDER: (usize, usize) = (256 << 10, 2 << 20);
/// Growth from one rung to the next below which the latency counts as flat.
const FLAT: f64 = 1.2;
/// Bounds of the set when the reported cache decides its size [bytes].
const BOUNDS: (u64, u64) = (8 << 20, 256 << 20);

/// Return the size of the far set [bytes] for a machine that reports a last-level cache of
/// `llc_bytes`.
///
/// `latency_ns` builds a set of the given size and measures how long a load stalls. Its first error
/// ends the search and is returned.
///
/// # Errors
/// Those of `latency_ns`.
pub fn choose_far<E>(
    llc_bytes: u64,
    mut latency_ns: impl FnMut(usize) -> Result<f64, E>,
) -> Result<usize, E> {
    let mut size = LADDER.0;
    let mut latency = latency_ns(size)?;
    while size < LADDER.1 {
        let next = latency_ns(size * 2)?;
        if latency >= SURELY_MEMORY_NS && next < latency * FLAT {
            return Ok(size);
        }
        size *= 2;
        latency = next;
    }
    if latency >= SURELY_MEMORY_NS {
        // The latency never levels off, because address translation is slow (emulators) or the
        // machine is busy, but it is memory's.
        return Ok(size);
    }
    Ok(llc_bytes.saturating_mul(4).clamp(BOUNDS.0, BOUNDS.1) as usize)
}

/// Sizes at which [`choose_middle`] looks for the end of the first level [bytes].
const FIRST_LEVEL: (usize, usize) = (16 << 10, 512 << 10);
/// Growth of the time of a step by which a load misses the first level.
const MISSES_FIRST: f64 = 1.5;

/// Return the size of a set [bytes] that second-level caches hold and first-level ones do not. None
/// if every size is as fast as a first level.
///
/// `plain_ns` is the time of a step whose loads hit the first level. `step_ns` builds a set of the
/// given size and measures a step. Its first error ends the search and is returned.
///
/// # Errors
/// Those of `step_ns`.
pub fn choose_middle<E>(
    plain_ns: f64,
    mut step_ns: impl FnMut(usize) -> Result<f64, E>,
) -> Result<Option<usize>, E> {
    let mut size = FIRST_LEVEL.0;
    while size <= FIRST_LEVEL.1 {
        if step_ns(size)? > plain_ns * MISSES_FIRST {
            return Ok(Some(size * 2));
        }
        size *= 2;
    }
    Ok(None)
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
    fn each_cpu_continues_where_the_previous_one_stopped() {
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

    #[test]
    fn the_middle_set_is_beyond_the_first_level_and_within_the_second() {
        // Sizes of first and second levels: the emulated machine, a small core, a large one.
        for (first, second) in [(8, 64), (32, 256), (48, 1280), (64, 512), (128, 12 << 10)] {
            let time = |bytes: usize| if bytes >> 10 <= first { 80.0 } else { 240.0 };
            let middle = choose_middle::<()>(80.0, |bytes| Ok(time(bytes))).unwrap_or(None);
            assert!(middle.is_some_and(|bytes| (first + 1..=second).contains(&(bytes >> 10))), "{middle:?}");
        }
        assert_eq!(choose_middle::<()>(80.0, |_| Ok(81.0)), Ok(None));
        assert_eq!(choose_middle(80.0, |_| Err("no memory")), Err("no memory"));
    }

    fn chosen(llc_bytes: u64, latency: impl Fn(usize) -> f64) -> usize {
        choose_far::<()>(llc_bytes, |bytes| Ok(latency(bytes))).unwrap_or(0)
    }

    #[test]
    fn an_emulated_machine_with_small_caches_gets_a_small_set() {
        let emulated = |bytes: usize| if bytes <= 256 << 10 { 150.0 } else { 600.0 };
        assert_eq!(chosen(16 << 20, emulated), 512 << 10);
    }

    #[test]
    fn a_partly_fitting_set_is_skipped() {
        let growing = |bytes: usize| match bytes >> 10 {
            0..=256 => 300.0,
            257..=512 => 500.0,
            _ => 620.0,
        };
        assert_eq!(chosen(16 << 20, growing), 1 << 20);
    }

    #[test]
    fn latency_that_never_levels_off_does_not_fall_back_to_sysfs() {
        assert_eq!(chosen(16 << 20, |bytes| 300.0 * (bytes as f64 / 262_144.0).powf(0.5)), 2 << 20);
    }

    #[test]
    fn hardware_gets_four_times_its_cache_within_bounds() {
        assert_eq!(chosen(32 << 20, |_| 12.0), 128 << 20);
        assert_eq!(chosen(1 << 40, |_| 12.0), 256 << 20);
        assert_eq!(chosen(0, |_| 12.0), 8 << 20);
    }

    #[test]
    fn an_error_ends_the_search() {
        assert_eq!(choose_far(0, |_| Err("no memory")), Err("no memory"));
    }
}
