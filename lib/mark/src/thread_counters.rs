// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Counters of the calling thread: cycles, instructions and misses of the last-level cache.
//!
//! # Approach
//! There is one group of perf events for each type of core. A group counts only while the thread
//! runs on its cores, and the sum counts everywhere. The groups count only user space, which needs
//! no privilege up to kernel.perf_event_paranoid=2. The emulated machine has a PMU of its own,
//! which counts the kernel, too.
//!
//! # Limits
//! If perf multiplexes the groups, counts are estimates, scaled by the time that the group ran.

use std::fs::File;
use std::io::{Error, Read, Result};
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::Path;

use perf_event_open_sys::bindings::{self, perf_event_attr};

/// Directory in which the kernel describes PMUs.
const DEVICES: &str = "/sys/bus/event_source/devices";
/// Events of a group.
const EVENTS: usize = 3;
/// Cycles, instructions and misses, among the generic events of hardware.
const GENERIC: [u64; EVENTS] = [
    bindings::PERF_COUNT_HW_CPU_CYCLES as u64,
    bindings::PERF_COUNT_HW_INSTRUCTIONS as u64,
    bindings::PERF_COUNT_HW_CACHE_MISSES as u64,
];
/// The same events of the emulated machine.
const EMULATED: [u64; EVENTS] = [1, 0, 4];

/// A group's leader, and the other events that must stay open.
struct Group {
    leader: File,
    _others: Vec<File>,
}

/// The counters of one thread.
pub struct ThreadCounters {
    groups: Vec<Group>,
}

/// One reading.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reading {
    groups: Vec<[u64; 2 + EVENTS]>,
}

impl ThreadCounters {
    /// Open the counters of the calling thread.
    ///
    /// # Errors
    /// Fail if there is no PMU, or if the kernel refuses.
    pub fn open() -> Result<Self> {
        if let Some(pmu) = type_of("amp") {
            return Ok(ThreadCounters { groups: vec![Group::open(pmu, EMULATED, false)?] });
        }
        // Cores of several types have a PMU for each type, which names its CPUs.
        let mut cores: Vec<u64> = std::fs::read_dir(DEVICES)
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| entry.path().join("cpus").exists())
            .filter_map(|entry| Some(type_of(entry.file_name().to_str()?)?.into()))
            .collect();
        if cores.is_empty() {
            cores.push(0);
        }
        let open = |core: &u64| {
            let events = GENERIC.map(|event| core << bindings::PERF_PMU_TYPE_SHIFT | event);
            Group::open(bindings::PERF_TYPE_HARDWARE, events, true)
        };
        Ok(ThreadCounters { groups: cores.iter().map(open).collect::<Result<_>>()? })
    }

    /// Read the counters.
    ///
    /// # Errors
    /// Fail if the kernel cannot read them.
    pub fn read(&mut self) -> Result<Reading> {
        let read = |group: &mut Group| {
            let mut bytes = [0; 8 * (3 + EVENTS)];
            group.leader.read_exact(&mut bytes)?;
            let mut words = bytes.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_ne_bytes));
            words.next(); // the number of events
            Ok(std::array::from_fn(|_| words.next().unwrap_or(0)))
        };
        Ok(Reading { groups: self.groups.iter_mut().map(read).collect::<Result<_>>()? })
    }
}

impl Reading {
    /// Return cycles, instructions and misses since `earlier`.
    pub fn since(&self, earlier: &Reading) -> [u64; EVENTS] {
        let mut sums = [0u64; EVENTS];
        for (now, before) in self.groups.iter().zip(&earlier.groups) {
            let [enabled, running, counts @ ..] =
                std::array::from_fn::<u64, { 2 + EVENTS }, _>(|at| now[at].wrapping_sub(before[at]));
            for (sum, count) in sums.iter_mut().zip(counts) {
                *sum = sum.saturating_add(scaled(count, enabled, running));
            }
        }
        sums
    }
}

/// Scale a count to the time for which it was enabled.
fn scaled(count: u64, enabled: u64, running: u64) -> u64 {
    if running == 0 || running >= enabled {
        return count;
    }
    let scaled = u128::from(count) * u128::from(enabled) / u128::from(running);
    scaled.try_into().unwrap_or(u64::MAX)
}

fn type_of(pmu: &str) -> Option<u32> {
    std::fs::read_to_string(Path::new(DEVICES).join(pmu).join("type")).ok()?.trim().parse().ok()
}

impl Group {
    fn open(kind: u32, events: [u64; EVENTS], user_only: bool) -> Result<Self> {
        let [first, others @ ..] = events;
        let leader = open_event(kind, first, -1, user_only)?;
        let open = |event: &u64| open_event(kind, *event, leader.as_raw_fd(), user_only);
        let _others = others.iter().map(open).collect::<Result<_>>()?;
        Ok(Group { leader, _others })
    }
}

/// Open one event of the calling thread in a group, -1 for a new one.
fn open_event(kind: u32, config: u64, group: i32, user_only: bool) -> Result<File> {
    let format = bindings::PERF_FORMAT_GROUP
        | bindings::PERF_FORMAT_TOTAL_TIME_ENABLED
        | bindings::PERF_FORMAT_TOTAL_TIME_RUNNING;
    let mut attr = perf_event_attr {
        type_: kind,
        size: size_of::<perf_event_attr>() as u32,
        config,
        read_format: format.into(),
        ..Default::default()
    };
    attr.set_exclude_kernel(user_only.into());
    attr.set_exclude_hv(user_only.into());
    const CLOEXEC: std::ffi::c_ulong = bindings::PERF_FLAG_FD_CLOEXEC as _;
    // SAFETY: `attr` is a valid structure of the size that it states, and outlives the call.
    let fd = unsafe { perf_event_open_sys::perf_event_open(&mut attr, 0, -1, group, CLOEXEC) };
    if fd < 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: the descriptor was just opened and has no other owner.
    Ok(unsafe { File::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_summed_over_types_of_cores_and_scaled() {
        let before = Reading { groups: vec![[100, 100, 10, 20, u64::MAX], [100, 100, 0, 0, 0]] };
        let now = Reading { groups: vec![[200, 200, 15, 21, 1], [200, 150, 4, 6, 1]] };
        assert_eq!(now.since(&before), [5 + 8, 1 + 12, 2 + 2]);
    }

    #[test]
    fn no_scale_overflows() {
        assert_eq!(scaled(u64::MAX, u64::MAX, 1), u64::MAX);
        assert_eq!(scaled(7, 10, 0), 7);
        assert_eq!(scaled(7, 10, 20), 7);
    }

    #[test]
    fn counters_count_where_there_are_any() {
        let Ok(mut counters) = ThreadCounters::open() else { return };
        let before = counters.read().unwrap_or_default();
        let sum: u64 = std::hint::black_box((0..10_000u64).map(std::hint::black_box).sum());
        let [_, instructions, _] = counters.read().unwrap_or_default().since(&before);
        assert!(instructions >= 10_000, "{instructions} for {sum}");
    }
}
