//! What building scx_bias needs from the distribution, and how to get it.
//!
//! Problem. The build scripts of libbpf, scx and bindgen stop at the first thing that they miss, some with a compiler's error in a file that is not
//! ours.
//!
//! Approach. This crate's build script looks for everything at once and names what is missing with the commands that install it. It depends on
//! nothing, so it runs early; all crates with build scripts of ours depend on it. It looks where the others look: libclang is searched for as clang-sys
//! does, headers by the C compiler, programs on `PATH`.
//!
//! Limits. Cargo decides what it builds first: another crate's complaint may come before ours. Headers are not looked for when cross-compiling.

use std::env;
use std::ffi::OsStr;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// Something that may be missing, and what it is needed for; one line.
pub type Missing = String;

/// How each family of distributions installs all that is needed.
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

/// The oldest clang that compiles what the kernel side uses.
const LEAST_CLANG: u32 = 18;

/// Tells on standard error what is missing, if anything is; fails then.
#[must_use]
pub fn check(here: &Path, native: bool) -> ExitCode {
    let missing = missing(here, native);
    if missing.is_empty() {
        return ExitCode::SUCCESS;
    }
    eprintln!("{}", message(&missing));
    ExitCode::FAILURE
}

/// Everything that is missing. `here` is the folder of this crate; headers are looked for if `native`.
#[must_use]
pub fn missing(here: &Path, native: bool) -> Vec<Missing> {
    let mut missing: Vec<Missing> = compiler(here).err().into_iter().collect();
    if !has_libclang() {
        missing.push("libclang, with which bindgen reads C headers (LIBCLANG_PATH names its folder)".into());
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

/// What to tell the user who lacks something.
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

/// Is there a BPF compiler that can be used? BPF_CLANG names it, else the script `bpf-clang` finds it.
///
/// # Errors
/// What is missing.
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
            "{needed}: {} is clang {version}, {LEAST_CLANG} or later is needed; unset BPF_CLANG to have one found",
            program.display()
        )),
        None => {
            Err(format!("{needed}: {} is no clang; unset BPF_CLANG to have one found", program.display()))
        }
    }
}

/// The major version in what clang says of itself.
fn clang_version(text: &str) -> Option<u32> {
    let (_, version) = text.split_once("clang version ")?;
    version.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Does `program` start? What it then says does not matter.
fn runs(program: &OsStr) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// Does the C compiler find this header? True without a compiler: Rust says so itself.
fn has_header(header: &str) -> bool {
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let flags = env::var("CFLAGS").unwrap_or_default();
    let mut command = Command::new(compiler);
    command.args(flags.split_whitespace()).args(["-E", "-x", "c", "-"]);
    let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let Ok(mut child) = child else { return true };
    if let Some(mut input) = child.stdin.take() {
        // A compiler that does not read it fails, which tells enough.
        let _ = writeln!(input, "#include <{header}>");
    }
    child.wait().is_ok_and(|status| status.success())
}

/// Is there a libclang where clang-sys looks for one?
fn has_libclang() -> bool {
    if let Some(path) = env::var_os("LIBCLANG_PATH").map(PathBuf::from) {
        return path.is_file() || holds_libclang(&path, 0);
    }
    let config = env::var_os("LLVM_CONFIG_PATH").unwrap_or_else(|| "llvm-config".into());
    let prefix = Command::new(config).arg("--prefix").output().ok().filter(|output| output.status.success());
    let prefix = prefix.map(|output| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    let by_config = prefix.into_iter().flat_map(|prefix| [prefix.join("lib"), prefix.join("lib64")]);
    let linked = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let mut named = by_config.chain(env::split_paths(&linked));
    named.any(|folder| holds_libclang(&folder, 0))
        || ["/usr", "/usr/local"].iter().any(|root| {
            let folders = std::fs::read_dir(root).into_iter().flatten().flatten();
            let libraries = folders.filter(|entry| {
                let name = entry.file_name();
                let name = name.to_string_lossy();
                name.starts_with("lib") || name.starts_with("llvm")
            });
            libraries.map(|entry| entry.path()).any(|folder| holds_libclang(&folder, 2))
        })
}

/// Is there a shared libclang in this folder or so many levels below it?
fn holds_libclang(folder: &Path, levels: u32) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let library =
            name.starts_with("libclang.so") || (name.starts_with("libclang-") && name.contains(".so"));
        library || (levels > 0 && entry.path().is_dir() && holds_libclang(&entry.path(), levels - 1))
    })
}
