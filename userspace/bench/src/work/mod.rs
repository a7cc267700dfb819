// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
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
mod step;
mod stream;
mod swp;

use step::CacheLine;
pub use step::Step;
pub(crate) use step::{Xorshift, opaque, opaque_f64};

use crate::spec::WorkKind;

/// Build the workload of this kind. It allocates and touches its whole set.
pub fn build(kind: &WorkKind) -> Box<dyn Step> {
    build_nth(kind, 0)
}

/// Build the workload of the `index`th task of this kind in a mix. Tasks of a kind with phases must
/// not all change together.
pub fn build_nth(kind: &WorkKind, index: usize) -> Box<dyn Step> {
    match *kind {
        WorkKind::Compute => Box::new(compute::Compute::new()),
        WorkKind::Chase { set_bytes } => Box::new(chase::Chase::new(set_bytes, 0)),
        WorkKind::Stalled { multiplies } => Box::new(chase::Chase::new(chase::DEFAULT_SET_BYTES, multiplies)),
        WorkKind::Branchy => Box::new(branchy::Branchy::new()),
        WorkKind::Stream { set_bytes } => Box::new(stream::Stream::new(set_bytes)),
        WorkKind::Float => Box::new(float::Float::new()),
        WorkKind::Mixed { compute_percent } => Box::new(blend::Mixed::new(compute_percent)),
        WorkKind::Phases { .. } => Box::new(blend::Phases::new(kind.period(), index)),
        WorkKind::CacheStress { set_bytes } => Box::new(cachestress::CacheStress::new(set_bytes)),
        WorkKind::SwpCpu => Box::new(swp::Swp::new(100, 0)),
        WorkKind::SwpMem { set_bytes } => Box::new(swp::Swp::new(0, set_bytes)),
        WorkKind::Swp { cpu_percent } => Box::new(swp::Swp::new(cpu_percent, chase::DEFAULT_SET_BYTES)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_counts_the_same_units_each_step() {
        for name in WorkKind::NAMES {
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
    fn xorshift_leaves_the_state_zero_and_stays_below_the_bound() {
        let mut r = Xorshift::new(0);
        assert_ne!(r.next(), 0);
        assert!((0..1000).all(|_| r.below(7) < 7));
        assert_eq!(r.below(0), 0);
    }
}
