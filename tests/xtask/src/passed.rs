// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Scenarios that need not run again, because one with the same inputs passed.
//!
//! # Approach
//! A scenario records the files that decide its result ([`bias_vm::inputs`]). When it has passed,
//! the cache directory keeps a digest of each of them: `passed/TEST/KEY`. A later run compares
//! these digests with those of the present files, and leaves out the scenarios without a
//! difference.
//!
//! # Invariants
//! - A test that failed in any attempt, or did not end, is not kept.
//! - A file that changed during the run is not kept: the test may have seen its former content.
//! - For `scx_bias` its sources count. clang writes the types of the kernel side in another order at
//!   each compilation, so equal sources do not give equal bytes. A comment of the kernel side is no
//!   input.
//! - `--full`, `--fresh`, a selection of tests and a variable that changes a test ignore the cache.
//!
//! # Limits
//! Equal inputs give equal results in virtual time. A scenario without it also depends on the host,
//! and only `--full` and `--fresh` repeat it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context as _, Result};
use bias_vm::build::workspace;
use bias_vm::{cache, inputs};
use serde::{Deserialize, Serialize};

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

/// The digests of files, each computed once.
#[derive(Default)]
struct Digests(HashMap<String, Option<String>>);

impl Digests {
    /// Return the digest of an input, or `None` if it cannot be read.
    fn of(&mut self, input: &str) -> Option<&str> {
        let digest = self.0.entry(input.to_string()).or_insert_with(|| match Path::new(input).file_name() {
            Some(name) if name == SCHEDULER => digest_of_sources(&workspace()),
            _ => Some(cache::digest(&[fs::read(inputs::path(input)).ok()?])),
        });
        digest.as_deref()
    }
}

/// The program that holds the kernel side.
const SCHEDULER: &str = "scx_bias";

/// What it is built from: directories and files of the tree.
const SOURCES: [&str; 7] =
    ["bpf", "lib", "userspace/agent", "scheds/scx_bias", "Cargo.toml", "Cargo.lock", ".cargo/config.toml"];

/// Return the sources of [`SCHEDULER`] in the tree `root`, in order.
fn sources(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for source in SOURCES {
        files.extend(inputs::files(&root.join(source))?);
    }
    files.sort();
    Ok(files)
}

/// Return a digest of the sources of [`SCHEDULER`] in the tree `root` and of the compiler. The list
/// of installed packages, which is an input of each scenario, has the version of clang.
fn digest_of_sources(root: &Path) -> Option<String> {
    let rustc = Command::new("rustc").arg("-vV").output().ok()?;
    let mut parts = vec![rustc.stdout];
    for file in sources(root).ok()? {
        let name = file.strip_prefix(root).ok()?.to_string_lossy().into_owned();
        let text = fs::read(&file).ok()?;
        let is_plain_c = [".c", ".h"].iter().any(|end| name.ends_with(end)) && name != DESCRIBED;
        parts.push(name.into_bytes());
        parts.push(if is_plain_c {
            without_comments(&String::from_utf8_lossy(&text)).into_bytes()
        } else {
            text
        });
    }
    Some(cache::digest(&parts))
}

/// The C file of which the build reads the comments: they describe statistics.
const DESCRIBED: &str = "lib/include/bias/abi.h";

/// Return a C text without comments, empty lines, and blanks at ends of lines.
fn without_comments(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let taken = if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else {
            let taken = if matches!(first, '"' | '\'') { quoted(rest, first) } else { first.len_utf8() };
            code.push_str(&rest[..taken]);
            taken
        };
        rest = &rest[taken..];
    }
    let lines = code.lines().map(str::trim_end).filter(|line| !line.is_empty());
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// Return the length of the literal between two `quote` at the start of `text`.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    let end = text.char_indices().skip(1).find(|(_, c)| {
        let is_end = *c == quote && !escaped;
        escaped = *c == '\\' && !escaped;
        is_end
    });
    end.map_or(text.len(), |(at, _)| at + 1)
}

/// Return true if the tree `root` has the sources of which [`SCHEDULER`] was built from `begun` on.
fn has_built_sources(root: &Path, begun: SystemTime) -> bool {
    sources(root).is_ok_and(|files| files.iter().all(|file| is_old(file, begun)))
}

/// Return true if a file was last changed by `since`.
fn is_old(file: &Path, since: SystemTime) -> bool {
    fs::metadata(file).and_then(|file| file.modified()).is_ok_and(|at| at <= since)
}

/// The passes in a directory.
pub struct Passed(PathBuf);

impl Passed {
    /// Return those of the user.
    ///
    /// # Errors
    /// There is no cache directory.
    pub fn of_user() -> Result<Self> {
        Ok(Self(cache::root()?.join("passed")))
    }

    /// Return the tests whose inputs are those of a pass, each with the commit of that pass.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn unchanged(&self) -> Result<BTreeMap<String, String>> {
        let mut digests = Digests::default();
        let mut tests = BTreeMap::new();
        for test in entries(&self.0)? {
            let same = passes(&test)?.into_iter().find(|pass| {
                pass.inputs.iter().all(|(input, digest)| digests.of(input) == Some(digest.as_str()))
            });
            let name = test.file_name().unwrap_or_default().to_string_lossy().into_owned();
            tests.extend(same.map(|pass| (name, pass.commit)));
        }
        Ok(tests)
    }

    /// Keep tests that have passed, each with its inputs. The build of the programs began at `begun`,
    /// and they were ready at `since`.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn keep(
        &self,
        tests: &[(String, BTreeSet<String>)],
        begun: SystemTime,
        since: SystemTime,
    ) -> Result<()> {
        let mut digests = Digests::default();
        let commit = commit();
        if !has_built_sources(&workspace(), begun) {
            return Ok(());
        }
        for (test, names) in tests {
            if names.is_empty() || !names.iter().all(|name| is_old(&inputs::path(name), since)) {
                continue;
            }
            let digest = |name: &String| Some((name.clone(), digests.of(name)?.to_string()));
            let Some(inputs) = names.iter().map(digest).collect::<Option<BTreeMap<_, _>>>() else { continue };
            self.write(test, &Pass { commit: commit.clone(), inputs })?;
        }
        Ok(())
    }

    fn write(&self, test: &str, pass: &Pass) -> Result<()> {
        let directory = self.0.join(test);
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

/// Return the passes of a test. One that is damaged, or of another version, is none.
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
        let passed = Passed(directory.path().join("passed"));
        (directory, passed, input, tests)
    }

    #[test]
    fn a_pass_stands_for_the_test_until_an_input_changes_and_when_it_returns() {
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
    fn what_changed_during_the_run_or_has_no_inputs_is_not_kept() {
        let (_directory, passed, _, tests) = one();
        passed.keep(&tests, SystemTime::now(), SystemTime::now() - Duration::from_secs(60)).unwrap();
        passed.keep(&[("a::c".to_string(), BTreeSet::new())], SystemTime::now(), SystemTime::now()).unwrap();
        assert!(passed.unchanged().unwrap().is_empty());
    }

    #[test]
    fn the_sources_of_the_scheduler_stand_for_it() {
        let digest = |input: &str| Digests::default().of(input).map(String::from);
        let built = digest("target/ci/scx_bias");
        assert!(built.is_some() && built == digest("elsewhere/scx_bias"));
        let tree = tempfile::tempdir().unwrap();
        for source in SOURCES {
            let file = tree.path().join(source);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "one").unwrap();
        }
        let before = digest_of_sources(tree.path());
        assert!(before.is_some() && before == digest_of_sources(tree.path()));
        fs::write(tree.path().join("bpf"), "two").unwrap();
        assert_ne!(before, digest_of_sources(tree.path()));
    }

    #[test]
    fn a_comment_of_c_changes_nothing_and_a_string_counts() {
        let plain = without_comments("int a;\nint b; \n");
        let commented = "/* what\n * it is */\nint a; // one\n\nint b; /* two */\n";
        assert_eq!(without_comments(commented), plain);
        let strings = "s = \"/* \\\" no */\" + '\\'' + '\"';\n";
        assert_eq!(without_comments(strings), strings);
        assert_eq!(without_comments("a / b; /* no end"), "a / b;\n");
        assert!(workspace().join(DESCRIBED).is_file());
    }

    /// A source that changes during a build or a run may not be the one that passed.
    #[test]
    fn sources_that_changed_since_the_build_began_are_not_those_that_passed() {
        let now = SystemTime::now() + Duration::from_secs(60);
        assert!(has_built_sources(&workspace(), now));
        assert!(!has_built_sources(&workspace(), SystemTime::UNIX_EPOCH));
    }

    #[test]
    fn few_passes_of_a_test_remain_and_a_damaged_one_is_none() {
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
