//! The machine's CPUs: the online ones, the current one, and pinning.

use crate::spec::{CpuList, MAX_CPUS};
use crate::{Error, Result};
use nix::sched::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use nix::unistd::Pid;

/// Return the CPUs that are online, in order.
pub fn online() -> Result<CpuList> {
    let path = "/sys/devices/system/cpu/online";
    let text = std::fs::read_to_string(path).map_err(|e| Error::failed(path, e))?;
    text.trim().parse().map_err(|e| Error::failed(path, e))
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
    fn pinning_moves_here_and_is_undone() {
        let before = sched_getaffinity(Pid::from_raw(0)).unwrap();
        let last = *online().unwrap().0.last().unwrap();
        {
            let _pinned = Pinned::to(last).unwrap();
            assert_eq!(current(), last);
        }
        assert_eq!(sched_getaffinity(Pid::from_raw(0)).unwrap(), before);
    }

    #[test]
    fn a_cpu_that_is_not_there_is_named() {
        let error = require_online(&[MAX_CPUS - 1]).unwrap_err();
        assert!(matches!(&error, Error::Usage(text) if text.contains("1023")), "{error}");
    }
}
