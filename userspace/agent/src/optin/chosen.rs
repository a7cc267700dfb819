//! Selection of cgroups: whether one more can be selected, and which one a path means.

use std::path::Path;

use super::cgroup::{Cgroup, Found};
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

/// Return the index of the selected cgroup that `path` names, where `now` is the result of
/// resolving it. A cgroup that is gone keeps its path.
///
/// # Errors
/// Fail with a usage failure when the cgroup was not selected.
pub fn position(chosen: &[Cgroup], path: &Path, now: Option<Found>) -> Result<usize, Failure> {
    let found = now.map_or_else(|| path.to_string_lossy().into_owned(), |found| found.path().to_owned());
    let at = chosen.iter().position(|cgroup| cgroup.path == found);
    at.ok_or_else(|| {
        Failure::usage(format!(
            "cgroup {found}: is not opted in; `scx_bias cgroup list` shows those that are"
        ))
    })
}
