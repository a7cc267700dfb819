// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The events to try on a CPU, best first: a pure function from sysfs to lists of events. `scx_bias
//! check` shows the first of them without opening anything.
//!
//! The order is: the shipped table's events, the kernel's generic stall events, generic back-end
//! stalls alone, misses of the last-level cache. A consumer has to multiply misses by a latency. A
//! user's event replaces the event of its role in each of these plans.
//!
//! # Invariants
//! Every plan has cycles and instructions. No plan occurs twice. The user's events are in all
//! plans.
//!
//! # Limits
//! Whether a PMU accepts an event and counts it shows only when the event is opened and probed.

use super::event_table::{EventEntry, EventRow, Table, Vendor};
use super::events::{Events, Override, PerfEvent, Role, Unit, resolve};
use super::sysfs::{Identities, Identity, Pmu, parse_terms};
use std::path::Path;

/// A set of events that may be opened on a CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventPlan {
    /// Origin of the events.
    pub origin: String,
    /// The events by role.
    pub events: Events,
}

/// The plans for one CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plans {
    /// Name of the PMU that serves the CPU; None when only the user's events do.
    pub pmu: Option<String>,
    /// The plans, best first; never empty.
    pub plans: Vec<EventPlan>,
}

/// Generic events: the kernel's type and code.
const CYCLES: (u32, u64) = (0, 0);
const INSTRUCTIONS: (u32, u64) = (0, 1);
const CACHE_MISSES: (u32, u64) = (0, 3);
const STALLED_FRONTEND: (u32, u64) = (0, 7);
const STALLED_BACKEND: (u32, u64) = (0, 8);
/// Cache event: last level (2), read (0), miss (1).
const LLC_READ_MISSES: (u32, u64) = (3, 2 | 1 << 16);
/// The type that generic events without a type mean: on a hybrid x86 that of the large cores.
const RAW: u32 = 4;

/// Return the plans for `cpu`.
///
/// # Errors
/// One sentence when no PMU serves the CPU, or when the user named an event that does not exist.
pub fn plans(
    pmus: &[Pmu],
    table: &Table,
    identity: &Identity,
    cpu: u32,
    overrides: &[Override],
) -> Result<Plans, String> {
    let named = resolve(overrides, pmus, cpu)?;
    let by_user = named.iter().any(Option::is_some);
    let serving = serving(pmus, table, identity, cpu);
    let mut found: Vec<EventPlan> = Vec::new();
    if let Some((pmu, entry)) = serving {
        if let Some((entry, vendor)) = entry {
            found.extend(from_table(pmu, entry, vendor)?);
        }
        found.extend(generic(pmu, identity));
    } else {
        found.push(EventPlan { origin: String::new(), events: Events::default() });
    }
    let mut plans: Vec<EventPlan> = Vec::new();
    for EventPlan { origin, events } in found {
        let merged = merge(events, &named);
        let complete = merged[Role::Cycles.index()].is_some() && merged[Role::Instructions.index()].is_some();
        if complete && plans.iter().all(|plan| plan.events != merged) {
            let origin = match (by_user, origin.as_str()) {
                (true, "") => "--events".to_owned(),
                (true, base) => format!("--events and {base}"),
                (false, base) => base.to_owned(),
            };
            plans.push(EventPlan { origin, events: merged });
        }
    }
    if plans.is_empty() {
        return Err(match by_user {
            true => "no PMU of a core serves this CPU; give --events for cycles and instructions too",
            false => {
                "no PMU of a core serves this CPU; in a virtual machine have the host pass its PMU through"
            }
        }
        .to_owned());
    }
    Ok(Plans { pmu: serving.map(|(pmu, _)| pmu.name.clone()), plans })
}

/// Return the PMU that serves a CPU, with its entry: the first entry of the table that fits, else
/// any core's PMU.
fn serving<'a>(
    pmus: &'a [Pmu],
    table: &'a Table,
    identity: &Identity,
    cpu: u32,
) -> Option<(&'a Pmu, Option<(&'a EventEntry, &'a Vendor)>)> {
    let here = || pmus.iter().filter(move |pmu| pmu.serves(cpu));
    let known = table.entries().find_map(|(entry, vendor)| {
        here().find(|pmu| entry.fits(identity, &pmu.name)).map(|pmu| (pmu, Some((entry, vendor))))
    });
    known.or_else(|| here().find(|pmu| pmu.core).map(|pmu| (pmu, None)))
}

/// Return a plan for every pair of the entry's alternatives.
fn from_table(pmu: &Pmu, entry: &EventEntry, vendor: &Vendor) -> Result<Vec<EventPlan>, String> {
    let event = |role: Role, row: &EventRow| -> Result<Option<PerfEvent>, String> {
        let config = match row.encoded(vendor.formula)? {
            Some([config, config1]) => [config, config1, 0],
            None => pmu.configure(&parse_terms(&row.name)?)?,
        };
        let unit = row.unit().unwrap_or(Unit::of(role));
        Ok(Some(PerfEvent { name: row.name.clone(), kind: pmu.kind, config, unit }))
    };
    let base = [event(Role::Cycles, &vendor.cycles)?, event(Role::Instructions, &vendor.instructions)?];
    let internals: Vec<Option<&EventRow>> = match entry.internal.is_empty() {
        true => vec![None],
        false => entry.internal.iter().map(Some).collect(),
    };
    let mut plans = Vec::new();
    for external in &entry.external {
        for internal in &internals {
            let [cycles, instructions] = base.clone();
            let internal = internal.map(|row| event(Role::Internal, row)).transpose()?.flatten();
            let events = [cycles, instructions, event(Role::External, external)?, internal];
            plans.push(EventPlan { origin: format!("table: {}", entry.name), events });
        }
    }
    Ok(plans)
}

/// Return plans of the kernel's generic events on this PMU.
fn generic(pmu: &Pmu, identity: &Identity) -> Vec<EventPlan> {
    // Where several PMUs of a hybrid part support generic events, these take the PMU's type in
    // their upper half.
    let extended =
        if pmu.kind != RAW && pmu.name.starts_with("cpu_") { u64::from(pmu.kind) << 32 } else { 0 };
    let event = |name: &str, (kind, number): (u32, u64), unit| {
        Some(PerfEvent { name: name.to_owned(), kind, config: [extended | number, 0, 0], unit })
    };
    let plan = |origin: &str, external, internal| {
        let cycles = event("cycles", CYCLES, Unit::Cycles);
        let instructions = event("instructions", INSTRUCTIONS, Unit::Instructions);
        EventPlan { origin: origin.to_owned(), events: [cycles, instructions, external, internal] }
    };
    let backend = || event("stalled-cycles-backend", STALLED_BACKEND, Unit::Cycles);
    let frontend = || event("stalled-cycles-frontend", STALLED_FRONTEND, Unit::Cycles);
    let misses = || event("cache-misses", CACHE_MISSES, Unit::Misses);
    let read_misses = || event("LLC-load-misses", LLC_READ_MISSES, Unit::Misses);
    // `cache-misses` counts the last level on x86 and the first level on Arm, where the other event
    // fits.
    let (first, second) = match identity.is_x86() {
        true => (misses(), read_misses()),
        false => (read_misses(), misses()),
    };
    vec![
        plan("generic stall events", backend(), frontend()),
        plan("generic back-end stalls", backend(), None),
        plan("generic misses and front-end stalls", first.clone(), frontend()),
        plan("generic cache misses", first, None),
        plan("generic cache misses", second, None),
    ]
}

fn merge(events: Events, named: &Events) -> Events {
    let mut merged = events;
    for (event, named) in merged.iter_mut().zip(named) {
        if named.is_some() {
            event.clone_from(named);
        }
    }
    merged
}

/// CPUs with the same PMU and events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coverage {
    /// The CPU numbers, ascending.
    pub cpus: Vec<u32>,
    /// The name of the PMU that serves them and the origin of the events to try first, or the
    /// reason why there is none, with a remedy.
    pub by: Result<(String, String), String>,
}

/// Return the PMU of each of `cpus` on the machine whose `sys` and `proc` are below `root`. Groups
/// are in the order of their first CPU.
#[must_use]
pub fn survey(root: &Path, cpus: &[u32]) -> Vec<Coverage> {
    let (pmus, identities) = (Pmu::list(root), Identities::read(root));
    let mut services: Vec<Coverage> = Vec::new();
    for cpu in cpus {
        let by =
            plans(&pmus, Table::shipped(), &identities.of(*cpu), *cpu, &[]).map(|Plans { pmu, plans }| {
                let origin = plans.into_iter().next().map(|plan| plan.origin);
                (pmu.unwrap_or_default(), origin.unwrap_or_default())
            });
        // All CPUs without a PMU form one group.
        let alike = |service: &&mut Coverage| match (&service.by, &by) {
            (Ok(one), Ok(other)) => one == other,
            (one, other) => one.is_err() && other.is_err(),
        };
        match services.iter_mut().find(alike) {
            Some(service) => service.cpus.push(*cpu),
            None => services.push(Coverage { cpus: vec![*cpu], by }),
        }
    }
    services
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::fake::FakeSysfs;
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
    fn arm_cores_are_recognised_by_their_id_register() {
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
    fn the_virtual_machines_pmu_is_found_by_name() {
        let plans = plans_of(&FakeSysfs::amp(), 1, &[]).unwrap();
        assert_eq!(plans.pmu.as_deref(), Some("amp"));
        assert_eq!(numbers(&plans.plans[0]), [(11, 1), (11, 0), (11, 2), (11, 3)]);
    }

    #[test]
    fn a_cpu_without_pmu_gets_a_remedy() {
        let machine = FakeSysfs::new(2);
        assert!(
            plans_of(&machine, 1, &[])
                .unwrap_err()
                .contains("no PMU of a core serves this CPU; in a virtual machine")
        );
        machine.pmu("cpu", &[("type", "4"), ("cpus", "0")]);
        assert!(plans_of(&machine, 0, &[]).is_ok());
        assert!(plans_of(&machine, 1, &[]).is_err());
    }

    #[test]
    fn the_users_event_is_in_every_plan() {
        let machine = FakeSysfs::hybrid();
        let named = ["external=cpu_core/cache-misses/@misses"];
        let large = plans_of(&machine, 0, &named).unwrap();
        assert!(large.plans.iter().all(|plan| numbers(plan)[2] == (4, 0x412e)));
        assert!(large.plans[0].origin.starts_with("--events and table: Golden Cove"));
        // The other core type is not affected.
        assert_eq!(plans_of(&machine, 2, &named), plans_of(&machine, 2, &[]));
        assert!(
            plans_of(&machine, 2, &["external=cpu/event=1/"]).unwrap_err().contains("there is no PMU cpu")
        );
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

    #[test]
    fn cpus_are_grouped_by_their_pmu() {
        let services = survey(FakeSysfs::hybrid().root(), &[0, 1, 2, 3]);
        let named: Vec<_> =
            services.iter().map(|s| (s.cpus.clone(), s.by.as_ref().unwrap().0.as_str())).collect();
        assert_eq!(named, [(vec![0, 1], "cpu_core"), (vec![2, 3], "cpu_atom")]);
        assert!(services[1].by.as_ref().unwrap().1.contains("Gracemont"));
    }

    #[test]
    fn cpus_without_a_pmu_are_listed_with_a_remedy() {
        let machine = FakeSysfs::new(3);
        machine.pmu("cpu", &[("type", "4"), ("cpus", "1")]);
        let services = survey(machine.root(), &[0, 1, 2]);
        assert_eq!(services[0].cpus, [0, 2]);
        assert!(services[0].by.as_ref().unwrap_err().contains("; in a virtual machine"));
        assert_eq!(services[1].by.as_ref().unwrap().0, "cpu");
        assert!(survey(machine.root(), &[]).is_empty());
    }
}
