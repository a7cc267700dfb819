// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tools that no Debian 12 package has in the required version: virtme-ng, clang-format,
//! cargo-nextest.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::cache;
use crate::programs::{find_program, first_line};
use crate::steps::{Step, run_logged};

/// The virtme-ng release that the runner requires. Its options and ports change between releases.
const VIRTME_NG: &str = "1.42";
/// The clang-format release that determines the format, because releases format differently.
const CLANG_FORMAT: &str = "19.1.7";
/// The cargo-nextest release that is built if none is installed.
const NEXTEST: &str = "0.9.151";

/// Return the interpreter of a private Python environment with virtme-ng. Scripts in the
/// environment's bin/ do not work, because they contain the temporary name of its directory.
///
/// # Errors
/// Python cannot create the environment, or the package index is unreachable.
pub fn virtme_python() -> Result<PathBuf> {
    let directory = python_package("virtme-ng", VIRTME_NG, "which boots kernels on the host's files")?;
    Ok(directory.join("bin/python3"))
}

/// Return the clang-format program of the pinned release.
///
/// # Errors
/// Python cannot create the environment, or the package index is unreachable.
pub fn clang_format() -> Result<PathBuf> {
    let directory = python_package("clang-format", CLANG_FORMAT, "which checks the format of C files")?;
    // The package's launcher in bin/ contains the directory's temporary name, so use the program
    // itself.
    let pattern = "lib/python3*/site-packages/clang_format/data/bin/clang-format";
    let found = Command::new("sh").arg("-c").arg(format!("ls {pattern}")).current_dir(&directory).output();
    let found = found.context("cannot look for clang-format")?;
    let path = String::from_utf8_lossy(&found.stdout).trim().to_string();
    anyhow::ensure!(
        !path.is_empty(),
        "the Python package clang-format {CLANG_FORMAT} holds no program at {pattern}"
    );
    Ok(directory.join(path))
}

/// Return a Python environment in the cache directory that holds one package.
fn python_package(name: &str, version: &str, purpose: &str) -> Result<PathBuf> {
    cache::entry("venv", &format!("{name}-{version}"), |directory| {
        let mut step = Step::new(format!("installing {name} {version}, {purpose}"));
        let log = cache::root()?.join("venv").join("log");
        run_logged(&mut step, Command::new("python3").args(["-m", "venv"]).arg(directory), &log)
            .context("cannot make a Python environment; is python3-venv installed?")?;
        let mut pip = Command::new(directory.join("bin/python3"));
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        pip.arg(format!("{name}=={version}"));
        run_logged(&mut step, &mut pip, &log)
            .with_context(|| format!("cannot install {name}; is the network up?"))?;
        step.done("");
        Ok(())
    })
}

/// Return the installed `cargo-nextest` program, else one that is built into the cache directory.
///
/// # Errors
/// The program cannot be built.
pub fn nextest() -> Result<PathBuf> {
    if let Some(path) = find_program("cargo-nextest")
        && first_line(&path, "--version").starts_with("cargo-nextest")
    {
        return Ok(path);
    }
    // Build without optimisation and without self-updates, in a fraction of the time: the program
    // mostly waits for tests.
    let options = ["--debug", "--no-default-features", "--features", "default-no-update"];
    let why = "which runs the tests";
    Ok(cargo_install("cargo-nextest", NEXTEST, &options, why)?.join("cargo-nextest"))
}

/// Build a published program into the cache, and return the directory that contains it.
fn cargo_install(name: &str, version: &str, options: &[&str], why: &str) -> Result<PathBuf> {
    let directory = cache::entry("tools", &format!("{name}-{version}"), |directory| {
        let mut step = Step::new(format!("building {name} {version}, {why}; this takes minutes"));
        let log = cache::root()?.join("tools").join("log");
        let mut cargo = Command::new("cargo");
        cargo
            .args(["install", "--locked", "--version", version, name, "--root"])
            .arg(directory)
            .args(options);
        cargo.env("CARGO_PROFILE_DEV_DEBUG", "0");
        // Build outside the workspace, whose target directory, flags and lints must not apply.
        cargo.current_dir("/").env("CARGO_TARGET_DIR", directory.join("target")).env_remove("RUSTFLAGS");
        run_logged(&mut step, &mut cargo, &log)?;
        std::fs::remove_dir_all(directory.join("target")).context("cannot remove a build directory")?;
        step.done("");
        Ok(())
    })?;
    Ok(directory.join("bin"))
}
