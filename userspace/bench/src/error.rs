//! Errors: one line each, naming the cause and the remedy, and the exit code that goes with it.

use std::fmt::Display;

/// What went wrong, by whose move it can be mended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A measurement or a system call failed.
    #[error("{0}")]
    Runtime(String),
    /// The command line or an input file is wrong.
    #[error("{0}")]
    Usage(String),
    /// The kernel lacks something, or the caller lacks a right.
    #[error("{0}")]
    Kernel(String),
    /// A sched_ext scheduler is loaded already.
    #[error("{0}")]
    OtherScheduler(String),
}

/// Result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The program's exit code for this error: 1 runtime, 2 usage, 3 kernel or rights, 4 other
    /// scheduler.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Runtime(_) => 1,
            Error::Usage(_) => 2,
            Error::Kernel(_) => 3,
            Error::OtherScheduler(_) => 4,
        }
    }

    /// A runtime error: what was attempted, and the system's reason.
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
