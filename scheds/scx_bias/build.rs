// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Sets `SCX_BIAS_COMMIT`, which `--version` shows: "-g" and the commit, or nothing outside git.
//! The environment can set another text. The tests set none, so that equal sources give them equal
//! programs.

use std::process::Command;

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

fn main() {
    println!("cargo:rerun-if-env-changed=SCX_BIAS_COMMIT");
    if let Ok(text) = std::env::var("SCX_BIAS_COMMIT") {
        println!("cargo:rustc-env=SCX_BIAS_COMMIT={text}");
        return;
    }
    let commit = git(&["rev-parse", "--short=9", "HEAD"]).map(|hash| format!("-g{hash}"));
    println!("cargo:rustc-env=SCX_BIAS_COMMIT={}", commit.unwrap_or_default());
    // The log of HEAD changes with every commit, checkout and reset.
    match git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        Some(log) => println!("cargo:rerun-if-changed={log}"),
        None => println!("cargo:rerun-if-changed=build.rs"),
    }
}
