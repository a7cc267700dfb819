// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! What a run measured: date, commit, and digests of the code that its result depends on.

use crate::{Error, Result};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;
use std::{fmt, fs};

/// Code of the scheduler.
const SCHEDULER: &[&str] =
    &["bpf", "lib/include", "lib/policy/src", "userspace/agent/src", "scheds/scx_bias/src"];
/// Code of the machine.
const MACHINE: &[&str] = &["tests/ampvm"];

/// Endings of files of code.
const CODE: [&str; 4] = ["rs", "c", "h", "toml"];

/// Digests of the code.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digests {
    /// Of the scheduler's code.
    pub scheduler: String,
    /// Of the code of the emulated machine.
    pub machine: String,
}

impl fmt::Display for Digests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on machine {}", self.scheduler, self.machine)
    }
}

/// The tree that a run measured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tree {
    /// Date of the start, in UTC.
    pub date: String,
    /// Commit of the tree.
    pub commit: String,
    /// True if measured files differed from the commit.
    pub dirty: bool,
    /// Version of QEMU. Empty if unknown.
    pub qemu: String,
    /// Digests of the code.
    #[serde(flatten)]
    pub digests: Digests,
}

impl Tree {
    /// Describe the repository that `directory` belongs to. Return None outside of a repository of
    /// scx_bias, or without git.
    pub fn of(directory: &Path) -> Option<Self> {
        let root = root(directory)?;
        let git = |arguments: &[&str]| output(Command::new("git").arg("-C").arg(&root).args(arguments));
        let measured = [&["status", "--porcelain", "--"], SCHEDULER, MACHINE].concat();
        let qemu = output(Command::new("qemu-system-x86_64").arg("--version"));
        Some(Self {
            date: DateTime::<Utc>::from(SystemTime::now()).date_naive().to_string(),
            commit: git(&["rev-parse", "--short=9", "HEAD"])?,
            dirty: !git(&measured)?.is_empty(),
            qemu: qemu.and_then(|text| text.split(' ').nth(3).map(String::from)).unwrap_or_default(),
            digests: Self::digests(&root).ok()?,
        })
    }

    /// Return the digests of the code below `root`.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn digests(root: &Path) -> Result<Digests> {
        Ok(Digests { scheduler: digest(root, SCHEDULER)?, machine: digest(root, MACHINE)? })
    }
}

/// Return the root of the repository that `directory` belongs to.
pub fn root(directory: &Path) -> Option<PathBuf> {
    let is_root = |root: &&Path| root.join("bpf/main.bpf.c").is_file() && root.join("Cargo.lock").is_file();
    fs::canonicalize(directory).ok()?.ancestors().find(is_root).map(Path::to_owned)
}

/// Return the first line of a command's output, None if it fails.
fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned())
}

/// Return a digest of the code in these directories, 16 hexadecimal digits.
fn digest(root: &Path, directories: &[&str]) -> Result<String> {
    let mut hash = Sha256::new();
    for directory in directories {
        let mut files = Vec::new();
        list(&root.join(directory), &mut files)?;
        files.sort();
        for path in files {
            let text = fs::read_to_string(&path).map_err(|e| unreadable(&path, &e))?;
            let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy();
            hash.update(name.as_bytes());
            code(&text).for_each(|line| hash.update(line.as_bytes()));
        }
    }
    Ok(format!("{:x}", hash.finalize())[..16].to_owned())
}

fn unreadable(path: &Path, error: &std::io::Error) -> Error {
    Error::failed(format!("cannot read {}", path.display()), error)
}

/// Add the files of code below a directory, without tests.
fn list(directory: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(directory).map_err(|e| unreadable(directory, &e))?;
    for entry in entries {
        let path = entry.map_err(|e| unreadable(directory, &e))?.path();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if stem == "tests" || stem.ends_with("_tests") {
            continue;
        }
        if path.is_dir() {
            list(&path, found)?;
        } else if path.extension().is_some_and(|extension| CODE.iter().any(|code| extension == *code)) {
            found.push(path);
        }
    }
    Ok(())
}

/// Return the lines of code, without indentation, comments and the tests at the end.
fn code(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().map(str::trim).take_while(|line| *line != "mod tests {");
    lines.filter(|line| {
        !line.is_empty() && !["//", "/*", "*/", "* "].iter().any(|mark| line.starts_with(mark))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_counts_and_comments_and_tests_do_not() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let write = |name: &str, text: &str| {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::write(root.join(name), text).unwrap();
            digest(root, &["a"]).unwrap()
        };
        let first = write("a/b/x.rs", "// a comment\nfn x() {}\n");
        assert_eq!(
            write("a/b/x.rs", "/*\n * another\n */\n\n  fn x() {}\n\nmod tests {\nfn y() {}\n"),
            first
        );
        assert_eq!(write("a/tests/y.rs", "fn y() {}"), first);
        assert_eq!(write("a/b/y.txt", "text"), first);
        assert_ne!(write("a/b/x.rs", "fn x() { 1 }\n"), first);
        write("a/b/x.rs", "fn x() {}\n");
        assert_ne!(write("a/z.h", "int z;"), first);
    }

    #[test]
    fn a_repository_of_scx_bias_is_described_and_no_other() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = root(here).unwrap();
        let digests = Tree::digests(&root).unwrap();
        assert!(digests.scheduler != digests.machine && digests.machine.len() == 16);
        // An archive of the tree has no commit.
        if let Some(tree) = Tree::of(here) {
            assert!(tree.commit.len() >= 9 && tree.date.len() == 10, "{tree:?}");
            assert_eq!(tree.digests, digests);
        }
        assert_eq!(Tree::of(Path::new("/")), None);
    }
}
