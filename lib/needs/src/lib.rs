// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Requirements of the build on the distribution, with the commands that install them.
//!
//! # Problem
//!
//! The build scripts of libbpf, scx and bindgen stop at the first missing dependency, some with a
//! compiler error in a foreign file.
//!
//! # Approach
//!
//! This crate's build script checks for all dependencies and names the missing ones with the
//! commands that install them. It has no dependencies, so it runs early. All crates of this project
//! with build scripts depend on it. It searches as the other tools do: libclang like clang-sys,
//! headers with the C compiler, programs on `PATH`.
//!
//! # Limits
//!
//! * Cargo chooses the build order, so an error of another crate may come first.
//! * A cross build does not check for headers.

use std::env;
use std::ffi::OsStr;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// One line that names a missing dependency and its use.
pub type Missing = String;

/// Commands that install all dependencies, by family of distributions.
pub const INSTALL: [(&str, &str); 4] = [
    (
        "Debian, Ubuntu",
        "sudo apt install build-essential clang-19 libclang-19-dev libelf-dev zlib1g-dev pkg-config",
    ),
    (
        "Fedora",
        "sudo dnf install gcc make clang clang-devel elfutils-libelf-devel zlib-devel pkgconf-pkg-config",
    ),
    ("Arch", "sudo pacman -S --needed gcc make clang libelf zlib pkgconf"),
    ("openSUSE", "sudo zypper install gcc make clang clang-devel libelf-devel zlib-devel pkgconf-pkg-config"),
];

/// Oldest clang version that compiles the kernel side.
const LEAST_CLANG: u32 = 18;

/// Report missing dependencies on standard error. Return failure if there are any.
#[must_use]
pub fn check(here: &Path, native: bool) -> ExitCode {
    let missing = missing(here, native);
    if missing.is_empty() {
        return ExitCode::SUCCESS;
    }
    eprintln!("{}", message(&missing));
    ExitCode::FAILURE
}

/// Return all missing dependencies. `here` is the directory of this crate. Check for headers only
/// if `native`.
#[must_use]
pub fn missing(here: &Path, native: bool) -> Vec<Missing> {
    let mut missing: Vec<Missing> = compiler(here).err().into_iter().collect();
    if !has_libclang() {
        missing
            .push("libclang, with which bindgen reads C headers (LIBCLANG_PATH names its directory)".into());
    }
    let pkg_config = env::var_os("PKG_CONFIG").unwrap_or_else(|| "pkg-config".into());
    for program in [OsStr::new("make"), &pkg_config] {
        if !runs(program) {
            missing.push(format!("{}, with which libbpf is built", program.display()));
        }
    }
    for header in ["libelf.h", "zlib.h"].into_iter().filter(|_| native) {
        if !has_header(header) {
            missing.push(format!("{header}, which libbpf includes, and its library"));
        }
    }
    missing
}

/// Return the message for the user about missing dependencies.
#[must_use]
pub fn message(missing: &[Missing]) -> String {
    let mut text = String::from("scx_bias cannot be built here. Missing:\n");
    for what in missing {
        text += &format!("  * {what}\n");
    }
    text += "Install everything with\n";
    for (family, command) in INSTALL {
        text += &format!("  {:<16}{command}\n", format!("{family}:"));
    }
    text
}

/// Check for a usable BPF compiler. BPF_CLANG names it, else the script `bpf-clang` finds it.
///
/// # Errors
/// The error names the missing compiler.
pub fn compiler(here: &Path) -> Result<(), Missing> {
    let script = here.join("bpf-clang");
    let program = env::var_os("BPF_CLANG").unwrap_or_else(|| script.into_os_string());
    let needed = "the compiler for BPF";
    let output = Command::new(&program)
        .arg("--version")
        .output()
        .map_err(|error| format!("{needed}: {} does not run ({error})", program.display()))?;
    if !output.status.success() {
        return Err(format!("{needed}: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    match clang_version(&String::from_utf8_lossy(&output.stdout)) {
        Some(version) if version >= LEAST_CLANG => Ok(()),
        Some(version) => Err(format!(
            "{needed}: {} is clang {version}, {LEAST_CLANG} or later is needed; unset BPF_CLANG to search for one",
            program.display()
        )),
        None => {
            Err(format!("{needed}: {} is not clang; unset BPF_CLANG to search for one", program.display()))
        }
    }
}

/// Return the major version in clang's output of `--version`.
fn clang_version(text: &str) -> Option<u32> {
    let (_, version) = text.split_once("clang version ")?;
    version.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Return true if `program` starts. Its exit code and output do not matter.
fn runs(program: &OsStr) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// Return true if the C compiler finds this header. Return true without a compiler as well, because
/// Rust reports that itself.
#[must_use]
pub fn has_header(header: &str) -> bool {
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let flags = env::var("CFLAGS").unwrap_or_default();
    let mut command = Command::new(compiler);
    command.args(flags.split_whitespace()).args(["-E", "-x", "c", "-"]);
    let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let Ok(mut child) = child else { return true };
    if let Some(mut input) = child.stdin.take() {
        // A compiler that does not read its input fails, and its exit code shows that.
        let _ = writeln!(input, "#include <{header}>");
    }
    child.wait().is_ok_and(|status| status.success())
}

/// Return true if there is a libclang where clang-sys searches for one.
#[must_use]
pub fn has_libclang() -> bool {
    if let Some(path) = env::var_os("LIBCLANG_PATH").map(PathBuf::from) {
        return path.is_file() || holds_libclang(&path, 0);
    }
    let config = env::var_os("LLVM_CONFIG_PATH").unwrap_or_else(|| "llvm-config".into());
    let prefix = Command::new(config).arg("--prefix").output().ok().filter(|output| output.status.success());
    let prefix = prefix.map(|output| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    let by_config = prefix.into_iter().flat_map(|prefix| [prefix.join("lib"), prefix.join("lib64")]);
    let linked = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let mut named = by_config.chain(env::split_paths(&linked));
    named.any(|directory| holds_libclang(&directory, 0))
        || ["/usr", "/usr/local"].iter().any(|root| {
            let directories = std::fs::read_dir(root).into_iter().flatten().flatten();
            let libraries = directories.filter(|entry| {
                let name = entry.file_name();
                let name = name.to_string_lossy();
                name.starts_with("lib") || name.starts_with("llvm")
            });
            libraries.map(|entry| entry.path()).any(|directory| holds_libclang(&directory, 2))
        })
}

/// Return true if a shared libclang is in this directory or up to `levels` levels below it.
fn holds_libclang(directory: &Path, levels: u32) -> bool {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let library =
            name.starts_with("libclang.so") || (name.starts_with("libclang-") && name.contains(".so"));
        library || (levels > 0 && entry.path().is_dir() && holds_libclang(&entry.path(), levels - 1))
    })
}
