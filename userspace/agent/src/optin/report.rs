//! What is asked and told of opted-in cgroups.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::OptIn;
use super::cgroup::Cgroup;
use super::plan::policy;
use super::system::System;

/// What a user can ask for while it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Request {
    /// Which are opted in?
    List,
    /// Opt this one in.
    Add(PathBuf),
    /// Let it go.
    Remove(PathBuf),
}

/// The opted-in cgroups.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Each, in the order in which they came.
    pub cgroups: Vec<CgroupReport>,
    /// Paths that are chosen, but name no cgroup at the moment.
    #[serde(default)]
    pub waiting: Vec<String>,
    /// What to know besides: what went wrong last, what this kernel cannot do.
    pub notes: Vec<String>,
}

/// An opted-in cgroup.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupReport {
    /// Its folder.
    pub path: String,
    /// Threads in it and below that run under scx_bias, or have a bias there.
    pub threads: usize,
    /// Threads that do not, because they are real-time ones.
    pub real_time: usize,
    /// A cgroup whose `cpu.max` is set, but does not hold for threads under scx_bias.
    pub cpu_max: Option<String>,
}

impl CgroupReport {
    /// A cgroup whose threads of some policies are `ours`.
    pub(crate) fn of(system: &impl System, cgroup: &Cgroup, ours: impl Fn(u32) -> bool) -> Self {
        let threads = system.threads(cgroup).unwrap_or_default();
        let policies = threads.iter().filter_map(|tid| Some(system.attr(*tid)?.policy));
        let mut report =
            Self { path: cgroup.path.clone(), cpu_max: system.limited_by(cgroup), ..Self::default() };
        for policy in policies {
            report.threads += usize::from(ours(policy));
            report.real_time += usize::from(policy != policy::EXT && !policy::is_switched(policy));
        }
        report
    }

    /// What to know of it, in words; none if there is nothing.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        self.cpu_max.as_ref().map(|limited| {
            format!(
                "cpu.max of {limited} does not hold for threads under scx_bias; write \"max\" to it, or leave the cgroup out"
            )
        })
    }
}

impl<S: System> OptIn<S> {
    /// What is so now.
    #[must_use]
    pub fn report(&self) -> Report {
        let ours = |policy| policy == policy::EXT;
        let cgroups = self.inside.iter().map(|cgroup| CgroupReport::of(&self.system, cgroup, ours));
        let notes = self.trouble.clone().into_iter().collect();
        Report { cgroups: cgroups.collect(), waiting: self.waiting.paths().to_vec(), notes }
    }
}
