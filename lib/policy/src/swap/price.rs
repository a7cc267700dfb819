//! What a task does on a CPU, by the C headers' formula.

use super::input::{Limits, WEIGHT_MAX};
use crate::ffi;
use crate::table::COMPONENTS;

/// `stack` with shares that sum to 1000; None if it is empty, which says nothing.
#[must_use]
pub(crate) fn normalised(stack_permille: [u32; COMPONENTS]) -> Option<[u32; COMPONENTS]> {
    if stack_permille == [0; COMPONENTS] {
        return None;
    }
    let mut stack = ffi::bias_stack { permille: stack_permille };
    // SAFETY: a pure function over a reference that lives across the call.
    unsafe { ffi::bias_stack_normalise(&mut stack) };
    Some(stack.permille)
}

/// Time of a unit of work of `stack` on a CPU of `cost` [permille of the time on a CPU that is best at everything].
#[must_use]
pub(crate) fn time_permille(stack_permille: [u32; COMPONENTS], cost_permille: [u32; COMPONENTS]) -> u32 {
    let stack = ffi::bias_stack { permille: stack_permille };
    let cost = ffi::bias_cost { permille: cost_permille };
    // SAFETY: a pure function over references that live across the call.
    unsafe { ffi::bias_time_permille(&stack, &cost) }
}

/// Work done in `ran_ns` where a unit takes `time_permille`, as the time the best CPU would have needed [ns].
#[must_use]
pub(super) fn work_ns(ran_ns: u64, time_permille: u32) -> u64 {
    // SAFETY: a pure function of values.
    unsafe { ffi::bias_reference_ns(ran_ns, time_permille) }
}

/// Prices moves for one plan. Worths are in reference ns times 1000 times weight: at most 2^36 * 2000 * 10000 < 2^61 each, so sums of a
/// few fit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pricer {
    residence_ns: u64,
    stay_ns: u64,
    margin: i64,
}

impl Pricer {
    /// From limits that are sane.
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            residence_ns: limits.residence_ns,
            stay_ns: limits.residence_ns.saturating_sub(limits.migration_ns),
            margin: 1000 + i64::from(limits.min_gain_permille),
        }
    }

    /// What staying is worth, the margin that a move has to gain included.
    pub(super) fn stays(&self, weight: u32, time_permille: u32) -> i64 {
        work_ns(self.residence_ns, time_permille) as i64 * self.margin * i64::from(weight)
    }

    /// What being moved to where a unit takes `time_permille` is worth.
    pub(super) fn moves(&self, weight: u32, time_permille: u32) -> i64 {
        work_ns(self.stay_ns, time_permille) as i64 * 1000 * i64::from(weight)
    }

    /// Work that a move gains, without margin [reference ns times weight]; negative for a loss.
    pub(super) fn gains(&self, weight: u32, from_permille: u32, to_permille: u32) -> i64 {
        let difference =
            work_ns(self.stay_ns, to_permille) as i64 - work_ns(self.residence_ns, from_permille) as i64;
        difference * i64::from(weight)
    }
}

/// A weight in its range.
pub(super) fn sane_weight(weight: u32) -> u32 {
    weight.clamp(1, WEIGHT_MAX)
}
