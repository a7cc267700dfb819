// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The VM's parts that this workspace builds: the QEMU plugin, and the program `ampctl`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::prepared::{Prepared, prepared};

/// The programs that scenarios run: those that a user installs, the replays of the papers, and the
/// torture tests.
const PROGRAMS: [&str; 4] = ["scx_bias", "bias-bench", "bias-replay", "bias_torture"];
/// The simulator and the library of marks, which the packagers' build installs, too.
const INSTALLED: [&str; 2] = ["bias_sim", "bias_mark"];
/// The emulation's parts.
const EMULATOR: [&str; 2] = ["ampvm_plugin", "ampvm_abi"];

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

/// Return the directory of optimised programs.
fn directory() -> PathBuf {
    target_directory().join("release")
}

/// Build packages with optimisation and these options of cargo, and return the directory of their
/// programs. This is quick if they are current.
fn optimised(packages: &[&str], options: &[&str]) -> Result<PathBuf> {
    let mut command = cargo();
    command.args(["build", "--release", "--locked"]).args(options);
    command.args(packages.iter().flat_map(|package| ["-p", package]));
    built(&mut command, &packages.join(", "))?;
    Ok(directory())
}

/// Run a build of `what`.
fn built(command: &mut Command, what: &str) -> Result<()> {
    let status = command.stdin(Stdio::null()).status().context("cannot run cargo")?;
    crate::interrupt::check()?;
    if !status.success() {
        bail!("building {what} failed; cargo's messages are above");
    }
    Ok(())
}

/// Build the plugin and `ampctl`.
///
/// # Errors
/// The build fails. Cargo then reports the reason on standard error.
pub fn emulator() -> Result<Emulator> {
    let directory =
        prepared().map_or_else(|| optimised(&EMULATOR, &["--quiet"]), |ready| Ok(ready.programs.clone()))?;
    Ok(Emulator { plugin: directory.join("libampvm_plugin.so"), ampctl: directory.join("ampctl") })
}

/// Build the programs that scenarios run, and return their directory.
///
/// # Errors
/// The build fails. Cargo then reports the reason on standard error.
pub fn programs() -> Result<PathBuf> {
    prepared().map_or_else(|| optimised(&PROGRAMS, &[]), |ready| Ok(ready.programs.clone()))
}

/// Build the simulator, and return its directory.
///
/// # Errors
/// The build fails. Cargo then reports the reason on standard error.
pub fn simulator() -> Result<PathBuf> {
    prepared().map_or_else(|| optimised(&INSTALLED, &[]), |ready| Ok(ready.programs.clone()))
}

/// Build `cargo xtask`, and return its path.
///
/// # Errors
/// The build fails. Cargo then reports the reason on standard error.
pub fn xtask() -> Result<PathBuf> {
    if let Some(ready) = prepared() {
        return Ok(ready.xtask.clone());
    }
    built(cargo().args(["build", "--quiet", "--locked", "-p", "xtask"]), "xtask")?;
    Ok(target_directory().join("debug/xtask"))
}

/// The profile of a test run. The tests and the programs that they run share it, so that cargo
/// compiles each crate once.
pub const TEST_PROFILE: &str = "ci";
/// Cargo's selection of all programs and tests. Each run of cargo must have it: with another one,
/// crates have other features, and cargo compiles them again.
pub const TEST_SELECTION: [&str; 4] = ["--workspace", "--lib", "--bins", "--tests"];
/// Environment of each run of cargo in a test run: the programs hold no commit, or cargo would
/// build them again after each one.
pub const TEST_ENVIRONMENT: (&str, &str) = ("SCX_BIAS_COMMIT", "");

/// Build all programs and tests, and return the paths that the tests need. Show cargo's progress.
///
/// # Errors
/// The build fails. Cargo then reports the reason on standard error.
pub fn everything() -> Result<Prepared> {
    let mut command = cargo();
    command.args(["build", "--locked", "--profile", TEST_PROFILE]).args(TEST_SELECTION);
    command.envs([TEST_ENVIRONMENT]);
    built(&mut command, "the programs and the tests")?;
    let xtask = std::env::current_exe().context("cannot find this program")?;
    Ok(Prepared { programs: target_directory().join(TEST_PROFILE), xtask })
}
