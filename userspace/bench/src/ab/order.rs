// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Order in which a block visits the arms.
//!
//! # Problem
//! A machine drifts: heat, caches, other work, the host of an emulation. An arm that always comes
//! first, or always after the same other arm, would be blamed for the drift.
//!
//! # Approach
//! Counterbalanced blocks. A block is a random order of the arms followed by the same order
//! reversed: with two arms ABBA or BAAB. Linear drift within a block affects every arm alike,
//! because the mean position of each arm's two visits is the middle of the block.
//!
//! The order depends only on the seed, the boot and the block. A resumed run or a repeated block
//! thus has the same order as before.
//!
//! # Invariants
//! A block visits every arm exactly twice. The sum of an arm's two positions is the same for all
//! arms.
//!
//! # Limits
//! Drift that is not linear within a block (seconds to a minute) is left to the randomisation over
//! blocks.

use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;

/// Return the visits of one block as indices of arms. Every arm occurs twice.
pub fn block(seed: u64, boot: u32, block: u32, arms: usize) -> Vec<usize> {
    let mut key = [0; 32];
    for (bytes, number) in key.chunks_exact_mut(8).zip([seed, boot.into(), block.into()]) {
        bytes.copy_from_slice(&number.to_le_bytes());
    }
    let mut random = ChaCha8Rng::from_seed(key);
    let mut order: Vec<usize> = (0..arms).collect();
    order.shuffle(&mut random);
    let back: Vec<usize> = order.iter().rev().copied().collect();
    order.extend(back);
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn two_arms_give_abba_and_baab_about_equally() {
        let first: Vec<Vec<usize>> = (0..200).map(|b| block(1, 0, b, 2)).collect();
        assert!(first.iter().all(|order| *order == [0, 1, 1, 0] || *order == [1, 0, 0, 1]));
        let abba = first.iter().filter(|order| order[0] == 0).count();
        // 200 fair coins are outside of 70..130 for one of 40 000 seeds, and this seed is fixed.
        assert!((70..130).contains(&abba), "{abba} of 200");
    }

    #[test]
    fn a_block_always_has_the_same_order() {
        assert_eq!(block(7, 1, 3, 5), block(7, 1, 3, 5));
        let orders: std::collections::BTreeSet<_> = (0..50).map(|b| block(7, 1, b, 5)).collect();
        assert!(orders.len() > 25, "orders repeat: {} different of 50", orders.len());
        assert_ne!(
            (0..20).map(|b| block(7, 0, b, 3)).collect::<Vec<_>>(),
            (0..20).map(|b| block(8, 0, b, 3)).collect::<Vec<_>>()
        );
    }

    proptest! {
        #[test]
        fn every_arm_is_counterbalanced(seed: u64, boot in 0u32..1000, number in 0u32..1000, arms in 1usize..9) {
            let order = block(seed, boot, number, arms);
            prop_assert_eq!(order.len(), 2 * arms);
            for arm in 0..arms {
                let positions: Vec<usize> = (0..order.len()).filter(|&i| order[i] == arm).collect();
                prop_assert_eq!(positions.len(), 2);
                prop_assert_eq!(positions[0] + positions[1], 2 * arms - 1);
            }
        }
    }
}
