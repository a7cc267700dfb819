// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Report of how the scheduler ended, from the record that the kernel leaves.
//!
//! `scx_utils::UserExitInfo` panics when a task's name in the message is not UTF-8. This module
//! replaces such bytes.

use std::ffi::CStr;
use std::io::Write;

use anyhow::Result;

use crate::bpf::skel::types;
use crate::failure::{Exit, Failure, REPORT_TO};

/// `SCX_EXIT_UNREG`: this process detached the scheduler.
const EXIT_UNREG: i64 = 64;
/// `SCX_EXIT_ERROR`: the first exit kind that is an error.
const EXIT_ERROR: i64 = 1024;

/// Report of how a run ended.
#[derive(Debug, Default)]
pub struct ExitReport {
    /// True if the kernel asks to load the scheduler again.
    pub restart: bool,
    /// The kernel's `enum scx_exit_kind`, 0 if unknown.
    pub kind: i64,
    /// Reason in the kernel's words.
    pub reason: String,
    /// Further text of the kernel, empty if there is none.
    pub message: String,
    /// The kernel's dump of tasks and DSQs, empty unless the run ended with an error.
    pub dump: String,
}

impl ExitReport {
    /// Return the reason and the message on one line.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = if self.reason.is_empty() { "detached".to_owned() } else { self.reason.clone() };
        if !self.message.is_empty() {
            text = format!("{text} ({})", self.message);
        }
        // Task names in it may hold control characters.
        text.replace('\n', " ").replace(char::is_control, "?")
    }

    /// Return the report, unless the kernel ended the scheduler with an error.
    ///
    /// # Errors
    /// Print the dump to standard error, and fail with [`Exit::Ejected`] and the kernel's reason.
    pub fn into_result(self) -> Result<Self> {
        if !self.is_ejection() {
            return Ok(self);
        }
        if !self.dump.is_empty() {
            let _ = writeln!(std::io::stderr(), "{}", self.dump);
        }
        let message = format!(
            "the kernel ended the scheduler: {}; all tasks are back on the default one. Please report this with the dump above{REPORT_TO}",
            self.text()
        );
        Err(Failure::new(Exit::Ejected, message).into())
    }

    /// Return true if the kernel ended the scheduler with an error.
    #[must_use]
    pub const fn is_ejection(&self) -> bool {
        self.kind >= EXIT_ERROR
    }
}

/// Record that ops.exit fills.
pub(crate) struct Uei<'a>(pub(crate) &'a types::user_exit_info);

impl Uei<'_> {
    pub(crate) fn has_ended(&self) -> bool {
        self.kind() != 0
    }

    fn kind(&self) -> i64 {
        // SAFETY: the reference is live and aligned. The read is volatile because the kernel writes
        // the field at any time.
        i64::from(unsafe { std::ptr::read_volatile(&raw const self.0.kind) })
    }

    pub(crate) fn report(&self) -> ExitReport {
        let restart = *scx_utils::SCX_ECODE_ACT_RESTART;
        ExitReport {
            restart: restart != 0 && self.0.exit_code as u64 & restart != 0 && self.kind() != EXIT_UNREG,
            kind: self.kind(),
            reason: text(&self.0.reason),
            message: text(&self.0.msg),
            dump: dump(),
        }
    }
}

/// Convert a NUL-terminated field to text.
fn text(field: &[i8]) -> String {
    let bytes: Vec<u8> = field.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn dump() -> String {
    let Ok(dump) = scx_utils::UEI_DUMP_PTR_MUTEX.lock() else { return String::new() };
    if dump.ptr.is_null() {
        return String::new();
    }
    // SAFETY: the pointer is the object's dump section, which the kernel terminates with NUL. The
    // section lives as long as the loaded object, whose method calls this function.
    unsafe { CStr::from_ptr(dump.ptr) }.to_string_lossy().into_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_an_ejection_and_a_detach_is_not() {
        let report =
            |kind| ExitReport { kind, reason: "runnable task stall".into(), ..ExitReport::default() };
        assert!(report(1026).is_ejection() && !report(66).is_ejection());
        let (exit, error) = crate::failure::describe(&report(1026).into_result().unwrap_err());
        assert!(exit == Exit::Ejected && error.contains("runnable task stall"), "{error}");
        assert!(report(64).into_result().is_ok());
    }

    #[test]
    fn names_that_are_not_utf8_do_not_panic() {
        let field: Vec<i8> = [b'a', 0xff, b'b', 0, b'c'].iter().map(|byte| *byte as i8).collect();
        assert_eq!(text(&field), "a\u{fffd}b");
    }
}
