//! `cargo xtask lint`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use bias_vm::build::{cargo, workspace};
use bias_vm::programs::find_program;

/// Runs every check, all of them even if one fails, and returns 1 if any did.
pub fn run() -> Result<i32> {
    let mut failed = if prose()? { Vec::new() } else { vec!["prose"] };
    let mut check = |name: &'static str, command: &mut Command| -> Result<()> {
        eprintln!("xtask: {name} ...");
        let status = command.status().with_context(|| format!("cannot run {name}"))?;
        if !status.success() {
            failed.push(name);
        }
        bias_vm::interrupt::check()
    };
    check("rustfmt", cargo().args(["fmt", "--all", "--check"]))?;
    let clippy = ["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"];
    check("clippy", cargo().args(clippy))?;
    let mut sources = Vec::new();
    for folder in ["bpf", "lib/include", "tests"] {
        c_sources(&workspace().join(folder), &mut sources)?;
    }
    let clang_format = bias_vm::tools::clang_format()?;
    check("clang-format", Command::new(clang_format).args(["--dry-run", "--Werror"]).args(&sources))?;
    match find_program("cargo-deny") {
        Some(_) => check(
            "cargo-deny",
            cargo().args(["deny", "--all-features", "check", "licenses", "bans", "sources"]),
        )?,
        None => eprintln!(
            "xtask: cargo-deny is not installed; licences are checked by a test, bans and sources are not"
        ),
    }
    if failed.is_empty() {
        eprintln!("xtask: all checks passed");
        return Ok(0);
    }
    eprintln!("xtask: failed: {}", failed.join(", "));
    Ok(1)
}

/// Check the comments and documents of all files that git tracks. Return true if they are fine.
fn prose() -> Result<bool> {
    eprintln!("xtask: prose ...");
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(workspace())
        .output()
        .context("cannot run git")?;
    let mut clean = true;
    for name in String::from_utf8_lossy(&listed.stdout).split('\0').filter(|name| !name.is_empty()) {
        // The glossary names the words that it replaces.
        if name == "docs/glossary.md" {
            continue;
        }
        let Ok(text) = std::fs::read_to_string(workspace().join(name)) else { continue };
        for (line, complaint) in crate::prose::complaints(Path::new(name), &text) {
            eprintln!("{name}:{line}: {complaint}");
            clean = false;
        }
    }
    Ok(clean)
}

/// The project's C files below a folder.
fn c_sources(folder: &Path, into: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry.with_context(|| format!("cannot read {}", folder.display()))?.path();
        if path.is_dir() {
            c_sources(&path, into)?;
        } else if path.extension().is_some_and(|extension| extension == "c" || extension == "h") {
            into.push(path);
        }
    }
    Ok(())
}
