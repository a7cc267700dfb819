// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Plans for made-up machines.

#![allow(clippy::unwrap_used)]

use super::super::fake::FakeSysfs;
use super::super::identity::Identities;
use super::*;

fn plans_of(machine: &FakeSysfs, cpu: u32, named: &[&str]) -> Result<Plans, String> {
    let named: Vec<Override> = named.iter().map(|text| text.parse().unwrap()).collect();
    let identity = Identities::read(machine.root()).of(cpu);
    let made = plans(&Pmu::list(machine.root()), Table::shipped(), &identity, cpu, &named);
    if let Ok(Plans { plans, .. }) = &made {
        assert!(!plans.is_empty());
        for (at, plan) in plans.iter().enumerate() {
            assert!(plan.events[0].is_some() && plan.events[1].is_some(), "{plan:?}");
            assert!(plans[..at].iter().all(|other| other.events != plan.events));
        }
    }
    made
}

/// Types and codes of a plan, 0 where there is no event.
fn numbers(plan: &EventPlan) -> [(u32, u64); 4] {
    plan.events.clone().map(|event| event.map_or((0, 0), |event| (event.kind, event.config[0])))
}

#[test]
fn a_hybrid_takes_each_cores_own_events_and_pmu() {
    let machine = FakeSysfs::hybrid();
    let large = plans_of(&machine, 0, &[]).unwrap();
    assert_eq!(large.pmu.as_deref(), Some("cpu_core"));
    assert_eq!(numbers(&large.plans[0]), [(4, 0x3c), (4, 0xc0), (4, 0x60006a3), (4, 0x600019c)]);
    assert_eq!(numbers(&large.plans[1])[2], (4, 0x50021a6));
    let small = plans_of(&machine, 2, &[]).unwrap();
    assert_eq!(numbers(&small.plans[0]), [(10, 0x3c), (10, 0xc0), (10, 0x434), (10, 0x71)]);
    assert_eq!(small.plans[0].events[3].clone().unwrap().unit, Unit::Slots { width: 5 });
    // Generic events carry the type of the small cores' PMU too.
    assert_eq!(
        numbers(&small.plans[1]),
        [(0, 10 << 32), (0, 10 << 32 | 1), (0, 10 << 32 | 8), (0, 10 << 32 | 7)]
    );
    assert_eq!(numbers(small.plans.last().unwrap())[2], (3, 10 << 32 | 0x10002));
}

#[test]
fn arm_tells_cores_by_their_id_register() {
    let machine = FakeSysfs::big_little();
    let little = plans_of(&machine, 1, &[]).unwrap();
    assert_eq!(numbers(&little.plans[0]), [(8, 0x11), (8, 0x08), (8, 0xe9), (8, 0x23)]);
    let big = plans_of(&machine, 2, &[]).unwrap();
    assert_eq!((big.pmu.as_deref(), numbers(&big.plans[0])[2]), (Some("armv8_cortex_a78"), (9, 0x4005)));
    // On Arm the first choice of misses is the last level's.
    assert_eq!(numbers(&big.plans[3])[2].0, 3);
}

#[test]
fn amd_by_generation() {
    let zen5 = plans_of(&FakeSysfs::amd(0x1a, 0x44), 0, &[]).unwrap();
    assert_eq!(numbers(&zen5.plans[0])[2..], [(4, 0xa2d6), (4, 0x1d6)]);
    assert_eq!(zen5.plans[1].events[3].clone().unwrap().unit, Unit::Slots { width: 8 });
    let zen3 = plans_of(&FakeSysfs::amd(0x19, 0x21), 0, &[]).unwrap();
    assert_eq!(zen3.plans[0].events[2].clone().unwrap().unit, Unit::Misses);
    let unknown = plans_of(&FakeSysfs::amd(0x15, 1), 0, &[]).unwrap();
    assert_eq!((unknown.plans[0].origin.as_str(), unknown.plans.len()), ("generic stall events", 5));
}

#[test]
fn the_virtual_machines_pmu_is_served_by_name() {
    let plans = plans_of(&FakeSysfs::amp(), 1, &[]).unwrap();
    assert_eq!(plans.pmu.as_deref(), Some("amp"));
    assert_eq!(numbers(&plans.plans[0]), [(11, 1), (11, 0), (11, 2), (11, 3)]);
}

#[test]
fn a_cpu_without_pmu_is_told_what_to_do() {
    let machine = FakeSysfs::new(2);
    assert!(
        plans_of(&machine, 1, &[])
            .unwrap_err()
            .contains("no PMU of a core serves CPU 1; in a virtual machine")
    );
    machine.pmu("cpu", &[("type", "4"), ("cpus", "0")]);
    assert!(plans_of(&machine, 0, &[]).is_ok());
    assert!(plans_of(&machine, 1, &[]).is_err());
}

#[test]
fn what_the_user_names_is_in_every_plan() {
    let machine = FakeSysfs::hybrid();
    let named = ["external=cpu_core/cache-misses/@misses"];
    let large = plans_of(&machine, 0, &named).unwrap();
    assert!(large.plans.iter().all(|plan| numbers(plan)[2] == (4, 0x412e)));
    assert!(large.plans[0].origin.starts_with("--events and table: Golden Cove"));
    // The other core type is not affected.
    assert_eq!(plans_of(&machine, 2, &named), plans_of(&machine, 2, &[]));
    assert!(plans_of(&machine, 2, &["external=cpu/event=1/"]).unwrap_err().contains("there is no PMU cpu"));
}

#[test]
fn without_a_cores_pmu_the_user_must_name_cycles_and_instructions() {
    let machine = FakeSysfs::new(1);
    machine.pmu("software", &[("type", "1")]);
    let missing = plans_of(&machine, 0, &["external=software/config=1/"]).unwrap_err();
    assert!(missing.contains("cycles and instructions too"), "{missing}");
    let plans =
        plans_of(&machine, 0, &["cycles=software/config=0/", "instructions=software/config=1/"]).unwrap();
    assert_eq!((plans.pmu, plans.plans.len(), plans.plans[0].origin.as_str()), (None, 1, "--events"));
}
