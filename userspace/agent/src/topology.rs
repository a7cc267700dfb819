// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The CPUs as sysfs describes them: which are online, what they share, and what identifies the
//! machine.
//!
//! Only relations are taken from sysfs. The speed of a CPU is measured, see [`crate::calibrate`].

use crate::cpulist;
use crate::failure::Failure;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// One online CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cpu {
    /// The kernel's CPU number.
    pub cpu: u32,
    /// Lowest CPU number that shares the physical core.
    pub core: u32,
    /// Lowest CPU number that shares the last-level cache.
    pub llc: u32,
    /// NUMA node.
    pub node: u32,
}

/// The online CPUs of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// The online CPUs in ascending order.
    pub cpus: Vec<Cpu>,
    /// CPU numbers that the kernel may ever use, offline CPUs included.
    pub possible: Vec<u32>,
    /// Largest last-level cache that sysfs reports [bytes]; 0 when it reports none.
    pub llc_bytes: u64,
}

/// Properties that must be unchanged for a stored table to be valid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineIdentity {
    /// CPU models, each once.
    pub cpu_models: Vec<String>,
    /// Kernel release.
    pub kernel: String,
    /// Online CPUs and what they share.
    pub cpus: Vec<Cpu>,
}

impl Topology {
    /// Read the topology of this machine.
    ///
    /// # Errors
    /// Kernel failure when sysfs is not mounted or names no CPU.
    pub fn read() -> Result<Self, Failure> {
        Self::read_from(Path::new("/sys"))
    }

    /// Read the topology of the machine whose sysfs is at `sysfs`.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_from(sysfs: &Path) -> Result<Self, Failure> {
        let directory = sysfs.join("devices/system/cpu");
        let listed = cpulist::read(&directory.join("online")).filter(|cpus| !cpus.is_empty());
        let online = listed.unwrap_or_else(|| directories(&directory));
        if online.is_empty() {
            let why = format!("{}/online names no CPU; mount sysfs on /sys", directory.display());
            return Err(Failure::kernel(why));
        }
        let possible = cpulist::read(&directory.join("possible")).unwrap_or_else(|| online.clone());
        let own = |cpu: u32| directory.join(format!("cpu{cpu}"));
        let package = |cpu| first(&own(cpu).join("topology/package_cpus_list")).unwrap_or(0);
        let caches: Vec<_> = online.iter().map(|cpu| last_level_cache(&own(*cpu))).collect();
        let mut llcs: BTreeMap<u32, Cache> = BTreeMap::new();
        for (cpu, cache) in online.iter().zip(&caches) {
            let Some(cache) = cache else { continue };
            let llc = llcs.entry(package(*cpu)).or_insert(*cache);
            if cache.level > llc.level {
                *llc = *cache;
            }
        }
        let highest = llcs.values().map(|llc| llc.level).max();
        let last_levels = caches.iter().flatten().filter(|cache| Some(cache.level) == highest);
        let llc_bytes = last_levels.map(|cache| cache.bytes).max().unwrap_or(0);
        let cpus = online.iter().zip(&caches).map(|(cpu, cache)| {
            let (cpu, package) = (*cpu, package(*cpu));
            let core = first(&own(cpu).join("topology/core_cpus_list"))
                .or_else(|| first(&own(cpu).join("topology/thread_siblings_list")))
                .unwrap_or(cpu);
            // A CPU that lacks the cache level of others in its package is assumed to share it:
            // some machines describe their caches incompletely.
            let llc = match (cache, llcs.get(&package)) {
                (Some(cache), Some(llc)) if cache.level == llc.level => cache.first,
                (_, Some(llc)) => llc.first,
                (_, None) => package,
            };
            Cpu { cpu, core, llc, node: node_of(&own(cpu)).unwrap_or(0) }
        });
        Ok(Self { cpus: cpus.collect(), possible, llc_bytes })
    }

    /// Return true if `cpu` shares its core with another online CPU.
    #[must_use]
    pub fn has_sibling(&self, cpu: &Cpu) -> bool {
        self.cpus.iter().any(|other| other.core == cpu.core && other.cpu != cpu.cpu)
    }

    /// Return the properties of this machine that a calibration depends on.
    #[must_use]
    pub fn identity(&self) -> MachineIdentity {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
        MachineIdentity { cpu_models: cpu_models(&cpuinfo), kernel, cpus: self.cpus.clone() }
    }
}

#[cfg(test)]
impl Topology {
    /// Return a machine of CPUs that share a last-level cache and a node, each on its own core.
    pub(crate) fn flat(cpus: u32) -> Self {
        let cpu = |cpu| Cpu { cpu, core: cpu, llc: 0, node: 0 };
        Self { cpus: (0..cpus).map(cpu).collect(), possible: (0..cpus).collect(), llc_bytes: 0 }
    }
}

impl MachineIdentity {
    /// Return the first difference to the `present` machine, in words; None when both are the same.
    #[must_use]
    pub fn difference(&self, present: &Self) -> Option<String> {
        if self.cpu_models != present.cpu_models {
            return Some("the CPU model changed".to_owned());
        }
        if self.kernel != present.kernel {
            return Some(format!("the kernel was {} and is {}", self.kernel, present.kernel));
        }
        if self.cpus != present.cpus {
            return Some("the online CPUs or their topology changed".to_owned());
        }
        None
    }
}

/// Return the distinct CPU models: model name, stepping and microcode on x86, implementer and part
/// on Arm, `uarch` on RISC-V.
fn cpu_models(cpuinfo: &str) -> Vec<String> {
    let keys = ["model name", "stepping", "microcode", "CPU implementer", "CPU part", "uarch"];
    let mut models: Vec<String> = cpuinfo
        .split("\n\n")
        .map(|cpu| {
            let values = cpu.lines().filter_map(|line| line.split_once(':'));
            let wanted = values.filter(|(key, _)| keys.contains(&key.trim()));
            wanted.map(|(_, value)| value.trim()).collect::<Vec<_>>().join(" ")
        })
        .filter(|model| !model.is_empty())
        .collect();
    models.sort();
    models.dedup();
    models
}

/// Return the CPUs whose tick the kernel stops while they run a single task (boot option
/// `nohz_full=`). The kernel shows `(null)` if there are none.
#[must_use]
pub fn nohz_full(sysfs: &Path) -> Vec<u32> {
    cpulist::read(&sysfs.join("devices/system/cpu/nohz_full")).unwrap_or_default()
}

fn first(path: &Path) -> Option<u32> {
    cpulist::read(path)?.first().copied()
}

/// Return the numbers of the directories `cpuN`, without those of CPUs that are offline.
fn directories(cpus: &Path) -> Vec<u32> {
    let entries = fs::read_dir(cpus).into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| {
        let cpu = entry.file_name().to_str()?.strip_prefix("cpu")?.parse().ok()?;
        // The file is absent where a CPU cannot go offline.
        let online = fs::read_to_string(entry.path().join("online"));
        (cpu < cpulist::MAX_CPUS && !online.is_ok_and(|online| online.trim() == "0")).then_some(cpu)
    });
    let mut numbers: Vec<u32> = numbers.collect();
    numbers.sort_unstable();
    numbers
}

/// A cache that holds data, as one CPU sees it.
#[derive(Clone, Copy)]
struct Cache {
    level: u32,
    /// Lowest CPU number that shares it.
    first: u32,
    bytes: u64,
}

/// Return the highest-level cache of a CPU that holds data.
fn last_level_cache(cpu: &Path) -> Option<Cache> {
    let read = |index: &Path, name: &str| {
        fs::read_to_string(index.join(name)).ok().map(|text| text.trim().to_owned())
    };
    let caches = fs::read_dir(cpu.join("cache")).ok()?.flatten().filter_map(|entry| {
        let index: PathBuf = entry.path();
        let level = read(&index, "level")?.parse().ok()?;
        if read(&index, "type").as_deref() == Some("Instruction") {
            return None;
        }
        let first = first(&index.join("shared_cpu_list"))?;
        let bytes = read(&index, "size").and_then(|size| parse_size(&size)).unwrap_or(0);
        Some(Cache { level, first, bytes })
    });
    caches.max_by_key(|cache| cache.level)
}

/// Return the bytes of a size such as `32768K`.
fn parse_size(text: &str) -> Option<u64> {
    let (digits, shift) = match text.strip_suffix(['K', 'M', 'G']) {
        Some(digits) if text.ends_with('K') => (digits, 10),
        Some(digits) if text.ends_with('M') => (digits, 20),
        Some(digits) => (digits, 30),
        None => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_shl(shift)
}

fn node_of(cpu: &Path) -> Option<u32> {
    let names = fs::read_dir(cpu).ok()?.flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.to_str()?.strip_prefix("node")?.parse().ok()).min()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn write(root: &Path, name: &str, text: &str) {
        let path = root.join("devices/system/cpu").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn reads_sharing_from_sysfs() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "online", "0-1,3\n");
        write(root.path(), "possible", "0-7\n");
        for (cpu, core) in [(0, "0-1"), (1, "0-1"), (3, "3")] {
            write(root.path(), &format!("cpu{cpu}/topology/core_cpus_list"), core);
            write(root.path(), &format!("cpu{cpu}/cache/index3/level"), "3");
            write(root.path(), &format!("cpu{cpu}/cache/index3/type"), "Unified");
            write(root.path(), &format!("cpu{cpu}/cache/index3/shared_cpu_list"), core);
            write(root.path(), &format!("cpu{cpu}/cache/index3/size"), "16384K");
            write(root.path(), &format!("cpu{cpu}/cache/index0/level"), "1");
            write(root.path(), &format!("cpu{cpu}/cache/index0/shared_cpu_list"), &cpu.to_string());
            write(root.path(), &format!("cpu{cpu}/node1/x"), "");
        }
        let topology = Topology::read_from(root.path()).unwrap();
        assert_eq!(topology.cpus[1], Cpu { cpu: 1, core: 0, llc: 0, node: 1 });
        assert_eq!(topology.cpus[2], Cpu { cpu: 3, core: 3, llc: 3, node: 1 });
        assert_eq!((topology.llc_bytes, topology.possible.len()), (16 << 20, 8));
    }

    #[test]
    fn reads_the_cpus_without_a_tick() {
        let root = tempfile::tempdir().unwrap();
        assert!(nohz_full(root.path()).is_empty());
        for (text, cpus) in [("(null)\n", vec![]), ("\n", vec![]), ("1-2,5\n", vec![1, 2, 5])] {
            write(root.path(), "nohz_full", text);
            assert_eq!(nohz_full(root.path()), cpus);
        }
    }

    #[test]
    fn a_machine_without_cache_information_is_one_domain() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "online", "0-1\n");
        let topology = Topology::read_from(root.path()).unwrap();
        assert_eq!(topology.cpus[1], Cpu { cpu: 1, core: 1, llc: 0, node: 0 });
        assert_eq!(topology.llc_bytes, 0);
    }

    /// Describe a cache of this level [KiB], as `cpu` sees it.
    fn cache(root: &Path, cpu: u32, level: u32, kib: u32, sharers: &str) {
        let index = format!("cpu{cpu}/cache/index{level}");
        write(root, &format!("{index}/level"), &level.to_string());
        write(root, &format!("{index}/type"), "Unified");
        write(root, &format!("{index}/shared_cpu_list"), sharers);
        write(root, &format!("{index}/size"), &format!("{kib}K"));
    }

    fn llcs(root: &Path) -> Vec<u32> {
        Topology::read_from(root).unwrap().cpus.iter().map(|cpu| cpu.llc).collect()
    }

    /// Two packages of four CPUs. The first CPU of each shows its L1 alone, the others share an L2.
    #[test]
    fn a_cpu_without_the_cache_of_its_package_joins_it() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "online", "0-7\n");
        for cpu in 0..8 {
            let package = cpu / 4 * 4;
            let all = format!("{package}-{}", package + 3);
            write(root.path(), &format!("cpu{cpu}/topology/package_cpus_list"), &all);
            cache(root.path(), cpu, 1, 32, &cpu.to_string());
            if cpu != package {
                cache(root.path(), cpu, 2, 4096, &format!("{}-{}", package + 1, package + 3));
            }
        }
        assert_eq!(llcs(root.path()), [1, 1, 1, 1, 5, 5, 5, 5]);
        // A package that shows no cache at all is one domain, whatever the other one shows.
        for cpu in 0..4 {
            fs::remove_dir_all(root.path().join(format!("devices/system/cpu/cpu{cpu}/cache"))).unwrap();
        }
        assert_eq!(llcs(root.path()), [0, 0, 0, 0, 5, 5, 5, 5]);
    }

    /// One package with two L3 caches, and two CPUs that show no more than an L2 of their own.
    #[test]
    fn a_cpu_without_the_cache_of_its_package_joins_the_first_of_several() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "online", "0-5\n");
        for cpu in 0..6 {
            write(root.path(), &format!("cpu{cpu}/topology/package_cpus_list"), "0-5");
            cache(root.path(), cpu, 2, 1024, &cpu.to_string());
        }
        for (cpus, sharers, kib) in [(0..2, "0-1", 4096), (2..4, "2-3", 8192)] {
            cpus.for_each(|cpu| cache(root.path(), cpu, 3, kib, sharers));
        }
        assert_eq!(llcs(root.path()), [0, 0, 2, 2, 0, 0]);
        assert_eq!(Topology::read_from(root.path()).unwrap().llc_bytes, 8 << 20);
    }

    /// Some kernels and some recorded machines have no list of online CPUs.
    #[test]
    fn without_a_list_the_online_cpus_are_the_directories() {
        let root = tempfile::tempdir().unwrap();
        for name in ["cpu0/x", "cpu1/x", "cpu10/x", "cpufreq/x", "cpuidle/x", "cpu99999/x", "cpu2/online"] {
            write(root.path(), name, "1\n");
        }
        write(root.path(), "cpu3/online", "0\n");
        let numbers = || -> Vec<u32> {
            Topology::read_from(root.path()).unwrap().cpus.iter().map(|cpu| cpu.cpu).collect()
        };
        assert_eq!(numbers(), [0, 1, 2, 10]);
        assert_eq!(Topology::read_from(root.path()).unwrap().possible, [0, 1, 2, 10]);
        write(root.path(), "online", "\n");
        assert_eq!(numbers(), [0, 1, 2, 10]);
        write(root.path(), "online", "0-1\n");
        assert_eq!(numbers(), [0, 1]);
    }

    #[test]
    fn no_sysfs_is_a_kernel_failure() {
        let root = tempfile::tempdir().unwrap();
        assert!(Topology::read_from(root.path()).unwrap_err().message.contains("mount sysfs"));
    }

    #[test]
    fn a_difference_of_identities_names_the_change() {
        let identity = MachineIdentity {
            cpu_models: cpu_models("model name\t: A\n\nmodel name: A\n\nmodel name: B"),
            kernel: "1".into(),
            cpus: vec![],
        };
        assert_eq!(identity.cpu_models, ["A", "B"]);
        assert_eq!(identity.difference(&identity.clone()), None);
        let other = MachineIdentity { kernel: "2".into(), ..identity.clone() };
        assert_eq!(identity.difference(&other).unwrap(), "the kernel was 1 and is 2");
    }

    #[test]
    fn sizes() {
        assert_eq!(parse_size("32K"), Some(32 << 10));
        assert_eq!(parse_size("3G"), Some(3 << 30));
        assert_eq!(parse_size("x"), None);
    }
}
