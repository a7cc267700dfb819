// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! `scx_bias --monitor`: the statistics of the running instance, one line for each interval.

use std::io::{ErrorKind, Write, stdout};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use bias_agent::control::Client;
use bias_agent::failure::Failure;

/// Print the statistics of the instance on the usual socket, or on `socket`, every `interval` until
/// the instance ends or standard output is closed.
///
/// # Errors
/// As [`Client::connect`], also when the instance ends. Runtime failure when the output cannot be
/// written.
pub fn monitor(socket: Option<&Path>, interval: Duration, json: bool) -> Result<(), Failure> {
    let mut client = Client::connect(socket)?;
    // The first request begins the first interval, and its answer has zeros.
    client.top()?;
    loop {
        sleep(interval);
        let line = client.top()?.shown(json);
        match writeln!(stdout(), "{line}") {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            Err(error) => {
                let text =
                    format!("cannot write the statistics ({error}); look at where standard output goes");
                return Err(Failure::runtime(text));
            }
            Ok(()) => {}
        }
    }
}
