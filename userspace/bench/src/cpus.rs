// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The machine's CPUs: the online ones, the current one, and pinning.

use crate::spec::{CpuList, MAX_CPUS};
use crate::{Error, Result};
use nix::sched::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::path::Path;

/// Return the CPUs that are online, in order.
pub fn online() -> Result<CpuList> {
    let path = "/sys/devices/system/cpu/online";
    let text = std::fs::read_to_string(path).map_err(|e| Error::failed(path, e))?;
    text.trim().parse().map_err(|e| Error::failed(path, e))
}

/// Return the CPUs that are online and that this process may use, in order.
pub fn allowed() -> Result<Vec<usize>> {
    let set =
        sched_getaffinity(Pid::from_raw(0)).map_err(|e| Error::failed("reading the CPU affinity", e))?;
    Ok(online()?.0.into_iter().filter(|&cpu| set.is_set(cpu).unwrap_or(false)).collect())
}

/// Return the cores of these CPUs, each with its CPUs in order. A CPU whose siblings sysfs does not
/// name is a core.
pub fn cores(cpus: &[usize]) -> Vec<Vec<usize>> {
    cores_in(Path::new("/sys/devices/system/cpu"), cpus)
}

fn cores_in(directory: &Path, cpus: &[usize]) -> Vec<Vec<usize>> {
    let mut cores: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for &cpu in cpus {
        let path = directory.join(format!("cpu{cpu}/topology/thread_siblings_list"));
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let first = text.trim().parse::<CpuList>().ok().and_then(|siblings| siblings.0.first().copied());
        cores.entry(first.unwrap_or(cpu)).or_default().push(cpu);
    }
    cores.into_values().collect()
}

/// Fail with the list of online CPUs if one of `cpus` is not online.
pub fn require_online(cpus: &[usize]) -> Result<()> {
    let online = online()?;
    match cpus.iter().find(|cpu| !online.0.contains(cpu)) {
        Some(cpu) => Err(Error::Usage(format!("CPU {cpu} is not online; this machine has {online}"))),
        None => Ok(()),
    }
}

/// Return the CPU that this thread runs on, or CPU 0 if the kernel does not report it. Linux 2.6.19
/// and later always reports it.
#[inline]
pub fn current() -> usize {
    sched_getcpu().unwrap_or(0).min(MAX_CPUS - 1)
}

/// Restrict a process's main thread to `cpus`.
pub fn set_affinity(pid: Pid, cpus: &[usize]) -> Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        set.set(cpu).map_err(|_| Error::Usage(format!("CPU {cpu} is beyond {}", MAX_CPUS - 1)))?;
    }
    sched_setaffinity(pid, &set).map_err(|e| Error::failed(format!("pinning to CPUs {cpus:?}"), e))
}

/// Pins this thread to one CPU. Dropping it restores the previous affinity.
pub struct Pinned {
    before: CpuSet,
}

impl Pinned {
    /// Pin the calling thread to `cpu`.
    pub fn to(cpu: usize) -> Result<Self> {
        let me = Pid::from_raw(0);
        let before = sched_getaffinity(me).map_err(|e| Error::failed("reading the CPU affinity", e))?;
        require_online(&[cpu])?;
        set_affinity(me, &[cpu])?;
        Ok(Pinned { before })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // This cannot fail, because the mask came from the kernel.
        let _ = sched_setaffinity(Pid::from_raw(0), &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pinning_moves_the_thread_and_is_undone() {
        let before = sched_getaffinity(Pid::from_raw(0)).unwrap();
        let last = *online().unwrap().0.last().unwrap();
        {
            let _pinned = Pinned::to(last).unwrap();
            assert_eq!(current(), last);
        }
        assert_eq!(sched_getaffinity(Pid::from_raw(0)).unwrap(), before);
    }

    #[test]
    fn siblings_form_a_core() {
        let root = tempfile::tempdir().unwrap();
        for (cpu, siblings) in [(0, "0,4\n"), (4, "0,4\n"), (1, "1\n"), (3, "2-3\n")] {
            let topology = root.path().join(format!("cpu{cpu}/topology"));
            std::fs::create_dir_all(&topology).unwrap();
            std::fs::write(topology.join("thread_siblings_list"), siblings).unwrap();
        }
        // CPU 2 is offline, and sysfs does not describe CPU 5.
        assert_eq!(cores_in(root.path(), &[0, 1, 3, 4, 5]), [vec![0, 4], vec![1], vec![3], vec![5]]);
    }

    #[test]
    fn a_missing_cpu_is_named() {
        let error = require_online(&[MAX_CPUS - 1]).unwrap_err();
        assert!(matches!(&error, Error::Usage(text) if text.contains("1023")), "{error}");
    }
}
