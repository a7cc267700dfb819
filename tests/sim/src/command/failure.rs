// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Failures of the command: one line with the cause and the remedy, and an exit code.

/// Why the command did nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Exit code: 1 if the run failed, 2 for wrong input.
    pub code: u8,
    /// One line.
    pub line: String,
}

/// Result with a [`Failure`].
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// Return the failure of wrong input.
    pub fn usage(line: impl Into<String>) -> Self {
        Self { code: 2, line: one_line(&line.into()) }
    }

    /// Return the failure of a run.
    pub fn runtime(line: impl Into<String>) -> Self {
        Self { code: 1, line: one_line(&line.into()) }
    }
}

/// Join the lines of a text.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
