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

use bias_agent::failure::{Exit, describe};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    cli::report_earlier(std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()));
    let done = match command::Cli::try_parse() {
        Ok(cli) => cli.dispatch(),
        Err(error) => match cli::wrong_value(&error) {
            Some(failure) => Err(failure.into()),
            None if error.use_stderr() => error.exit(),
            // The text of --help and --version.
            None => output::written(error.print()).map(|_| Exit::Clean),
        },
    };
    let exit = done.unwrap_or_else(|error| {
        let (exit, message) = describe(&error);
        output::complain_of_end(&message);
        exit
    });
    exit.into()
}
