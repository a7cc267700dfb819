// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of the class rules on simulated machines.

#![allow(clippy::unwrap_used)]

use super::*;
use proptest::prelude::*;

/// Return samples of a CPU with the given times and +-`noise` relative noise. A tenth of the
/// samples is disturbed upwards.
fn cpu(number: u32, times: [f64; 3], noise: f64, seed: u64) -> CpuSamples {
    let mut random = XorShift(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1);
    let mut draw = |time: f64| {
        let jitter = (0..4).map(|_| random.below(2001) as f64 / 1000.0 - 1.0).sum::<f64>() / 2.0;
        let tail = if random.below(10) == 0 { 1.5 } else { 1.0 };
        time * (1.0 + noise * jitter) * tail
    };
    CpuSamples { cpu: number, times: times.map(|time| (0..50).map(|_| draw(time)).collect()) }
}

fn machine(execute: &[f64], noise: f64, seed: u64) -> Vec<CpuSamples> {
    execute
        .iter()
        .zip(0u32..)
        .map(|(time, number)| {
            cpu(number, [*time, time.sqrt(), 1.0], noise, seed * 1000 + u64::from(number) + 1)
        })
        .collect()
}

fn slow_cpus(split: &Split) -> Vec<usize> {
    (0..split.classes.len()).filter(|at| split.classes[*at] == Class::Slow).collect()
}

#[test]
fn two_kinds_of_core_give_two_classes() {
    let split = split(&machine(&[1.0, 1.0, 2.5, 2.5], 0.02, 1), SplitRule::default());
    assert_eq!(slow_cpus(&split), vec![2, 3]);
    let reason = split.reason.unwrap();
    assert_eq!(reason.component, Component::Execute);
    assert!(reason.effect_permille.abs_diff(1500) < 50 && reason.p_value.unwrap() <= 0.01, "{reason:?}");
}

#[test]
fn noise_gives_one_class_a_hundred_times_in_a_hundred() {
    for seed in 1..=100 {
        let split = split(&machine(&[1.0; 4], 0.03, seed), SplitRule::default());
        assert_eq!(split.reason, None, "seed {seed}");
    }
}

#[test]
fn wide_noise_is_stopped_by_the_significance_test() {
    // Medians under such wide noise often differ by more than the minimum effect. The significance
    // test must reject them.
    let noisy = |seed| machine(&[1.0; 4], 0.3, seed);
    let large = (1..=100).filter(|seed| {
        let costs: Vec<_> = noisy(*seed).iter().map(|cpu| median(&cpu.times[0]).unwrap()).collect();
        large_enough(&costs, Component::Execute, SplitRule::default()).is_some()
    });
    assert!(large.count() > 50);
    let split_count =
        (1..=100).filter(|seed| split(&noisy(*seed), SplitRule::default()).reason.is_some()).count();
    assert!(split_count <= 6, "{split_count} of 100");
}

#[test]
fn two_cpus_can_be_told_apart() {
    let split = split(&machine(&[1.0, 1.2], 0.02, 3), SplitRule::default());
    assert_eq!(slow_cpus(&split), vec![1]);
}

#[test]
fn a_significant_but_small_difference_is_one_class() {
    let split = split(&machine(&[1.0, 1.0, 1.015, 1.015], 0.002, 4), SplitRule::default());
    assert_eq!(split.reason, None);
}

#[test]
fn three_kinds_of_core_give_two_classes() {
    let split = split(&machine(&[1.0, 1.0, 1.6, 1.6, 2.5, 2.5], 0.02, 5), SplitRule::default());
    let slow = slow_cpus(&split);
    assert!(slow == vec![2, 3, 4, 5] || slow == vec![4, 5], "{slow:?}");
}

#[test]
fn cores_that_differ_in_stalls_only_are_split_by_stalls() {
    let times = |external| [1.0, 1.0, external];
    let cpus: Vec<_> = [1.0, 1.0, 1.5, 1.5]
        .iter()
        .zip(0u32..)
        .map(|(e, n)| cpu(n, times(*e), 0.02, u64::from(n) + 7))
        .collect();
    let split = split(&cpus, SplitRule::default());
    assert_eq!(slow_cpus(&split), vec![2, 3]);
    assert_eq!(split.reason.unwrap().component, Component::External);
}

/// Return equal CPUs that load from memory of different pages: external times differ by up to 15 %
/// at any precision of the measurement.
fn placed(external: &[f64], execute: &[f64], seed: u64) -> Vec<CpuSamples> {
    let numbered = (0u32..).zip(external.iter().zip(execute));
    numbered.map(|(n, (ext, exe))| cpu(n, [*exe, 1.0, *ext], 0.01, seed * 100 + u64::from(n))).collect()
}

#[test]
fn missing_samples_and_single_cpus_give_one_class() {
    assert!(split(&[], SplitRule::default()).classes.is_empty());
    assert_eq!(split(&machine(&[1.0], 0.02, 1), SplitRule::default()).classes, vec![Class::Fast]);
    let mut cpus = machine(&[1.0, 2.0], 0.02, 1);
    cpus[1].times = Default::default();
    assert_eq!(split(&cpus, SplitRule::default()).reason, None);
}

#[test]
fn costs_alone_split_by_effect() {
    let rule = SplitRule::default();
    assert_eq!(slow_cpus(&split_by_cost(&[[1000; 3], [1020, 1000, 1000]], rule)), Vec::<usize>::new());
    assert_eq!(slow_cpus(&split_by_cost(&[[1000; 3], [1040, 1000, 1000]], rule)), vec![1]);
}

#[test]
fn similarity_separates_near_cpus_but_not_equal_ones() {
    let cpus = machine(&[1.0, 1.0, 1.04], 0.02, 11);
    let pair = |a: usize, b: usize| similarity(&cpus[a].times[0], &cpus[b].times[0]).unwrap();
    assert!(pair(0, 1).alike(), "{:?}", pair(0, 1));
    assert!(!pair(0, 2).alike(), "{:?}", pair(0, 2));
    assert!(pair(0, 2).distance > pair(0, 1).distance);
    assert_eq!(similarity(&[], &[1.0]), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn page_placement_alone_makes_no_class(
        external in prop::collection::vec(1.0f64..1.15, 2..9), seed in 1u64..1000, min_effect_permille in 1u32..=30,
    ) {
        let equal = vec![1.0; external.len()];
        // The minimum effect may be arbitrarily small, so execute and internal times have no noise.
        let rule = SplitRule { min_effect_permille, ..SplitRule::default() };
        let costs: Vec<[u32; COMPONENTS]> =
            external.iter().map(|time| [1000, 1000, (time * 1000.0).round() as u32]).collect();
        prop_assert_eq!(split_by_cost(&costs, rule).reason, None);
        prop_assert_eq!(split(&placed(&external, &equal, seed), SplitRule::default()).reason, None);
        let one = vec![Class::Fast; external.len()];
        prop_assert_eq!(crate::costs::reclassify(&costs, &one, rule), one);
    }

    #[test]
    fn placement_does_not_change_the_classes_of_unequal_cpus(
        external in prop::collection::vec(1.0f64..1.15, 4), ratio in 1.0f64..1.4, seed in 1u64..1000,
    ) {
        let classes = |external: &[f64]| {
            split(&placed(external, &[1.0, 1.0, ratio, ratio], seed), SplitRule::default()).classes
        };
        prop_assert_eq!(classes(&external), classes(&[1.0; 4]));
    }

    #[test]
    fn order_of_cpus_and_time_base_do_not_matter(
        execute in prop::collection::vec(prop::sample::select(vec![1.0, 1.3, 2.5]), 2..8),
        seed in 1u64..1000,
        factor in 0.1f64..10.0,
    ) {
        let cpus = machine(&execute, 0.02, seed);
        let plain = split(&cpus, SplitRule::default());
        let mut turned: Vec<CpuSamples> = cpus.clone();
        turned.reverse();
        for cpu in &mut turned {
            cpu.times.iter_mut().flatten().for_each(|time| *time *= factor);
        }
        let mut other = split(&turned, SplitRule::default()).classes;
        other.reverse();
        prop_assert_eq!(plain.classes, other);
    }

    #[test]
    fn every_fast_cpu_is_at_least_as_good(execute in prop::collection::vec(1.0f64..3.0, 2..8), seed in 1u64..1000) {
        let cpus = machine(&execute, 0.01, seed);
        let split = split(&cpus, SplitRule::default());
        if let Some(reason) = split.reason {
            let medians: Vec<f64> = cpus.iter().map(|cpu| median(&cpu.times[reason.component.index()]).unwrap()).collect();
            let of = |class| (0..cpus.len()).filter(move |at| split.classes[*at] == class).collect::<Vec<_>>();
            for fast in of.clone()(Class::Fast) {
                for slow in of.clone()(Class::Slow) {
                    prop_assert!(medians[fast] < medians[slow]);
                }
            }
        }
    }
}
