// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! What marks do in this process, as the environment says.

use std::sync::Once;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use nix::libc;

use crate::say::say;
use crate::section::Section;
use crate::{hint, recording};

/// Modes. Nothing is known before the first mark.
const UNKNOWN: u8 = 0;
const NONE: u8 = 1;
const MEASURE: u8 = 2;
const HINT: u8 = 3;

static MODE: AtomicU8 = AtomicU8::new(UNKNOWN);

/// Begin `section` in the calling thread.
#[inline]
pub fn mark(section: &'static Section) {
    match MODE.load(Relaxed) {
        NONE => {}
        HINT => hint::mark(section),
        MEASURE => recording::mark(section.name()),
        _ => begin(section),
    }
}

/// Write what was measured.
pub fn write() -> bool {
    MODE.load(Relaxed) == MEASURE && recording::write()
}

/// Set the mode at the first mark of the process, and begin `section`.
#[cold]
fn begin(section: &'static Section) {
    static START: Once = Once::new();
    START.call_once(|| MODE.store(choose(), Relaxed));
    mark(section);
}

/// Return the mode that the environment selects.
fn choose() -> u8 {
    // SAFETY: the call only reads what the kernel passed to the process.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return NONE;
    }
    let wanted = std::env::var_os("BIAS_MARK").unwrap_or_default();
    match wanted.to_str() {
        Some("" | "none") => NONE,
        Some("measure") => {
            recording::start();
            MEASURE
        }
        Some("hint") => {
            if hint::start() {
                HINT
            } else {
                NONE
            }
        }
        _ => {
            say(&format!(
                "BIAS_MARK={} is no mode: marks do nothing; use measure, hint or none",
                wanted.to_string_lossy()
            ));
            NONE
        }
    }
}
