// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Access to the affinities of a machine, as a trait, so that tests can simulate one.

use std::collections::BTreeSet;
use std::fs;
use std::io;

use super::homes::Cpus;
use crate::affinity;
use crate::cpulist;
use crate::optin::cgroup::Cgroup;
use crate::optin::reconcile::{Id, Tid};
use crate::optin::system::{Linux, Stat, System};
use crate::recal::spot::SPOT_THREAD;

/// A machine.
pub(super) trait AffinityCalls {
    /// Return the CPUs that are online, None if that cannot be read.
    fn online(&self) -> Option<Cpus>;
    /// Return the CPUs that can come online.
    fn possible(&self) -> Option<Cpus>;
    /// Return all threads but those of the agent that check a CPU: they limit themselves to it.
    fn threads(&self) -> BTreeSet<Tid>;
    /// Return the threads in these cgroups and below.
    fn inside(&self, cgroups: &[Cgroup]) -> BTreeSet<Tid>;
    /// Return the online CPUs of a thread's affinity, None if the thread is gone.
    fn affinity(&self, tid: Tid) -> Option<Cpus>;
    /// Return the start time and the state of a thread, None if it is gone.
    fn stat(&self, tid: Tid) -> Option<Stat>;
    /// Return the first thread of the process or, for a first thread, that of the parent process.
    fn maker(&self, tid: Tid) -> Option<Id>;
    /// Set the affinity of a thread.
    ///
    /// # Errors
    /// The kernel's: ESRCH if the thread is gone, EINVAL if its cpuset has none of these CPUs.
    fn set_affinity(&self, tid: Tid, cpus: &[u32]) -> io::Result<()>;
    /// Return the mask of unbound workqueues, None if the kernel shows none.
    fn workqueues(&self) -> Option<String>;
    /// Set the mask of unbound workqueues.
    ///
    /// # Errors
    /// The kernel's.
    fn set_workqueues(&self, mask: &str) -> io::Result<()>;
}

const CPUS: &str = "/sys/devices/system/cpu";
const WORKQUEUES: &str = "/sys/devices/virtual/workqueue/cpumask";

/// This machine.
#[derive(Debug, Clone)]
pub(super) struct LinuxAffinity(Linux);

impl Default for LinuxAffinity {
    fn default() -> Self {
        Self(Linux::default())
    }
}

impl LinuxAffinity {
    /// Return the id of this boot.
    pub(super) fn boot(&self) -> String {
        self.0.boot()
    }
}

/// Return the CPUs in a file of the kernel's CPU list format, None if there are none.
fn list(file: &str) -> Option<Cpus> {
    let cpus = cpulist::parse(&fs::read_to_string(format!("{CPUS}/{file}")).ok()?)?;
    (!cpus.is_empty()).then_some(cpus)
}

/// Return the mask with one CPU in the kernel's format of bit masks.
pub(super) fn mask_of(cpu: u32) -> String {
    let words = std::iter::repeat_n(",00000000", cpu as usize / 32);
    std::iter::once(format!("{:x}", 1u32 << (cpu % 32)).as_str()).chain(words).collect()
}

impl AffinityCalls for LinuxAffinity {
    fn online(&self) -> Option<Cpus> {
        list("online")
    }

    fn possible(&self) -> Option<Cpus> {
        list("possible")
    }

    fn threads(&self) -> BTreeSet<Tid> {
        let Ok(entries) = fs::read_dir("/proc") else { return BTreeSet::new() };
        let processes = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<Tid>().ok());
        let mut threads: BTreeSet<Tid> = processes.flat_map(|process| self.0.process(process)).collect();
        let is_check = |tid: &Tid| self.0.name(*tid).is_some_and(|name| name == SPOT_THREAD);
        for check in self.0.own().into_iter().filter(is_check) {
            threads.remove(&check);
        }
        threads
    }

    fn inside(&self, cgroups: &[Cgroup]) -> BTreeSet<Tid> {
        cgroups.iter().filter_map(|cgroup| self.0.threads(cgroup)).flatten().collect()
    }

    fn affinity(&self, tid: Tid) -> Option<Cpus> {
        affinity::allowed_to_thread(i32::try_from(tid).ok()?).ok()
    }

    fn stat(&self, tid: Tid) -> Option<Stat> {
        self.0.stat(tid)
    }

    fn maker(&self, tid: Tid) -> Option<Id> {
        let lineage = self.0.lineage(tid)?;
        let maker = if lineage.process == tid { lineage.parent } else { lineage.process };
        Some(Id { tid: maker, start: self.0.stat(maker)?.start })
    }

    fn set_affinity(&self, tid: Tid, cpus: &[u32]) -> io::Result<()> {
        let tid = i32::try_from(tid).map_err(|_| io::ErrorKind::InvalidInput)?;
        affinity::restrict_thread(tid, cpus).map_err(io::Error::from)
    }

    fn workqueues(&self) -> Option<String> {
        Some(fs::read_to_string(WORKQUEUES).ok()?.trim().to_owned())
    }

    fn set_workqueues(&self, mask: &str) -> io::Result<()> {
        fs::write(WORKQUEUES, mask)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_has_one_bit() {
        assert_eq!([mask_of(0), mask_of(3), mask_of(32)], ["1", "8", "1,00000000"]);
        assert_eq!(mask_of(95), "80000000,00000000,00000000");
    }

    #[test]
    fn this_machine_shows_its_threads() {
        let system = LinuxAffinity::default();
        let (online, possible) = (system.online().unwrap(), system.possible().unwrap());
        assert!(online.iter().all(|cpu| possible.contains(cpu)));
        let leader = std::process::id();
        let threads = system.threads();
        assert!(threads.contains(&leader) && threads.contains(&1));
        let shows = |name: &str| {
            let is_shown = || {
                // SAFETY: the call has no arguments and only returns a number.
                let tid = unsafe { nix::libc::gettid() } as Tid;
                LinuxAffinity::default().threads().contains(&tid)
            };
            std::thread::Builder::new().name(name.into()).spawn(is_shown).unwrap().join().unwrap()
        };
        assert!(shows("another") && !shows(SPOT_THREAD));
        assert!(!system.affinity(leader).unwrap().is_empty());
        assert_eq!(system.affinity(5_000_000), None);
    }
}
