//! Giving back what a scx_bias that was killed has left, without starting another.

use std::path::Path;

use super::OptIn;
use super::journal::{self, Store};
use super::system::{Linux, System};
use crate::failure::Failure;

/// Gives back to threads of this machine what a scx_bias that was killed has recorded of them; how many were recorded.
///
/// # Errors
/// As [`restore_in`].
pub fn restore() -> Result<usize, Failure> {
    let system = Linux::new("/".into());
    let boot = system.boot();
    restore_in(system, Path::new(journal::FOLDER), &boot)
}

/// The same by the records in `folder`. Nothing is done, or made, where there are none.
///
/// # Errors
/// [`crate::failure::Exit::OtherScheduler`] when a running scx_bias has them, kernel failure when a right is missing, runtime failure when some
/// thread cannot be given back what it had; then the records stay.
pub(super) fn restore_in<S: System>(system: S, folder: &Path, boot: &str) -> Result<usize, Failure> {
    match Store::may_exist(folder) {
        Ok(true) => {}
        Ok(false) => return Ok(0),
        Err(error) => {
            return Err(Failure::kernel(format!("cannot look into {}: {error}; use sudo", folder.display())));
        }
    }
    let store = Store::open(folder, boot)?;
    let recorded = store.read().ok().flatten().map_or(0, |remembered| remembered.journal.len());
    let mut optin = OptIn::start(system, store, &[] as &[&Path])?;
    if !optin.finish() {
        return Err(Failure::runtime(
            "some threads still have SCHED_EXT; run `scx_bias cgroup restore` again",
        ));
    }
    Ok(recorded)
}
