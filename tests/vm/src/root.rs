// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! A root in the guest's memory: Debian packages and everything that they depend on.
//!
//! # Problem
//! A program that reads a file of the host waits for the host, and this wait is part of the guest's
//! time. A run of a program thus depends on the host's other work.
//!
//! # Approach
//! The packages are fetched, unpacked and kept as one archive in [`crate::cache`]. The guest's
//! script unpacks it into a tmpfs before the emulation starts. The command finds the directory in
//! `$ROOT` and runs programs with `chroot "$ROOT" PROGRAM`.
//!
//! # Limits
//! The scripts of the packages do not run. So the users and files that they create are missing.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::apt::{Apt, Suites};
use crate::cache;
use crate::exit::{USAGE, coded};
use crate::guest::quote;
use crate::steps::{Step, run_logged};

/// Version of the steps below. Increment it when a change of the steps changes their result.
const RECIPE: &str = "1";
/// Release of the packages, the same on every host.
const SUITE: &str = "trixie";
/// Memory that the guest needs besides the root [MiB].
const OWN_MIB: u64 = 512;
/// Directories that packages expect to be links into `usr`.
const MERGED: [&str; 4] = ["bin", "sbin", "lib", "lib64"];
/// Files that every program may read.
const FILES: [(&str, &str); 3] = [
    ("passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"),
    ("group", "root:x:0:\nnogroup:x:65534:\n"),
    ("hosts", "127.0.0.1 localhost\n"),
];

/// An archive that a guest can unpack into its memory.
#[derive(Clone, Debug)]
pub struct Root {
    /// Path of the archive.
    pub archive: PathBuf,
    /// Size of its content in MiB.
    pub mib: u64,
}

impl Root {
    /// Provide the root of these packages.
    ///
    /// # Errors
    /// Code 2 if a name is not a package. Another error if the packages cannot be fetched or
    /// unpacked.
    pub fn ensure(packages: &[String]) -> Result<Self> {
        let mut names = packages.to_vec();
        names.sort();
        names.dedup();
        for name in &names {
            check_name(name)?;
        }
        let key = cache::key(&[&[RECIPE.to_string(), SUITE.to_string()], names.as_slice()].concat());
        let directory = cache::entry("roots", &key, |directory| make(directory, &names))?;
        let archive = directory.join("root.tar");
        crate::inputs::record([&archive])?;
        let bytes =
            fs::metadata(&archive).with_context(|| format!("cannot read {}", archive.display()))?.len();
        Ok(Self { archive, mib: bytes.div_ceil(1 << 20) })
    }

    /// Check that a guest with this much memory has room for the root.
    ///
    /// # Errors
    /// Code 2 with the memory that it needs.
    pub fn check_memory(&self, memory_mib: u32) -> Result<()> {
        let needed = self.mib + OWN_MIB;
        if u64::from(memory_mib) >= needed {
            return Ok(());
        }
        let message = format!(
            "the root has {} MiB, too much for {memory_mib} MiB of memory; give --memory {needed}",
            self.mib
        );
        Err(coded(USAGE, message))
    }
}

/// Refuse a text that cannot name a package, such as an option of apt.
fn check_name(name: &str) -> Result<()> {
    let mut letters = name.chars();
    let first = letters.next().is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    if first && letters.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c)) {
        return Ok(());
    }
    Err(coded(USAGE, format!("\"{name}\" cannot name a Debian package; give a name such as redis-server")))
}

fn make(directory: &Path, names: &[String]) -> Result<()> {
    let apt = Apt::open(Suites::Download)?;
    for name in names {
        if apt.version(name)?.is_none() {
            return Err(coded(
                USAGE,
                format!("Debian {SUITE} has no package {name}; packages.debian.org finds names"),
            ));
        }
    }
    let mut step = Step::new(format!("fetching {} and what they depend on", names.join(" ")));
    let (download, root) = (directory.join("download"), directory.join("root"));
    apt.download_all(&mut step, SUITE, names, &download)?;
    lay_out(&root)?;
    let log = download.join("log");
    for file in fs::read_dir(&download).context("cannot read a download directory")? {
        let path = file.context("cannot read a download directory")?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            unpack(&mut step, &path, &root, &log)?;
        }
    }
    let mut tar = Command::new("tar");
    tar.arg("-C").arg(&root).args(["--owner=0", "--group=0", "-cf"]).arg(directory.join("root.tar")).arg(".");
    run_logged(&mut step, &mut tar, &log)?;
    for rest in [download, root] {
        fs::remove_dir_all(&rest).with_context(|| format!("cannot remove {}", rest.display()))?;
    }
    step.done("");
    Ok(())
}

/// Make the directories, links and files that no package has.
fn lay_out(root: &Path) -> Result<()> {
    let made = || -> std::io::Result<()> {
        for name in MERGED {
            fs::create_dir_all(root.join("usr").join(name))?;
            symlink(format!("usr/{name}"), root.join(name))?;
        }
        for name in ["dev", "etc", "proc", "root", "run", "sys", "tmp", "var/lib", "var/log"] {
            fs::create_dir_all(root.join(name))?;
        }
        FILES.iter().try_for_each(|(name, text)| fs::write(root.join("etc").join(name), text))
    };
    made().with_context(|| format!("cannot write in {}", root.display()))
}

/// Unpack a package, whose `lib` may be the link to `usr/lib`.
fn unpack(step: &mut Step, package: &Path, root: &Path, log: &Path) -> Result<()> {
    let [package, root] = [package, root].map(|path| quote(&path.to_string_lossy()));
    let text = format!(
        "dpkg-deb --fsys-tarfile {package} | tar -C {root} --keep-directory-symlink --no-same-owner -xf -"
    );
    run_logged(step, Command::new("sh").arg("-c").arg(text), log)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_names_of_packages_reach_apt() {
        for good in ["g++", "redis-server", "libc6", "7zip", "python3.11"] {
            check_name(good).unwrap();
        }
        for bad in ["", "-o", "../x", "a b", "Redis", "a/trixie", "a=1"] {
            let error = check_name(bad).unwrap_err();
            assert_eq!(crate::exit::code_of(&error), USAGE, "{bad}");
        }
    }

    #[test]
    fn a_root_that_does_not_fit_names_the_memory_that_it_needs() {
        let root = Root { archive: PathBuf::new(), mib: 300 };
        root.check_memory(812).unwrap();
        assert!(root.check_memory(811).unwrap_err().to_string().ends_with("give --memory 812"));
    }
}
