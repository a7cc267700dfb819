// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The programs' exit codes, and the error that carries one.

use std::process::ExitCode;

macro_rules! exits {
    ($($(#[doc = $doc:literal])+ $name:ident = $code:literal, $text:literal;)+) => {
        /// Exit codes of every program of the project. `--help` shows them, and scripts rely on
        /// them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Exit {
            $($(#[doc = $doc])+ $name = $code,)+
        }

        impl Exit {
            /// All exit codes.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Return the meaning that `--help` shows.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }
        }
    };
}

exits! {
    /// The program finished, or was unloaded on request.
    Clean = 0, "clean";
    /// An error at run time. This includes a kernel that rejects the scheduler's BPF code.
    Runtime = 1, "runtime or BPF error, or the running scx_bias does not answer";
    /// Bad command line, configuration or capacity file.
    Usage = 2, "usage";
    /// The kernel lacks a feature, a capability is missing, or no instance runs to answer.
    Kernel = 3, "kernel or permission, or scx_bias is not running";
    /// Another sched_ext scheduler is active.
    OtherScheduler = 4, "another sched_ext scheduler is active";
    /// The kernel ended the scheduler.
    Ejected = 5, "the kernel ended the scheduler";
    /// `exec`: the program was found and cannot be executed, as in env(1) and nice(1).
    NotExecutable = 126, "CMD cannot be executed";
    /// `exec`: the program was not found, as in env(1) and nice(1).
    NotFound = 127, "CMD is not found";
}

impl Exit {
    /// Return these codes with their meanings, as one sentence without its end.
    #[must_use]
    pub fn list(exits: &[Self]) -> String {
        let texts: Vec<String> =
            exits.iter().map(|exit| format!("{} {}", *exit as u8, exit.text())).collect();
        texts.join("; ")
    }

    /// Return the exit of this code.
    #[must_use]
    pub fn of(code: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|exit| *exit as u8 == code)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Where a user reports a defect, as the end of a message: the `repository` of Cargo.toml.
pub const REPORT_TO: &str = if env!("CARGO_PKG_REPOSITORY").is_empty() {
    " where you got scx_bias from"
} else {
    concat!(" at ", env!("CARGO_PKG_REPOSITORY"))
};

/// An error with its exit code. The message is one line that names the cause and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// Exit code.
    pub exit: Exit,
    /// Cause and remedy, one line.
    pub message: String,
}

impl Failure {
    /// Create a failure with the given code. Spaces replace line breaks in the message.
    #[must_use]
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into().replace('\n', " ") }
    }

    /// Create a failure for wrong input of the user (exit code 2).
    #[must_use]
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// Create a failure for an error at run time (exit code 1).
    #[must_use]
    pub fn runtime(message: impl Into<String>) -> Self {
        Self::new(Exit::Runtime, message)
    }

    /// Create a failure for a missing feature of the kernel or a missing capability (exit code 3).
    #[must_use]
    pub fn kernel(message: impl Into<String>) -> Self {
        Self::new(Exit::Kernel, message)
    }
}

/// Return exit code and message of any error. The code is that of the [`Failure`] in it, else that
/// of a runtime error. The message is the whole chain on one line.
#[must_use]
pub fn describe(error: &anyhow::Error) -> (Exit, String) {
    let exit = error.downcast_ref::<Failure>().map_or(Exit::Runtime, |failure| failure.exit);
    (exit, format!("{error:#}").replace('\n', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_has_its_meaning() {
        assert!(Exit::ALL.iter().all(|exit| Exit::of(*exit as u8) == Some(*exit)));
        assert_eq!(Exit::of(99), None);
        assert_eq!(Exit::list(&[Exit::Clean, Exit::Usage]), "0 clean; 2 usage");
    }

    #[test]
    fn the_code_survives_added_context() {
        let error = anyhow::Error::from(Failure::usage("no such CPU\nat all")).context("reading the file");
        assert_eq!(describe(&error), (Exit::Usage, "reading the file: no such CPU at all".to_owned()));
        assert_eq!(describe(&anyhow::anyhow!("x")).0, Exit::Runtime);
    }
}
