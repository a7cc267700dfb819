// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Loops with a known stall. Each runs a number of steps of one component's work, the same on every
//! CPU. Calibration times them, spot checks repeat them, and the probe of the counters runs them.
//!
//! # Problem
//! The compiler removes, folds, vectorises or if-converts benchmark loops, and the three components
//! must not mix. Prefetchers hide memory latency behind any regular pattern. A cycle that visits
//! only part of a set fits a cache.
//!
//! # Approach
//! Values pass through empty assembly statements. These cost nothing, and the compiler can neither
//! see through nor copy them. A stall is the difference between two loops that execute the same
//! instructions:
//!
//! | component | with stalls | without |
//! |---|---|---|
//! | internal | unpredictable branches | the same branches, always one way |
//! | internal | loads from a set that fits the second level | a set that fits the first level |
//! | external | loads from a set beyond the caches | loads from a set that fits the first level |
//!
//! So no instruction has to be counted, and the execute part cancels on each CPU by itself,
//! regardless of its width.
//!
//! Sattolo's shuffle links all lines of a set into one random cycle ([`Chase`]): the value of one
//! load is the address of the next. Large sets ask for huge pages, so that the result is memory
//! latency and not page walks. `bias-bench` has a chase of its own on purpose: it must not confirm
//! the calibration with the same code.
//!
//! # Invariants
//! Steps take the same instructions on every CPU. No loop but the chase loads from memory.
//! Following its links visits every line once before it returns to the first.
//!
//! # Limits
//! Out-of-order cores overlap a little of the stall with the loop itself. The cost is that of the
//! difference, as the counters would count it.

use crate::failure::Failure;
use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, munmap};
use std::arch::asm;
use std::ffi::c_void;
use std::num::NonZeroUsize;
use std::ptr::NonNull;

/// Pass a value through an opaque, free statement.
macro_rules! opaque {
    ($value:ident) => {
        // SAFETY: an empty template executes nothing; it only claims to read and write the
        // register.
        unsafe { asm!("/* {} */", inout(reg) $value, options(nomem, nostack, preserves_flags)) }
    };
}

/// Execute dependent integer operations in registers: four parallel chains.
///
/// One chain would measure the clock alone and give a wide core the cost of a narrow one. Four are
/// about what compiled integer code offers.
pub fn execute(steps: u64) {
    let (mut a, mut b, mut c, mut d) = (1usize, 3usize, 5usize, 7usize);
    for _ in 0..steps {
        execute_step(&mut a, &mut b, &mut c, &mut d);
        execute_step(&mut b, &mut c, &mut d, &mut a);
        execute_step(&mut c, &mut d, &mut a, &mut b);
        execute_step(&mut d, &mut a, &mut b, &mut c);
    }
    std::hint::black_box((a, b, c, d));
}

#[inline(always)]
fn execute_step(a: &mut usize, b: &mut usize, c: &mut usize, d: &mut usize) {
    let (mut p, mut q, mut r, mut s) = (*a, *b, *c, *d);
    p = (p ^ 0x55).rotate_left(3);
    q = q.wrapping_add(0x33).rotate_left(5);
    r = (r ^ 0x0f).wrapping_add(0x71);
    s = s.wrapping_sub(0x29) ^ 0x63;
    opaque!(p);
    opaque!(q);
    opaque!(r);
    opaque!(s);
    (*a, *b, *c, *d) = (p, q, r, s);
}

/// Pattern of the branches of [`branches`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Branches {
    /// Every branch depends on a fresh random bit: about half are mispredicted.
    Random,
    /// The same instructions, every branch taken the same way.
    Steady,
}

/// Execute sixteen branches per step on bits of an xorshift stream.
///
/// The stream starts from the index of the chunk. So all CPUs execute the same branches, and no
/// predictor can learn them by repetition.
pub fn branches(kind: Branches, chunk: u64, steps: u64) {
    let mut mask = match kind {
        Branches::Random => usize::MAX,
        Branches::Steady => 0,
    };
    opaque!(mask);
    let mut stream = chunk.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut count = 0usize;
    for _ in 0..steps {
        stream ^= stream << 13;
        stream ^= stream >> 7;
        stream ^= stream << 17;
        // The upper bits of xorshift are the more random ones.
        let mut bits = (stream >> 24) as usize & mask;
        four_branches(&mut bits, &mut count);
        four_branches(&mut bits, &mut count);
        four_branches(&mut bits, &mut count);
        four_branches(&mut bits, &mut count);
    }
    std::hint::black_box(count);
}

#[inline(always)]
fn four_branches(bits: &mut usize, count: &mut usize) {
    branch::<1>(*bits, count);
    branch::<2>(*bits, count);
    branch::<4>(*bits, count);
    branch::<8>(*bits, count);
    *bits >>= 4;
}

/// Execute one branch whose arms cost the same. The opaque statement in each keeps the compiler
/// from making it a conditional move.
#[inline(always)]
fn branch<const BIT: usize>(bits: usize, count: &mut usize) {
    let mut value = *count;
    if bits & BIT == 0 {
        value = value.wrapping_add(3);
        opaque!(value);
    } else {
        value ^= 5;
        // SAFETY: an empty template executes nothing. The text differs from the other arm's, so
        // that the compiler does not merge the two.
        unsafe { asm!("/* else {} */", inout(reg) value, options(nomem, nostack, preserves_flags)) }
    }
    *count = value;
}

/// Distance between the links [bytes]: the line size of nearly every CPU.
pub const LINE_BYTES: usize = 64;
/// Size from which the set asks for huge pages [bytes].
pub const HUGE_FROM_BYTES: usize = 4 << 20;
/// Loads per step of [`Chase::run`]. They share the loop's own instructions.
pub const LOADS_PER_STEP: u64 = 16;

/// The set of lines. Several threads may read it, because it never changes once built.
#[derive(Debug)]
pub struct Chase {
    base: NonNull<c_void>,
    bytes: usize,
}

// SAFETY: the mapping is private to this value. Only `new` writes it, and drop unmaps it.
unsafe impl Send for Chase {}
// SAFETY: as above; shared references only read.
unsafe impl Sync for Chase {}

impl Chase {
    /// Build a set of about `bytes` (at least two lines). The calling thread touches every page
    /// first, so the memory comes from its NUMA node.
    ///
    /// # Errors
    /// Runtime failure when the memory cannot be mapped.
    pub fn new(bytes: usize) -> Result<Self, Failure> {
        let lines = (bytes / LINE_BYTES).max(2);
        let bytes = lines * LINE_BYTES;
        let no_memory = |error: String| {
            Failure::runtime(format!(
                "cannot map {} KiB for the memory kernel ({error}); free memory or choose a smaller --external-kib",
                bytes >> 10
            ))
        };
        let length = NonZeroUsize::new(bytes).ok_or_else(|| no_memory("size is zero".into()))?;
        // SAFETY: an anonymous private mapping at an address that the kernel chooses overlaps no
        // other one.
        let base = unsafe {
            mmap_anonymous(None, length, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_PRIVATE)
        }
        .map_err(|error| no_memory(error.to_string()))?;
        let chase = Self { base, bytes };
        if bytes >= HUGE_FROM_BYTES {
            // SAFETY: the range is the mapping just made. Failure only means ordinary pages.
            let _ = unsafe { madvise(base, bytes, MmapAdvise::MADV_HUGEPAGE) };
        }
        chase.link(lines);
        Ok(chase)
    }

    /// Return the size of the set [bytes].
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn line(&self, index: usize) -> *mut usize {
        debug_assert!(index < self.bytes / LINE_BYTES);
        self.base.as_ptr().cast::<u8>().wrapping_add(index * LINE_BYTES).cast()
    }

    /// Link the lines into one cycle (Sattolo).
    fn link(&self, lines: usize) {
        // SAFETY: line() stays within the mapping for an index below `lines` and is aligned to a
        // usize. No other thread has the mapping yet.
        unsafe {
            for index in 0..lines {
                *self.line(index) = self.line(index) as usize;
            }
            let mut random = 0x2545_f491_4f6c_dd1d_u64;
            for last in (1..lines).rev() {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                // Below `last`, never `last` itself: this makes it one cycle.
                let other = ((u128::from(random) * last as u128) >> 64) as usize;
                std::ptr::swap(self.line(last), self.line(other));
            }
        }
    }

    /// Return `count` lines to begin from, evenly spaced along the cycle. This follows the links
    /// through all of the set but the last part.
    #[must_use]
    pub fn places(&self, count: usize) -> Vec<usize> {
        let steps = (self.bytes / LINE_BYTES / count.max(1)) as u64 / LOADS_PER_STEP;
        let next = |at: &usize| Some(self.run(*at, steps));
        std::iter::successors(Some(self.line(0) as usize), next).take(count).collect()
    }

    /// Follow [`LOADS_PER_STEP`] links per step from `from`, a value that an earlier call returned,
    /// or 0 for the first line. Return the line to continue from.
    #[must_use]
    pub fn run(&self, from: usize, steps: u64) -> usize {
        let mut at = if from == 0 { self.line(0) as usize } else { from };
        for _ in 0..steps {
            at = follow_four(at);
            at = follow_four(at);
            at = follow_four(at);
            at = follow_four(at);
        }
        std::hint::black_box(at)
    }
}

#[inline(always)]
fn follow_four(at: usize) -> usize {
    // SAFETY: `at` is the address of a line of a live mapping, and each line holds the address of
    // another one. The reads are volatile, so that the compiler keeps every load.
    unsafe {
        let at = std::ptr::read_volatile(at as *const usize);
        let at = std::ptr::read_volatile(at as *const usize);
        let at = std::ptr::read_volatile(at as *const usize);
        std::ptr::read_volatile(at as *const usize)
    }
}

impl Drop for Chase {
    fn drop(&mut self) {
        // SAFETY: `new` made the mapping with this size, and nothing refers to it any more.
        let _ = unsafe { munmap(self.base, self.bytes) };
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn one_cycle_visits_every_line() {
        for lines in [2, 3, 64, 1000] {
            let chase = Chase::new(lines * LINE_BYTES).unwrap();
            assert_eq!(chase.bytes(), lines * LINE_BYTES);
            let start = chase.line(0) as usize;
            let mut at = start;
            let mut seen = std::collections::BTreeSet::new();
            for _ in 0..lines {
                assert!(seen.insert(at));
                // SAFETY: `at` starts at a line and follows the links.
                at = unsafe { *(at as *const usize) };
            }
            assert_eq!(at, start);
        }
    }

    #[test]
    fn places_are_evenly_spaced() {
        let chase = Chase::new(96 * LINE_BYTES).unwrap();
        let places = chase.places(3);
        assert_eq!((places.len(), places[0]), (3, chase.line(0) as usize));
        for (at, place) in places.iter().enumerate() {
            assert_eq!(chase.run(*place, 2), places[(at + 1) % 3]);
        }
        assert!(chase.places(0).is_empty());
    }

    #[test]
    fn running_continues_where_it_stopped() {
        let chase = Chase::new(48 * LINE_BYTES).unwrap();
        let start = chase.line(0) as usize;
        // 48 lines: three steps of sixteen loads complete one round.
        let one = chase.run(0, 1);
        assert_ne!(one, start);
        assert_eq!(chase.run(one, 2), start);
    }
}
