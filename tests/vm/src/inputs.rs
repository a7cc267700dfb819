// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The inputs of a scenario: the files that decide its result.
//!
//! # Problem
//! A scenario whose inputs are those of a run that passed need not run again. Only the users of
//! these files know them: the runner, the test, and programs that the test starts.
//!
//! # Approach
//! Each of these places records its files when it uses them. nextest names the test in the
//! environment, which the programs inherit, so all of them append to one list. The text of the test
//! and of the runner is an input, too: with equal text and equal files a test uses equal files.
//!
//! # Limits
//! Programs of the host that a guest runs count by the list of installed packages, where there is
//! one.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::build::{ampvm_directory, target_directory, workspace};

/// Debian's list of installed packages, with their versions.
pub const INSTALLED: &str = "/var/lib/dpkg/status";

/// Return the name of the test that this process belongs to, if nextest runs it.
#[must_use]
pub fn test() -> Option<String> {
    std::env::var("NEXTEST_TEST_NAME").ok().filter(|name| !name.contains('/'))
}

/// Return the directory with a list for each test.
fn directory() -> PathBuf {
    target_directory().join("vm/inputs")
}

/// Remove all records.
///
/// # Errors
/// The lists cannot be removed.
pub fn clear() -> Result<()> {
    match fs::remove_dir_all(directory()) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).context("cannot remove the lists of inputs")
        }
        _ => Ok(()),
    }
}

/// Record files, and all files below directories, as inputs of the present test. Outside of tests
/// do nothing.
///
/// # Errors
/// A directory cannot be read, or the list cannot be written.
pub fn record<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> Result<()> {
    let Some(test) = test() else { return Ok(()) };
    let mut text = String::new();
    for path in paths {
        for file in files(path.as_ref())? {
            text.push_str(&format!("{}\n", name(&file)));
        }
    }
    fs::create_dir_all(directory()).context("cannot create the directory of inputs")?;
    let file = fs::OpenOptions::new().create(true).append(true).open(directory().join(test));
    // One write, so that lines of other processes do not mix with these.
    file.and_then(|mut file| file.write_all(text.as_bytes())).context("cannot record the inputs of a test")
}

/// Record the runner and the text of the present test: its module and those that all modules share.
///
/// # Errors
/// Those of [`record`].
pub fn record_runner() -> Result<()> {
    let Some(test) = test() else { return Ok(()) };
    let tests = workspace().join("tests/vm/tests/it");
    let module = test.split("::").next().unwrap_or_default();
    // By its sources: the program itself holds paths of the checkout.
    let is_xtask = std::env::current_exe().is_ok_and(|exe| exe.ends_with("xtask"));
    let xtask = is_xtask.then(|| workspace().join("tests/xtask/src"));
    let fixed = [
        tests.join(format!("{module}.rs")),
        tests.join("common"),
        workspace().join("tests/vm/src"),
        ampvm_directory().join("abi/src"),
    ];
    let installed = Some(PathBuf::from(INSTALLED)).filter(|list| list.is_file());
    record(fixed.into_iter().chain(xtask).chain(installed))
}

/// Return the inputs that are recorded for a test, or an empty set.
#[must_use]
pub fn of(test: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(directory().join(test)).unwrap_or_default();
    text.lines().map(String::from).collect()
}

/// Name of cargo's target directory in names of inputs, wherever it is.
const TARGET: &str = "target";

/// Return the path of an input.
#[must_use]
pub fn path(name: &str) -> PathBuf {
    match Path::new(name).strip_prefix(TARGET) {
        Ok(built) => target_directory().join(built),
        Err(_) => workspace().join(name),
    }
}

/// Return the name of an input: its path, relative in the source tree or in the target directory,
/// so that another checkout has the same.
fn name(path: &Path) -> String {
    let built = path.strip_prefix(target_directory()).map(|built| Path::new(TARGET).join(built));
    let name = built.unwrap_or_else(|_| path.strip_prefix(workspace()).unwrap_or(path).to_path_buf());
    name.to_string_lossy().into_owned()
}

/// Return a file itself, or the files below a directory, in any order.
///
/// # Errors
/// A directory cannot be read.
pub fn files(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let entries = fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut all = Vec::new();
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot read {}", path.display()))?;
        all.extend(files(&entry.path())?);
    }
    Ok(all)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_stands_for_its_files_and_names_do_not_depend_on_the_checkout() {
        let source = workspace().join("tests/vm/src");
        let names: Vec<_> = files(&source).unwrap().iter().map(|file| name(file)).collect();
        assert!(names.contains(&"tests/vm/src/kernels/table.rs".to_string()), "{names:?}");
        assert!(names.iter().all(|one| path(one).is_file()), "{names:?}");
        assert_eq!(name(Path::new("/usr/bin/env")), "/usr/bin/env");
        let built = target_directory().join("ci/scx_bias");
        assert_eq!((name(&built).as_str(), path("target/ci/scx_bias")), ("target/ci/scx_bias", built));
        assert_eq!(files(Path::new("/none")).unwrap(), [Path::new("/none")]);
    }
}
