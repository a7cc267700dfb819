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
#[derive(Debug)]
pub struct Coded {
    /// The exit code.
    pub code: i32,
    /// One line with the cause and the remedy.
    pub message: String,
}

impl std::fmt::Display for Coded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Coded {}

/// Return an error with its own exit code.
#[must_use]
pub fn coded(code: i32, message: impl Into<String>) -> anyhow::Error {
    anyhow::Error::new(Coded { code, message: message.into() })
}

/// Return the exit code of an error: the code of the first [`Coded`] in its chain, [`USAGE`] for a
/// wrong machine specification, else [`RUNTIME`].
#[must_use]
pub fn code_of(error: &anyhow::Error) -> i32 {
    for cause in error.chain() {
        if let Some(coded) = cause.downcast_ref::<Coded>() {
            return coded.code;
        }
        if cause.downcast_ref::<ampvm_abi::SpecError>().is_some() {
            return USAGE;
        }
    }
    RUNTIME
}

/// Return true if a full file system caused the error.
#[must_use]
pub fn is_disk_full(error: &anyhow::Error) -> bool {
    use std::io::{Error, ErrorKind::StorageFull};
    let full = |cause: &Error| cause.kind() == StorageFull;
    let page = |error: &ampvm_abi::PageError| match error {
        ampvm_abi::PageError::Map(_, cause) => full(cause),
        _ => false,
    };
    error.chain().any(|cause| {
        cause.downcast_ref::<Error>().is_some_and(full)
            || cause.downcast_ref::<ampvm_abi::PageError>().is_some_and(page)
    })
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
