// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Cgroups that users select: requests, the selection, and reports on it.
//!
//! # Problem
//!
//! A service's cgroup is removed when the service stops, and another one with the same path is made
//! when it starts. A slice does not exist before its first unit. The user selects a path, but
//! threads are in an instance.
//!
//! # Approach
//!
//! The agent keeps the path of a selected cgroup that does not exist. Each scan checks which of
//! these cgroups exist now, and which of the others are gone.
//!
//! # Invariants
//!
//! Paths of the configuration are kept as long as it names them. Of those added by command the last
//! [`MAX_PATHS`] are kept, because scopes that are opted in one after the other must not
//! accumulate. At most [`MAX_CGROUPS`] cgroups are selected.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use bias_policy::ffi;
use serde::{Deserialize, Serialize};
use tracing::{info, warn};

use super::cgroup::{Cgroup, Found};
use super::reconcile::{Tid, policy};
use super::system::System;
use crate::failure::Failure;

/// Most cgroups that can be selected.
const MAX_CGROUPS: usize = ffi::BIAS_MAX_OPTED_IN as usize;
/// Most paths without a cgroup that are kept and are not of the configuration.
const MAX_PATHS: usize = 64;

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

/// Selected cgroups.
#[derive(Debug, Default)]
pub struct Selection {
    /// Those that exist, in the order in which they were selected.
    pub(super) chosen: Vec<Cgroup>,
    /// Paths of the others, in the order in which they were added.
    waiting: Vec<String>,
    /// Paths of the configuration, waiting or not.
    configured: BTreeSet<String>,
}

impl Selection {
    /// Return the selected cgroups that exist.
    #[must_use]
    pub fn cgroups(&self) -> &[Cgroup] {
        &self.chosen
    }

    /// Select a cgroup. Return false if it is selected already.
    ///
    /// # Errors
    /// Fail with a usage failure when too many are selected.
    pub fn add(&mut self, cgroup: Cgroup) -> Result<bool, Failure> {
        if self.chosen.iter().any(|other| other.path == cgroup.path && other.id == cgroup.id) {
            return Ok(false);
        }
        if self.chosen.len() >= MAX_CGROUPS {
            return Err(Failure::usage(format!(
                "cgroup {}: the maximum of {MAX_CGROUPS} cgroups is opted in; opt in a common parent",
                cgroup.path
            )));
        }
        self.chosen.push(cgroup);
        Ok(true)
    }

    /// Mark a path as one of the configuration. Return its cgroup for [`Self::add`], or wait for
    /// it.
    pub fn configure(&mut self, found: Found) -> Option<Cgroup> {
        self.configured.insert(found.path().to_owned());
        match found {
            Found::Here(cgroup) => Some(cgroup),
            Found::Later(path) => {
                warn!("the cgroup {path} does not exist yet; it is opted in when it appears");
                self.wait_for(path);
                None
            }
        }
    }

    /// Deselect the cgroup that `path` names, or named before it was removed. Return the cgroup if
    /// it exists.
    ///
    /// # Errors
    /// Fail with a usage failure when the cgroup was not selected.
    pub fn remove(&mut self, path: &Path, system: &impl System) -> Result<Option<Cgroup>, Failure> {
        let found = system.find(path).ok();
        let path = found.map_or_else(|| path.to_string_lossy().into_owned(), |found| found.path().to_owned());
        self.configured.remove(&path);
        let before = self.waiting.len();
        self.waiting.retain(|other| *other != path);
        match self.chosen.iter().position(|cgroup| cgroup.path == path) {
            Some(at) => Ok(Some(self.chosen.remove(at))),
            None if self.waiting.len() < before => Ok(None),
            None => Err(Failure::usage(format!(
                "cgroup {path}: is not opted in; `scx_bias cgroup list` shows those that are"
            ))),
        }
    }

    /// Return the threads of the selected cgroups. Wait for those cgroups that are gone, and return
    /// true if there are any.
    pub fn threads(&mut self, system: &impl System) -> (BTreeSet<Tid>, bool) {
        let (threads, gone) = list(system, &mut self.chosen);
        let some_gone = !gone.is_empty();
        for path in gone {
            info!("the cgroup {path} was removed; it is opted in again when it is created again");
            self.wait_for(path);
        }
        (threads, some_gone)
    }

    /// Select this path when it appears.
    pub fn wait_for(&mut self, path: String) {
        if self.waiting.contains(&path) {
            return;
        }
        self.waiting.push(path);
        let by_command = |path: &&String| !self.configured.contains(*path);
        if self.waiting.iter().filter(by_command).count() > MAX_PATHS
            && let Some(oldest) = self.waiting.iter().position(|path| !self.configured.contains(path))
        {
            self.waiting.remove(oldest);
        }
    }

    /// Return the cgroups that exist now for [`Self::add`], and stop waiting for them. Leave those
    /// that would be too many.
    pub fn arrived(&mut self, system: &impl System) -> Vec<Cgroup> {
        let mut arrived = Vec::new();
        let room = MAX_CGROUPS.saturating_sub(self.chosen.len());
        self.waiting.retain(|path| {
            let may_be_there = arrived.len() < room && system.is_there(path);
            match may_be_there.then(|| system.find(path.as_ref())) {
                Some(Ok(Found::Here(cgroup))) => {
                    info!("the cgroup {path} exists now: it is opted in");
                    arrived.push(cgroup);
                    false
                }
                _ => true,
            }
        });
        arrived
    }

    /// Report on the selected cgroups. Count the threads with a policy for which `ours` returns
    /// true.
    pub fn report(&self, system: &impl System, ours: impl Fn(u32) -> bool) -> CgroupsReport {
        let report = |cgroup: &Cgroup| {
            let threads = system.threads(cgroup).unwrap_or_default();
            let mut report = CgroupReport { path: cgroup.path.clone(), ..CgroupReport::default() };
            for policy in threads.iter().filter_map(|tid| Some(system.attr(*tid)?.policy)) {
                report.threads += usize::from(ours(policy));
                report.real_time += usize::from(policy != policy::EXT && !policy::is_switched(policy));
            }
            report
        };
        let cgroups = self.chosen.iter().map(report).collect();
        CgroupsReport { cgroups, waiting: self.waiting.clone(), notes: Vec::new() }
    }
}

/// Return the threads of the cgroups, and the paths of cgroups that are gone. Remove these from
/// `cgroups`.
pub(super) fn list(system: &impl System, cgroups: &mut Vec<Cgroup>) -> (BTreeSet<Tid>, Vec<String>) {
    let mut threads = BTreeSet::new();
    let mut gone = Vec::new();
    cgroups.retain(|cgroup| {
        let listed = system.threads(cgroup);
        if listed.is_none() {
            gone.push(cgroup.path.clone());
        }
        listed.map(|listed| threads.extend(listed)).is_some()
    });
    (threads, gone)
}

/// Last problem of a task that the agent repeats.
#[derive(Debug, Default)]
pub(crate) struct LastProblem(pub(crate) Option<String>);

impl LastProblem {
    /// Log a problem unless it is the one that was logged last.
    pub(crate) fn report(&mut self, what: String) {
        if self.0.as_ref() != Some(&what) {
            warn!("{what}");
        }
        self.0 = Some(what);
    }

    /// Return the problem, or the reason for no progress where each call succeeds.
    pub(crate) fn reason(&self) -> &str {
        self.0.as_deref().unwrap_or("they keep changing")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::optin::system::Linux;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn configured_paths_are_kept_and_the_last_of_the_others(
            adds in prop::collection::vec((0u32..200, prop::bool::weighted(0.2)), 0..400),
        ) {
            let mut selection = Selection::default();
            for (number, of_file) in adds {
                let path = format!("/{number}");
                if of_file {
                    prop_assert_eq!(selection.configure(Found::Later(path.clone())), None);
                }
                selection.wait_for(path.clone());
                let Selection { waiting, configured, .. } = &selection;
                prop_assert!(!of_file || configured.contains(&path));
                prop_assert_eq!(waiting.iter().filter(|other| **other == path).count(), 1);
                prop_assert!(configured.iter().all(|path| waiting.contains(path)));
                prop_assert!(waiting.iter().filter(|path| !configured.contains(*path)).count() <= MAX_PATHS);
            }
        }
    }

    #[test]
    fn a_removed_path_is_neither_waited_for_nor_kept() {
        let system = Linux::below("/nonexistent".into());
        let mut selection = Selection::default();
        assert_eq!(selection.configure(Found::Later("/a".to_owned())), None);
        assert_eq!(selection.remove(Path::new("/a"), &system), Ok(None));
        assert!(selection.remove(Path::new("/a"), &system).is_err());
        assert!(selection.waiting.is_empty() && selection.configured.is_empty());
    }

    #[test]
    fn a_cgroup_is_selected_once_and_their_number_is_bounded() {
        let cgroup = |id| Cgroup { path: format!("/{id}"), name: String::new(), id };
        let mut selection = Selection::default();
        for id in 0..MAX_CGROUPS as u64 {
            assert_eq!(selection.add(cgroup(id)), Ok(true));
        }
        assert_eq!(selection.add(cgroup(0)), Ok(false));
        assert!(selection.add(cgroup(MAX_CGROUPS as u64)).unwrap_err().message.contains("the maximum"));
    }
}
