// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The timed loops. Each runs a number of steps of one component's work, the same on every CPU.
//!
//! # Problem
//! The compiler removes, folds, vectorises or if-converts benchmark loops, and the three components
//! must not mix.
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
//! # Invariants
//! Steps take the same instructions on every CPU. No loop but the chase loads from memory.
//!
//! # Limits
//! Out-of-order cores overlap a little of the stall with the loop itself. The cost is that of the
//! difference, as the counters would count it.

use std::arch::asm;

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
