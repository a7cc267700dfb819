// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Scenarios that need not run again, because they passed with the same inputs.
//!
//! # Approach
//! A scenario records the files that decide its result ([`bias_vm::inputs`]). When it has passed,
//! the cache directory keeps a digest of each of them: `passed/TEST/KEY`. A later run compares
//! these digests with those of the present files, and skips scenarios without a difference.
//!
//! # Invariants
//! - A test that failed in any attempt, or did not end, is not kept.
//! - A file that changed during the run is not kept: the test may have seen its former content.
//! - For a program of this workspace its sources count ([`Built`]), without the comments of the
//!   kernel side.
//! - `--full`, `--fresh`, a selection of tests and a variable that changes a test ignore the cache.
//!
//! # Limits
//! Equal inputs give equal results in virtual time. A scenario in real time also depends on the
//! host; only `--full` and `--fresh` repeat it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context as _, Result};
use bias_vm::build::workspace;
use bias_vm::{cache, inputs};
use serde::{Deserialize, Serialize};

use crate::built::{Built, is_old};

/// Passes that are kept for each test: branches of the tree alternate.
const KEPT: usize = 8;

/// A pass of a test.
#[derive(Serialize, Deserialize)]
struct Pass {
    /// The commit at which it passed.
    commit: String,
    /// The digest of each input.
    inputs: BTreeMap<String, String>,
}

/// The digests of inputs, each computed once.
struct Digests<'a> {
    built: &'a Built,
    known: HashMap<String, Option<String>>,
}

impl<'a> Digests<'a> {
    fn new(built: &'a Built) -> Self {
        Self { built, known: HashMap::new() }
    }

    /// Return the digest of an input, or `None` if it cannot be read.
    fn of(&mut self, input: &str) -> Option<&str> {
        let digest = self.known.entry(input.to_string()).or_insert_with(|| {
            let of_file = || Some(cache::digest(&[fs::read(inputs::path(input)).ok()?]));
            self.built.digest(Path::new(input)).unwrap_or_else(of_file)
        });
        digest.as_deref()
    }
}

/// The passes in a directory, and the programs that are inputs.
pub struct Passed {
    directory: PathBuf,
    built: Built,
}

impl Passed {
    /// Return the passes of the user.
    ///
    /// # Errors
    /// There is no cache directory, or cargo does not run.
    pub fn of_user() -> Result<Self> {
        Ok(Self { directory: cache::root()?.join("passed"), built: Built::of_workspace()? })
    }

    /// Return the tests whose inputs are those of a pass, each with the commit of that pass.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn unchanged(&self) -> Result<BTreeMap<String, String>> {
        let mut digests = Digests::new(&self.built);
        let mut tests = BTreeMap::new();
        for test in entries(&self.directory)? {
            let same = passes(&test)?.into_iter().find(|pass| {
                pass.inputs.iter().all(|(input, digest)| digests.of(input) == Some(digest.as_str()))
            });
            let name = test.file_name().unwrap_or_default().to_string_lossy().into_owned();
            tests.extend(same.map(|pass| (name, pass.commit)));
        }
        Ok(tests)
    }

    /// Keep tests that have passed, each with its inputs. The build of the programs began at
    /// `begun`, and they were ready at `since`.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn keep(
        &self,
        tests: &[(String, BTreeSet<String>)],
        begun: SystemTime,
        since: SystemTime,
    ) -> Result<()> {
        let mut digests = Digests::new(&self.built);
        let commit = commit();
        let mut old = BTreeMap::new();
        let mut is_current = |name: &String| {
            *old.entry(name.clone()).or_insert_with(|| {
                let is_file_old = || is_old(&inputs::path(name), since);
                self.built.is_built_since(Path::new(name), begun).unwrap_or_else(is_file_old)
            })
        };
        for (test, names) in tests {
            if names.is_empty() || !names.iter().all(&mut is_current) {
                continue;
            }
            let digest = |name: &String| Some((name.clone(), digests.of(name)?.to_string()));
            let Some(inputs) = names.iter().map(digest).collect::<Option<BTreeMap<_, _>>>() else { continue };
            self.write(test, &Pass { commit: commit.clone(), inputs })?;
        }
        Ok(())
    }

    fn write(&self, test: &str, pass: &Pass) -> Result<()> {
        let directory = self.directory.join(test);
        fs::create_dir_all(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
        let parts: Vec<_> = pass.inputs.iter().flat_map(|(name, digest)| [name, digest]).collect();
        let path = directory.join(cache::key(&parts));
        fs::write(&path, serde_json::to_vec(pass)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
        prune(&directory)
    }
}

/// Return the present commit, or "no commit" outside of git.
fn commit() -> String {
    let mut git = Command::new("git");
    git.args(["describe", "--always", "--exclude=*", "--dirty=+"]).current_dir(workspace());
    let text = git.output().map(|git| String::from_utf8_lossy(&git.stdout).trim().to_string());
    text.ok().filter(|text| !text.is_empty()).unwrap_or_else(|| "no commit".to_string())
}

/// Return the passes of a test. Ignore files that are damaged or from another version.
fn passes(test: &Path) -> Result<Vec<Pass>> {
    let read = |path: PathBuf| serde_json::from_slice(&fs::read(path).ok()?).ok();
    Ok(entries(test)?.into_iter().filter_map(read).collect())
}

/// Remove all but the newest passes of a test.
fn prune(test: &Path) -> Result<()> {
    let age = |path: &PathBuf| fs::metadata(path).and_then(|file| file.modified()).ok();
    let mut paths = entries(test)?;
    paths.sort_by_key(age);
    for old in paths.iter().rev().skip(KEPT) {
        fs::remove_file(old).with_context(|| format!("cannot remove {}", old.display()))?;
    }
    Ok(())
}

/// Return the paths in a directory, or none if there is no such directory.
fn entries(directory: &Path) -> Result<Vec<PathBuf>> {
    let Ok(entries) = fs::read_dir(directory) else { return Ok(Vec::new()) };
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>();
    paths.with_context(|| format!("cannot read {}", directory.display()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Passes of one test in a new directory, which has an input of that test.
    fn one() -> (tempfile::TempDir, Passed, String, Vec<(String, BTreeSet<String>)>) {
        let directory = tempfile::tempdir().unwrap();
        let input = directory.path().join("program");
        fs::write(&input, "one").unwrap();
        let input = input.to_string_lossy().into_owned();
        let tests = vec![("a::b".to_string(), BTreeSet::from([input.clone()]))];
        let built = Built::of_workspace().unwrap();
        let passed = Passed { directory: directory.path().join("passed"), built };
        (directory, passed, input, tests)
    }

    #[test]
    fn a_pass_counts_while_the_inputs_are_the_same() {
        let (_directory, passed, input, tests) = one();
        assert!(passed.unchanged().unwrap().is_empty());
        passed.keep(&tests, SystemTime::now(), SystemTime::now()).unwrap();
        assert!(passed.unchanged().unwrap().contains_key("a::b"));
        fs::write(&input, "two").unwrap();
        assert!(passed.unchanged().unwrap().is_empty());
        passed.keep(&tests, SystemTime::now(), SystemTime::now()).unwrap();
        fs::write(&input, "one").unwrap();
        assert!(passed.unchanged().unwrap().contains_key("a::b"));
        fs::remove_file(&input).unwrap();
        assert!(passed.unchanged().unwrap().is_empty());
    }

    #[test]
    fn tests_without_inputs_or_with_inputs_that_changed_are_not_kept() {
        let (_directory, passed, _, tests) = one();
        passed.keep(&tests, SystemTime::now(), SystemTime::now() - Duration::from_secs(60)).unwrap();
        passed.keep(&[("a::c".to_string(), BTreeSet::new())], SystemTime::now(), SystemTime::now()).unwrap();
        assert!(passed.unchanged().unwrap().is_empty());
    }

    #[test]
    fn few_passes_of_a_test_are_kept_and_damaged_ones_are_ignored() {
        let (directory, passed, input, tests) = one();
        for n in 0..2 * KEPT {
            fs::write(&input, n.to_string()).unwrap();
            passed.keep(&tests, SystemTime::now(), SystemTime::now()).unwrap();
        }
        let files = entries(&directory.path().join("passed/a::b")).unwrap();
        assert_eq!(files.len(), KEPT);
        files.iter().for_each(|file| fs::write(file, "{").unwrap());
        assert!(passed.unchanged().unwrap().is_empty());
    }
}
