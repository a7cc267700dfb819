//! Ctrl-C: a flag that all long waits poll, so that a command ends every process that it started.

use std::sync::atomic::{AtomicBool, Ordering};

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Request the end of every wait of this process. A signal-handling thread may call this function.
pub fn request() {
    REQUESTED.store(true, Ordering::SeqCst);
}

/// Return true if the user requested a stop.
#[must_use]
pub fn requested() -> bool {
    REQUESTED.load(Ordering::SeqCst)
}

/// Return an error with exit code 130 if the user requested a stop.
///
/// # Errors
/// The user requested a stop.
pub fn check() -> anyhow::Result<()> {
    if requested() {
        return Err(crate::exit::coded(crate::exit::INTERRUPTED, "interrupted"));
    }
    Ok(())
}
