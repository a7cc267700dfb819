// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The sources of the programs that this workspace builds.
//!
//! # Problem
//! Equal sources do not give equal bytes: clang writes the types of the kernel side in another
//! order at each compilation, and programs hold paths of the checkout. Yet equal sources give
//! programs that do the same.
//!
//! # Approach
//! cargo lists the workspace's crates that a program consists of. The program's sources are their
//! directories, the directories that their build scripts read, and the workspace's own files.
//!
//! # Limits
//! A build script that reads another directory must be named in [`READ_BY_BUILD`]. The list of
//! installed packages, an input of each scenario, stands for the C compiler.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context as _, Result};
use bias_vm::build::{cargo, workspace};
use bias_vm::{cache, inputs};
use serde::Deserialize;

/// Directories that build scripts read besides their own.
const READ_BY_BUILD: [(&str, &str); 3] =
    [("bias_policy", "lib/include"), ("bias_agent", "bpf"), ("bias_sim", "bpf")];
/// Files that affect every build.
const COMMON: [&str; 3] = ["Cargo.toml", "Cargo.lock", ".cargo/config.toml"];
/// Begin and end of the C text whose comments a build reads: they describe statistics.
const DESCRIBED: (&str, &str) = ("enum bias_stat {", "};");

/// The used part of the output of `cargo metadata`.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// None, "build" or "dev".
    kind: Option<String>,
    /// Present if the dependency is a crate of the workspace.
    path: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

/// The programs and libraries that the workspace builds.
pub struct Built {
    root: PathBuf,
    /// The sources of each, by the name of its file.
    sources: BTreeMap<String, BTreeSet<PathBuf>>,
    rustc: Vec<u8>,
}

impl Built {
    /// Return the programs and libraries of this workspace.
    ///
    /// # Errors
    /// cargo or rustc does not run.
    pub fn of_workspace() -> Result<Self> {
        let metadata = cargo()
            .args(["metadata", "--no-deps", "--format-version", "1", "--locked", "--offline"])
            .output()
            .context("cannot run cargo metadata")?;
        let metadata = serde_json::from_slice(&metadata.stdout).context("cargo metadata is not readable")?;
        let rustc = Command::new("rustc").arg("-vV").output().context("cannot run rustc")?;
        Ok(Self::new(workspace(), metadata, rustc.stdout))
    }

    fn new(root: PathBuf, metadata: Metadata, rustc: Vec<u8>) -> Self {
        let packages: BTreeMap<_, _> =
            metadata.packages.iter().map(|package| (package.name.as_str(), package)).collect();
        let mut sources = BTreeMap::new();
        for package in &metadata.packages {
            let paths: BTreeSet<_> = closure(package, &packages)
                .into_iter()
                .flat_map(|name| {
                    let own = packages[name].manifest_path.parent().unwrap_or(&root).to_path_buf();
                    let read = READ_BY_BUILD.iter().filter(move |(reader, _)| *reader == name);
                    read.map(|(_, path)| root.join(path)).chain([own]).collect::<Vec<_>>()
                })
                .chain(COMMON.iter().map(|file| root.join(file)))
                .collect();
            let files = package.targets.iter().filter_map(file_of);
            sources.extend(files.map(|file| (file, paths.clone())));
        }
        Self { root, sources, rustc }
    }

    /// Return the files that a built program consists of, in order, or `None` if the path `program`
    /// is not a built program.
    fn files(&self, program: &Path) -> Option<Result<Vec<PathBuf>>> {
        let paths = self.sources.get(program.file_name()?.to_str()?)?;
        let all = paths.iter().map(|path| inputs::files(path)).collect::<Result<Vec<_>>>();
        Some(all.map(|all| {
            let is_source = |file: &PathBuf| file.extension().is_none_or(|end| end != "md");
            let files: BTreeSet<_> = all.into_iter().flatten().filter(is_source).collect();
            files.into_iter().collect()
        }))
    }

    /// Return a digest of the sources of a built program, `Some(None)` if a source cannot be read,
    /// and `None` if `program` is not a built program.
    pub fn digest(&self, program: &Path) -> Option<Option<String>> {
        Some(self.files(program)?.ok().and_then(|files| {
            let mut parts = vec![self.rustc.clone()];
            for file in files {
                let name = file.strip_prefix(&self.root).ok()?.to_string_lossy().into_owned();
                let text = fs::read(&file).ok()?;
                let is_c = [".c", ".h"].iter().any(|end| name.ends_with(end));
                parts.push(name.into_bytes());
                let code = is_c.then(|| code_of(&String::from_utf8_lossy(&text)));
                parts.push(code.map_or(text, String::into_bytes));
            }
            Some(cache::digest(&parts))
        }))
    }

    /// Return true if no source of a built program has changed since its build began at `begun`.
    /// Return `None` if `program` is not a built program.
    pub fn is_built_since(&self, program: &Path, begun: SystemTime) -> Option<bool> {
        Some(self.files(program)?.is_ok_and(|files| files.iter().all(|file| is_old(file, begun))))
    }
}

/// Return true if a file was last changed by `since`.
pub fn is_old(file: &Path, since: SystemTime) -> bool {
    fs::metadata(file).and_then(|file| file.modified()).is_ok_and(|at| at <= since)
}

/// Return the file name of what a target builds, or `None` for tests and Rust libraries.
fn file_of(target: &Target) -> Option<String> {
    let is = |kind: &str| target.kind.iter().any(|own| own == kind);
    match (is("bin"), is("cdylib")) {
        (true, _) => Some(target.name.clone()),
        (false, true) => Some(format!("lib{}.so", target.name)),
        (false, false) => None,
    }
}

/// Return the names of the workspace's crates that `package` is built from, itself included.
fn closure<'a>(package: &'a Package, packages: &BTreeMap<&'a str, &'a Package>) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut left = vec![package.name.as_str()];
    while let Some(name) = left.pop() {
        let Some(package) = packages.get(name).filter(|_| found.insert(name)) else { continue };
        let built = |one: &&'a Dependency| one.path.is_some() && one.kind.as_deref() != Some("dev");
        left.extend(package.dependencies.iter().filter(built).map(|one| one.name.as_str()));
    }
    found
}

/// Return the part of a C text that affects a build.
fn code_of(text: &str) -> String {
    let Some((before, rest)) = text.split_once(DESCRIBED.0) else { return without_comments(text) };
    let (described, after) = rest.split_once(DESCRIBED.1).unwrap_or((rest, ""));
    [&without_comments(before), DESCRIBED.0, described, &without_comments(after)].concat()
}

/// Return a C text without comments and empty lines, and with runs of blanks as one: clang-format
/// aligns code beside comments.
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
    let lines = code.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.filter(|line| !line.is_empty()).flat_map(|line| [line, "\n".into()]).collect()
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// A tree with a program of two crates, one of which reads `bpf`.
    fn tree() -> (tempfile::TempDir, Built) {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().to_path_buf();
        for file in ["bpf/a.h", "agent/src/lib.rs", "bin/main.rs", "other/main.rs"].iter().chain(&COMMON) {
            fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
            fs::write(root.join(file), "one\n").unwrap();
        }
        let package = |name: &str, path: &str, uses: &str, kind: &str| {
            format!(
                r#"{{"name": "{name}", "manifest_path": "{}/{path}/Cargo.toml",
                "dependencies": [{{"name": "{uses}", "kind": null, "path": "x"}}],
                "targets": [{{"name": "{name}", "kind": ["{kind}"]}}]}}"#,
                root.display()
            )
        };
        let packages = [
            package("bias_agent", "agent", "bias_agent", "lib"),
            package("program", "bin", "bias_agent", "bin"),
            package("other", "other", "other", "cdylib"),
        ];
        let text = format!(r#"{{"packages": [{}]}}"#, packages.join(", "));
        let built = Built::new(root, serde_json::from_str(&text).unwrap(), Vec::new());
        (directory, built)
    }

    #[test]
    fn a_program_has_the_sources_of_its_crates_and_of_their_build_scripts() {
        let (directory, built) = tree();
        let program = Path::new("target/ci/program");
        let mut before = built.digest(program).unwrap().unwrap();
        assert_eq!(built.digest(Path::new("elsewhere/program")).unwrap(), Some(before.clone()));
        for file in ["bpf/a.h", "agent/src/lib.rs", "bin/main.rs", "Cargo.lock"] {
            fs::write(directory.path().join(file), "two\n").unwrap();
            let after = built.digest(program).unwrap().unwrap();
            assert_ne!(after, before, "{file}");
            before = after;
        }
        fs::write(directory.path().join("other/main.rs"), "two\n").unwrap();
        fs::write(directory.path().join("bpf/a.h"), "/* why */\n\ntwo\n").unwrap();
        fs::write(directory.path().join("bin/README.md"), "one").unwrap();
        assert_eq!(built.digest(program).unwrap(), Some(before));
        assert!(built.digest(Path::new("libother.so")).is_some());
        assert!(built.digest(Path::new("bias_agent")).is_none(), "a Rust library is part of programs");
    }

    #[test]
    fn a_source_that_changed_since_the_build_began_was_not_built() {
        let (_directory, built) = tree();
        let later = SystemTime::now() + std::time::Duration::from_secs(60);
        assert_eq!(built.is_built_since(Path::new("program"), later), Some(true));
        assert_eq!(built.is_built_since(Path::new("program"), SystemTime::UNIX_EPOCH), Some(false));
        assert_eq!(built.is_built_since(Path::new("gcc"), later), None);
    }

    #[test]
    fn the_programs_of_this_workspace_have_sources() {
        let built = Built::of_workspace().unwrap();
        let has = |program: &str, file: &str| {
            let files = built.files(Path::new(program)).unwrap().unwrap();
            files.contains(&workspace().join(file))
        };
        assert!(has("scx_bias", "bpf/main.bpf.c") && has("scx_bias", "lib/include/bias/abi.h"));
        assert!(has("bias-bench-sim", "tests/sim/tests/mutations.rs"));
        assert!(has("libampvm_plugin.so", "tests/ampvm/abi/src/lib.rs"));
        assert!(!has("libampvm_plugin.so", "bpf/main.bpf.c") && !has("bias-bench", "bpf/main.bpf.c"));
    }

    #[test]
    fn a_comment_of_c_changes_nothing_and_a_string_counts() {
        let plain = without_comments("int a;\nint b; \n#define C 1\n");
        let commented =
            "/* what\n * it is */\nint a; // one\n\nint b; /* two */\n#define C\t  1 /* three */\n";
        assert_eq!(without_comments(commented), plain);
        let strings = "s = \"/* \\\" no */\" + '\\'' + '\"';\n";
        assert_eq!(without_comments(strings), strings);
        assert_eq!(without_comments("a / b; /* no end"), "a / b;\n");
        let statistics =
            |what: &str| format!("/* all */\nenum bias_stat {{\n\tA, /* {what} */\n}};\n/* end */\n");
        assert_ne!(code_of(&statistics("tasks")), code_of(&statistics("wakeups")));
        assert_eq!(code_of(&statistics("tasks").replace("/* all */", "")), code_of(&statistics("tasks")));
    }
}
