// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Ctrl-C: a flag that all long waits poll, so that a command ends every process that it started.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

static REQUESTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Let signals that end a program request the end of every wait of this process instead.
pub fn catch() {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // Without a handler commands still work, but do not clean up.
        let _ = signal_hook::flag::register(signal, Arc::clone(&REQUESTED));
    }
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
