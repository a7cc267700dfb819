// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The program `scx_bias`: a sched_ext scheduler for machines with unequal cores, and its commands.

// `print!` and `eprint!` panic when the reader of their output is gone.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod cli;
mod command;
mod config;
mod help;
mod output;
mod run;
mod settings;

use bias_agent::failure::{Exit, describe};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let done = match command::Cli::try_parse() {
        Ok(cli) => cli.dispatch(),
        Err(error) if error.use_stderr() => error.exit(),
        // The text of --help and --version.
        Err(error) => output::written(error.print()).map(|_| Exit::Clean),
    };
    let exit = done.unwrap_or_else(|error| {
        let (exit, message) = describe(&error);
        output::complain_of_end(&message);
        exit
    });
    exit.into()
}
