//! What comes of a command that is sent over the socket: what it did, or the failure as it would be on the command line.

use serde::{Deserialize, Serialize};

use crate::failure::{Exit, Failure};

/// What a command did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reply<T> {
    /// It was done, and this is so now.
    Done(T),
    /// It was not.
    Refused {
        /// Exit code.
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
                let exits = [Exit::Usage, Exit::Kernel, Exit::OtherScheduler];
                let exit = exits.into_iter().find(|known| *known as u8 == exit);
                Err(Failure::new(exit.unwrap_or(Exit::Runtime), message))
            }
        }
    }
}
