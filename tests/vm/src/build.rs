// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The VM's parts that this workspace builds: the QEMU plugin, and the program `ampctl`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

/// Arguments of cargo for the programs that scenarios run: those that a user installs, and the
/// torture tests.
pub const PROGRAMS: [&str; 6] = ["-p", "scx_bias", "-p", "bias-bench", "-p", "bias_torture"];

/// Return the root of the source tree.
#[must_use]
pub fn workspace() -> PathBuf {
    let relative = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    relative.canonicalize().unwrap_or(relative)
}

/// Return the directory `tests/ampvm` of the source tree.
#[must_use]
pub fn ampvm_directory() -> PathBuf {
    workspace().join("tests/ampvm")
}

/// Return cargo's target directory for this workspace.
#[must_use]
pub fn target_directory() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(directory) => workspace().join(directory),
        None => workspace().join("target"),
    }
}

/// Return a cargo command for this workspace.
#[must_use]
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace());
    // Test runners pass on variables of their own package. Cargo must not take them for its
    // configuration.
    command.env_remove("CARGO_MANIFEST_DIR");
    command
}

/// The built parts of the emulation.
#[derive(Clone, Debug)]
pub struct Emulator {
    /// Path of the QEMU plugin.
    pub plugin: PathBuf,
    /// Path of the program `ampctl`.
    pub ampctl: PathBuf,
}

/// Build the plugin and `ampctl` with optimisation. This is quick if they are current.
///
/// # Errors
/// The build fails. Cargo then reports the reason on standard error.
pub fn emulator() -> Result<Emulator> {
    let mut command = cargo();
    command.args(["build", "--quiet", "--release", "--locked", "-p", "ampvm_plugin", "-p", "ampvm_abi"]);
    let status = command.stdin(Stdio::null()).status().context("cannot run cargo")?;
    if !status.success() {
        bail!("building the QEMU plugin failed; cargo's messages are above");
    }
    let directory = target_directory().join("release");
    Ok(Emulator { plugin: directory.join("libampvm_plugin.so"), ampctl: directory.join("ampctl") })
}
