// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Cgroups as far as `bpf/` reads them: a tree of weights.

use std::cell::UnsafeCell;

use crate::case::GroupSpec;
use crate::ffi;

/// Id of the root cgroup.
const ROOT_ID: i32 = 1;

/// The cgroups of a machine. Group 0 is the root; the groups of a case follow.
#[derive(Debug)]
#[allow(clippy::vec_box)] // Children and BPF code hold the addresses while the list grows.
pub struct Groups(Vec<Box<UnsafeCell<ffi::task_group>>>);

impl Groups {
    /// Build the tree. A parent precedes its children.
    #[must_use]
    pub fn new(specs: &[GroupSpec]) -> Self {
        let group = |id: usize, parent: *mut ffi::task_group, weight: u32, max_us: Option<(u64, u64)>| {
            // SAFETY: the structure has integers and pointers only, for which zero is valid.
            let mut raw: ffi::task_group = unsafe { std::mem::zeroed() };
            raw.css.id = ROOT_ID + id as i32;
            raw.css.serial_nr = 1 + id as u64;
            raw.shares = shares(weight);
            raw.parent = parent;
            raw.cfs_bandwidth = bandwidth(max_us);
            Box::new(UnsafeCell::new(raw))
        };
        let mut groups = Self(vec![group(0, std::ptr::null_mut(), 100, None)]);
        for spec in specs {
            let parent = groups.address(spec.parent.min(groups.0.len() - 1));
            groups.0.push(group(groups.0.len(), parent, spec.weight, spec.max_us));
        }
        groups
    }

    /// Return the address that BPF code gets.
    #[must_use]
    pub fn address(&self, group: usize) -> *mut ffi::task_group {
        self.0.get(group).or(self.0.first()).map_or(std::ptr::null_mut(), |group| group.get())
    }

    /// Set `cpu.max` of a group.
    pub fn set_max(&self, group: usize, max_us: Option<(u64, u64)>) {
        if let Some(group) = self.0.get(group).filter(|_| group > 0) {
            // SAFETY: the engine has one thread and hands out no references.
            unsafe { (*group.get()).cfs_bandwidth = bandwidth(max_us) }
        }
    }

    /// Set `cpu.weight` of a group.
    pub fn set_weight(&self, group: usize, weight: u32) {
        if let Some(group) = self.0.get(group).filter(|_| group > 0) {
            // SAFETY: the engine has one thread and hands out no references.
            unsafe { (*group.get()).shares = shares(weight) }
        }
    }
}

/// Return what the kernel keeps for a `cpu.max`, `RUNTIME_INF` for none.
fn bandwidth(max_us: Option<(u64, u64)>) -> ffi::cfs_bandwidth {
    let (quota, period_us) = max_us.map_or((u64::MAX, 100_000), |(quota, period)| (quota * 1000, period));
    ffi::cfs_bandwidth { period: period_us as i64 * 1000, quota, burst: 0 }
}

/// Return the shares that the kernel keeps for a weight (sched_weight_from_cgroup(), scale_load()).
fn shares(weight: u32) -> u64 {
    ((u64::from(weight.clamp(1, 10_000)) * 1024 + 50) / 100) << 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_weight_has_the_kernels_shares() {
        assert_eq!(shares(100), 1024 << 10);
        assert_eq!(shares(1), 10 << 10);
    }
}
