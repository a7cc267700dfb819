//! Hands the CPUs' counters to the kernel side.
//!
//! Problem. The kernel side counts what tasks stall on, but can neither open counters nor know what they mean on which CPU.
//!
//! Approach. [`crate::pmu`] opens four counters on each CPU that has them. Their descriptors go into the map of events before the
//! scheduler is attached, and each CPU is told whether it has them. The counters live as long as the scheduler does.
//!
//! Invariants. A CPU without counters, or whose counters cannot be handed over, is scheduled like any other; its tasks are not
//! counted there. Without any CPU that has them the counting programs are not even loaded.

use std::os::fd::AsRawFd;

use anyhow::Result;
use libbpf_rs::{MapCore, MapFlags, OpenMapMut};
use tracing::warn;

use bias_policy::ffi;

use super::load::types;
use crate::pmu::{Counters, Group, Role, Unit};

/// Counters of a CPU.
const PER_CPU: u32 = ffi::BIAS_NR_COUNTERS;

/// Sizes the map of events for this many CPUs.
pub(super) fn size(events: &mut OpenMapMut<'_>, nr_cpus: usize) -> Result<()> {
    Ok(events.set_max_entries(nr_cpus as u32 * PER_CPU)?)
}

/// Puts the counters of every CPU into the map and marks the CPUs that have them.
pub(super) fn hand_over(events: &impl MapCore, cpus: &mut [types::bias_cpu_info], counters: &Counters) {
    for (cpu, info) in (0u32..).zip(cpus) {
        let Some(group) = counters.cpu(cpu).filter(|group| is_useful(group)) else { continue };
        match fill(events, cpu, group) {
            Ok(mask) => info.counters = mask,
            Err(error) => warn!("the counters of CPU {cpu} are not used: {error}"),
        }
        info.external_permille = cycles_permille(group.unit(Role::External));
        info.internal_permille = cycles_permille(group.unit(Role::Internal));
    }
}

/// Whether some CPU's tasks will be counted.
pub(super) fn any(counters: &Counters) -> bool {
    counters.groups().any(is_useful)
}

/// Can a stack be made of these counters? External stalls are what tells tasks apart; without internal ones they count as execution.
fn is_useful(group: &Group) -> bool {
    group.unit(Role::External).is_some()
}

/// Puts the counters of one CPU into the map; a bit for each that it has.
fn fill(events: &impl MapCore, cpu: u32, group: &Group) -> libbpf_rs::Result<u32> {
    let mut mask = 0;
    for (slot, fd) in (0u32..).zip(group.fds()) {
        if let Some(fd) = fd {
            let key = (cpu * PER_CPU + slot).to_ne_bytes();
            events.update(&key, &fd.as_raw_fd().to_ne_bytes(), MapFlags::ANY)?;
            mask |= 1 << slot;
        }
    }
    Ok(mask)
}

/// What a miss of the last-level cache is taken to stall where stalls cannot be counted [cycles].
const MISS_CYCLES: u32 = 100;

/// Cycles that one count stands for [permille].
fn cycles_permille(unit: Option<Unit>) -> u32 {
    match unit {
        Some(Unit::Slots { width }) => 1000 / width.max(1),
        Some(Unit::Misses) => 1000 * MISS_CYCLES,
        Some(Unit::Cycles | Unit::Instructions) | None => 1000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_become_cycles() {
        assert_eq!(cycles_permille(Some(Unit::Cycles)), 1000);
        assert_eq!(cycles_permille(Some(Unit::Slots { width: 5 })), 200);
        assert_eq!(cycles_permille(Some(Unit::Misses)), 100_000);
        assert_eq!(cycles_permille(None), 1000);
    }
}
