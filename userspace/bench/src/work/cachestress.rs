// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! `cachestress`: increment and flush every line of a buffer, as in Listing 1 of [Reif20].
//!
//! The original has a fence at the end of each pass over the buffer. Here it is at the end of each
//! step, so that all steps are alike.
//!
//! # Limits
//! The asymmetric VM models no flush. Its misses come from a buffer larger than the last-level
//! cache. Processors other than x86-64 and AArch64 only increment.

use super::{CacheLine, Step};

/// Lines in one step. A unit is one line.
const LINES: usize = 256;

/// The buffer, and the start of the next step.
pub(super) struct CacheStress {
    lines: Vec<CacheLine>,
    at: usize,
}

impl CacheStress {
    /// Make a buffer of `set_bytes`, rounded down to whole steps, at least one.
    pub(super) fn new(set_bytes: usize) -> Self {
        let steps = (set_bytes / (LINES * size_of::<CacheLine>())).max(1);
        CacheStress { lines: vec![CacheLine::default(); steps * LINES], at: 0 }
    }
}

impl Step for CacheStress {
    fn step(&mut self) -> u64 {
        for line in &mut self.lines[self.at..self.at + LINES] {
            line.0 = line.0.wrapping_add(1);
            flush(line);
        }
        fence();
        self.at = (self.at + LINES) % self.lines.len();
        LINES as u64
    }
}

/// Write the line back and drop it from all caches.
#[inline(always)]
fn flush(line: &mut CacheLine) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: flushing a line changes no value, and the pointer is to a live object. Every x86-64
    // has the instruction (SSE2).
    unsafe {
        std::arch::x86_64::_mm_clflush(std::ptr::from_mut(line).cast())
    };
    #[cfg(target_arch = "aarch64")]
    // SAFETY: cleaning a line changes no value, and Linux lets user space do it.
    unsafe {
        std::arch::asm!("dc civac, {}", in(reg) std::ptr::from_mut(line), options(nostack, preserves_flags))
    };
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    std::hint::black_box(line);
}

/// Wait until all flushes are done.
#[inline(always)]
fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: this is a barrier, which every x86-64 has (SSE2).
    unsafe {
        std::arch::x86_64::_mm_mfence()
    };
    #[cfg(target_arch = "aarch64")]
    // SAFETY: this is a barrier, which touches no memory or register.
    unsafe {
        std::arch::asm!("dsb ish", options(nostack, preserves_flags))
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_incremented_once_a_pass() {
        let mut work = CacheStress::new(3 * LINES * 64 + 1);
        let units: u64 = (0..6).map(|_| work.step()).sum();
        assert_eq!(units, 6 * LINES as u64);
        assert_eq!((work.at, work.lines.len()), (0, 3 * LINES));
        assert!(work.lines.iter().all(|line| line.0 == 2));
    }
}
