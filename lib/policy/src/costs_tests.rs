// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of every invariant of the module, of the classes and of the scale.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::testkit::{cpu, table};
use Class::{Fast, Slow};
use proptest::prelude::*;

#[test]
fn the_example_of_the_module_is_true() {
    let mut costs = Costs::new(table());
    costs.set_clocks(vec![1000, 1000, 2000, 1000]);
    costs.set_learned([900, 1000, 1000]);
    let table = costs.effective();
    assert_eq!(table.get(2).unwrap().cost_permille, [4500, 3160, 1000]);
    assert_eq!(table.get(3).unwrap().cost_permille, [2250, 1580, 1000]);
    assert_eq!(table.get(0).unwrap().cost_permille, [1000; 3]);
    assert_eq!(costs.clocked().get(2).unwrap().cost_permille, [5000, 3160, 1000]);
    assert_eq!([2, 3, 9].map(|cpu| costs.clock_permille(cpu)), [Some(2000), Some(1000), None]);
    assert_eq!((costs.learned_permille(Slow), costs.learned_permille(Fast)), ([900, 1000, 1000], [1000; 3]));
}

#[test]
fn a_cpu_that_leaves_the_slow_class_loses_its_factors() {
    let mut costs = Costs::new(table());
    costs.set_learned([1100; 3]);
    costs.set_clocks(vec![3000, 1000, 1000, 1000]);
    assert_eq!(costs.effective().get(0).unwrap().cost_permille, [3300, 3300, 1100]);
    costs.set_clocks(vec![1000; 4]);
    assert_eq!(costs.effective().get(0).unwrap().cost_permille, [1000; 3]);
}

#[test]
fn input_that_would_break_the_table_changes_nothing() {
    let mut costs = Costs::new(table());
    costs.set_clocks(vec![0, 1000, 1000, 1000]);
    costs.set_clocks(vec![2000]);
    assert_eq!(costs.add(cpu(3, Fast), 1000), None, "already present");
    assert_eq!(costs.add(cpu(4, Fast), 0), None);
    assert_eq!(costs.add(cpu(u32::MAX, Fast), 1000), None);
    assert_eq!(costs, Costs::new(table()));
    let mut wrong = table();
    wrong.cpus[3].node = u32::MAX;
    let mut costs = Costs::new(wrong.clone());
    costs.set_clocks(vec![2000; 4]);
    assert_eq!(*costs.clocked(), wrong, "a table that fails its check stays");
}

#[test]
fn classes_are_kept_unless_others_are_clearly_better() {
    let rule = SplitRule::default();
    let costs = |execute: [u32; 4]| execute.map(|cost| [cost, 1000, 1000]);
    let present = [Fast, Fast, Slow, Slow];
    // CPU 0 is between the two groups. A few percent decide its class, which is not worth a
    // migration.
    assert_eq!(reclassify(&costs([1640, 1000, 2500, 2500]), &present, rule), present);
    assert_eq!(reclassify(&costs([3000, 1000, 2500, 2500]), &present, rule), [Slow, Fast, Slow, Slow]);
    assert_eq!(reclassify(&costs([1200, 1200, 1000, 1000]), &present, rule), [Slow, Slow, Fast, Fast]);
    // One class splits late, and two classes merge late.
    let one = [Fast; 4];
    assert_eq!(reclassify(&costs([1045, 1000, 1000, 1000]), &one, rule), one);
    assert_eq!(reclassify(&costs([1070, 1000, 1000, 1000]), &one, rule), [Slow, Fast, Fast, Fast]);
    assert_eq!(reclassify(&costs([1000, 1000, 1020, 1020]), &present, rule), present);
    assert_eq!(reclassify(&costs([1000, 1000, 1010, 1010]), &present, rule), one);
}

/// The largest difference need not be the one that suffices.
#[test]
fn one_component_at_twice_its_least_effect_splits_a_machine() {
    let costs = [[1000, 1000, 1000], [1070, 1100, 1000]];
    assert_eq!(reclassify(&costs, &[Fast, Fast], SplitRule::default()), [Fast, Slow]);
}

#[test]
fn without_clocks_there_are_no_costs() {
    assert_eq!(scaled(&[[1000; 3]], &[0]), None);
    assert_eq!(scaled(&[[1000; 3]], &[]), None);
    assert_eq!(
        scaled(&[[1000; 3], [2500, 1580, 1200]], &[1000, 2000]),
        Some(vec![[1000; 3], [5000, 3160, 1200]])
    );
}

fn clocks() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(125u32..64_000, 4)
}

proptest! {
    #[test]
    fn the_order_of_factors_does_not_matter(clocks in clocks(), learned in prop::array::uniform3(500u32..=2000)) {
        let (mut one, mut other) = (Costs::new(table()), Costs::new(table()));
        one.set_clocks(clocks.clone());
        one.set_learned(learned);
        other.set_learned(learned);
        other.set_clocks(clocks);
        prop_assert_eq!(one.effective(), other.effective());
    }

    #[test]
    fn factors_of_one_give_the_calibrated_table(clocks in clocks(), learned in prop::array::uniform3(500u32..=2000)) {
        let mut costs = Costs::new(table());
        prop_assert_eq!(&costs.effective(), &table());
        costs.set_clocks(clocks);
        costs.set_learned(learned);
        costs.set_learned([SAME; 3]);
        costs.set_clocks(vec![SAME; 4]);
        prop_assert_eq!(&costs.effective(), &table());
        prop_assert_eq!(costs.calibrated(), &table());
    }

    /// The version tells a reader that it must read again.
    #[test]
    fn costs_stay_in_range_and_changes_show(steps in prop::collection::vec(
        (any::<bool>(), prop::collection::vec(any::<u32>(), 4), 4u32..9), 1..20,
    )) {
        let mut costs = Costs::new(table());
        for (clock, values, number) in steps {
            let (before, version) = (costs.effective(), costs.version());
            match (clock, number) {
                (true, _) => costs.set_clocks(values),
                (false, 4) => costs.add(cpu(number, Slow), values[0]).unwrap_or_default(),
                (false, _) => costs.set_learned([values[0], values[1], values[2]]),
            }
            let after = costs.effective();
            prop_assert!(costs.clocked().check().is_ok() && costs.calibrated().check().is_ok());
            let range = COST_BEST..=COST_MAX;
            prop_assert!(after.cpus.iter().all(|entry| entry.cost_permille.iter().all(|cost| range.contains(cost))));
            prop_assert!(after == before || costs.version() > version);
        }
    }

    #[test]
    fn classes_have_a_fast_cpu_and_fast_ones_are_better_on_average(
        costs in prop::collection::vec(prop::array::uniform3(1000u32..64_000), 1..12), bits in any::<u16>()
    ) {
        let present: Vec<Class> = (0..costs.len()).map(|at| if bits >> at & 1 == 1 { Slow } else { Fast }).collect();
        let classes = reclassify(&costs, &present, SplitRule::default());
        prop_assert_eq!(classes.len(), costs.len());
        prop_assert!(classes.contains(&Fast));
        // A second classification gives the same classes.
        prop_assert_eq!(reclassify(&costs, &classes, SplitRule::default()), classes);
    }

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
