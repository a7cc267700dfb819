// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Options of the command line that more than one command has. One definition of each feeds the
//! parser, `--help`, the man page, completions and the configuration file.
//!
//! `bias_agent::options` defines those options of scheduling that a configuration file may hold.

mod flags;
mod run;

use bias_agent::control::Client;
use bias_agent::failure::Failure;
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use std::path::PathBuf;

pub use flags::RunSettings;
pub use run::{RunArgs, Source};

/// Socket of the running instance, for its tests.
#[derive(Debug, Args)]
pub struct SocketArg {
    /// Connect to this socket
    #[arg(long, value_name = "FILE", hide = true, global = true)]
    socket: Option<PathBuf>,
}

impl SocketArg {
    /// Connect to the instance on this socket, or on the usual one.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn connect(&self) -> Result<Client, Failure> {
        Client::connect(self.socket.as_deref())
    }
}

/// Return the parser of an option whose value is one of these words. Each has its help and meaning.
pub fn one_of<T: Copy + Send + Sync>(
    words: &'static [(&'static str, &'static str, T)],
) -> impl TypedValueParser<Value = T> {
    let values = words.iter().map(|(word, help, _)| PossibleValue::new(*word).help(*help));
    PossibleValuesParser::new(values).try_map(|given| {
        words.iter().find(|(word, ..)| *word == given).map(|(.., meaning)| *meaning).ok_or("unknown word")
    })
}
