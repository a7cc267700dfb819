// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Command-line options that several commands share. One definition of each feeds the parser,
//! `--help`, the man page, completions and the configuration file.
//!
//! `bias_agent::options` defines those options of scheduling that a configuration file may hold.

mod run;

use crate::output::{complain, renamed};
use bias_agent::control::Client;
use bias_agent::failure::Failure;
use bias_agent::options::EARLIER;
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::{ContextKind, ErrorKind};
use std::error::Error;
use std::path::PathBuf;

pub use run::{Given, RunArgs, Source};

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

/// Report each flag of scheduling that has an earlier name among `arguments`.
pub fn report_earlier(arguments: impl Iterator<Item = String>) {
    let flag = |key: &str| format!("--{}", key.replace('_', "-"));
    // What follows belongs to the program that `exec` runs.
    for argument in arguments.take_while(|argument| argument != "exec" && argument != "--") {
        let given = argument.split('=').next().unwrap_or_default();
        for (old, new) in EARLIER.iter().chain(&[("recalibrate", "new_table")]) {
            if given == flag(old) {
                complain(&renamed(given, &flag(new)));
            }
        }
    }
}

/// Describe a flag's wrong value in one line, with the remedy. Return None for other errors.
pub fn wrong_value(error: &clap::Error) -> Option<Failure> {
    let why = error.source().filter(|_| error.kind() == ErrorKind::ValueValidation)?;
    if let Some(failure) = why.downcast_ref::<Failure>() {
        return Some(failure.clone());
    }
    let part = |kind| error.get(kind).map(ToString::to_string).unwrap_or_default();
    let (flag, value) = (part(ContextKind::InvalidArg), part(ContextKind::InvalidValue));
    let flag = flag.split(' ').next().unwrap_or_default();
    Some(Failure::usage(format!("{flag} is {value}: {why}")))
}
