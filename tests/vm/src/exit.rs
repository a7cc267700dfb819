// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Exit codes of the project's programs, and of a run in the VM.
//!
//! A run in the VM returns the exit code of its command. The codes 120 to 122 mean that the command
//! did not end. No common program uses them.

/// Success.
pub const OK: i32 = 0;
/// A runtime error.
pub const RUNTIME: i32 = 1;
/// A wrong command line.
pub const USAGE: i32 = 2;
/// A kernel feature, a capability or a package is missing.
pub const KERNEL_OR_PERMISSION: i32 = 3;
/// The VM could not be set up.
pub const VM_SETUP: i32 = 120;
/// The guest kernel panicked.
pub const VM_PANIC: i32 = 121;
/// The guest did not start the command in time, or the command did not end in time.
pub const VM_HANG: i32 = 122;
/// Interrupted from the keyboard.
pub const INTERRUPTED: i32 = 130;

/// An error that determines the program's exit code.
///
/// It can be anywhere in an `anyhow` chain; [`code_of`] finds it.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Coded {
    /// The exit code.
    pub code: i32,
    /// One line with the cause and the remedy.
    pub message: String,
}

/// Return an error with its own exit code.
#[must_use]
pub fn coded(code: i32, message: impl Into<String>) -> anyhow::Error {
    anyhow::Error::new(Coded { code, message: message.into() })
}

/// Return the exit code of an error: the code of the first [`Coded`] in its chain, else
/// [`RUNTIME`].
#[must_use]
pub fn code_of(error: &anyhow::Error) -> i32 {
    error.chain().find_map(|cause| cause.downcast_ref::<Coded>()).map_or(RUNTIME, |coded| coded.code)
}

/// Return true if a full file system caused the error.
#[must_use]
pub fn is_disk_full(error: &anyhow::Error) -> bool {
    let is_full = |cause: &std::io::Error| cause.kind() == std::io::ErrorKind::StorageFull;
    // Programs such as tar report it in their output.
    let says_so = |cause: &dyn std::error::Error| cause.to_string().contains("No space left on device");
    error.chain().any(|cause| cause.downcast_ref().is_some_and(is_full) || says_so(cause))
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;

    #[test]
    fn context_keeps_the_code() {
        let error = Err::<(), _>(coded(KERNEL_OR_PERMISSION, "no permission")).context("while booting");
        assert_eq!(error.map_err(|error| code_of(&error)), Err(KERNEL_OR_PERMISSION));
        assert_eq!(code_of(&anyhow::anyhow!("plain")), RUNTIME);
    }
}
