// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of measuring siblings together. The VM scenarios test their effect on each other; here two
//! CPUs pretend to be siblings.

#![allow(clippy::unwrap_used)]

use super::super::memory::Sizes;
use super::super::{Conditions, evaluate};
use super::*;
use crate::pmu::Counters;
use crate::topology::{Cpu, Topology};
use bias_policy::classes::{CpuSamples, SplitRule};
use bias_policy::table::{SHARED_MAX, SHARED_NONE};
use std::time::Duration;

const NONE: [u32; COMPONENTS] = [SHARED_NONE; COMPONENTS];

fn brief() -> Settings {
    Settings {
        rounds: 1,
        visit: Some(Duration::from_millis(5)),
        chunk: Duration::from_micros(50),
        external_bytes: Some(1 << 20),
        ..Settings::default()
    }
}

/// A calibration of CPUs on these cores. CPUs of an odd core are twice as slow.
fn calibration(cores: &[u32]) -> Calibration {
    let cpus: Vec<Cpu> =
        (0..).zip(cores).map(|(cpu, core)| Cpu { cpu, core: *core, llc: 0, node: 0 }).collect();
    let times = |core: u32| (0..40).map(|i| f64::from((1 + core % 2) * (100 + i % 5))).collect::<Vec<_>>();
    let samples = cpus
        .iter()
        .map(|cpu| CpuSamples { cpu: cpu.cpu, times: [times(cpu.core), times(0), times(0)] })
        .collect();
    evaluate(&cpus, samples, Conditions::made_up(), SplitRule::default()).unwrap()
}

#[test]
fn two_cpus_that_play_siblings_are_measured_together() {
    let mut topology = Topology::read().unwrap();
    topology.cpus.truncate(2);
    for cpu in &mut topology.cpus {
        cpu.core = 0;
    }
    let calibration = super::super::calibrate(&topology, &brief(), &Counters::default(), &|_, _| ()).unwrap();
    let bounds = if topology.cpus.len() == 2 { SHARED_NONE..=SHARED_MAX } else { SHARED_NONE..=SHARED_NONE };
    for entry in &calibration.table.cpus {
        assert!(entry.shared_permille.iter().all(|factor| bounds.contains(factor)), "{entry:?}");
        assert_eq!(entry.shared_permille, calibration.table.cpus[0].shared_permille);
    }
}

#[test]
fn siblings_that_cannot_be_measured_cost_the_usual() {
    // CPUs that no machine has.
    let mut calibration = calibration(&[0, 0, 2]);
    for (entry, cpu) in calibration.table.cpus.iter_mut().zip([1000, 1001, 1002]) {
        (entry.cpu, entry.shared_permille) = (cpu, NONE);
    }
    let states: Vec<CpuState> = (0..3).map(|_| CpuState::default()).collect();
    let real = Topology::read().unwrap().cpus[0].cpu;
    let sets = Sets::build(&[Cpu { cpu: real, core: 0, llc: 0, node: 0 }], Sizes { middle: None, far: 4096 })
        .unwrap();
    measure(&mut calibration, &states, &sets, &brief());
    let factors: Vec<_> = calibration.table.cpus.iter().map(|entry| entry.shared_permille).collect();
    assert_eq!(factors, [SHARED_DEFAULT, SHARED_DEFAULT, NONE]);
}

#[test]
fn a_core_stands_for_its_class_and_for_cpus_with_siblings_only() {
    let mut table = calibration(&[0, 0, 2, 3, 3, 5, 6, 6]).table;
    for entry in &mut table.cpus {
        entry.shared_permille = NONE;
    }
    assert_eq!((first_core(&table, Class::Fast), first_core(&table, Class::Slow)), (Some(0), Some(3)));
    take_over(&mut table, Class::Fast, [1700, 1100, 1000]);
    take_over(&mut table, Class::Slow, [1400, 1100, 1000]);
    let execute: Vec<u32> = table.cpus.iter().map(|entry| entry.shared_permille[0]).collect();
    assert_eq!(execute, [1700, 1700, 1000, 1400, 1400, 1000, 1700, 1700]);
    assert_eq!(first_core(&calibration(&[0, 1]).table, Class::Fast), None);
}
