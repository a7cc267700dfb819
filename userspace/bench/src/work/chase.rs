// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! `chase` and `stalled`: dependent loads along a random cycle through a set larger than the
//! last-level cache, with a number of multiplications between two loads.
//!
//! The cycle visits every line of the set exactly once before it returns. In a least-recently-used
//! cache smaller than the set, *every* load therefore misses, and the stall per load is known.

use super::{Step, Xorshift, opaque};

/// Default size of the set, larger than the last-level cache that the asymmetric VM models.
pub(super) const DEFAULT_SET_BYTES: usize = crate::spec::DEFAULT_CHASE_BYTES;

/// Loads in one step, 0.3 ms at 600 ns per miss. A unit is one load with its multiplications.
const LOADS: u64 = 512;

/// One cache line. Only its first word is used, the address of the next line.
#[repr(align(64))]
struct Line {
    next: *const Line,
}

/// The set, and the current line.
pub(super) struct Chase {
    /// Owner of the lines that `at` and every `next` point to. It is never resized.
    _lines: Vec<Line>,
    at: *const Line,
    multiplies: u32,
    x: u64,
}

impl Chase {
    /// Make a cycle through `set_bytes` (at least two lines), with `multiplies` multiplications
    /// after each load.
    pub(super) fn new(set_bytes: usize, multiplies: u32) -> Self {
        let mut lines: Vec<Line> = Vec::new();
        lines.resize_with(lines_in(set_bytes), || Line { next: std::ptr::null() });
        let base = lines.as_ptr();
        for (line, next) in lines.iter_mut().zip(cycle(lines_in(set_bytes), 0x5eed)) {
            line.next = base.wrapping_add(next);
        }
        Chase { _lines: lines, at: base, multiplies, x: 1 }
    }

    /// Follow the cycle by `n` lines, without multiplications, and return `n`.
    #[inline(always)]
    pub(super) fn loads(&mut self, n: u64) -> u64 {
        let mut at = self.at;
        for _ in 0..n {
            at = Self::follow(at);
        }
        self.at = at;
        n
    }

    /// Follow the cycle by one line.
    #[inline(always)]
    fn follow(at: *const Line) -> *const Line {
        // SAFETY: `at` is the first line or the `next` of a line. All of these are lines of
        // `self._lines`, alive and initialised, because `cycle` returns only numbers below its
        // argument.
        let next = unsafe { (*at).next };
        // The address passes through a register only, so the compiler cannot drop the load before
        // it.
        next.with_addr(opaque(next.addr() as u64) as usize)
    }
}

/// Return the number of lines in a set of this many bytes.
fn lines_in(set_bytes: usize) -> usize {
    (set_bytes / size_of::<Line>()).max(2)
}

/// Return one random cycle through the numbers below `n`: a permutation with a single cycle
/// (Sattolo's shuffle).
pub(super) fn cycle(n: usize, seed: u64) -> Vec<usize> {
    let mut random = Xorshift::new(seed);
    let mut next: Vec<usize> = (0..n).collect();
    for i in (1..n).rev() {
        let j = random.below(i as u64) as usize;
        next.swap(i, j);
    }
    next
}

impl Step for Chase {
    fn step(&mut self) -> u64 {
        let (mut at, mut x) = (self.at, self.x);
        if self.multiplies == 0 {
            for _ in 0..LOADS / 8 {
                // Written out eight times, because instructions of a loop would dilute the stalls.
                at = Self::follow(Self::follow(Self::follow(Self::follow(at))));
                at = Self::follow(Self::follow(Self::follow(Self::follow(at))));
            }
        } else {
            for _ in 0..LOADS {
                at = Self::follow(at);
                x = multiply(x, self.multiplies);
            }
        }
        (self.at, self.x) = (at, x);
        LOADS
    }
}

/// Multiply `n` times, one after the other. The code is written out so that below 64 every branch
/// goes the same way each time. The end of a counted loop would be mispredicted at every load, and
/// would add stalls inside the core.
#[inline(always)]
fn multiply(mut x: u64, n: u32) -> u64 {
    let once = |x: u64| opaque(x.wrapping_mul(6_364_136_223_846_793_005));
    let twice = |x| once(once(x));
    let by4 = |x| twice(twice(x));
    let by8 = |x| by4(by4(x));
    let by16 = |x| by8(by8(x));
    let by32 = |x| by16(by16(x));
    for _ in 0..n / 64 {
        x = by32(by32(x));
    }
    x = if n & 32 != 0 { by32(x) } else { x };
    x = if n & 16 != 0 { by16(x) } else { x };
    x = if n & 8 != 0 { by8(x) } else { x };
    x = if n & 4 != 0 { by4(x) } else { x };
    x = if n & 2 != 0 { twice(x) } else { x };
    if n & 1 != 0 { once(x) } else { x }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_cycle_visits_every_line_once(n in 2usize..2000, seed in any::<u64>()) {
            let next = cycle(n, seed);
            let (mut at, mut length) = (0usize, 0usize);
            loop {
                at = next[at];
                length += 1;
                if at == 0 || length > n { break; }
            }
            prop_assert_eq!(length, n);
        }
    }

    #[test]
    fn a_step_follows_as_many_lines_as_it_counts() {
        for multiplies in [0, 1] {
            // One step closes a cycle of LOADS lines.
            let mut work = Chase::new(LOADS as usize * size_of::<Line>(), multiplies);
            let start = work.at;
            assert_eq!(work.step(), LOADS);
            assert_eq!(work.at, start);
        }
    }

    #[test]
    fn multiply_does_the_given_number_of_multiplications() {
        for n in [0, 1, 2, 3, 7, 20, 63, 64, 65, 200] {
            let expected = (0..n).fold(1u64, |x, _| x.wrapping_mul(6_364_136_223_846_793_005));
            assert_eq!(multiply(1, n), expected, "{n}");
        }
    }

    #[test]
    fn a_line_of_the_set_is_a_cache_line() {
        assert_eq!(size_of::<Line>(), 64);
    }
}
