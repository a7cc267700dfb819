//! Hands the CPUs' counters to the kernel side.
//!
//! Problem. The kernel side counts what tasks stall on, but can neither open counters nor know what they mean on which CPU.
//!
//! Approach. [`crate::pmu`] opens four counters on each CPU that has them. Their descriptors go into the map of events before the
//! scheduler is attached, and each CPU is told whether it has them and how many cycles a count stands for ([`crate::model`]). Whoever
//! runs the scheduler keeps the counters open as long.
//!
//! Invariants. A CPU without counters, or whose counters cannot be handed over, is scheduled like any other; its tasks are not
//! counted there. Without any CPU that has them the counting programs are not even loaded.

use std::os::fd::AsRawFd;

use anyhow::Result;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Func;
use libbpf_rs::{MapCore, MapFlags, OpenMapMut};
use tracing::{debug, warn};

use bias_policy::ffi;

use super::load::types;
use crate::model::{self, CounterModel, Scales};
use crate::pmu::{Counters, Group, Role};

/// Counters of a CPU.
const PER_CPU: u32 = ffi::BIAS_NR_COUNTERS;

/// Sizes the map of events for this many CPUs.
pub(super) fn size(events: &mut OpenMapMut<'_>, nr_cpus: usize) -> Result<()> {
    Ok(events.set_max_entries(nr_cpus as u32 * PER_CPU)?)
}

/// Puts the counters of every CPU into the map, marks the CPUs that have them and tells what their counts stand for.
pub(super) fn hand_over(
    events: &impl MapCore,
    cpus: &mut [types::bias_cpu_info],
    counters: &Counters,
    model: Option<&CounterModel>,
) {
    for (cpu, info) in (0u32..).zip(cpus) {
        hand_over_one(events, cpu, info, counters, model);
    }
}

/// The same for one CPU, also while the scheduler runs: until its counters are in place the CPU counts as without.
pub(super) fn hand_over_one(
    events: &impl MapCore,
    cpu: u32,
    info: &mut types::bias_cpu_info,
    counters: &Counters,
    model: Option<&CounterModel>,
) {
    info.counters = 0;
    let Some(group) = counters.cpu(cpu) else { return };
    let Some(scales) = model::scales(model, group) else {
        debug!("CPU {cpu} is not counted: its counter of external stalls does not follow them");
        return;
    };
    info.external_permille = scales.external_permille;
    // Without the counter its count is zero, whatever it stands for.
    info.internal_permille = scales.internal_permille.unwrap_or(1000);
    match fill(events, cpu, group, scales) {
        Ok(mask) => info.counters = mask,
        Err(error) => warn!("the counters of CPU {cpu} are not used: {error}"),
    }
}

/// Whether some CPU's tasks will be counted.
pub(super) fn any(counters: &Counters, model: Option<&CounterModel>) -> bool {
    counters.groups().any(|group| model::scales(model, group).is_some())
}

/// Puts the counters of one CPU into the map; a bit for each that is used.
fn fill(events: &impl MapCore, cpu: u32, group: &Group, scales: Scales) -> libbpf_rs::Result<u32> {
    let mut mask = 0;
    for ((slot, fd), role) in (0u32..).zip(group.fds()).zip(Role::ALL) {
        let used = role != Role::Internal || scales.internal_permille.is_some();
        if let Some(fd) = fd.filter(|_| used) {
            let key = (cpu * PER_CPU + slot).to_ne_bytes();
            events.update(&key, &fd.as_raw_fd().to_ne_bytes(), MapFlags::ANY)?;
            mask |= 1 << slot;
        }
    }
    Ok(mask)
}

/// The kernel's function that the tick's program attaches to; it was `scheduler_tick` up to 6.9.
const TICK: &str = "sched_tick";

/// Can ticks be counted? Without, tasks are counted at switches only, and one that never sleeps and has its CPU for itself never is.
pub(super) fn has_tick() -> bool {
    let has = Btf::from_vmlinux().is_ok_and(|btf| btf.type_by_name::<Func<'_>>(TICK).is_some());
    if !has {
        warn!("this kernel has no {TICK}: tasks that never sleep are not counted");
    }
    has
}
