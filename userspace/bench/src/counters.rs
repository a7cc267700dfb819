// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The asymmetric VM's performance counters (PMU "amp").
//!
//! Instructions and cycles count everything that a CPU executes, stalls only those of user space.
//! On a machine without this PMU, every function that needs it returns None.

use crate::{Error, Result};
use perf_event_open_sys::bindings::{self, perf_event_attr};
use serde::Serialize;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::PathBuf;

/// Directory in which the kernel describes the PMU.
const PMU: &str = "/sys/bus/event_source/devices/amp";

/// Event numbers of the PMU, in the order of [`Counts`].
const EVENTS: [u64; 5] = [0, 1, 2, 3, 4];
/// Event number of instructions.
const INSTRUCTIONS: u64 = 0;
/// Event number of cache lines that come from another CPU. It stays 0 unless the machine tracks
/// them (`transfer_ns=`).
const TRANSFERS: u64 = 5;

/// Values of the five events over some span of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Instructions executed, kernel included.
    pub instructions: u64,
    /// Cycles of the CPU's own clock, stalls included.
    pub cycles: u64,
    /// Cycles lost outside the core: misses of the second-level cache.
    pub stall_external: u64,
    /// Cycles lost inside the core: mispredicted branches, first-level misses.
    pub stall_internal: u64,
    /// Misses of the last-level cache.
    pub llc_misses: u64,
}

impl Counts {
    fn from_array(v: [u64; 5]) -> Self {
        let [instructions, cycles, stall_external, stall_internal, llc_misses] = v;
        Counts { instructions, cycles, stall_external, stall_internal, llc_misses }
    }

    /// Return the counts since `earlier`.
    pub fn since(&self, earlier: &Counts) -> Counts {
        Counts {
            instructions: self.instructions.wrapping_sub(earlier.instructions),
            cycles: self.cycles.wrapping_sub(earlier.cycles),
            stall_external: self.stall_external.wrapping_sub(earlier.stall_external),
            stall_internal: self.stall_internal.wrapping_sub(earlier.stall_internal),
            llc_misses: self.llc_misses.wrapping_sub(earlier.llc_misses),
        }
    }
}

/// Return true if the amp PMU exists.
pub fn available() -> bool {
    std::path::Path::new(PMU).exists()
}

/// The five events of the calling thread, on all CPUs that it runs on.
pub struct ThreadCounters {
    files: Vec<File>,
}

impl ThreadCounters {
    /// Open the events. None if the PMU is missing.
    pub fn open() -> Result<Option<Self>> {
        let Some(pmu) = pmu_type()? else { return Ok(None) };
        let files = EVENTS.iter().map(|&event| open_event(pmu, event, 0, -1)).collect::<Result<_>>()?;
        Ok(Some(ThreadCounters { files }))
    }

    /// Read the values since `open`.
    pub fn read(&mut self) -> Result<Counts> {
        let mut values = [0; 5];
        for (file, value) in self.files.iter_mut().zip(&mut values) {
            *value = read_event(file)?;
        }
        Ok(Counts::from_array(values))
    }
}

/// An event of whole CPUs, summed over all threads that run there.
pub struct MachineEvent {
    files: Vec<File>,
}

impl MachineEvent {
    /// Open instructions on each of `cpus`. None if the PMU is missing.
    pub fn instructions(cpus: &[usize]) -> Result<Option<Self>> {
        Self::open(cpus, INSTRUCTIONS)
    }

    /// Open transfers of cache lines on each of `cpus`. None if the PMU is missing.
    pub fn transfers(cpus: &[usize]) -> Result<Option<Self>> {
        Self::open(cpus, TRANSFERS)
    }

    fn open(cpus: &[usize], event: u64) -> Result<Option<Self>> {
        let Some(pmu) = pmu_type()? else { return Ok(None) };
        let open = |&cpu: &usize| open_event(pmu, event, -1, cpu as i32);
        Ok(Some(MachineEvent { files: cpus.iter().map(open).collect::<Result<_>>()? }))
    }

    /// Return the sum over the CPUs since `open`.
    pub fn read(&mut self) -> Result<u64> {
        self.files.iter_mut().map(read_event).sum()
    }
}

/// Instructions of the threads of a process, and of the threads that these start later.
pub struct ProcessInstructions {
    files: Vec<File>,
}

impl ProcessInstructions {
    /// Open the event for each thread of process `pid`. Use the VM's PMU, or without it the CPUs'
    /// own counters.
    pub fn open(pid: u32) -> Result<Self> {
        let (pmu, config) = match pmu_type()? {
            Some(pmu) => (pmu, INSTRUCTIONS),
            None => (bindings::PERF_TYPE_HARDWARE, bindings::PERF_COUNT_HW_INSTRUCTIONS.into()),
        };
        let mut files = Vec::new();
        for tid in threads(pid)? {
            match open_in(Event { inherit: true, ..Event::new(pmu, config) }, tid, -1, -1) {
                Ok(file) => files.push(file),
                // The thread has just ended.
                Err(_) if !thread_directory(pid).join(tid.to_string()).exists() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(ProcessInstructions { files })
    }

    /// Return the number of counted threads, without those that were started since.
    pub fn threads(&self) -> usize {
        self.files.len()
    }

    /// Return the sum over the threads since `open`.
    pub fn read(&mut self) -> Result<u64> {
        self.files.iter_mut().map(read_event).sum()
    }
}

/// Changes of CPU of the processes that the calling thread starts, and of those that they start.
pub struct Migrations {
    file: File,
}

impl Migrations {
    /// Open the event.
    pub fn open() -> Result<Self> {
        let event = Event::new(bindings::PERF_TYPE_SOFTWARE, bindings::PERF_COUNT_SW_CPU_MIGRATIONS.into());
        Ok(Migrations { file: open_in(Event { inherit: true, ..event }, 0, -1, -1)? })
    }

    /// Return the number since `open`, of ended and running processes.
    pub fn read(&mut self) -> Result<u64> {
        read_event(&mut self.file)
    }
}

fn thread_directory(pid: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/task"))
}

/// Return the threads of a process.
fn threads(pid: u32) -> Result<Vec<i32>> {
    let directory = thread_directory(pid);
    let entries = std::fs::read_dir(&directory)
        .map_err(|e| Error::Usage(format!("there is no process {pid}: {}: {e}", directory.display())))?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

/// Counters held on every CPU, as by a profiler that runs beside a scheduler.
pub struct Held {
    _files: Vec<File>,
}

/// Open this many groups of four events on each of `cpus`. Pinned groups keep their counters all
/// the time. The kernel multiplexes other groups if counters are few. None if the PMU is missing.
pub fn hold(cpus: &[usize], groups: usize, pinned: bool) -> Result<Option<Held>> {
    let Some(pmu) = pmu_type()? else { return Ok(None) };
    let mut files = Vec::new();
    for &cpu in cpus {
        for _ in 0..groups {
            let leader = open_in(Event { pinned, ..Event::new(pmu, EVENTS[0]) }, -1, cpu as i32, -1)?;
            for &config in &EVENTS[1..4] {
                let group = leader.as_raw_fd();
                files.push(open_in(Event::new(pmu, config), -1, cpu as i32, group)?);
            }
            files.push(leader);
        }
    }
    Ok(Some(Held { _files: files }))
}

/// Return the PMU's type number in perf. None if the PMU is missing.
fn pmu_type() -> Result<Option<u32>> {
    if !available() {
        return Ok(None);
    }
    let path = format!("{PMU}/type");
    let text = std::fs::read_to_string(&path).map_err(|e| Error::failed(&path, e))?;
    text.trim().parse().map(Some).map_err(|e| Error::failed(&path, e))
}

/// Open one counting event: of the calling thread (`pid` 0, `cpu` -1) or of a CPU (`pid` -1).
fn open_event(pmu: u32, config: u64, pid: i32, cpu: i32) -> Result<File> {
    open_in(Event::new(pmu, config), pid, cpu, -1)
}

/// An event to open.
struct Event {
    pmu: u32,
    config: u64,
    /// The event is never multiplexed.
    pinned: bool,
    /// The event also counts threads that the thread starts.
    inherit: bool,
}

impl Event {
    fn new(pmu: u32, config: u64) -> Self {
        Event { pmu, config, pinned: false, inherit: false }
    }
}

/// Open an event in the group led by the descriptor `group`, -1 for none.
fn open_in(event: Event, pid: i32, cpu: i32, group: i32) -> Result<File> {
    let Event { pmu, config, pinned, inherit } = event;
    let mut attr = perf_event_attr {
        type_: pmu,
        size: size_of::<perf_event_attr>() as u32,
        config,
        ..Default::default()
    };
    attr.set_pinned(pinned.into());
    attr.set_inherit(inherit.into());
    const CLOEXEC: std::ffi::c_ulong = bindings::PERF_FLAG_FD_CLOEXEC as _;
    // SAFETY: `attr` is a valid structure of the size that it states, and outlives the call.
    let fd = unsafe { perf_event_open_sys::perf_event_open(&mut attr, pid, cpu, group, CLOEXEC) };
    if fd < 0 {
        let why = std::io::Error::last_os_error();
        return Err(Error::Kernel(format!(
            "opening a counter (event {config} of PMU {pmu}): {why}; run as root, on a machine with counters"
        )));
    }
    // SAFETY: the descriptor was just opened and has no other owner.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// Read the current value of one event.
fn read_event(file: &mut File) -> Result<u64> {
    let mut value = [0; 8];
    file.read_exact(&mut value).map_err(|e| Error::failed("reading an amp event", e))?;
    Ok(u64::from_ne_bytes(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_survive_a_wrap() {
        let a = Counts::from_array([u64::MAX, 1, 2, 3, 4]);
        let b = Counts::from_array([4, 2, 4, 6, 8]);
        assert_eq!(b.since(&a), Counts::from_array([5, 1, 2, 3, 4]));
    }

    #[test]
    fn a_machine_without_the_pmu_has_no_counters() {
        if !available() {
            assert!(ThreadCounters::open().unwrap().is_none());
            assert!(MachineEvent::instructions(&[0]).unwrap().is_none());
            assert!(hold(&[0], 1, true).unwrap().is_none());
        }
    }
}
