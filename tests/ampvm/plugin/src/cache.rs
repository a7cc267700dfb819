// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! A set-associative cache with least-recently-used replacement, for one vCPU or several.
//!
//! # Problem
//! The model must decide hit or miss for every user-space access, at low cost and for several
//! concurrent host threads.
//!
//! # Approach
//! Each set has a clock. Each way has a tag and the clock's value at its last use. A miss replaces
//! the way with the oldest use. All fields are relaxed atomics, which compile to plain loads and
//! stores on the host. There is no lock, so a vCPU thread that the host preempts never holds up the
//! others.
//!
//! # Invariants
//! With one thread, an access hits exactly if its tag is among the last `ways` distinct tags of its
//! set (property-tested against a reference).
//!
//! # Limits
//! Races on a shared cache are tolerated. Two concurrent misses may choose the same victim, and a
//! clock tick may be lost. A line is then dropped early or kept a little longer, which costs one
//! wrong result.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use ampvm_abi::Geometry;

/// log2 of [`ampvm_abi::LINE_BYTES`].
pub const LINE_SHIFT: u32 = ampvm_abi::LINE_BYTES.trailing_zeros();

/// Tag of a way that was never filled. No line has this tag, because lines are addresses divided by
/// 64.
const EMPTY: u64 = u64::MAX;

struct Way {
    tag: AtomicU64,
    used: AtomicU32,
}

pub struct Cache {
    ways: usize,
    set_mask: u64,
    clocks: Vec<AtomicU32>,
    table: Vec<Way>,
}

impl Cache {
    /// Return an empty cache. `geometry` must have a power-of-two number of sets, as `args`
    /// ensures. With another number some sets would stay unused.
    pub fn new(geometry: Geometry) -> Self {
        let sets = geometry.sets().max(1);
        let ways = geometry.ways.max(1);
        Self {
            ways,
            set_mask: sets as u64 - 1,
            clocks: (0..sets).map(|_| AtomicU32::new(0)).collect(),
            table: (0..sets * ways)
                .map(|_| Way { tag: AtomicU64::new(EMPTY), used: AtomicU32::new(0) })
                .collect(),
        }
    }

    /// Access the line `tag` in the set that `index` selects. Return true for a hit. A miss brings
    /// the line in.
    ///
    /// Index and tag are separate so that a cache can be indexed by virtual and tagged by physical
    /// address.
    #[inline]
    pub fn access(&self, index: u64, tag: u64) -> bool {
        let set = (index & self.set_mask) as usize;
        let Some(clock) = self.clocks.get(set) else { return true };
        let Some(ways) = self.table.get(set * self.ways..(set + 1) * self.ways) else { return true };
        let now = clock.load(Relaxed).wrapping_add(1);
        clock.store(now, Relaxed);
        for way in ways {
            if way.tag.load(Relaxed) == tag {
                way.used.store(now, Relaxed);
                return true;
            }
        }
        Self::replace(ways, now, tag);
        false
    }

    #[cold]
    #[inline(never)]
    fn replace(ways: &[Way], now: u32, tag: u64) {
        // The code compares ages, not clock values, so a clock that wraps does no harm.
        let age = |w: &Way| match w.tag.load(Relaxed) {
            EMPTY => u32::MAX,
            _ => now.wrapping_sub(w.used.load(Relaxed)),
        };
        if let Some(victim) = ways.iter().max_by_key(|w| age(w)) {
            victim.tag.store(tag, Relaxed);
            victim.used.store(now, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use ampvm_abi::LINE_BYTES;
    use proptest::prelude::*;

    /// The plain implementation: a list per set, most recent first.
    struct Reference {
        ways: usize,
        sets: Vec<Vec<u64>>,
    }

    impl Reference {
        fn access(&mut self, index: u64, tag: u64) -> bool {
            let n = self.sets.len() as u64;
            let set = &mut self.sets[(index % n) as usize];
            let hit = set.iter().position(|t| *t == tag).map(|i| set.remove(i)).is_some();
            set.insert(0, tag);
            set.truncate(self.ways);
            hit
        }
    }

    proptest! {
        #[test]
        fn is_lru(ways in 1_usize..17, log_sets in 0_u32..4, lines in proptest::collection::vec(0_u64..160, 0..1200)) {
            let sets = 1_usize << log_sets;
            let cache = Cache::new(Geometry { bytes: sets * ways * LINE_BYTES, ways });
            let mut reference = Reference { ways, sets: vec![Vec::new(); sets] };
            for line in lines {
                prop_assert_eq!(cache.access(line, line), reference.access(line, line));
            }
        }
    }

    #[test]
    fn a_wrapped_clock_still_replaces_the_oldest() {
        let cache = Cache::new(Geometry { bytes: 2 * LINE_BYTES, ways: 2 });
        cache.clocks[0].store(u32::MAX - 1, Relaxed);
        assert!(!cache.access(0, 1));
        assert!(!cache.access(0, 2));
        assert!(cache.access(0, 1));
        assert!(!cache.access(0, 3), "replaces 2");
        assert!(cache.access(0, 1));
        assert!(!cache.access(0, 2));
    }

    #[test]
    fn equal_virtual_addresses_of_two_processes_are_two_lines() {
        let cache = Cache::new(Geometry { bytes: 1 << 14, ways: 4 });
        assert!(!cache.access(7, 1000));
        assert!(!cache.access(7, 2000));
        assert!(cache.access(7, 1000) && cache.access(7, 2000));
    }

    #[test]
    fn threads_share_lines_and_a_fitting_set_stays_a_hit() {
        let cache = Cache::new(Geometry { bytes: 1 << 16, ways: 16 });
        for line in 0..256 {
            cache.access(line, line);
        }
        let misses: usize = std::thread::scope(|s| {
            let run = || (0..4).flat_map(|_| 0..256).filter(|&line| !cache.access(line, line)).count();
            let all: Vec<_> = (0..4).map(|_| s.spawn(run)).collect();
            all.into_iter().map(|t| t.join().unwrap()).sum()
        });
        assert_eq!(misses, 0, "4 lines of 16 ways a set: no race can evict one");
    }
}
