// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The kernel that is built from Debian's source package with `guest.config`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::apt::{Apt, Suites};
use crate::build::ampvm_directory;
use crate::cache;
use crate::steps::{Step, run_logged};

/// Version of the steps below. Increment it when a change of the steps changes their result.
const RECIPE: &str = "1";

/// Return the directory with the kernel's `vmlinuz` and, in `build`, the files that a module build
/// needs.
///
/// A kernel built from the same configuration is reused even if the archive has a newer source: a
/// warm run must not need the network. Remove the directory to build the newer source.
pub(super) fn ensure(name: &str, package: &str) -> Result<PathBuf> {
    let config_path = ampvm_directory().join("kernel/guest.config");
    let config =
        fs::read_to_string(&config_path).with_context(|| format!("cannot read {}", config_path.display()))?;
    let prefix = format!("{name}-{}-", cache::key(&[RECIPE, &config]));
    if let Some(directory) = newest_with_prefix(&cache::root()?.join("kernels"), &prefix) {
        return Ok(directory);
    }
    let apt = Apt::open(Suites::Download)?;
    let version = apt.version(package)?;
    let safe: String = version
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || ".+-".contains(c) { c } else { '_' })
        .collect();
    cache::entry("kernels", &format!("{prefix}{safe}"), |directory| {
        let scratch = directory.join("scratch");
        let tree = unpack(&apt, package, &version, &scratch)?;
        configure(&tree, &config_path, &config, &scratch)?;
        build(&tree, name, &version, &scratch)?;
        keep(&tree, directory, &scratch)?;
        fs::remove_dir_all(&scratch).context("cannot remove the build directory")?;
        Ok(())
    })
}

fn newest_with_prefix(directory: &Path, prefix: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(directory).ok()?.filter_map(Result::ok);
    let ours = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    ours.max_by_key(|entry| entry.metadata().and_then(|data| data.modified()).ok()).map(|entry| entry.path())
}

fn unpack(apt: &Apt, package: &str, version: &str, scratch: &Path) -> Result<PathBuf> {
    let mut step = Step::new(format!("fetching {package} {version}"));
    let root = scratch.join("root");
    apt.download(&mut step, &[format!("{package}={version}")], &scratch.join("download"), &root)?;
    let archive = root.join("usr/src").join(format!("{package}.tar.xz"));
    let mut tar = Command::new("tar");
    tar.arg("-C").arg(scratch).arg("-xf").arg(&archive);
    run_logged(&mut step, &mut tar, &scratch.join("log"))?;
    step.done("");
    Ok(scratch.join(package))
}

fn make(tree: &Path) -> Command {
    let mut make = Command::new("make");
    make.arg("-C").arg(tree).env("LC_ALL", "C");
    // The same source and configuration must give the same kernel for every user and host.
    make.env("KBUILD_BUILD_USER", "scx_bias").env("KBUILD_BUILD_HOST", "ampvm");
    make.env("KBUILD_BUILD_TIMESTAMP", "1970-01-01");
    make
}

fn configure(tree: &Path, config_path: &Path, config: &str, scratch: &Path) -> Result<()> {
    let mut step = Step::new("configuring the kernel");
    let mut all = std::ffi::OsString::from("KCONFIG_ALLCONFIG=");
    all.push(config_path.as_os_str());
    run_logged(&mut step, make(tree).arg(all).arg("allnoconfig"), &scratch.join("log"))?;
    let result = fs::read_to_string(tree.join(".config")).context("the kernel's configuration is missing")?;
    let refused = refused(config, &result);
    if !refused.is_empty() {
        bail!("this kernel source refuses options of guest.config: {}", refused.join(", "));
    }
    step.done("");
    Ok(())
}

/// Return the options that `config` sets and `result` lacks. Kconfig drops such options without a
/// warning.
fn refused<'a>(config: &'a str, result: &str) -> Vec<&'a str> {
    let has: std::collections::HashSet<_> = result.lines().collect();
    config.lines().filter(|line| line.starts_with("CONFIG_") && !has.contains(line)).collect()
}

fn build(tree: &Path, name: &str, version: &str, scratch: &Path) -> Result<()> {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut step =
        Step::new(format!("building kernel {name} ({version}) on {cpus} CPUs; ten minutes on two"));
    run_logged(
        &mut step,
        make(tree).arg(format!("-j{cpus}")).args(["bzImage", "modules"]),
        &scratch.join("log"),
    )?;
    step.done("");
    Ok(())
}

/// Copy the image and the part of the tree that module builds need, with the kernel's own packaging
/// script.
fn keep(tree: &Path, directory: &Path, scratch: &Path) -> Result<()> {
    fs::copy(tree.join("arch/x86/boot/bzImage"), directory.join("vmlinuz"))
        .context("cannot keep the kernel's image")?;
    fs::copy(tree.join(".config"), directory.join("config"))
        .context("cannot keep the kernel's configuration")?;
    let mut step = Step::new("keeping what module builds need");
    let target = directory.join("build");
    let mut command = make(tree);
    command.arg(format!(
        "KBUILD_RUN_COMMAND=$(srctree)/scripts/package/install-extmod-build {}",
        crate::guest::quote(&target.to_string_lossy())
    ));
    run_logged(&mut step, command.arg("run-command"), &scratch.join("log"))?;
    step.done("");
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn dropped_options_are_found() {
        let config = "CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=\"x\"\n";
        assert_eq!(refused(config, "CONFIG_A=y\nCONFIG_C=\"x\"\n"), Vec::<&str>::new());
        assert_eq!(
            refused(config, "# CONFIG_A is not set\nCONFIG_C=\"y\"\n"),
            ["CONFIG_A=y", "CONFIG_C=\"x\""]
        );
    }

    #[test]
    fn another_configuration_is_another_kernel() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("6.12-aaa-6.12.1")).unwrap();
        assert!(newest_with_prefix(directory.path(), "6.12-aaa-").is_some());
        assert!(newest_with_prefix(directory.path(), "6.12-bbb-").is_none());
        assert!(newest_with_prefix(&directory.path().join("none"), "6.12-aaa-").is_none());
    }
}
