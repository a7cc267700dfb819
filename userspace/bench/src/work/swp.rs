// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! `swpcpu`, `swpmem`, `swp`: the functions of the micro-benchmark for libswp [Werling18]. One
//! function works in registers. Two work in memory: indirect accesses through a random pattern, and
//! pointer chasing.
//!
//! The original mixes the two groups in the ratios 1.0, 0.8 and 0.6 (`swp:100`, `swp:80`,
//! `swp:60`), one after the other in an outer loop. Here the outer loop is the step.
//!
//! # Limits
//! The original has a buffer of 100 MiB, and 400 000, 100 000 and 7000 iterations per round. Here
//! these are scaled down to a step and to the given set. In both, every access misses a smaller
//! least-recently-used cache.

use super::chase::{Chase, cycle};
use super::{CacheLine, Step, compute, float, opaque};

/// Per percent of a step: rounds of the CPU function, and accesses of each memory function. 100 %
/// is about 20 000 cycles.
const ROUNDS_PER_PERCENT: u64 = 25;
const ACCESSES_PER_PERCENT: u64 = 2;

/// An integer and a floating-point chain, interleaved.
struct Registers {
    int: u64,
    float: f64,
}

impl Registers {
    fn rounds(&mut self, n: u64) {
        let (mut int, mut x) = (self.int, self.float);
        for _ in 0..n {
            int = compute::multiply_add(int);
            x = float::multiply_add(x);
        }
        (self.int, self.float) = (int, x);
    }
}

/// The sets of both memory functions.
struct Memory {
    /// Order of the lines. It contains each line once.
    pattern: Vec<u32>,
    data: Vec<CacheLine>,
    at: usize,
    sum: u64,
    chase: Chase,
}

impl Memory {
    /// Give half of `set_bytes` to each function. The pattern is part of the first half.
    fn new(set_bytes: usize) -> Self {
        let half = set_bytes / 2;
        let lines = (half / (size_of::<CacheLine>() + size_of::<u32>())).max(1);
        Memory {
            pattern: cycle(lines, 0x1d1).into_iter().map(|line| line as u32).collect(),
            data: (0..lines as u64).map(CacheLine).collect(),
            at: 0,
            sum: 0,
            chase: Chase::new(half, 0),
        }
    }

    fn accesses(&mut self, n: u64) {
        let (mut at, mut sum) = (self.at, self.sum);
        for _ in 0..n {
            sum = opaque(sum.wrapping_add(self.data[self.pattern[at] as usize].0));
            at = if at + 1 == self.pattern.len() { 0 } else { at + 1 };
        }
        (self.at, self.sum) = (at, sum);
        self.chase.loads(n);
    }
}

/// Both groups of functions with their shares of a step. A unit is one percent of a step.
pub(super) struct Swp {
    registers: Registers,
    memory: Option<Memory>,
    rounds: u64,
    accesses: u64,
}

impl Swp {
    /// Make a step of `cpu_percent` of the CPU function, and of memory functions on `set_bytes` for
    /// the rest.
    pub(super) fn new(cpu_percent: u8, set_bytes: usize) -> Self {
        let percent = u64::from(cpu_percent.min(100));
        Swp {
            registers: Registers { int: 1, float: 1.0 },
            memory: (percent < 100).then(|| Memory::new(set_bytes)),
            rounds: percent * ROUNDS_PER_PERCENT,
            accesses: (100 - percent) * ACCESSES_PER_PERCENT,
        }
    }
}

impl Step for Swp {
    fn step(&mut self) -> u64 {
        self.registers.rounds(self.rounds);
        if let Some(memory) = &mut self.memory {
            memory.accesses(self.accesses);
        }
        100
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pattern_visits_every_line_once() {
        let mut memory = Memory::new(64 << 10);
        let lines = memory.data.len() as u64;
        memory.accesses(lines);
        assert_eq!(memory.at, 0);
        assert_eq!(memory.sum, lines * (lines - 1) / 2);
    }

    #[test]
    fn everything_fits_the_set() {
        let memory = Memory::new(384 << 10);
        let bytes = memory.data.len() * 64 + memory.pattern.len() * 4;
        assert!(bytes <= 192 << 10 && bytes > 190 << 10, "{bytes}");
    }

    #[test]
    fn shares_add_up_to_a_step() {
        for (percent, rounds, accesses) in [(0, 0, 200), (60, 1500, 80), (100, 2500, 0)] {
            let swp = Swp::new(percent, 4096);
            assert_eq!((swp.rounds, swp.accesses), (rounds, accesses));
            assert_eq!(swp.memory.is_some(), percent < 100);
        }
    }
}
