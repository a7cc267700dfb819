// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of the hysteresis between one class and two.

use super::*;
use proptest::prelude::*;

use Class::{Fast, Slow};

/// The largest difference need not be the one that suffices.
#[test]
fn one_component_at_twice_its_least_effect_splits_a_machine() {
    let costs = [[1000, 1000, 1000], [1070, 1100, 1000]];
    assert_eq!(reclassify(&costs, &[Fast, Fast], SplitRule::default()), [Fast, Slow]);
}

proptest! {
    /// A difference between the least one and 1.5 times that neither splits a machine of one class
    /// nor merges the classes of a split one, in each component.
    #[test]
    fn a_cost_that_wobbles_near_a_boundary_never_changes_the_classes(
        component in prop::sample::select(Component::ALL.to_vec()),
        slow in prop::collection::vec(any::<bool>(), 2..9).prop_filter("two groups", |slow| slow.contains(&true) && slow.contains(&false)),
        wobble in prop::collection::vec(1.0f64..1.49, 1..40),
        min_effect_permille in 20u32..100,
    ) {
        let rule = SplitRule { min_effect_permille, ..SplitRule::default() };
        let costs = |effect: f64| -> Vec<[u32; COMPONENTS]> {
            let mut costs = vec![[1000; COMPONENTS]; slow.len()];
            for (cost, _) in costs.iter_mut().zip(&slow).filter(|(_, slow)| **slow) {
                cost[component.index()] = (1000.0 + effect).ceil() as u32;
            }
            costs
        };
        let least = f64::from(rule.min_permille(component));
        let split: Vec<Class> = slow.iter().map(|slow| if *slow { Slow } else { Fast }).collect();
        for start in [vec![Fast; slow.len()], split.clone()] {
            for wobble in &wobble {
                prop_assert_eq!(&reclassify(&costs(least * wobble), &start, rule), &start);
            }
        }
        prop_assert_eq!(reclassify(&costs(least * 2.0), &vec![Fast; slow.len()], rule), split);
    }
}
