// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The events to try on a CPU, best first: a pure function from sysfs to lists of events.
//!
//! The order is: the shipped table's events, the kernel's generic stall events, generic back-end
//! stalls alone, misses of the last-level cache. A consumer has to multiply misses by a latency. A
//! user's event replaces the event of its role in each of these plans.
//!
//! # Invariants
//! Every plan has cycles and instructions. No plan occurs twice. The user's events are in all
//! plans.

use super::event_table::{EventEntry, EventRow, Table, Vendor};
use super::events::{Override, resolve};
use super::identity::Identity;
use super::roles::{Events, PerfEvent, Role, Unit};
use super::sysfs::{Pmu, parse_terms};

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
            true => {
                format!("no PMU of a core serves CPU {cpu}; give --events for cycles and instructions too")
            }
            false => format!(
                "no PMU of a core serves CPU {cpu}; in a virtual machine have the host pass its PMU through"
            ),
        });
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

#[cfg(test)]
#[path = "event_plan_tests.rs"]
mod tests;
