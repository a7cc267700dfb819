// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The command sim: run the program that predicts what scx_bias would do.
//!
//! The simulator contains the scheduler's BPF code. As a program of its own it costs builds of
//! bias-bench nothing.

use crate::{Error, Result};
use clap::Args;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Name of the program.
const PROGRAM: &str = "bias-bench-sim";

/// Predict what scx_bias would do on a machine, as a picture and figures, without that machine
///
/// `bias-bench sim --help` shows the options.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(super) struct SimArgs {
    /// Options of the simulator
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

impl SimArgs {
    /// Run the program. Return its exit code.
    pub(super) fn run(self) -> Result<u8> {
        // The one beside this program has the same version.
        let beside = std::env::current_exe().ok().and_then(|path| Some(path.parent()?.join(PROGRAM)));
        run_first(beside.into_iter().chain([PathBuf::from(PROGRAM)]), &self.words)
    }
}

/// Run the first of `programs` that exists. Return its exit code.
fn run_first(programs: impl Iterator<Item = PathBuf>, words: &[OsString]) -> Result<u8> {
    for program in programs {
        match status(&program, words) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(Error::failed(format!("cannot run {}", program.display()), error)),
            Ok(code) => return Ok(code),
        }
    }
    Err(Error::Runtime(format!(
        "{PROGRAM} is neither beside bias-bench nor in PATH; build it with `cargo build --release -p bias_sim`"
    )))
}

/// Run a program. Return its exit code, or 128 and the signal that ended it, as a shell does.
fn status(program: &Path, words: &[OsString]) -> std::io::Result<u8> {
    let status = Command::new(program).args(words).status()?;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_program_that_exists_decides_the_exit_code() {
        let words = ["-c", "exit 7"].map(OsString::from);
        let programs = ["/nowhere/sim", "/bin/sh", "/bin/true"].map(PathBuf::from);
        assert_eq!(run_first(programs.into_iter(), &words).unwrap(), 7);
        let killed = ["-c", "kill -9 $$"].map(OsString::from);
        assert_eq!(run_first([PathBuf::from("/bin/sh")].into_iter(), &killed).unwrap(), 137);
    }

    #[test]
    fn a_program_that_is_missing_is_named_with_the_remedy() {
        let error = run_first([PathBuf::from("/nowhere/sim")].into_iter(), &[]).unwrap_err();
        assert!(error.to_string().contains("build it with") && error.exit_code() == 1, "{error}");
    }
}
