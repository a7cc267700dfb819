// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Runs the check of the build by hand: `cargo run -p bias_needs`.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    bias_needs::check(Path::new(env!("CARGO_MANIFEST_DIR")), true)
}
