//! `compute`: integer arithmetic in registers. No memory, one branch the predictor always gets right.

use super::{Step, opaque};

/// Rounds of the chain in one step; a unit is one round.
const ROUNDS: u64 = 4000;

/// Dependent multiply and add, the linear congruential generator of Knuth's MMIX.
pub(super) struct Compute {
    x: u64,
}

impl Compute {
    pub(super) fn new() -> Self {
        Compute { x: 1 }
    }
}

impl Step for Compute {
    fn step(&mut self) -> u64 {
        let mut x = self.x;
        for _ in 0..ROUNDS {
            x = opaque(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407));
        }
        self.x = x;
        ROUNDS
    }
}
