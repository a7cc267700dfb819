//! Ctrl-C: one flag that long waits look at, so that everything started is also ended.

use std::sync::atomic::{AtomicBool, Ordering};

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Asks every wait of this process to end. Safe to call from a signal-handling thread.
pub fn request() {
    REQUESTED.store(true, Ordering::SeqCst);
}

/// Whether the user asked to stop.
#[must_use]
pub fn requested() -> bool {
    REQUESTED.load(Ordering::SeqCst)
}

/// An error with exit code 130 if the user asked to stop.
///
/// # Errors
/// The user asked to stop.
pub fn check() -> anyhow::Result<()> {
    if requested() {
        return Err(crate::exit::coded(crate::exit::INTERRUPTED, "interrupted"));
    }
    Ok(())
}
