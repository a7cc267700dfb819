// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The packages that the project needs from the distribution: their reasons and their installation.
//!
//! # Approach
//! One table lists them, each with a test of its function, which holds on every distribution.
//! [`ensure`] lists missing packages with their reasons. On Debian 12, 13 and unstable, unless the
//! user refuses, it installs them with a private apt configuration ([`crate::apt`]). On other
//! distributions it ends with code 3: a clear list is better than an untested installation. The
//! container of `scheds/packaging/Containerfile` is a Debian 12.

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};

use crate::apt::{self, Apt, Suites};
use crate::exit::{KERNEL_OR_PERMISSION, coded};
use crate::prepared::prepared;
use crate::programs::find_program;

// As a dependency, its build script would refuse to build this crate where clang is missing.
#[allow(dead_code)]
#[path = "../../../lib/needs/src/lib.rs"]
mod needs;

/// Test of a package's function.
#[derive(Clone, Copy)]
enum Proof {
    /// A program in the search path.
    Program(&'static str),
    /// A header that the C compiler finds.
    Header(&'static str),
    /// Modules that Python imports.
    Python(&'static str),
    /// A clang that compiles for BPF, under any name.
    BpfCompiler,
    /// A libclang where bindgen searches for one.
    Libclang,
    /// A QEMU that supports the plugin.
    Qemu,
}
use Proof::{BpfCompiler, Header, Libclang, Program, Python};

/// Needs of a command. Each purpose includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// Builds, and tests that need no VM.
    Host,
    /// Also the VM, its kernels and the lints.
    All,
    /// Also the scenarios of `cargo xtask test --full`.
    Full,
}

/// A package.
struct Package {
    /// Name in Debian.
    name: &'static str,
    proof: Proof,
    /// The least purpose that needs it.
    purpose: Purpose,
    /// The reason why the project needs it.
    why: &'static str,
}

const fn host(name: &'static str, proof: Proof, why: &'static str) -> Package {
    Package { name, proof, purpose: Purpose::Host, why }
}

const fn all(name: &'static str, proof: Proof, why: &'static str) -> Package {
    Package { name, proof, purpose: Purpose::All, why }
}

const fn full(name: &'static str, proof: Proof, why: &'static str) -> Package {
    Package { name, proof, purpose: Purpose::Full, why }
}

/// The packages.
const PACKAGES: &[Package] = &[
    all(QEMU, Proof::Qemu, "runs the virtual machine (10.0 to 11.1, for its plugin interface)"),
    all(
        "python3-venv",
        Python("ensurepip, venv"),
        "holds virtme-ng, which boots kernels on the host's files",
    ),
    all("file", Program("file"), "virtme-ng reads a kernel's version with it"),
    all("busybox-static", Program("busybox"), "first program of kernels that need an initial RAM disk"),
    all("kmod", Program("depmod"), "kernel modules"),
    all("iproute2", Program("ip"), "virtme-ng brings up the guest's loopback with it"),
    host("gcc", Program("gcc"), "builds libbpf, the guest's kernel and module"),
    host("make", Program("make"), "builds libbpf, the guest's kernel and module"),
    all("flex", Program("flex"), "the kernel's build"),
    all("bison", Program("bison"), "the kernel's build"),
    all("bc", Program("bc"), "the kernel's build"),
    all("dwarves", Program("pahole"), "writes the kernel's type information (BTF)"),
    all("libssl-dev", Header("openssl/ssl.h"), "the kernel's build"),
    host("libelf-dev", Header("libelf.h"), "the kernel's build, and loading BPF programs"),
    host("zlib1g-dev", Header("zlib.h"), "loading BPF programs"),
    host("pkg-config", Program("pkg-config"), "the build of libbpf"),
    all("xz-utils", Program("xz"), "unpacks kernel sources and modules"),
    host("clang-19", BpfCompiler, "compiles the scheduler for BPF"),
    host("libclang1-19", Libclang, "reads the C headers for Rust"),
    all("e2fsprogs", Program("mke2fs"), "the guest's disk in memory"),
    all("stress-ng", Program("stress-ng"), "load in the stress scenarios"),
    host("meson", Program("meson"), "the packagers' build, tested like everything else"),
    all("shellcheck", Program("shellcheck"), "checks the scripts of the scenarios"),
    full("dpkg-dev", Program("dpkg-shlibdeps"), "builds the .deb that a scenario installs"),
    full("mmdebstrap", Program("mmdebstrap"), "makes the Debian that installs it"),
];
/// The package that is new enough only in backports on Debian 12, and the parts that apt takes from
/// there only on request.
const QEMU: &str = "qemu-system-x86";
const QEMU_PARTS: [&str; 3] = ["qemu-system-common", "qemu-system-data", "seabios"];

/// Whether the installation needs the user's consent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    /// Install without a question: `--yes`, `CI=true`, or no terminal.
    Given,
    /// Ask the user first.
    Ask,
}

impl Consent {
    /// Return [`Given`](Self::Given) for `--yes`, for `CI=true` or `CI=1` in the environment, and
    /// if standard input is not a terminal. Return [`Ask`](Self::Ask) otherwise.
    #[must_use]
    pub fn from_flag(yes: bool) -> Self {
        let ci = std::env::var("CI").is_ok_and(|value| value == "true" || value == "1");
        if yes || ci || !std::io::stdin().is_terminal() { Self::Given } else { Self::Ask }
    }
}

impl Proof {
    fn holds(self) -> bool {
        match self {
            Program(name) => find_program(name).is_some(),
            Header(name) => needs::has_header(name),
            Python(modules) => {
                let mut python = Command::new("python3");
                python.args(["-c", &format!("import {modules}")]).stderr(Stdio::null());
                python.status().is_ok_and(|status| status.success())
            }
            BpfCompiler => {
                let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lib/needs");
                needs::compiler(&here).is_ok()
            }
            Libclang => needs::has_libclang(),
            Self::Qemu => crate::qemu::version().and_then(crate::qemu::plugin_api).is_some(),
        }
    }
}

/// Install the missing packages that `purpose` needs.
///
/// # Errors
/// Code 3 if a package is missing and must not or cannot be installed. The message names the
/// packages.
pub fn ensure(purpose: Purpose, consent: Consent) -> Result<()> {
    if prepared().is_some() {
        return Ok(());
    }
    let needed = PACKAGES.iter().filter(|package| package.purpose <= purpose);
    let missing: Vec<&Package> = needed.filter(|package| !package.proof.holds()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    eprintln!("xtask: this machine lacks:");
    for package in &missing {
        eprintln!("  {:<18} {}", package.name, package.why);
    }
    let missing: Vec<_> = missing.iter().map(|package| package.name).collect();
    let names = missing.join(" ");
    let refuse = |message: String| Err(coded(KERNEL_OR_PERMISSION, message));
    let Some(release) = apt::release() else {
        return refuse(format!(
            "installing is only automatic on Debian 12, 13 and unstable (amd64); install packages that provide these ({names}), or use the container of scheds/packaging/Containerfile"
        ));
    };
    if consent == Consent::Ask && !ask("Install these Debian packages now?")? {
        return refuse(format!("not installed: {names}; --yes installs without asking"));
    }
    if !nix::unistd::geteuid().is_root() && find_program("sudo").is_none() {
        return refuse(format!(
            "installing needs root, and there is no sudo; as root run: apt-get install {names}"
        ));
    }
    let installed = Apt::open(Suites::Install)?.install(&with_suites(&missing, release));
    installed.or_else(|error| refuse(format!("cannot install {names}: {error:#}")))
}

/// Return the packages as arguments of apt-get on a Debian of `release`.
fn with_suites(names: &[&str], release: &str) -> Vec<String> {
    if release != apt::BOOKWORM {
        return names.iter().map(ToString::to_string).collect();
    }
    let backport = |name: &&str| format!("{name}/bookworm-backports");
    let (qemu, others): (Vec<_>, Vec<_>) = names.iter().partition(|name| **name == QEMU);
    let parts = if qemu.is_empty() { &[][..] } else { &QEMU_PARTS };
    others.into_iter().map(ToString::to_string).chain(qemu.iter().chain(parts).map(backport)).collect()
}

fn ask(question: &str) -> Result<bool> {
    eprint!("xtask: {question} [Y/n] ");
    std::io::stderr().flush().context("cannot write to the terminal")?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).context("cannot read the answer")?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "" | "y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_tested_under_any_name_and_path() {
        assert!(Program("sh").holds() && !Program("no-such-program").holds());
        assert!(Header("stdio.h").holds() && !Header("no/such/header.h").holds());
        // Without Python there is nothing to import.
        assert_eq!(Python("sys").holds(), find_program("python3").is_some());
        assert!(!Python("no_such_module").holds());
        for Package { proof, name, .. } in PACKAGES {
            if let Program(path) | Header(path) = proof {
                assert!(!path.starts_with('/'), "{name}: the path holds on one distribution only");
            }
        }
    }

    #[test]
    fn the_build_needs_neither_the_vm_nor_lints() {
        let host = PACKAGES.iter().filter(|package| package.purpose == Purpose::Host);
        let host: Vec<_> = host.map(|package| package.name).collect();
        assert!(host.contains(&"clang-19") && host.contains(&"libelf-dev"), "{host:?}");
        assert!(!host.contains(&QEMU) && !host.contains(&"flex") && !host.contains(&"shellcheck"));
    }

    #[test]
    fn qemus_parts_come_from_the_same_suite() {
        assert_eq!(with_suites(&["make"], apt::BOOKWORM), ["make"]);
        assert_eq!(with_suites(&["make", QEMU], "trixie"), ["make", QEMU]);
        let qemu = with_suites(&["make", QEMU], apt::BOOKWORM);
        assert_eq!(qemu.len(), 2 + QEMU_PARTS.len());
        assert!(qemu.iter().skip(1).all(|name| name.ends_with("/bookworm-backports")), "{qemu:?}");
    }
}
