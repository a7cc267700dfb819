// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Restore the policies that a killed scx_bias has changed, without starting another one.

use std::path::Path;

use super::journal::{self, Store};
use super::opted::OptIn;
use super::system::{Linux, System};
use crate::failure::Failure;

/// Restore the policies on this machine that a killed scx_bias has recorded. Return the number of
/// recorded threads.
///
/// # Errors
/// Fail as [`restore_in`] does.
pub fn restore() -> Result<usize, Failure> {
    let system = Linux::new("/".into());
    let boot = system.boot();
    restore_in(system, Path::new(journal::DIRECTORY), &boot)
}

/// Restore the policies that are recorded in `directory`. Do nothing, and make nothing, if there is
/// no record.
///
/// # Errors
/// * [`crate::failure::Exit::OtherScheduler`]: a running scx_bias holds the record.
/// * [`crate::failure::Exit::Kernel`]: a capability is missing.
/// * [`crate::failure::Exit::Runtime`]: some policy cannot be restored, and the record stays.
pub(super) fn restore_in<S: System>(system: S, directory: &Path, boot: &str) -> Result<usize, Failure> {
    match Store::exists(directory) {
        Ok(true) => {}
        Ok(false) => return Ok(0),
        Err(error) => {
            return Err(Failure::kernel(format!(
                "cannot look into {}: {error}; use sudo",
                directory.display()
            )));
        }
    }
    let store = Store::open(directory, boot)?;
    let recorded = store.read().ok().flatten().map_or(0, |remembered| remembered.journal.len());
    let mut optin = OptIn::start(system, store, &[] as &[&Path])?;
    if !optin.finish() {
        return Err(Failure::runtime(
            "some threads still have SCHED_EXT; run `scx_bias cgroup restore` again",
        ));
    }
    Ok(recorded)
}
