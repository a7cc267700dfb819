// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The interface of the workloads, and their building blocks.

/// One workload, ready to run.
pub trait Step {
    /// Do the next bounded piece of work. Return the units done, always the same number.
    fn step(&mut self) -> u64;

    /// Return true if the kind has phases and the last step stalled. False for all other kinds.
    fn stalls(&self) -> bool {
        false
    }
}

/// Make a value unknown to the compiler without moving it out of its register: an empty piece of
/// assembly claims to have changed it. `std::hint::black_box` would go through memory, which the
/// cache model counts.
#[inline(always)]
pub(crate) fn opaque(x: u64) -> u64 {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
    {
        let mut y = x;
        // SAFETY: the assembly is a comment. It reads and writes nothing but the register named.
        unsafe { std::arch::asm!("/* {0} */", inout(reg) y, options(nomem, nostack, preserves_flags)) };
        y
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
    std::hint::black_box(x)
}

/// [`opaque`] for a floating-point number, which stays in a floating-point register.
#[inline(always)]
pub(crate) fn opaque_f64(x: f64) -> f64 {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
    {
        let mut y = x;
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the assembly is a comment. It reads and writes nothing but the register named.
        unsafe {
            std::arch::asm!("/* {0} */", inout(xmm_reg) y, options(nomem, nostack, preserves_flags))
        };
        #[cfg(target_arch = "aarch64")]
        // SAFETY: as above.
        unsafe {
            std::arch::asm!("/* {0:d} */", inout(vreg) y, options(nomem, nostack, preserves_flags))
        };
        #[cfg(target_arch = "riscv64")]
        // SAFETY: as above.
        unsafe {
            std::arch::asm!("/* {0} */", inout(freg) y, options(nomem, nostack, preserves_flags))
        };
        y
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
    std::hint::black_box(x)
}

/// One cache line. Only one word is used.
#[repr(align(64))]
#[derive(Clone, Default)]
pub(super) struct CacheLine(pub(super) u64);

/// A small generator of pseudo-random numbers (xorshift, period 2^64 - 1), for sets and for
/// unpredictable branches. It is not fit for statistics or secrets.
#[derive(Debug, Clone)]
pub(crate) struct Xorshift(u64);

impl Xorshift {
    /// Start from `seed`. The seed 0 is replaced, because the state 0 never changes.
    pub(crate) fn new(seed: u64) -> Self {
        Xorshift(if seed == 0 { 0x9e37_79b9_7f4a_7c15 } else { seed })
    }

    /// Return the next 64 bits.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Return a number below `bound`, which must not be 0. The distribution is slightly uneven for
    /// large bounds, which is acceptable here.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }
}
