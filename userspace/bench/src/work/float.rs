// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! `float`: floating-point arithmetic in registers, without memory accesses. The predictor always
//! predicts its one branch.

use super::{Step, opaque_f64};

/// Rounds of the chain in one step. A unit is one round.
const ROUNDS: u64 = 4000;

/// Dependent multiply and add, in double precision.
pub(super) struct Float {
    x: f64,
}

impl Float {
    pub(super) fn new() -> Self {
        Float { x: 1.0 }
    }
}

/// Do one multiplication and one addition. Repetition approaches 5 from any start. It never gives
/// an infinity, a NaN, or a denormal number, on which the processor takes a slow path.
#[inline(always)]
pub(super) fn multiply_add(x: f64) -> f64 {
    opaque_f64(x * 0.8 + 1.0)
}

impl Step for Float {
    fn step(&mut self) -> u64 {
        let mut x = self.x;
        for _ in 0..ROUNDS {
            x = multiply_add(x);
        }
        self.x = x;
        ROUNDS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_is_computed_and_stays_a_normal_number() {
        let mut work = Float::new();
        assert_eq!(multiply_add(work.x), 1.8);
        work.step();
        assert!((work.x - 5.0).abs() < 1e-9);
    }
}
