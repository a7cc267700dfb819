// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of the calibration as a whole. Times of a shared machine mean nothing, so only their
//! presence is tested here. The VM scenarios test the values.

#![allow(clippy::unwrap_used)]

use super::*;
use bias_policy::table::Class;
use std::sync::Mutex;

fn cpus(count: u32) -> Vec<Cpu> {
    (0..count).map(|cpu| Cpu { cpu, core: cpu, llc: 0, node: 0 }).collect()
}

#[test]
fn samples_become_costs_spreads_and_classes() {
    let times = |factor: f64| (0..40).map(|i| factor * (100.0 + f64::from(i % 5))).collect::<Vec<_>>();
    let samples = [1.0, 2.5]
        .iter()
        .zip(0..)
        .map(|(f, cpu)| CpuSamples { cpu, times: [times(*f), times(1.0), times(1.0)] });
    let calibration =
        evaluate(&cpus(2), samples.collect(), Conditions::made_up(), SplitRule::default()).unwrap();
    let slow = calibration.table.get(1).unwrap();
    assert_eq!((slow.cost_permille, slow.class), ([2500, 1000, 1000], Class::Slow));
    assert!(slow.spread_permille[0] > 0 && slow.spread_permille[0] < 50);
}

#[test]
fn a_cpu_without_samples_is_an_error_not_a_guess() {
    let samples = vec![CpuSamples { cpu: 0, times: Default::default() }];
    let failure = evaluate(&cpus(1), samples, Conditions::made_up(), SplitRule::default()).unwrap_err();
    assert!(failure.message.contains("execute kernel"));
}

#[test]
fn calibrates_this_machine() {
    let topology = Topology::read().unwrap();
    let settings = Settings {
        rounds: 2,
        visit: Some(Duration::from_millis(4)),
        chunk: Duration::from_micros(50),
        external_bytes: Some(1 << 20),
        ..Settings::default()
    };
    let told = Mutex::new(Vec::new());
    let calibration = calibrate(&topology, &settings, &Counters::default(), &|done, total| {
        told.lock().unwrap().push((done, total));
    })
    .unwrap();
    assert!(calibration.model.is_none() && calibration.seen.is_empty());
    assert_eq!(calibration.table.cpus.len(), topology.cpus.len());
    assert_eq!(calibration.conditions.external_bytes, 1 << 20);
    let visits = topology.cpus.len() * 2;
    assert_eq!(told.into_inner().unwrap().last(), Some(&(visits, visits)));
}

#[test]
fn a_cpu_that_is_not_there_is_an_error() {
    let topology = Topology {
        cpus: vec![Cpu { cpu: 1000, core: 0, llc: 0, node: 0 }],
        possible: vec![1000],
        llc_bytes: 0,
    };
    let settings = Settings { external_bytes: Some(4096), ..Settings::default() };
    let failure = calibrate(&topology, &settings, &Counters::default(), &|_, _| ()).unwrap_err();
    assert!(failure.message.contains("CPU 1000"));
}
