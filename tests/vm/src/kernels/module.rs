// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The guest's PMU module, built for each kernel that supports it.
//!
//! A kernel that is built here provides the tree that its build kept. Debian's kernels provide
//! header packages, which need two repairs in a private copy:
//!
//! - The build tools need a later C library than Debian 12's. That library is unpacked next to
//!   them, and its loader starts each tool.
//! - The configuration assumes a later compiler.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::files::{self, File};
use crate::build::ampvm_directory;
use crate::cache;
use crate::programs::{loader, write_script};
use crate::steps::{Step, run_logged};

/// Version of the steps below. Increment it when a change of the steps changes their result.
const RECIPE: &str = "1";
/// Options of Debian's kernels that add flags which Debian 12's compiler lacks. None of them
/// changes the layout of data, so a module that is built without them is compatible.
const NEWER_COMPILER: &[&str] = &["CONFIG_CC_HAS_MIN_FUNCTION_ALIGNMENT"];

fn sources() -> PathBuf {
    ampvm_directory().join("guest")
}

/// Return a cache key of `of` and of the module's sources: name and content of each file, sorted by
/// path.
fn key(of: &[&str]) -> Result<String> {
    let directory = sources();
    let mut files: Vec<_> = fs::read_dir(&directory)
        .with_context(|| format!("cannot read {}", directory.display()))?
        .filter_map(|file| file.ok().map(|file| file.path()))
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    let mut parts = Vec::new();
    for file in files {
        parts.push(file.file_name().unwrap_or_default().as_encoded_bytes().to_vec());
        parts.push(fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?);
    }
    parts.push(RECIPE.into());
    parts.extend(of.iter().map(|part| part.as_bytes().to_vec()));
    Ok(cache::key(&parts))
}

/// Return the module for a kernel whose build tree was kept in `kernel/build`.
pub(super) fn against_tree(name: &str, kernel: &Path) -> Result<PathBuf> {
    let identity = kernel.file_name().unwrap_or_default().to_string_lossy();
    let directory = cache::entry("modules", &format!("{name}-{}", key(&[&identity])?), |directory| {
        let mut step = Step::new(format!("building the guest's PMU module for {name}"));
        compile(&mut step, &kernel.join("build"), directory)?;
        step.done("");
        Ok(())
    })?;
    Ok(directory.join("amp_pmu.ko"))
}

/// Return the module for one of Debian's kernels, built against its header packages by tools that
/// load these libraries.
pub(super) fn against_headers(
    name: &str,
    release: &str,
    headers: &[File],
    libraries: &[File],
    archives: &[String],
) -> Result<PathBuf> {
    let mut parts = vec![release];
    parts.extend(headers.iter().chain(libraries).map(|file| file.sha256.as_str()));
    let directory = cache::entry("modules", &format!("{name}-{}", key(&parts)?), |directory| {
        let mut step = Step::new(format!("building the guest's PMU module for {name}"));
        let root = directory.join("root");
        let download = directory.join("download");
        for files in [headers, libraries] {
            files::fetch(&mut step, archives, files, &download, &root)?;
        }
        let tree = root.join("usr/src").join(format!("linux-headers-{release}"));
        repair_tree(&tree, &root)?;
        repair_tools(&root)?;
        compile(&mut step, &tree, directory)?;
        for rest in ["root", "download"] {
            fs::remove_dir_all(directory.join(rest)).with_context(|| format!("cannot remove {rest}"))?;
        }
        step.done("");
        Ok(())
    })?;
    Ok(directory.join("amp_pmu.ko"))
}

/// Build in `directory/work`, and leave the module and the log in `directory`.
fn compile(step: &mut Step, tree: &Path, directory: &Path) -> Result<()> {
    let work = directory.join("work");
    let assign = |name: &str, path: &Path| {
        let mut word = std::ffi::OsString::from(name);
        word.push("=");
        word.push(path.as_os_str());
        word
    };
    let mut make = Command::new("make");
    make.arg("-C").arg(sources()).arg(assign("KDIR", tree)).arg(assign("OUT", &work)).arg("CC=gcc");
    run_logged(step, make.env("LC_ALL", "C"), &directory.join("log"))?;
    fs::rename(work.join("amp_pmu.ko"), directory.join("amp_pmu.ko"))
        .context("the module's build left no module")?;
    fs::remove_dir_all(&work).context("cannot remove the module's build directory")
}

/// Change the header tree's paths to its actual location, and its configuration to Debian 12's
/// compiler.
fn repair_tree(tree: &Path, root: &Path) -> Result<()> {
    edit(&tree.join("Makefile"), |text| text.replace("/usr/src", &root.join("usr/src").to_string_lossy()))?;
    edit(&tree.join("include/config/auto.conf"), |text| {
        let kept = text.lines().filter(|line| !NEWER_COMPILER.iter().any(|option| line.starts_with(option)));
        kept.map(|line| format!("{line}\n")).collect()
    })?;
    // The file only serves to generate the module's own BTF. Nothing reads that BTF, and Debian
    // 12's pahole cannot write it.
    let types = tree.join("vmlinux");
    if types.exists() {
        fs::remove_file(&types).with_context(|| format!("cannot remove {}", types.display()))?;
    }
    Ok(())
}

fn edit(path: &Path, change: impl FnOnce(String) -> String) -> Result<()> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    fs::write(path, change(text)).with_context(|| format!("cannot write {}", path.display()))
}

/// Replace each build tool by a script that starts it through the loader of the C library that it
/// was linked with.
fn repair_tools(root: &Path) -> Result<()> {
    for tool in programs(&root.join("usr/lib"))? {
        let real = PathBuf::from(format!("{}.elf", tool.display()));
        fs::rename(&tool, &real).with_context(|| format!("cannot move {}", tool.display()))?;
        write_script(&tool, &format!("#!/bin/sh\nexec {} \"$@\"\n", loader(root, &real)))?;
    }
    Ok(())
}

/// Return the executable ELF files of the build tools below `lib`.
fn programs(lib: &Path) -> Result<Vec<PathBuf>> {
    let mut find = Command::new("find");
    find.arg(lib).args(["-path", "*/linux-kbuild-*", "-type", "f", "-perm", "-u=x", "-print0"]);
    let found = find.output().context("cannot run find")?;
    anyhow::ensure!(found.status.success(), "cannot read {}", lib.display());
    let paths = found.stdout.split(|byte| *byte == 0).map(|path| PathBuf::from(OsStr::from_bytes(path)));
    Ok(paths.filter(|path| fs::read(path).is_ok_and(|bytes| bytes.starts_with(b"\x7fELF"))).collect())
}
