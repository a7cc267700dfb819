// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Errors: one line each with the cause and the remedy, and an exit code for each.

use std::fmt::Display;

/// An error, classified by its remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A measurement or a system call failed.
    #[error("{0}")]
    Runtime(String),
    /// The command line or an input file is wrong.
    #[error("{0}")]
    Usage(String),
    /// The kernel lacks a feature, or the caller lacks a capability.
    #[error("{0}")]
    Kernel(String),
    /// A sched_ext scheduler is loaded already.
    #[error("{0}")]
    OtherScheduler(String),
}

/// Result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Return the program's exit code for this error: 1 runtime, 2 usage, 3 kernel or capabilities,
    /// 4 other scheduler.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Runtime(_) => 1,
            Error::Usage(_) => 2,
            Error::Kernel(_) => 3,
            Error::OtherScheduler(_) => 4,
        }
    }

    /// Make a runtime error from the failed action and the system's reason.
    pub fn failed(what: impl Display, why: impl Display) -> Self {
        Error::Runtime(format!("{what}: {why}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_the_documented_ones() {
        let text = || "x".to_string();
        let all = [
            Error::Runtime(text()),
            Error::Usage(text()),
            Error::Kernel(text()),
            Error::OtherScheduler(text()),
        ];
        let codes: Vec<u8> = all.iter().map(Error::exit_code).collect();
        assert_eq!(codes, [1, 2, 3, 4]);
    }
}
