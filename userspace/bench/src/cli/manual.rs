// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The commands man and completions: what packages install beside the program.

use crate::options::printed;
use crate::{Error, Result};
use clap::{Args, Command};
use clap_complete::Shell;
use std::io::Write;
use std::path::PathBuf;

/// Print the man page, or write a page for every command
#[derive(Debug, Args)]
pub(super) struct ManArgs {
    /// Directory for the pages: bias-bench.1, bias-bench-ab.1 and so on. The page of sim comes from
    /// `bias-bench sim --man`
    #[arg(long, value_name = "DIRECTORY")]
    pub(super) to: Option<PathBuf>,
}

/// Print shell completions
#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    /// Shell to complete for
    shell: Shell,
}

impl ManArgs {
    /// Run the command for the program whose command line is `program`.
    pub(super) fn run(&self, program: Command) -> Result<()> {
        if let Some(directory) = &self.to {
            return clap_mangen::generate_to(program, directory).map_err(|error| {
                Error::failed(format!("cannot write man pages to {}", directory.display()), error)
            });
        }
        let mut text = Vec::new();
        clap_mangen::Man::new(program).render(&mut text).map_err(|error| Error::failed("man page", error))?;
        print(&text)
    }
}

impl CompletionsArgs {
    /// Run the command for the program whose command line is `program`.
    pub(super) fn run(&self, mut program: Command) -> Result<()> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut program, "bias-bench", &mut text);
        print(&text)
    }
}

/// Print to standard output.
fn print(text: &[u8]) -> Result<()> {
    printed(std::io::stdout().write_all(text))
}
