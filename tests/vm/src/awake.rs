//! Keeps the host's CPUs from idling while a VM's speeds are paced.
//!
//! Problem: paced vCPUs sleep and wake a thousand times a second. A host that is itself a guest gives its CPU away whenever it halts, and
//! gets it back late: 9 to 36 % of its CPUs' time was stolen in paced runs, against 0 to 2 % while the same CPUs were busy without a
//! pause. The vCPUs lacked that time, and what was measured was void.
//!
//! Approach: as programs that measure latency do, ask the kernel for wakeups without delay (PM QoS, `/dev/cpu_dma_latency`) for as
//! long as the VM runs: its idle loop then polls instead of halting. Spinning processes under `SCHED_IDLE` do the same at first sight, but
//! where vCPUs fill a CPU the kernel's fair server gives a starved process 50 ms of each second, and the vCPUs lacked those.
//!
//! Invariants: the kernel withdraws the wish when the file is closed, however this process ends; where it cannot be made (no root, no
//! cpuidle driver) a VM runs as well as the host lets it, so that nothing fails.
//!
//! Limits: only where the host says that it is a guest: on bare metal halted CPUs are waited for by nobody, and polling costs power.

use std::fs::{self, File};
use std::io::Write as _;

/// The wish; withdrawn when it is dropped.
#[derive(Debug)]
pub struct Awake {
    _open: File,
}

impl Awake {
    /// Makes the wish where it helps and is allowed.
    #[must_use]
    pub fn keep() -> Option<Self> {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        if is_guest(&cpuinfo) { Self::wish("/dev/cpu_dma_latency") } else { None }
    }

    fn wish(path: &str) -> Option<Self> {
        // Microseconds, as a native 32-bit number.
        let mut file = File::options().write(true).open(path).ok()?;
        file.write_all(&0i32.to_ne_bytes()).ok()?;
        Some(Self { _open: file })
    }
}

/// Does the processor say that a hypervisor is below?
fn is_guest(cpuinfo: &str) -> bool {
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|line| line.split_whitespace().any(|flag| flag == "hypervisor"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_guest_is_told_by_its_flags() {
        assert!(is_guest("model name\t: AMD EPYC\nflags\t\t: fpu vme hypervisor lahf_lm\n"));
        assert!(!is_guest("model name\t: a hypervisor of its own\nflags\t\t: fpu vme lahf_lm\n"));
        assert!(!is_guest(""));
    }

    #[test]
    fn the_wish_is_for_no_delay_and_one_that_cannot_be_made_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("latency");
        assert!(Awake::wish(&path.to_string_lossy()).is_none());
        fs::write(&path, "").unwrap();
        assert!(Awake::wish(&path.to_string_lossy()).is_some());
        assert_eq!(fs::read(&path).unwrap(), [0; 4]);
    }
}
