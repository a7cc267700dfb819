// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Known defects of kernels that occur under any sched_ext scheduler.
//!
//! # Problem
//! Some kernels stop the machine while a sched_ext scheduler is loaded. The user blames the
//! scheduler, and no later message can explain it.
//!
//! # Approach
//! [`KNOWN`] is one table: what happens, on which releases, under which condition, and the remedy.
//! A repair that added a function to the kernel is found in the BTF, whatever the release says.
//!
//! # Invariants
//! A machine without the condition, with another release or with the repair has no finding.
//!
//! # Limits
//! * Distributions apply repairs and keep the release. Without a function to look for, the finding
//!   is then wrong. Some of them also hide the third number, and 0 takes its place.
//! * Defects that cannot occur under scx_bias are left out. The warning about `cgrp_moving_from`
//!   (6.12 to 7.0) needs `ops.cgroup_move`, which scx_bias does not implement.

use super::btf::Btf;
use crate::kernel::{self, Version};
use crate::topology;
use std::fs;
use std::path::Path;

/// A defect of the kernel.
pub(super) struct Defect {
    /// What happens.
    pub(super) what: &'static str,
    pub(super) remedy: &'static str,
    /// Releases that have it: from the first one up to, but not including, the second.
    releases: &'static [(Version, Version)],
    /// A function that the repair added to the kernel.
    repair: Option<&'static str>,
    /// Return true if the defect can occur on this machine.
    can_occur: fn(&Path, &Btf) -> bool,
}

/// End of the releases of a defect that no release is known to repair.
const NOT_REPAIRED: Version = (u32::MAX, 0, 0);

const KNOWN: &[Defect] = &[
    // Reported for 7.1.3 in issue 3715 of sched-ext/scx.
    Defect {
        what: "a task with a core-scheduling cookie can stop the whole machine under any sched_ext scheduler",
        remedy: "use no core scheduling (cloud-hypervisor: --cpus core_scheduling=off), or boot with nosmt",
        releases: &[((7, 1, 0), NOT_REPAIRED)],
        repair: None,
        can_occur: |root, btf| {
            let smt = fs::read_to_string(root.join("sys/devices/system/cpu/smt/active"));
            btf.has("sched_core_share_pid") && smt.is_ok_and(|active| active.trim() == "1")
        },
    },
    // From a5b98009f16d to fadeedd7cfc5, issue 3716.
    Defect {
        what: "a write to a pressure file while a sched_ext scheduler starts can stop the whole machine",
        remedy: "boot 7.1.9 or later, or with psi=0",
        releases: &[((6, 18, 33), (6, 19, 0)), ((7, 0, 10), (7, 1, 9))],
        repair: Some("psi_trigger_create_rtpoll_worker"),
        can_occur: |root, _| root.join("proc/pressure/cpu").exists(),
    },
    // Repaired by 4ec10f38ff90, issue 3687.
    Defect {
        what: "a CPU of nohz_full= can run a task without a tick, and so for longer than its slice",
        remedy: "boot 7.1.6 or later, or without nohz_full=",
        releases: &[((6, 12, 0), (7, 1, 6))],
        repair: None,
        can_occur: |root, _| !topology::nohz_full(&root.join("sys")).is_empty(),
    },
];

/// Return the known defects of the kernel `release` that can occur on the machine whose /sys and
/// /proc are below `root`.
pub(super) fn possible(release: &str, root: &Path, btf: &Btf) -> impl Iterator<Item = &'static Defect> {
    let version = kernel::version(release);
    let affected = move |(from, until): &(Version, Version)| {
        version.is_some_and(|version| *from <= version && version < *until)
    };
    KNOWN.iter().filter(move |defect| {
        defect.releases.iter().any(affected)
            && !defect.repair.is_some_and(|repair| btf.has(repair))
            && (defect.can_occur)(root, btf)
    })
}
