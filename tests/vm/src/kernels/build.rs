// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The kernel that is built from Debian's source package with `guest.config`.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::files::{self, File};
use crate::apt::{Apt, Suites};
use crate::build::ampvm_directory;
use crate::cache;
use crate::steps::{Step, run_logged};

/// Version of the steps below. Increment it when a change of the steps changes their result.
const RECIPE: &str = "1";

/// Return the directory with the kernel's `vmlinuz` and, in `build`, the files that a module build
/// needs. `options` are lines of its configuration that replace those of `guest.config`.
pub(super) fn ensure(name: &str, source: &File, options: &[String], archives: &[String]) -> Result<PathBuf> {
    let common = ampvm_directory().join("kernel/guest.config");
    let common = fs::read_to_string(&common).with_context(|| format!("cannot read {}", common.display()))?;
    let own: String = options.iter().map(|option| format!("{option}\n")).collect();
    let config = common + &own;
    let key = cache::key(&[RECIPE, &config, &source.sha256]);
    cache::entry("kernels", &format!("{name}-{key}"), |directory| {
        let scratch = directory.join("scratch");
        let tree = unpack(source, archives, &scratch)?;
        configure(&tree, &config, &scratch)?;
        build(&tree, name, &scratch)?;
        keep(&tree, directory, &scratch)?;
        fs::remove_dir_all(&scratch).context("cannot remove the build directory")?;
        Ok(())
    })
}

fn unpack(source: &File, archives: &[String], scratch: &Path) -> Result<PathBuf> {
    // The file's name begins with that of the package, which is also that of the tree.
    let package = source.name().split('_').next().unwrap_or_default();
    let (download, root) = (scratch.join("download"), scratch.join("root"));
    let mut step = Step::new(format!("fetching {}", source.name()));
    let fetched = files::fetch(&mut step, archives, std::slice::from_ref(source), &download, &root);
    fetched.or_else(|error| newest(&mut step, package, &download, &root).context(error))?;
    let archive = root.join("usr/src").join(format!("{package}.tar.xz"));
    let mut tar = Command::new("tar");
    tar.arg("-C").arg(scratch).arg("-xf").arg(&archive);
    run_logged(&mut step, &mut tar, &scratch.join("log"))?;
    step.done("");
    Ok(scratch.join(package))
}

/// Fetch the newest version of a source whose version in the table no archive has any more. A newer
/// version of the same series is better than no virtual machine.
fn newest(step: &mut Step, package: &str, download: &Path, root: &Path) -> Result<()> {
    let apt = Apt::open(Suites::Download)?;
    let Some(version) = apt.version(package)? else {
        bail!("Debian's archive has no package {package} any more; update the table in kernels.toml");
    };
    eprintln!("xtask: no archive has the version of kernels.toml; using {package} {version} instead");
    apt.download(step, &[format!("{package}={version}")], download, root)
}

fn make(tree: &Path) -> Command {
    let mut make = Command::new("make");
    make.arg("-C").arg(tree).env("LC_ALL", "C");
    // The same source and configuration must give the same kernel for every user and host.
    make.env("KBUILD_BUILD_USER", "scx_bias").env("KBUILD_BUILD_HOST", "ampvm");
    make.env("KBUILD_BUILD_TIMESTAMP", "1970-01-01");
    make
}

fn configure(tree: &Path, config: &str, scratch: &Path) -> Result<()> {
    let mut step = Step::new("configuring the kernel");
    let path = scratch.join("guest.config");
    fs::write(&path, config).with_context(|| format!("cannot write {}", path.display()))?;
    let mut all = std::ffi::OsString::from("KCONFIG_ALLCONFIG=");
    all.push(path.as_os_str());
    run_logged(&mut step, make(tree).arg(all).arg("allnoconfig"), &scratch.join("log"))?;
    let result = fs::read_to_string(tree.join(".config")).context("the kernel's configuration is missing")?;
    let refused = refused(config, &result);
    if !refused.is_empty() {
        bail!("this kernel source refuses options of guest.config or kernels.toml: {}", refused.join(", "));
    }
    step.done("");
    Ok(())
}

/// Return the options that `config` sets and `result` lacks. Kconfig drops such options without a
/// warning. The last line of an option counts.
fn refused<'a>(config: &'a str, result: &str) -> Vec<&'a str> {
    let name = |line: &'a str| line.trim_start_matches("# ").split(['=', ' ']).next();
    let last: BTreeMap<_, _> = config.lines().map(|line| (name(line), line)).collect();
    let has: HashSet<_> = result.lines().collect();
    last.into_values().filter(|line| line.starts_with("CONFIG_") && !has.contains(line)).collect()
}

fn build(tree: &Path, name: &str, scratch: &Path) -> Result<()> {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut step = Step::new(format!("building kernel {name} on {cpus} CPUs; ten minutes on two"));
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
    let mut step = Step::new("keeping the files that module builds need");
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
        let config = "CONFIG_A=y\n# CONFIG_A is not set\nCONFIG_B=y\n";
        assert_eq!(refused(config, "CONFIG_B=y\n"), Vec::<&str>::new());
    }
}
