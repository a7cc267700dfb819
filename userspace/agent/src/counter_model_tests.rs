// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of the choice of a scale for a counted event.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::pmu::Options;
use crate::pmu::fake::{FakeOpener, FakeSysfs};
use crate::pmu::{Counters, Override};

fn counters(kernel: &FakeOpener<'_>, machine: &FakeSysfs, named: &[&str]) -> Counters {
    let events: Vec<Override> = named.iter().map(|text| text.parse().unwrap()).collect();
    Counters::open_by(kernel, machine.root(), &machine.topology, &Options { events, enabled: true })
}

/// A model of the events of this group, as a file would have it.
fn model(group: &Group, external: Scale, internal: Scale) -> CounterModel {
    let id = |role| Some(group.event(role).unwrap().id());
    let (external, internal) = (Some(external), Some(internal));
    let cpus = vec![CpuModel { cpu: group.cpu(), external, internal, error_permille: None }];
    let set = CounterSet { external: id(Role::External), internal: id(Role::Internal), cpus };
    let text = serde_json::to_string(&CounterModel { sets: vec![set], ..CounterModel::default() }).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn fitted_scales_apply_to_the_events_they_were_fitted_for() {
    let (kernel, machine) = (FakeOpener::new(|_| None), FakeSysfs::hybrid());
    let usual = counters(&kernel, &machine, &[]);
    let group = usual.cpu(2).unwrap();
    let nominal = Scales { external_permille: 1000, internal_permille: Some(200) };
    assert_eq!(scales(None, group), Some(nominal));
    let model = model(group, Scale::Fitted(700), Scale::Fitted(310));
    assert_eq!(
        scales(Some(&model), group),
        Some(Scales { external_permille: 700, internal_permille: Some(310) })
    );
    assert!(model.covers(group) && !model.covers(usual.cpu(3).unwrap()));
    // Another CPU, and another event on the same CPU: nominal.
    assert_eq!(scales(Some(&model), usual.cpu(3).unwrap()), Some(nominal));
    let other = counters(&kernel, &machine, &["external=cpu_atom/event=0x77/@misses"]);
    assert_eq!(
        scales(Some(&model), other.cpu(2).unwrap()),
        Some(Scales { external_permille: 100_000, internal_permille: Some(310) })
    );
}

#[test]
fn counters_that_do_not_follow_the_stall_are_left_out() {
    let (kernel, machine) = (FakeOpener::new(|_| None), FakeSysfs::hybrid());
    let counters = counters(&kernel, &machine, &[]);
    let group = counters.cpu(0).unwrap();
    let without_internal = model(group, Scale::Unclear, Scale::Unrelated);
    assert_eq!(
        scales(Some(&without_internal), group),
        Some(Scales { external_permille: 1000, internal_permille: None })
    );
    for useless in [Scale::Still, Scale::Unrelated] {
        assert_eq!(scales(Some(&model(group, useless, Scale::Fitted(1))), group), None);
    }
}

#[test]
fn a_scale_that_cannot_be_multiplied_by_is_refused() {
    let (kernel, machine) = (FakeOpener::new(|_| None), FakeSysfs::amp());
    let counters = counters(&kernel, &machine, &[]);
    let group = counters.cpu(1).unwrap();
    for (permille, fine) in [(0, false), (1, true), (SCALE_MAX, true), (SCALE_MAX + 1, false)] {
        let checked = model(group, Scale::Fitted(permille), Scale::Still).check();
        assert_eq!(checked.is_ok(), fine);
        assert!(checked.is_ok() || checked.unwrap_err().contains("CPU 1 has a counter of scale"));
    }
}
