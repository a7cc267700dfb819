//! What the VM needs of this workspace: the QEMU plugin and the program that starts pacing without a module.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

/// The source tree's root.
#[must_use]
pub fn workspace() -> PathBuf {
    let relative = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    relative.canonicalize().unwrap_or(relative)
}

/// Where cargo puts what it builds.
#[must_use]
pub fn target_folder() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => workspace().join(folder),
        None => workspace().join("target"),
    }
}

/// A cargo command for this workspace.
#[must_use]
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace());
    // A tests' runner passes its own package's variables on; cargo must not mistake them for its configuration.
    command.env_remove("CARGO_MANIFEST_DIR");
    command
}

/// The built emulation.
#[derive(Clone, Debug)]
pub struct Emulator {
    /// The QEMU plugin.
    pub plugin: PathBuf,
    /// The program `ampctl`.
    pub ampctl: PathBuf,
}

/// Builds the plugin and `ampctl`, optimised; quick if they are current.
///
/// # Errors
/// The build fails; cargo has said why.
pub fn emulator() -> Result<Emulator> {
    let mut command = cargo();
    command.args(["build", "--quiet", "--release", "--locked", "-p", "ampvm_plugin", "-p", "ampvm_abi"]);
    let status = command.stdin(Stdio::null()).status().context("cannot run cargo")?;
    if !status.success() {
        bail!("building the QEMU plugin failed; cargo's messages are above");
    }
    let folder = target_folder().join("release");
    let emulator = Emulator { plugin: folder.join("libampvm_plugin.so"), ampctl: folder.join("ampctl") };
    for file in [&emulator.plugin, &emulator.ampctl] {
        if !file.is_file() {
            bail!("the build left no {}", file.display());
        }
    }
    Ok(emulator)
}
