// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Reply to a command over the socket: its result, or the failure that the command line would
//! report.

use serde::{Deserialize, Serialize};

use crate::failure::{Exit, Failure};

/// Reply to a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reply<T> {
    /// The command succeeded with this result.
    Done(T),
    /// The command was refused.
    Refused {
        /// Exit code of the program.
        exit: u8,
        /// Cause and remedy.
        message: String,
    },
}

impl<T> From<Result<T, Failure>> for Reply<T> {
    fn from(result: Result<T, Failure>) -> Self {
        let refused = |failure: Failure| Self::Refused { exit: failure.exit as u8, message: failure.message };
        result.map_or_else(refused, Self::Done)
    }
}

impl<T> From<Reply<T>> for Result<T, Failure> {
    fn from(reply: Reply<T>) -> Self {
        match reply {
            Reply::Done(done) => Ok(done),
            Reply::Refused { exit, message } => {
                // A refusal of another version may have a code that is unknown here.
                let exit = Exit::of(exit).filter(|exit| *exit != Exit::Clean);
                Err(Failure::new(exit.unwrap_or(Exit::Runtime), message))
            }
        }
    }
}
