//! The loops that are timed. Each is a number of steps of one kind of work, the same on every CPU.
//!
//! Problem. The compiler removes, folds, vectorises or if-converts benchmark loops, and the three kinds of work must not mix.
//!
//! Approach. Values pass through empty assembly statements, which cost nothing and which the compiler can neither see
//! through nor copy. A stall is the difference between two loops that execute the same instructions: branches that
//! cannot be predicted against the same branches always going one way; loads from a set beyond the caches against the same loads
//! from a set that fits the first level. So no instruction has to be counted, and the execute part cancels on each
//! CPU by itself, whatever its width.
//!
//! Invariants. Steps take the same instructions whatever the CPU; no kernel but the chase loads from memory.
//!
//! Limits. Out-of-order cores overlap a little of the stall with the loop itself; it is priced as the difference, as the
//! counters would see it.

use std::arch::asm;

/// Passes a value through an opaque, free statement.
macro_rules! opaque {
    ($value:ident) => {
        // SAFETY: an empty template executes nothing; it only claims to read and write the register.
        unsafe { asm!("/* {} */", inout(reg) $value, options(nomem, nostack, preserves_flags)) }
    };
}

/// Executes dependent integer operations in registers: four chains side by side.
///
/// One chain would measure the clock alone and price a narrow core like a wide one; four are about what compiled
/// integer code offers.
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

/// Whether the branches of [`branches`] follow a random stream or always go the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Branches {
    /// Every branch depends on a fresh random bit: about half are mispredicted.
    Random,
    /// The same instructions, every branch taken the same way.
    Steady,
}

/// Sixteen branches a step on bits of an xorshift stream.
///
/// The stream starts anew from the number of the chunk, so that all CPUs see the same branches and no predictor can learn them by repetition.
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
        // The upper bits of xorshift are the better ones.
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

/// One branch whose arms cost the same. The opaque statement in each keeps the compiler from turning it into a conditional move.
#[inline(always)]
fn branch<const BIT: usize>(bits: usize, count: &mut usize) {
    let mut value = *count;
    if bits & BIT == 0 {
        value = value.wrapping_add(3);
        opaque!(value);
    } else {
        value ^= 5;
        // SAFETY: an empty template executes nothing. The text differs from the other arm's, so that the two are not merged.
        unsafe { asm!("/* else {} */", inout(reg) value, options(nomem, nostack, preserves_flags)) }
    }
    *count = value;
}
