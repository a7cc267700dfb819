// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Helpers shared by all kinds of packages.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use bias_vm::build::target_directory;

/// Version of this tree.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Return the directory of packages.
pub fn packages() -> PathBuf {
    target_directory().join("package")
}

/// Run a command, and drop its output.
pub fn must(command: &mut Command) -> Result<()> {
    output(command).map(drop)
}

/// Run a command, and return its output without the final newline.
pub fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().display().to_string();
    let output = command.output().with_context(|| format!("cannot run {name}"))?;
    if !output.status.success() {
        bail!("{name} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}
