//! Cgroups that were chosen: which more there can be, and which one is meant.

use std::path::Path;

use super::cgroup::{Cgroup, Found};
use crate::failure::Failure;
use bias_policy::ffi;

/// Chosen cgroups at most.
pub const MOST_CGROUPS: usize = ffi::BIAS_MAX_OPTED_IN as usize;

/// Can this one be chosen, too? False if it is already.
///
/// # Errors
/// Usage failure when there are too many.
pub fn admits(chosen: &[Cgroup], cgroup: &Cgroup) -> Result<bool, Failure> {
    if chosen.iter().any(|other| other.path == cgroup.path && other.id == cgroup.id) {
        return Ok(false);
    }
    if chosen.len() >= MOST_CGROUPS {
        return Err(Failure::usage(format!(
            "cgroup {}: {MOST_CGROUPS} are opted in, the most there can be; opt in one above them",
            cgroup.path
        )));
    }
    Ok(true)
}

/// Where the one is that `path` names, and that was found there now; one that is gone has the path it had.
///
/// # Errors
/// Usage failure when it was not chosen.
pub fn position(chosen: &[Cgroup], path: &Path, now: Option<Found>) -> Result<usize, Failure> {
    let found = now.map_or_else(|| path.to_string_lossy().into_owned(), |found| found.path().to_owned());
    let at = chosen.iter().position(|cgroup| cgroup.path == found);
    at.ok_or_else(|| {
        Failure::usage(format!(
            "cgroup {found}: is not opted in; `scx_bias cgroup list` shows those that are"
        ))
    })
}
