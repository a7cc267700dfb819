// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Compile the kernel side (`bpf/`) with clang and generate its skeleton.

use std::env;
use std::path::Path;

use anyhow::{Context, Result};

/// Headers that `bpf/` includes from outside its directory. Cargo does not watch them by itself.
/// This and `bpf` are links, so that the packaged crate contains their targets.
const HEADERS: &str = "include";

/// Directory of the sources as the verifier's log shows it.
const SOURCES: &str = "/usr/src/scx_bias";

fn main() -> Result<()> {
    let here = env::var("CARGO_MANIFEST_DIR").context("cargo sets CARGO_MANIFEST_DIR")?;
    let headers = Path::new(&here).join(HEADERS);
    let source = Path::new(&here).join("bpf/main.bpf.c");
    println!("cargo:rerun-if-changed={}", headers.join("bias").display());
    println!("cargo:rerun-if-changed={}", source.with_file_name("").display());
    let out = env::var("OUT_DIR").context("cargo sets OUT_DIR")?;
    // Equal sources give equal programs, wherever they are compiled.
    let renamed = |path: &str| format!("-ffile-prefix-map={path}={SOURCES}");
    scx_cargo::BpfBuilder::new()
        .context("clang 18 or later is needed for the BPF code; set BPF_CLANG to its name")?
        .add_include_path(&headers.to_string_lossy())
        .add_cflag(&renamed(&here))
        .add_cflag(&renamed(&out))
        .enable_skel(&source.to_string_lossy(), "bpf")
        .build()
}
