// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! `cargo xtask package static`: scx_bias as one file that needs no library, and its services. It
//! serves systems whose `/usr` cannot be changed.
//!
//! # Limits
//!
//! A static glibc cannot load name-service modules, so `--group` of `scx_bias metrics` accepts only
//! the groups of `/etc/group`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use bias_vm::build::{cargo, target_directory, workspace};
use bias_vm::exit::{KERNEL_OR_PERMISSION, coded};
use bias_vm::steps::{Step, run_logged};

use crate::package_parts::{VERSION, must, output, packages};

/// Directory of the program that the services name.
const BINDIR: &str = "/usr/local/bin";

/// Build the program, and return the path of its archive.
pub fn archive() -> Result<PathBuf> {
    let mut step = Step::new("building the static program");
    let program = program(&mut step)?;
    let name = format!("scx_bias-{VERSION}-{}-static", std::env::consts::ARCH);
    let directory = packages().join(&name);
    if directory.exists() {
        fs::remove_dir_all(&directory).context("cannot remove an earlier static program")?;
    }
    fs::create_dir_all(&directory).context("cannot make a directory for the static program")?;
    fs::copy(&program, directory.join("scx_bias")).context("cannot copy the static program")?;
    must(Command::new("strip").arg("--strip-unneeded").arg(directory.join("scx_bias")))?;
    for unit in ["scx_bias.service", "scx_bias-metrics.service"] {
        let template = workspace().join("scheds/scx_bias").join(format!("{unit}.in"));
        let text = fs::read_to_string(template)?.replace("@bindir@", BINDIR);
        fs::write(directory.join(unit), text)?;
    }
    fs::copy(workspace().join("LICENSE"), directory.join("LICENSE"))?;
    let package = packages().join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args(["--owner=0", "--group=0", "--sort=name", "-czf"]).arg(&package);
    must(tar.arg("-C").arg(packages()).arg(&name))?;
    step.done("");
    Ok(package)
}

/// Build the program with all libraries in it.
fn program(step: &mut Step) -> Result<PathBuf> {
    let libelf = static_library("libelf.a")?;
    let mut build = cargo();
    // Only the final link selects the C library, so this build shares all crates but those around
    // libelf with other builds.
    build.args(["rustc", "--locked", "--release", "-p", "scx_bias", "--features", "static", "--"]);
    build.args(["-C", "target-feature=+crt-static"]).env("LIBBPF_SYS_LIBRARY_PATH", libelf);
    // Newer versions of libelf need it.
    if static_library("libzstd.a").is_ok() {
        build.args(["-C", "link-arg=-lzstd"]);
    }
    run_logged(step, &mut build, &target_directory().join("static.log"))?;
    let program = target_directory().join("release/scx_bias");
    let headers = output(Command::new("readelf").args(["-l", "-W"]).arg(&program))?;
    if headers.contains("INTERP") {
        bail!("{} still needs libraries of the system", program.display());
    }
    Ok(program)
}

/// Return the directory of a static library of the C compiler.
///
/// # Errors
/// Code 3: there is no such library.
fn static_library(name: &str) -> Result<PathBuf> {
    let path = output(Command::new("cc").arg(format!("-print-file-name={name}")))?;
    match Path::new(&path).parent() {
        Some(directory) if directory.is_absolute() => Ok(directory.to_owned()),
        _ => Err(coded(
            KERNEL_OR_PERMISSION,
            format!("there is no {name}; install the static libraries of libelf and zlib"),
        )),
    }
}
