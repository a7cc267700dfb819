// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Selection of cgroups: whether one more can be selected, and the removal of one.

use std::path::Path;

use super::cgroup::Cgroup;
use super::system::System;
use super::waiting::Waiting;
use crate::failure::Failure;
use bias_policy::ffi;

/// Most cgroups that can be selected.
pub const MAX_CGROUPS: usize = ffi::BIAS_MAX_OPTED_IN as usize;

/// Return true if the cgroup can be selected, false if it is selected already.
///
/// # Errors
/// Fail with a usage failure when too many are selected.
pub fn admits(chosen: &[Cgroup], cgroup: &Cgroup) -> Result<bool, Failure> {
    if chosen.iter().any(|other| other.path == cgroup.path && other.id == cgroup.id) {
        return Ok(false);
    }
    if chosen.len() >= MAX_CGROUPS {
        return Err(Failure::usage(format!(
            "cgroup {}: {MAX_CGROUPS} are opted in, the most there can be; opt in one above them",
            cgroup.path
        )));
    }
    Ok(true)
}

/// Remove the cgroup that `path` names from the selected and from the waiting ones. Return it if it
/// was selected. A cgroup that is gone keeps its path.
///
/// # Errors
/// Fail with a usage failure when the cgroup was not selected.
pub fn take_out(
    chosen: &mut Vec<Cgroup>,
    waiting: &mut Waiting,
    path: &Path,
    system: &impl System,
) -> Result<Option<Cgroup>, Failure> {
    let found = system.find(path).ok();
    let found = found.map_or_else(|| path.to_string_lossy().into_owned(), |found| found.path().to_owned());
    let waited = waiting.forget(&found);
    match chosen.iter().position(|cgroup| cgroup.path == found) {
        Some(at) => Ok(Some(chosen.remove(at))),
        None if waited => Ok(None),
        None => Err(Failure::usage(format!(
            "cgroup {found}: is not opted in; `scx_bias cgroup list` shows those that are"
        ))),
    }
}
