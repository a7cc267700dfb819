//! How the scheduler ended, read from what the kernel left.
//!
//! `scx_utils::UserExitInfo` panics when a task's name in the message is not UTF-8; here such bytes are replaced.

use std::ffi::CStr;
use std::io::Write;

use anyhow::Result;

use super::load::types;
use super::stats::Stats;
use crate::failure::{Exit, Failure};

/// `SCX_EXIT_UNREG`: this process detached it.
const EXIT_UNREG: i64 = 64;
/// The first of the kinds that are errors, `SCX_EXIT_ERROR`.
const EXIT_ERROR: i64 = 1024;

/// How a run ended.
#[derive(Debug, Default)]
pub struct ExitReport {
    /// The kernel asks for the scheduler to be loaded again.
    pub restart: bool,
    /// The kernel's `enum scx_exit_kind`; 0 when it was not told.
    pub kind: i64,
    /// Why, in the kernel's words.
    pub reason: String,
    /// Further words, empty when there are none.
    pub message: String,
    /// The kernel's dump of tasks and queues, empty unless it was an error.
    pub dump: String,
    /// Statistics of the whole run.
    pub stats: Stats,
}

impl ExitReport {
    /// Reason and message on one line.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = if self.reason.is_empty() { "detached".to_owned() } else { self.reason.clone() };
        if !self.message.is_empty() {
            text = format!("{text} ({})", self.message);
        }
        // Names of tasks are in it.
        text.replace('\n', " ").replace(char::is_control, "?")
    }

    /// The report, unless the kernel ended the scheduler because of an error.
    ///
    /// # Errors
    /// [`Exit::Ejected`] with the kernel's reason. The dump is printed to standard error before.
    pub fn into_result(self) -> Result<Self> {
        if !self.is_ejection() {
            return Ok(self);
        }
        if !self.dump.is_empty() {
            let _ = writeln!(std::io::stderr(), "{}", self.dump);
        }
        let message = format!(
            "the kernel ended the scheduler: {}; all tasks are back on the default one. Please report this with the dump above",
            self.text()
        );
        Err(Failure::new(Exit::Ejected, message).into())
    }

    /// Did the kernel end it because of an error?
    #[must_use]
    pub const fn is_ejection(&self) -> bool {
        self.kind >= EXIT_ERROR
    }

    /// Did it end because this process detached it?
    #[must_use]
    pub fn is_own_doing(&self) -> bool {
        self.kind == EXIT_UNREG || self.kind == 0
    }
}

/// The record that ops.exit fills.
pub(super) struct Uei<'a>(pub(super) &'a types::user_exit_info);

impl Uei<'_> {
    pub(super) fn has_ended(&self) -> bool {
        self.kind() != 0
    }

    fn kind(&self) -> i64 {
        // SAFETY: a reference to a live, aligned field; volatile because the kernel writes it behind the compiler's back.
        i64::from(unsafe { std::ptr::read_volatile(&raw const self.0.kind) })
    }

    pub(super) fn report(&self, stats: Stats) -> ExitReport {
        let restart = *scx_utils::SCX_ECODE_ACT_RESTART;
        ExitReport {
            restart: restart != 0 && self.0.exit_code as u64 & restart != 0 && self.kind() != EXIT_UNREG,
            kind: self.kind(),
            reason: text(&self.0.reason),
            message: text(&self.0.msg),
            dump: dump(),
            stats,
        }
    }
}

/// A NUL-terminated field as text.
fn text(field: &[std::ffi::c_char]) -> String {
    let bytes: Vec<u8> = field.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn dump() -> String {
    let Ok(dump) = scx_utils::UEI_DUMP_PTR_MUTEX.lock() else { return String::new() };
    if dump.ptr.is_null() {
        return String::new();
    }
    // SAFETY: the pointer is the object's dump section, which lives as long as the loaded object whose method calls this,
    // and which the kernel terminates with NUL.
    unsafe { CStr::from_ptr(dump.ptr) }.to_string_lossy().into_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_an_error_and_a_detach_is_not() {
        let report =
            |kind| ExitReport { kind, reason: "runnable task stall".into(), ..ExitReport::default() };
        assert!(report(1026).is_ejection() && !report(66).is_ejection());
        let (exit, error) = crate::failure::describe(&report(1026).into_result().unwrap_err());
        assert!(exit == Exit::Ejected && error.contains("runnable task stall"), "{error}");
        assert!(report(64).into_result().unwrap().is_own_doing());
    }

    #[test]
    fn names_that_are_not_utf8_do_not_panic() {
        let field: Vec<std::ffi::c_char> =
            [b'a', 0xff, b'b', 0, b'c'].iter().map(|byte| *byte as std::ffi::c_char).collect();
        assert_eq!(text(&field), "a\u{fffd}b");
    }
}
