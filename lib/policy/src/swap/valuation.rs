// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Progress of a task on a CPU, by the C headers' formula.

use super::input::Limits;
use crate::ffi;
use crate::table::COMPONENTS;

/// Return the stack with shares that sum to 1000; None if it is empty and so carries no
/// information.
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

/// Return the time of a unit of work of the stack on a CPU of this cost [permille of the time on
/// the reference CPU].
#[must_use]
pub(crate) fn time_permille(stack_permille: [u32; COMPONENTS], cost_permille: [u32; COMPONENTS]) -> u32 {
    let stack = ffi::bias_stack { permille: stack_permille };
    let cost = ffi::bias_cost { permille: cost_permille };
    // SAFETY: a pure function over references that live across the call.
    unsafe { ffi::bias_time_permille(&stack, &cost) }
}

/// Return the work done in `ran_ns` where a unit takes `time_permille`, as time on the reference
/// CPU [ns].
#[must_use]
pub(super) fn work_ns(ran_ns: u64, time_permille: u32) -> u64 {
    // SAFETY: a pure function of values.
    unsafe { ffi::bias_reference_ns(ran_ns, time_permille) }
}

/// Values moves for one plan. Values are in reference ns times 1000. Each is at most 2^36 * 2000,
/// so sums fit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Valuation {
    residence_ns: u64,
    stay_ns: u64,
    margin: i64,
}

impl Valuation {
    /// Take the limits, which must be sane ([`Limits::sane`]).
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            residence_ns: limits.residence_ns,
            stay_ns: limits.residence_ns.saturating_sub(limits.migration_ns),
            margin: 1000 + i64::from(limits.min_gain_permille),
        }
    }

    /// Return the value of staying, including the margin that a move has to gain.
    pub(super) fn stays(&self, time_permille: u32) -> i64 {
        work_ns(self.residence_ns, time_permille) as i64 * self.margin
    }

    /// Return the value of a migration to a CPU where a unit takes `time_permille`.
    pub(super) fn moves(&self, time_permille: u32) -> i64 {
        work_ns(self.stay_ns, time_permille) as i64 * 1000
    }

    /// Return the work that a move gains, without margin [reference ns]; negative for a loss.
    pub(super) fn gains(&self, from_permille: u32, to_permille: u32) -> i64 {
        work_ns(self.stay_ns, to_permille) as i64 - work_ns(self.residence_ns, from_permille) as i64
    }
}
