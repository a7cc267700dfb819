// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of CPUs that join a table.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::recal::{Evidence, Sample};
use crate::table::Class;
use proptest::prelude::*;

const FAST_NS: f64 = 10.0;

/// Return fast CPUs 0 and 1, and with `slow` also the slow CPUs 4 and 5.
fn recal(slow: bool) -> (Recal, Costs, Vec<Reference>) {
    let mut cpus: Vec<_> = [0, 1].map(|cpu| CpuCapacity::alone(cpu, Class::Fast, [1000; 3])).into();
    if slow {
        cpus.extend([4, 5].map(|cpu| CpuCapacity::alone(cpu, Class::Slow, [2500, 1580, 1000])));
    }
    let step = |cpu: &CpuCapacity| FAST_NS * f64::from(cpu.cost_permille[0]) / 1000.0;
    let reference = |cpu: &CpuCapacity| Reference { cpu: cpu.cpu, khz: None, step_ns: Some(step(cpu)) };
    let references = cpus.iter().map(reference).collect::<Vec<_>>();
    let table = CapacityTable::new(cpus).unwrap();
    (Recal::new(&table, &references), Costs::new(table), references)
}

fn newcomer(cpu: u32, step_ns: f64) -> Newcomer {
    Newcomer { cpu, core: cpu, llc: 0, node: 0, step_ns }
}

#[test]
fn a_cpu_like_others_gets_their_entry() {
    let (mut recal, mut costs, references) = recal(true);
    let changes = recal.join(7, newcomer(3, 25.0), &references, &mut costs).unwrap();
    let joined = costs.clocked().get(3).unwrap();
    assert_eq!((joined.class, joined.cost_permille), (Class::Slow, [2500, 1580, 1000]));
    assert_eq!((changes.len(), changes[0].cpu, changes[0].cause), (1, 3, Cause::SpotCheck));
    assert_eq!(changes[0].old, Entry { class: Class::Fast, cost_permille: [1000; 3] });
    // A CPU that equals the best changes no entry, but it is in the table.
    assert_eq!(recal.join(8, newcomer(2, 10.0), &references, &mut costs), Some(vec![]));
    assert_eq!(costs.clocked().cpus.iter().map(|entry| entry.cpu).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
    assert_eq!(recal.join(9, newcomer(2, 10.0), &references, &mut costs), None, "it is there");
}

#[test]
fn slow_cores_that_come_later_make_a_class() {
    let (mut recal, mut costs, references) = recal(false);
    for cpu in [6, 7] {
        recal.join(0, newcomer(cpu, 25.0), &references, &mut costs).unwrap();
    }
    let classes: Vec<Class> = costs.clocked().cpus.iter().map(|cpu| cpu.class).collect();
    assert_eq!(classes, [Class::Fast, Class::Fast, Class::Slow, Class::Slow]);
    assert_eq!(costs.clocked().get(7).unwrap().cost_permille, [2500, 2500, 1000]);
    // The new CPUs' entries match their time at arrival, and the other CPUs do not follow them.
    for step in 0..20 {
        let sample = |cpu| Sample { cpu, evidence: Evidence::Spot { step_ns: 25.0 } };
        assert_eq!(recal.step(step * 500, &[sample(6), sample(7)], &mut costs), vec![]);
    }
}

#[test]
fn a_faster_one_is_the_new_measure() {
    let (mut recal, mut costs, references) = recal(true);
    let changes = recal.join(0, newcomer(2, 5.0), &references, &mut costs).unwrap();
    assert_eq!(costs.clocked().get(2).unwrap().cost_permille, [1000, 1000, 1000]);
    assert_eq!(costs.clocked().get(0).unwrap().cost_permille, [2000, 2000, 1000]);
    assert!(changes.iter().filter(|change| change.cpu != 2).all(|change| change.cause == Cause::Others));
}

#[test]
fn nothing_to_compare_with_changes_nothing() {
    let (mut recal, mut costs, references) = recal(true);
    let before = costs.clocked().clone();
    assert_eq!(recal.join(0, newcomer(2, 10.0), &[], &mut costs), None);
    for step_ns in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e9, 1e-9] {
        assert_eq!(recal.join(0, newcomer(2, step_ns), &references, &mut costs), None);
    }
    assert_eq!(*costs.clocked(), before);
}

proptest! {
    #[test]
    fn a_table_with_newcomers_is_one(joins in prop::collection::vec((0u32..12, 3.0f64..150.0), 1..8), slow: bool) {
        let (mut recal, mut costs, references) = recal(slow);
        for (cpu, step_ns) in joins {
            let before = costs.clocked().clone();
            if recal.join(0, newcomer(cpu, step_ns), &references, &mut costs).is_none() {
                prop_assert_eq!(costs.clocked(), &before);
                continue;
            }
            let now = costs.clocked();
            prop_assert!(now.check().is_ok());
            prop_assert_eq!(now.cpus.len(), before.cpus.len() + 1);
            prop_assert!(before.cpus.iter().all(|entry| now.get(entry.cpu).is_some()));
            // Costs follow the ratio of the times, as long as none is cut to the highest cost.
            let cost = |cpu| f64::from(now.get(cpu).unwrap().cost_permille[0]);
            let ratio = cost(cpu) / cost(0);
            prop_assert!((ratio / (step_ns / FAST_NS) - 1.0).abs() < 0.01, "{} for {}", ratio, step_ns);
        }
    }
}
