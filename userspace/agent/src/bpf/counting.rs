// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Hand the CPUs' counters to the kernel side.
//!
//! # Problem
//!
//! The kernel side counts the stalls of tasks. It can neither open counters nor know the meaning of
//! their counts on each CPU.
//!
//! # Approach
//!
//! [`crate::pmu`] opens up to four counters on each CPU that has them. Before the attachment the
//! agent writes their descriptors into the map of events. For each CPU it stores which counters are
//! in use and how many cycles a count stands for ([`crate::counter_model`]). The owner of the
//! scheduler keeps the counters open during the run.
//!
//! # Invariants
//!
//! A CPU without usable counters is scheduled like any other, but no task is counted there. If no
//! CPU has usable counters, the counting programs are not even loaded.

use std::os::fd::AsRawFd;

use anyhow::Result;
use libbpf_rs::{MapCore, MapFlags, OpenMapMut};
use tracing::{debug, warn};

use bias_policy::ffi;

use crate::bpf::skel::types;
use crate::counter_model::{self, CounterModel, Scales};
use crate::kernel;
use crate::pmu::{Counters, Group, Role};

/// Counters per CPU.
const PER_CPU: u32 = ffi::BIAS_NR_COUNTERS;

/// Size the map of events for this many CPUs.
pub(crate) fn size(events: &mut OpenMapMut<'_>, nr_cpus: usize) -> Result<()> {
    Ok(events.set_max_entries(nr_cpus as u32 * PER_CPU)?)
}

/// Put the counters of every CPU into the map. Mark the CPUs that have them, and set the scales of
/// their counts.
pub(crate) fn hand_over(
    events: &impl MapCore,
    cpus: &mut [types::bias_cpu_info],
    counters: &Counters,
    model: Option<&CounterModel>,
) {
    for (cpu, info) in (0u32..).zip(cpus) {
        hand_over_one(events, cpu, info, counters, model);
    }
}

/// Hand over the counters of one CPU, also during a run. The CPU counts as one without counters
/// until they are in place.
pub(crate) fn hand_over_one(
    events: &impl MapCore,
    cpu: u32,
    info: &mut types::bias_cpu_info,
    counters: &Counters,
    model: Option<&CounterModel>,
) {
    info.counters = 0;
    let Some(group) = counters.cpu(cpu) else { return };
    let Some(scales) = counter_model::scales(model, group) else {
        debug!("CPU {cpu} is not counted: its counter of external stalls does not follow the stalls");
        return;
    };
    info.external_permille = scales.external_permille;
    // Without the counter the count is zero, so that any scale will do.
    info.internal_permille = scales.internal_permille.unwrap_or(1000);
    match fill(events, cpu, group, scales) {
        Ok(mask) => info.counters = mask,
        Err(error) => warn!("the counters of CPU {cpu} are not used: {error}"),
    }
}

/// Return true if the tasks of some CPU will be counted.
pub(crate) fn any(counters: &Counters, model: Option<&CounterModel>) -> bool {
    counters.groups().any(|group| counter_model::scales(model, group).is_some())
}

/// Put the counters of one CPU into the map. Return a mask with a bit for each counter in use.
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

/// Kernel function to which the tick's program attaches. Kernels up to 6.9 call it
/// `scheduler_tick`.
const TICK: &str = "sched_tick";

/// Return true if ticks can be counted. Without them tasks are counted at switches only, and a task
/// that never sleeps and is alone on its CPU is not counted.
pub(crate) fn has_tick() -> bool {
    let has = kernel::has_function(&[TICK]);
    if !has {
        warn!("this kernel has no {TICK}: tasks that never sleep are not counted");
    }
    has
}
