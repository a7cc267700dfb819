// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of the program `scx_bias` itself.

#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

mod client;
mod exec;
mod instance;
mod program;
mod service;
mod top_screen;

const PROGRAM: &str = env!("CARGO_BIN_EXE_scx_bias");

/// Return the program with these arguments. One that hangs fails its test.
fn scx_bias(args: &[&str]) -> assert_cmd::Command {
    let mut command = assert_cmd::Command::new(PROGRAM);
    command.args(args).timeout(std::time::Duration::from_secs(60));
    command
}
