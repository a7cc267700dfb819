// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Limits of a CPU's clock, and counts of thermal throttling, from sysfs.
//!
//! * `cpufreq/policyN/scaling_max_freq` is the limit that a user, a governor or the firmware sets
//!   [kHz].
//! * `cpuN/thermal_throttle/core_throttle_count` grows each time the hardware throttles the core
//!   (x86; documented in the kernel's `Documentation/admin-guide/thermal` and sysfs ABI).
//!
//! Reading a few files every two seconds works on every architecture, and on kernels that announce
//! nothing ([`super::thermal`]).
//!
//! # Invariants
//! A file that vanishes or holds no number is skipped until it can be read. Each call reads at most
//! [`READ`] files, in rotation.

use crate::cpulist;
use bias_policy::recal::Trigger;
use std::fs;
use std::path::{Path, PathBuf};

/// Most files read in one call.
const READ: usize = 32;

/// A change or a limit of a CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockLimit {
    /// The kernel's CPU number.
    pub cpu: u32,
    /// The kind of change; None if the value is unchanged.
    pub trigger: Option<Trigger>,
    /// The present limit as a share of the one at the start. None if the file gives no limit, or if
    /// the limit was and is at least that of the start.
    pub share: Option<f64>,
}

/// The files to read.
#[derive(Debug, Default)]
pub struct ClockLimits {
    files: Vec<File>,
    next: usize,
}

#[derive(Debug)]
struct File {
    path: PathBuf,
    cpus: Vec<u32>,
    what: What,
    first: Option<u64>,
    last: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Limit,
    Throttled,
}

impl ClockLimits {
    /// Find the files of `cpus` below `sysfs`. A machine may have none.
    #[must_use]
    pub fn open(sysfs: &Path, cpus: &[u32]) -> Self {
        let directory = sysfs.join("devices/system/cpu");
        let policies = fs::read_dir(directory.join("cpufreq")).into_iter().flatten().flatten();
        let policies = policies.filter_map(|policy| {
            let list = fs::read_to_string(policy.path().join("related_cpus")).ok()?;
            // Separated by spaces, unlike other lists.
            let of_policy = cpulist::parse(&list.split_whitespace().collect::<Vec<_>>().join(","))?;
            let of_policy = of_policy.into_iter().filter(|cpu| cpus.contains(cpu)).collect();
            Some((policy.path().join("scaling_max_freq"), of_policy, What::Limit))
        });
        let throttled = cpus.iter().map(|cpu| {
            let path = directory.join(format!("cpu{cpu}/thermal_throttle/core_throttle_count"));
            (path, vec![*cpu], What::Throttled)
        });
        let files = policies.chain(throttled).filter_map(|(path, cpus, what)| {
            let value = number(&path)?;
            Some(File { path, cpus, what, first: Some(value), last: Some(value) })
        });
        Self { files: files.collect(), next: 0 }
    }

    /// Return the changes since the files were last read, and the limits in force.
    pub fn read(&mut self) -> Vec<ClockLimit> {
        let mut limits = Vec::new();
        for _ in 0..READ.min(self.files.len()) {
            self.next = (self.next + 1) % self.files.len();
            if let Some(file) = self.files.get_mut(self.next) {
                limits.extend(file.read());
            }
        }
        limits
    }
}

impl File {
    fn read(&mut self) -> Vec<ClockLimit> {
        let value = number(&self.path);
        let changed = value.is_some() && value != self.last;
        let (trigger, share) = match self.what {
            What::Throttled => (Trigger::Thermal, None),
            What::Limit => {
                let share = value.zip(self.first).map(|(now, first)| now as f64 / first.max(1) as f64);
                // Report a limit at each call while it holds, and once when it ends.
                (Trigger::FrequencyPolicy, share.map(|share| share.min(1.0)).filter(|s| changed || *s < 1.0))
            }
        };
        self.last = value.or(self.last);
        if !changed && share.is_none() {
            return Vec::new();
        }
        self.cpus
            .iter()
            .map(|cpu| ClockLimit { cpu: *cpu, trigger: changed.then_some(trigger), share })
            .collect()
    }
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    struct FakeLimits(tempfile::TempDir);

    impl FakeLimits {
        fn write(&self, file: &str, text: &str) {
            let path = self.0.path().join("devices/system/cpu").join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn new() -> Self {
            let machine = Self(tempfile::tempdir().unwrap());
            machine.write("cpufreq/policy0/related_cpus", "0 1 7\n");
            machine.write("cpufreq/policy0/scaling_max_freq", "3000000\n");
            machine.write("cpufreq/policy2/related_cpus", "2\n");
            machine.write("cpufreq/policy2/scaling_max_freq", "<unknown>\n");
            machine.write("cpu2/thermal_throttle/core_throttle_count", "17\n");
            machine
        }

        fn limits(&self) -> ClockLimits {
            ClockLimits::open(self.0.path(), &[0, 1, 2])
        }
    }

    #[test]
    fn a_limit_is_told_while_it_holds_and_when_it_ends() {
        let machine = FakeLimits::new();
        let mut limits = machine.limits();
        assert_eq!(limits.files.len(), 2);
        assert_eq!(limits.read(), []);
        let limit = |cpu, trigger, share| ClockLimit { cpu, trigger, share: Some(share) };
        machine.write("cpufreq/policy0/scaling_max_freq", "1500000\n");
        let policy = Some(Trigger::FrequencyPolicy);
        assert_eq!(limits.read(), [limit(0, policy, 0.5), limit(1, policy, 0.5)]);
        assert_eq!(limits.read(), [limit(0, None, 0.5), limit(1, None, 0.5)]);
        machine.write("cpufreq/policy0/scaling_max_freq", "3300000\n");
        assert_eq!(limits.read(), [limit(0, policy, 1.0), limit(1, policy, 1.0)]);
        machine.write("cpufreq/policy0/scaling_max_freq", "nonsense");
        assert_eq!(limits.read(), []);
    }

    #[test]
    fn throttling_is_told_once() {
        let machine = FakeLimits::new();
        let mut limits = machine.limits();
        machine.write("cpu2/thermal_throttle/core_throttle_count", "19\n");
        assert_eq!(limits.read(), [ClockLimit { cpu: 2, trigger: Some(Trigger::Thermal), share: None }]);
        assert_eq!(limits.read(), []);
        fs::remove_dir_all(machine.0.path()).unwrap();
        assert_eq!(limits.read(), []);
    }

    #[test]
    fn a_machine_without_the_files_has_no_limits() {
        assert_eq!(ClockLimits::open(Path::new("/nowhere"), &[0]).read(), []);
    }

    #[test]
    fn many_files_are_read_in_turn() {
        let machine = FakeLimits::new();
        for cpu in 0..40 {
            machine.write(&format!("cpu{cpu}/thermal_throttle/core_throttle_count"), "0");
        }
        let mut limits = ClockLimits::open(machine.0.path(), &(0..40).collect::<Vec<_>>());
        for cpu in 0..40 {
            machine.write(&format!("cpu{cpu}/thermal_throttle/core_throttle_count"), "1");
        }
        assert_eq!(limits.read().len() + limits.read().len(), 40);
    }
}
