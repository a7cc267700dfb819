// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Marks in programs, after [Werling18]: measure sections of code, and announce them to scx_bias.
//!
//! # Problem
//! Counters show what a section of code stalls on only after some time, so a thread that changes
//! its behaviour runs on the wrong kind of core for tens of milliseconds. The program knows
//! immediately which section begins, but not which core suits it.
//!
//! # Approach
//! A program marks where sections begin. One run in mode `measure` counts per section, and writes
//! the control-flow graph and a profile. Later runs in mode `hint` announce each section's class.
//! The thesis has three libraries with one interface, and the loader takes one of them. Here one
//! library has three modes, and the environment selects one: users neither install three versions
//! nor preload one. `include/bias_mark.h` describes the interface of C programs.
//!
//! # Invariants
//! A mark never fails, blocks or changes what the program computes. Where something is missing, one
//! line on standard error says so, and the program runs as if it had no marks. A program that runs
//! with the privileges of another user ignores the environment.
//!
//! # Limits
//! A section belongs to one thread, and ends with that thread's next mark. Sections do not nest.
#![cfg_attr(test, allow(missing_docs))]

mod drawing;
mod graph;
mod hint;
mod process;
pub mod profile;
mod recording;
mod thread_counters;
pub mod wire;

use std::ffi::c_int;
use std::sync::Once;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use nix::libc;
use process::say;

pub use hint::Section;

/// Begin the section of this name, a C string literal such as `c"scan"`.
#[macro_export]
macro_rules! mark {
    ($name:literal) => {{
        static SECTION: $crate::Section = $crate::Section::new($name);
        $crate::mark(&SECTION)
    }};
}

/// Modes. The mode is unknown before the first mark.
const UNKNOWN: u8 = 0;
const NONE: u8 = 1;
const MEASURE: u8 = 2;
const HINT: u8 = 3;

static MODE: AtomicU8 = AtomicU8::new(UNKNOWN);

/// End the calling thread's section, and begin `section`.
#[inline]
pub fn mark(section: &'static Section) {
    match MODE.load(Relaxed) {
        NONE => {}
        HINT => hint::mark(section),
        MEASURE => recording::mark(section.name()),
        _ => begin(section),
    }
}

/// Write the graph and the profile of all measurements so far. Return false if the mode is not
/// `measure` or a file cannot be written.
pub fn write() -> bool {
    MODE.load(Relaxed) == MEASURE && recording::write()
}

/// C: begin a section.
///
/// # Safety
/// `section` is null or points to a section that lives until the process ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bias_mark(section: *const Section) {
    // SAFETY: as the function demands.
    if let Some(section) = unsafe { section.as_ref() } {
        mark(section);
    }
}

/// C: write the graph and the profile.
#[unsafe(no_mangle)]
pub extern "C" fn bias_mark_write() -> c_int {
    if write() { 0 } else { -1 }
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
        Some("hint") if hint::start() => HINT,
        Some("hint") => NONE,
        _ => {
            say(&format!(
                "BIAS_MARK={} is not a mode: marks do nothing; use measure, hint or none",
                wanted.to_string_lossy()
            ));
            NONE
        }
    }
}
