// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Compile the kernel side (`bpf/`) with clang and generate its skeleton.

use std::env;
use std::path::Path;

use anyhow::{Context, Result};

/// Headers that `bpf/` includes from outside its directory. Cargo does not watch them by itself.
/// This and `bpf` are links, so that the crate can be packaged with what they lead to.
const HEADERS: &str = "include";

fn main() -> Result<()> {
    let here = env::var("CARGO_MANIFEST_DIR").context("cargo sets CARGO_MANIFEST_DIR")?;
    let headers = Path::new(&here).join(HEADERS);
    let source = Path::new(&here).join("bpf/main.bpf.c");
    println!("cargo:rerun-if-changed={}", headers.join("bias").display());
    println!("cargo:rerun-if-changed={}", source.with_file_name("").display());
    scx_cargo::BpfBuilder::new()
        .context("clang 18 or later is needed for the BPF code; set BPF_CLANG to its name")?
        .add_include_path(&headers.to_string_lossy())
        .enable_skel(&source.to_string_lossy(), "bpf")
        .build()
}
