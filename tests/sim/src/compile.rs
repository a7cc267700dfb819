// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Compilation of `bpf/` for the host.
//!
//! # Problem
//!
//! The sources must compile unmodified, but they contain one BPF instruction, the mask in
//! `bounded()`. And a call that the simulator does not know must fail here, with its name.
//!
//! # Approach
//!
//! clang translates `tests/sim/c/unit.c`, which includes `bpf/main.bpf.c`, to assembly. There each
//! BPF instruction is replaced by the host's. A second run of clang assembles the result and links
//! it into a shared object without undefined symbols other than those of the C library.
//!
//! The build script compiles `bpf/` as it is. Tests also compile copies with one line changed.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

/// The compiler that the build script found.
pub const CLANG: &str = match option_env!("BIAS_SIM_CLANG") {
    Some(clang) => clang,
    None => "clang",
};

/// What to compile.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// Directory of `main.bpf.c`.
    pub bpf: &'a Path,
    /// Directory that contains `bias/`.
    pub include: &'a Path,
    /// Directory of `unit.c`.
    pub unit: &'a Path,
}

/// Ways to compile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// As usual.
    Plain,
    /// With a call to the engine at each access to memory, so that other CPUs can run in between.
    Traced,
    /// With every check of undefined behaviour that traps.
    Undefined,
    /// With checks of addresses, by a runtime library that must be loaded before the program.
    Address,
}

const FLAGS: &[&str] = &[
    "-std=gnu11",
    "-O2",
    "-g1",
    "-fPIC",
    "-fvisibility=hidden",
    // BPF's memory model: no aliasing rules, and integers wrap.
    "-fno-strict-aliasing",
    "-fwrapv",
    "-fno-delete-null-pointer-checks",
    // Print inline assembly as it is written.
    "-fno-integrated-as",
    "-Wall",
    "-Werror=implicit-function-declaration",
    "-Wno-unused",
    "-Wno-format",
    "-Wno-unknown-attributes",
    "-Wno-incompatible-library-redeclaration",
    // unit.c makes `const` empty.
    "-Wno-incompatible-pointer-types-discards-qualifiers",
];

/// Compile `source` to the shared object `to`; `scratch` is for intermediate files.
///
/// # Errors
/// Fail with the compiler's message, which names a function or field that the simulator lacks.
pub fn compile(clang: &str, source: Source<'_>, variant: Variant, scratch: &Path, to: &Path) -> Result<()> {
    let assembly = scratch.join("unit.s");
    let mut command = Command::new(clang);
    command.arg("-S").args(FLAGS);
    command.args(match variant {
        Variant::Plain => &["-fsanitize=integer-divide-by-zero,shift-exponent"][..],
        // Without `func` clang inserts nothing.
        Variant::Traced => &["-DSIM_TRACED", "-fsanitize-coverage=func,trace-loads,trace-stores"],
        Variant::Undefined => &["-fsanitize=undefined,integer-divide-by-zero", "-fsanitize-trap=all"],
        Variant::Address => &["-fsanitize=address"],
    });
    for directory in [source.unit, source.include, source.bpf] {
        command.arg("-I").arg(directory);
    }
    run(command.arg(source.unit.join("unit.c")).arg("-o").arg(&assembly))?;
    let text =
        std::fs::read_to_string(&assembly).with_context(|| format!("cannot read {}", assembly.display()))?;
    std::fs::write(&assembly, translate(&text))
        .with_context(|| format!("cannot write {}", assembly.display()))?;
    // The runtime library of the address checks provides its functions when the object is loaded.
    let undefined = if variant == Variant::Address { "-Wl,-z,lazy" } else { "-Wl,-z,defs" };
    run(Command::new(clang).args(["-shared", undefined]).arg(&assembly).arg("-o").arg(to))
}

/// Replace the BPF instruction `REGISTER &= NUMBER` by the host's.
fn translate(assembly: &str) -> String {
    let mut text = String::with_capacity(assembly.len());
    for line in assembly.lines() {
        match line.trim_start().split_once(" &= ") {
            Some((register, number)) if cfg!(target_arch = "x86_64") => {
                text += &format!("\tandq {number}, {register}");
            }
            Some((register, number)) if cfg!(target_arch = "aarch64") => {
                text += &format!("\tand {register}, {register}, #{number}");
            }
            _ => text += line,
        }
        text.push('\n');
    }
    text
}

fn run(command: &mut Command) -> Result<()> {
    let output =
        command.output().with_context(|| format!("cannot run {}", command.get_program().display()))?;
    if !output.status.success() {
        bail!("the BPF code does not compile for the host:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
