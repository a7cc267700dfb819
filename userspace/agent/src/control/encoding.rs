// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Lines that answer requests on the socket.
//!
//! An answer becomes text in one pass. As a tree of values first, a list of 10 000 tasks would take
//! several times as long.

use std::sync::Arc;

use nix::libc::EINVAL;
use serde::{Deserialize, Serialize};

/// Line that answers, of the form that scx_stats gives it.
#[derive(Serialize, Deserialize)]
pub(super) struct Answered<T> {
    pub(super) args: AnsweredArgs<T>,
    /// 0 if `resp` is the answer. Else it is the text of a refusal.
    pub(super) errno: i32,
}

#[derive(Serialize, Deserialize)]
pub(super) struct AnsweredArgs<T> {
    pub(super) resp: T,
}

/// Answer that can be encoded.
pub(crate) trait Encode: Send {
    /// Return the line that answers.
    fn encode(&self) -> Arc<[u8]>;
}

impl<T: Serialize + Send> Encode for T {
    fn encode(&self) -> Arc<[u8]> {
        line(0, self).unwrap_or_else(|error| refusal(&error.to_string()))
    }
}

/// Return the line that refuses a request for this reason.
pub(super) fn refusal(why: &str) -> Arc<[u8]> {
    // Text becomes JSON always.
    line(EINVAL, &why).unwrap_or_default()
}

fn line<T: Serialize>(errno: i32, resp: &T) -> serde_json::Result<Arc<[u8]>> {
    let mut line = serde_json::to_vec(&Answered { args: AnsweredArgs { resp }, errno })?;
    line.push(b'\n');
    Ok(line.into())
}
