// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The CPUs as sysfs describes them: which are online, what they share, and what identifies the
//! machine.
//!
//! Only relations are taken from sysfs. The speed of a CPU is measured, see [`crate::calibrate`].

use crate::cpulist;
use crate::failure::Failure;
use serde::{Deserialize, Serialize};
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
        let online =
            read_list(&directory.join("online")).filter(|cpus| !cpus.is_empty()).ok_or_else(|| {
                Failure::kernel(format!("{}/online names no CPU; mount sysfs on /sys", directory.display()))
            })?;
        let possible = read_list(&directory.join("possible")).unwrap_or_else(|| online.clone());
        let mut llc_bytes = 0;
        let mut cpus = Vec::new();
        for cpu in online {
            let own = directory.join(format!("cpu{cpu}"));
            let core = first(&own.join("topology/core_cpus_list"))
                .or_else(|| first(&own.join("topology/thread_siblings_list")))
                .unwrap_or(cpu);
            let package = first(&own.join("topology/package_cpus_list")).unwrap_or(0);
            let (llc, bytes) = last_level_cache(&own).unwrap_or((package, 0));
            llc_bytes = llc_bytes.max(bytes);
            cpus.push(Cpu { cpu, core, llc, node: node_of(&own).unwrap_or(0) });
        }
        Ok(Self { cpus, possible, llc_bytes })
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

impl MachineIdentity {
    /// Return the first difference to the `present` machine, in words; None when both are the same.
    #[must_use]
    pub fn difference(&self, present: &Self) -> Option<String> {
        if self.cpu_models != present.cpu_models {
            return Some("the CPU model is another".to_owned());
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
    read_list(&sysfs.join("devices/system/cpu/nohz_full")).unwrap_or_default()
}

fn read_list(path: &Path) -> Option<Vec<u32>> {
    cpulist::parse(&fs::read_to_string(path).ok()?)
}

fn first(path: &Path) -> Option<u32> {
    read_list(path)?.first().copied()
}

/// Return the first sharer and the size [bytes] of the highest-level cache that holds data.
fn last_level_cache(cpu: &Path) -> Option<(u32, u64)> {
    let read = |index: &Path, name: &str| {
        fs::read_to_string(index.join(name)).ok().map(|text| text.trim().to_owned())
    };
    let mut best: Option<(u32, u32, u64)> = None;
    for entry in fs::read_dir(cpu.join("cache")).ok()?.flatten() {
        let index: PathBuf = entry.path();
        let Some(level) = read(&index, "level").and_then(|level| level.parse::<u32>().ok()) else { continue };
        if read(&index, "type").as_deref() == Some("Instruction") {
            continue;
        }
        let Some(sharer) = first(&index.join("shared_cpu_list")) else { continue };
        let bytes = read(&index, "size").and_then(|size| parse_size(&size)).unwrap_or(0);
        if best.is_none_or(|(highest, _, _)| level > highest) {
            best = Some((level, sharer, bytes));
        }
    }
    best.map(|(_, sharer, bytes)| (sharer, bytes))
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

    #[test]
    fn no_sysfs_is_a_kernel_failure() {
        let root = tempfile::tempdir().unwrap();
        assert!(Topology::read_from(root.path()).unwrap_err().message.contains("mount sysfs"));
    }

    #[test]
    fn identity_names_what_changed() {
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
