// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Requests about opted-in cgroups, and the answers to them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::cgroup::Cgroup;
use super::opted::OptIn;
use super::reconcile::policy;
use super::system::System;

/// Request of a user to a running scheduler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CgroupRequest {
    /// List the opted-in cgroups.
    List,
    /// Opt this cgroup in.
    Add(PathBuf),
    /// Release this cgroup.
    Remove(PathBuf),
}

/// State of the opted-in cgroups.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupsReport {
    /// Opted-in cgroups, in the order in which they came.
    pub cgroups: Vec<CgroupReport>,
    /// Selected paths that name no cgroup at present.
    #[serde(default)]
    pub waiting: Vec<String>,
    /// Further notes, such as the last problem and missing features of this kernel.
    pub notes: Vec<String>,
}

/// State of an opted-in cgroup.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupReport {
    /// Path of its directory.
    pub path: String,
    /// Number of threads in it and below that run under scx_bias, or have a bias there.
    pub threads: usize,
    /// Number of threads that do not, because they are real-time threads.
    pub real_time: usize,
}

impl CgroupReport {
    /// Report on a cgroup. Count the threads with a policy for which `ours` returns true.
    pub(crate) fn of(system: &impl System, cgroup: &Cgroup, ours: impl Fn(u32) -> bool) -> Self {
        let threads = system.threads(cgroup).unwrap_or_default();
        let policies = threads.iter().filter_map(|tid| Some(system.attr(*tid)?.policy));
        let mut report = Self { path: cgroup.path.clone(), ..Self::default() };
        for policy in policies {
            report.threads += usize::from(ours(policy));
            report.real_time += usize::from(policy != policy::EXT && !policy::is_switched(policy));
        }
        report
    }
}

impl<S: System> OptIn<S> {
    /// Return the state of the opted-in cgroups.
    #[must_use]
    pub fn report(&self) -> CgroupsReport {
        let ours = |policy| policy == policy::EXT;
        let cgroups = self.inside.iter().map(|cgroup| CgroupReport::of(&self.system, cgroup, ours));
        let notes = self.trouble.clone().into_iter().collect();
        CgroupsReport { cgroups: cgroups.collect(), waiting: self.waiting.paths().to_vec(), notes }
    }
}
