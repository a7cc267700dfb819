// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Names the library of C programs, so that they find it by this name and not by the path that they
//! were linked with. The number changes with each change that breaks such programs.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libbias_mark.so.0");
    // Old loaders know only the older table of symbols.
    println!("cargo:rustc-cdylib-link-arg=-Wl,--hash-style=both");
}
