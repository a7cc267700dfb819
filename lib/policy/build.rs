// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Generates Rust bindings to the C policy headers, so that every formula has a single
//! implementation.
//!
//! The headers hold `static inline` functions only. bindgen writes a C file that wraps each one in
//! an external function. cc compiles that file, and the generated Rust declares the wrappers.
//! `bias_needs` has already checked for libclang.

use std::env;
use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set: run through cargo")?);
    let include =
        Path::new(&env::var_os("CARGO_MANIFEST_DIR").ok_or("CARGO_MANIFEST_DIR is not set")?).join("include");
    println!("cargo::rerun-if-changed={}", include.display());
    println!("cargo::rerun-if-env-changed=LIBCLANG_PATH");

    // One translation unit includes every header, in a fixed order so that the output is
    // reproducible.
    let mut headers: Vec<_> = std::fs::read_dir(include.join("bias"))?
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .filter(|name| name.ends_with(".h"))
        .collect();
    headers.sort();
    let mut all = String::new();
    for name in &headers {
        writeln!(all, "#include \"bias/{name}\"")?;
    }
    let unit = out.join("bias_all.h");
    std::fs::write(&unit, all)?;

    let wrappers = out.join("bias_wrappers");
    let bindings = bindgen::Builder::default()
        .header(unit.to_string_lossy())
        .clang_arg(format!("-I{}", include.display()))
        .allowlist_item("bias_.*|BIAS_.*")
        .wrap_static_fns(true)
        .wrap_static_fns_path(&wrappers)
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .translate_enum_integer_types(true)
        .derive_default(true)
        .derive_eq(true)
        .generate_comments(false)
        // Each run of this script writes the unit. If cargo watched it, every build would start
        // from scratch.
        .parse_callbacks(Box::new(bindgen::CargoCallbacks::new().rerun_on_header_files(false)))
        .generate()?;
    bindings.write_to_file(out.join("bindings.rs"))?;

    let abi = std::fs::read_to_string(include.join("bias/abi.h"))?;
    std::fs::write(out.join("kernel_stats.rs"), kernel_stats(&abi).ok_or("abi.h has no enum bias_stat")?)?;

    // bindgen writes the file only if there is a function to wrap.
    let source = wrappers.with_extension("c");
    if source.exists() {
        cc::Build::new()
            .file(&source)
            .include(&include)
            .include(&out)
            .warnings(true)
            .compile("bias_wrappers");
    }
    Ok(())
}

/// Return a macro with the statistics of `enum bias_stat` in `abi`, so that the enum is their only
/// list. A comment on the line of a statistic, or else the one before it, is its description.
fn kernel_stats(abi: &str) -> Option<String> {
    let (_, body) = abi.split_once("enum bias_stat {")?;
    let (body, _) = body.split_once("};")?;
    let mut list = String::new();
    let mut before = String::new();
    for line in body.lines() {
        let (code, comment) =
            line.split_once("/*").unwrap_or(if line.contains("BIAS_") { (line, "") } else { ("", line) });
        let words = comment.split("*/").next()?.split_whitespace().filter(|word| *word != "*");
        let comment = words.collect::<Vec<_>>().join(" ");
        match code.trim().trim_end_matches(',').strip_prefix("BIAS_STAT_") {
            Some(name) => {
                let text = if comment.is_empty() { before.trim() } else { &comment };
                writeln!(list, "            {} {:?};", name.to_lowercase(), text).ok()?;
                before.clear();
            }
            None => before = before + " " + &comment,
        }
    }
    let head = "/// Pass the kernel side's statistics, then the tokens that follow, to the macro `$then`.";
    Some(format!(
        "{head}\n#[macro_export]\nmacro_rules! with_kernel_stats {{\n    ($then:ident: $($more:tt)*) => {{\n        $then! {{ {{\n{list}        }} $($more)* }}\n    }};\n}}\n"
    ))
}
