//! Workloads whose behaviour is known in advance.
//!
//! # Problem
//! Judging a scheduler needs tasks with a known demand. One thing dominates each kind:
//!
//! | kind | dominated by |
//! |---|---|
//! | `compute` | execution of instructions |
//! | `chase` | memory latency beyond the last-level cache |
//! | `branchy` | mispredicted branches |
//! | `stream` | memory throughput |
//!
//! `stalled` is a chase diluted with multiplications, to any share of stalls. `float` is `compute`
//! in floating point, and `cachestress` adds flushes to misses. `mixed`, `phases` and the `swp`
//! family combine computing and memory in one task.
//!
//! # Approach
//! A workload is a [`Step`]. One call does a fixed, bounded amount of work (about 20 000 cycles of
//! a small core, 0.3 ms in the asymmetric VM), and returns its number of units. Between two steps
//! the caller reads the clock and its CPU number, and checks whether to stop. Units of one kind are
//! all alike, so rates of the same kind are comparable, and rates of different kinds are not.
//!
//! # Invariants
//! A step never allocates, sleeps or makes a system call. The amount of work of a step does not
//! depend on the CPU or on earlier work, except that the clock selects the work of `phases`. The
//! compiler cannot drop or shorten a step, because every value passes through [`opaque`].
//!
//! # Limits
//! The sets are sized for the asymmetric VM, which models a last-level cache of 256 KiB. On
//! hardware give a larger set, e.g. `chase:256M`.

mod blend;
mod branchy;
mod cachestress;
mod chase;
mod compute;
mod float;
mod stream;
mod swp;

use crate::spec::Kind;

/// One workload, ready to run.
pub trait Step {
    /// Do the next bounded piece of work. Return the units done, always the same number.
    fn step(&mut self) -> u64;

    /// Return true if the kind changes its nature and the last step was one of stalls. False for
    /// all other kinds.
    fn stalls(&self) -> bool {
        false
    }
}

/// Build the workload of this kind. It allocates and touches its whole set.
pub fn build(kind: &Kind) -> Box<dyn Step> {
    build_nth(kind, 0)
}

/// Build the workload of the `index`th task of this kind in a mix. Tasks of a kind whose nature
/// changes with time must not all change together.
pub fn build_nth(kind: &Kind, index: usize) -> Box<dyn Step> {
    match *kind {
        Kind::Compute => Box::new(compute::Compute::new()),
        Kind::Chase { set_bytes } => Box::new(chase::Chase::new(set_bytes, 0)),
        Kind::Stalled { multiplies } => Box::new(chase::Chase::new(chase::DEFAULT_SET_BYTES, multiplies)),
        Kind::Branchy => Box::new(branchy::Branchy::new()),
        Kind::Stream { set_bytes } => Box::new(stream::Stream::new(set_bytes)),
        Kind::Float => Box::new(float::Float::new()),
        Kind::Mixed { compute_percent } => Box::new(blend::Mixed::new(compute_percent)),
        Kind::Phases { .. } => Box::new(blend::Phases::new(kind.period(), index)),
        Kind::CacheStress { set_bytes } => Box::new(cachestress::CacheStress::new(set_bytes)),
        Kind::SwpCpu => Box::new(swp::Swp::new(100, 0)),
        Kind::SwpMem { set_bytes } => Box::new(swp::Swp::new(0, set_bytes)),
        Kind::Swp { cpu_percent } => Box::new(swp::Swp::new(cpu_percent, chase::DEFAULT_SET_BYTES)),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Kind;

    #[test]
    fn every_kind_counts_the_same_units_each_step() {
        for name in Kind::NAMES {
            let mut work = build(&name.parse().unwrap());
            let first = work.step();
            assert!(first > 0, "{name}");
            assert!((0..20).all(|_| work.step() == first), "{name}");
        }
    }

    #[test]
    fn opaque_keeps_the_value() {
        assert_eq!(opaque(42), 42);
        assert_eq!(opaque_f64(-0.5), -0.5);
    }

    #[test]
    fn xorshift_leaves_zero_and_stays_below() {
        let mut r = Xorshift::new(0);
        assert_ne!(r.next(), 0);
        assert!((0..1000).all(|_| r.below(7) < 7));
        assert_eq!(r.below(0), 0);
    }
}
