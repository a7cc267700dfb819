// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! `stream`: a[i] = b[i] + 3 c[i] over arrays larger than the last-level cache, line by line.

use super::{Step, opaque};

/// Elements in one step. A unit is one element.
const ELEMENTS: usize = 1024;

/// Three arrays, and the start of the next step.
pub(super) struct Stream {
    a: Vec<u64>,
    b: Vec<u64>,
    c: Vec<u64>,
    at: usize,
}

impl Stream {
    /// Make three arrays that together hold `set_bytes`. The length of each is a whole number of
    /// steps.
    pub(super) fn new(set_bytes: usize) -> Self {
        let steps = (set_bytes / 3 / (ELEMENTS * size_of::<u64>())).max(1);
        let n = steps * ELEMENTS;
        Stream { a: vec![0; n], b: vec![1; n], c: vec![2; n], at: 0 }
    }
}

impl Step for Stream {
    fn step(&mut self) -> u64 {
        let range = self.at..self.at + ELEMENTS;
        let from = self.b[range.clone()].iter().zip(&self.c[range.clone()]);
        for (a, (b, c)) in self.a[range].iter_mut().zip(from) {
            // One element at a time: with vector instructions the work of a step would depend on
            // the build.
            *a = opaque(b.wrapping_add(c.wrapping_mul(3)));
        }
        self.at = (self.at + ELEMENTS) % self.a.len();
        ELEMENTS as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_is_computed_and_the_end_wraps() {
        let mut work = Stream::new(3 * 4 * ELEMENTS * 8);
        let units: u64 = (0..4).map(|_| work.step()).sum();
        assert_eq!(units, 4 * ELEMENTS as u64);
        assert_eq!(work.at, 0);
        assert!(work.a.iter().all(|&a| a == 7));
    }

    #[test]
    fn a_tiny_set_still_holds_one_step() {
        assert_eq!(Stream::new(1).a.len(), ELEMENTS);
    }
}
