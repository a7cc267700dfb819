// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! `branchy`: a branch on a random bit, which any predictor gets wrong half of the time. It stalls
//! inside the core.

use super::{Step, Xorshift, opaque};

/// Random branches in one step. A unit is one branch.
const BRANCHES: u64 = 1500;

/// The random state, and a value that both sides of the branch change.
pub(super) struct Branchy {
    random: Xorshift,
    x: u64,
}

impl Branchy {
    pub(super) fn new() -> Self {
        Branchy { random: Xorshift::new(0xb4a9), x: 1 }
    }
}

impl Step for Branchy {
    fn step(&mut self) -> u64 {
        let mut x = self.x;
        for _ in 0..BRANCHES {
            // The opaque values in both arms keep the compiler from using a conditional move.
            if opaque(self.random.next()) & 0x100 != 0 {
                x = opaque(x).wrapping_add(3);
            } else {
                x = opaque(x ^ 5);
            }
        }
        self.x = x;
        BRANCHES
    }
}
