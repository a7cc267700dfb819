// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! `compute`: integer arithmetic in registers, without memory accesses. The predictor always
//! predicts its one branch.

use super::{Step, opaque};

/// Rounds of the chain in one step. A unit is one round.
const ROUNDS: u64 = 4000;

/// Dependent multiply and add, the linear congruential generator of Knuth's MMIX.
pub(super) struct Compute {
    x: u64,
}

impl Compute {
    pub(super) fn new() -> Self {
        Compute { x: 1 }
    }

    /// Do `n` rounds and return `n`.
    #[inline(always)]
    pub(super) fn rounds(&mut self, n: u64) -> u64 {
        let mut x = self.x;
        for _ in 0..n {
            x = multiply_add(x);
        }
        self.x = x;
        n
    }
}

/// Do one round.
#[inline(always)]
pub(super) fn multiply_add(x: u64) -> u64 {
    opaque(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407))
}

impl Step for Compute {
    fn step(&mut self) -> u64 {
        self.rounds(ROUNDS)
    }
}
