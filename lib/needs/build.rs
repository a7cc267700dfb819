// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Checks for the dependencies of the build, and ends it with a list if one is missing.

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

#[allow(dead_code)]
#[path = "src/lib.rs"]
mod needs;

fn main() -> ExitCode {
    for file in ["build.rs", "src/lib.rs", "bpf-clang"] {
        println!("cargo::rerun-if-changed={file}");
    }
    for variable in ["BPF_CLANG", "LIBCLANG_PATH", "PKG_CONFIG"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    let here = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).unwrap_or_default();
    needs::check(&here, env::var_os("HOST") == env::var_os("TARGET"))
}
