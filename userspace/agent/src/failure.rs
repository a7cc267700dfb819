//! What the programs' exit codes mean, and the error that carries one.

use std::process::ExitCode;

/// Exit codes of every program of the project. Documented in `--help`; scripts rely on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done, or unloaded on request.
    Clean = 0,
    /// An error while running, the kernel refusing the scheduler's BPF code included.
    Runtime = 1,
    /// Bad command line, configuration or capacity file.
    Usage = 2,
    /// The kernel lacks something, a right is missing, or no instance runs to be asked.
    Kernel = 3,
    /// Another sched_ext scheduler is active.
    OtherScheduler = 4,
    /// The kernel ended the scheduler.
    Ejected = 5,
    /// `exec`: the program was found and cannot be executed, as env(1) and nice(1) have it.
    NotExecutable = 126,
    /// `exec`: the program was not found, as env(1) and nice(1) have it.
    NotFound = 127,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// An error with its exit code. The message is one line that names the cause and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// Code to exit with.
    pub exit: Exit,
    /// Cause and remedy, one line.
    pub message: String,
}

impl Failure {
    /// A failure with the given code; line breaks in the message are replaced by spaces.
    #[must_use]
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into().replace('\n', " ") }
    }

    /// The user's input is wrong (exit code 2).
    #[must_use]
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// Something went wrong while running (exit code 1).
    #[must_use]
    pub fn runtime(message: impl Into<String>) -> Self {
        Self::new(Exit::Runtime, message)
    }

    /// The kernel lacks something or a right is missing (exit code 3).
    #[must_use]
    pub fn kernel(message: impl Into<String>) -> Self {
        Self::new(Exit::Kernel, message)
    }
}

/// Exit code and message of any error: those of the [`Failure`] in it, else a runtime error with the whole chain on one line.
#[must_use]
pub fn describe(error: &anyhow::Error) -> (Exit, String) {
    let exit = error.downcast_ref::<Failure>().map_or(Exit::Runtime, |failure| failure.exit);
    (exit, format!("{error:#}").replace('\n', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_survives_added_context() {
        let error = anyhow::Error::from(Failure::usage("no such CPU\nat all")).context("reading the file");
        assert_eq!(describe(&error), (Exit::Usage, "reading the file: no such CPU at all".to_owned()));
        assert_eq!(describe(&anyhow::anyhow!("x")).0, Exit::Runtime);
    }
}
