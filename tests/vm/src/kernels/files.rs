// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Packages of kernels, by file and SHA-256.
//!
//! A mirror drops a file that no release names any more; snapshot.debian.org keeps it. Both have
//! the same path below `pool/`. apt's own helper fetches it, with the machine's proxy, and refuses
//! other content.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use crate::apt;
use crate::steps::{Step, run_logged};

/// apt's program that fetches a file and compares its digest. It has this path on every Debian.
const HELPER: &str = "/usr/lib/apt/apt-helper";

/// A file of Debian's archive.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Path from the archive's root.
    pub file: String,
    /// Digest of its content, in hexadecimal digits.
    pub sha256: String,
}

impl File {
    /// Return the file's name, which contains the package and its version.
    pub(super) fn name(&self) -> &str {
        self.file.rsplit('/').next().unwrap_or_default()
    }
}

/// Return the archives to fetch from, in this order. `snapshot` is a moment at which the archive
/// had all files.
pub(super) fn archives(snapshot: &str) -> Vec<String> {
    let mirror = apt::mirror().unwrap_or_else(|| "http://deb.debian.org/debian".to_string());
    vec![mirror, format!("https://snapshot.debian.org/archive/debian/{snapshot}")]
}

/// Fetch packages into `directory`, and unpack them into `root`.
pub(super) fn fetch(
    step: &mut Step,
    archives: &[String],
    files: &[File],
    directory: &Path,
    root: &Path,
) -> Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    for file in files {
        let package = directory.join("package.deb");
        fetch_one(step, archives, file, &package)?;
        apt::unpack(step, &package, root, &directory.join("log"))?;
    }
    Ok(())
}

/// Fetch a file from the first archive that has it.
fn fetch_one(step: &mut Step, archives: &[String], file: &File, to: &Path) -> Result<()> {
    let mut failed = Ok(());
    for archive in archives {
        let mut helper = Command::new(HELPER);
        // The cache directory need not be readable by apt's own user.
        helper.args(["-o", "APT::Sandbox::User=root", "download-file"]);
        helper.arg(format!("{}/{}", archive.trim_end_matches('/'), file.file)).arg(to);
        helper.arg(format!("SHA256:{}", file.sha256));
        failed = run_logged(step, helper.env("LC_ALL", "C"), &to.with_file_name("log"));
        if failed.is_ok() {
            break;
        }
        crate::interrupt::check()?;
    }
    failed.with_context(|| format!("cannot fetch {} from {}", file.name(), archives.join(" or ")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use sha2::{Digest as _, Sha256};

    #[test]
    fn a_file_comes_from_the_first_archive_that_has_it_with_this_content() {
        if !Path::new(HELPER).is_file() {
            return eprintln!("skipped: this machine has no apt");
        }
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for (archive, content) in [("changed", "other"), ("kept", "kernel")] {
            fs::create_dir_all(path(archive).join("pool")).unwrap();
            fs::write(path(archive).join("pool/a.deb"), content).unwrap();
        }
        let digest = Sha256::digest("kernel").iter().map(|byte| format!("{byte:02x}")).collect();
        let file = File { file: "pool/a.deb".to_string(), sha256: digest };
        let from = |archives: &[&str], to: &str| {
            let archives: Vec<_> =
                archives.iter().map(|name| format!("file://{}", path(name).display())).collect();
            fetch_one(&mut Step::new("a test"), &archives, &file, &path(to))
                .and_then(|()| Ok(fs::read_to_string(path(to))?))
        };
        assert_eq!(from(&["dropped", "changed", "kept"], "to").unwrap(), "kernel");
        let refused = from(&["dropped", "changed"], "none").unwrap_err().to_string();
        assert!(refused.starts_with("cannot fetch a.deb from file://"), "{refused}");
        assert!(!path("none").exists());
    }
}
