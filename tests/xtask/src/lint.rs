// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! `cargo xtask lint`.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use bias_vm::build::{cargo, workspace};
use bias_vm::programs::find_program;
use bias_vm::sources::sources;

/// Lines at the beginning of each source file.
const SPDX: [&str; 2] =
    ["SPDX-License-Identifier: GPL-2.0-only", "SPDX-FileCopyrightText: 2026 The scx_bias authors"];

/// Run every check, even after one fails. Return 1 if any failed.
pub fn run() -> Result<i32> {
    let mut failed = if prose()? { Vec::new() } else { vec!["prose"] };
    if !licence_lines()? {
        failed.push("SPDX lines");
    }
    let mut check = |name: &'static str, command: &mut Command| -> Result<()> {
        eprintln!("xtask: {name} ...");
        let status = command
            .status()
            .with_context(|| format!("cannot run {name}; is it installed? See cargo xtask setup"))?;
        if !status.success() {
            failed.push(name);
        }
        bias_vm::interrupt::check()
    };
    check("rustfmt", cargo().args(["fmt", "--all", "--check"]))?;
    let clippy = ["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"];
    check("clippy", cargo().args(clippy))?;
    let clang_format = bias_vm::tools::clang_format()?;
    let c_files = sources(&["*.c", "*.h"])?;
    check("clang-format", in_tree(clang_format).args(["--dry-run", "--Werror"]).args(&c_files))?;
    let scripts = sources(&["*.sh"])?;
    check("shellcheck", in_tree("shellcheck").args(["-x", "--severity=warning"]).args(&scripts))?;
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

/// Check the comments and documents of all files of the tree. Return true if they are fine.
fn prose() -> Result<bool> {
    eprintln!("xtask: prose ...");
    let mut clean = true;
    for name in &sources(&[])? {
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

/// Check that each source file begins with its licence and copyright. Return true if all do.
fn licence_lines() -> Result<bool> {
    eprintln!("xtask: SPDX lines ...");
    let mut clean = true;
    for name in &sources(&["*.rs", "*.c", "*.h", "*.sh", "*.py", "meson.build"])? {
        let text = std::fs::read_to_string(workspace().join(name)).unwrap_or_default();
        let missing = SPDX.iter().find(|line| !text.lines().take(3).any(|begin| begin.contains(*line)));
        if let Some(line) = missing {
            eprintln!("{name}:1: no line \"{line}\"");
            clean = false;
        }
    }
    Ok(clean)
}

/// Return a command that runs in the root of the tree.
fn in_tree(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(workspace());
    command
}
