//! The packages that the project needs from the distribution: their reasons and their installation.
//!
//! # Approach
//! One table lists them. On Debian 12, [`ensure`] lists missing packages with their reasons. Unless
//! the user refuses, it installs them with a private apt configuration ([`crate::apt`]). On other
//! distributions it lists the packages and ends with code 3: a clear list is better than an
//! untested installation.

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::apt::{Apt, Suites, supported};
use crate::exit::{KERNEL_OR_PERMISSION, coded};
use crate::programs::find_program;

/// One Debian package.
struct Package {
    /// Its name in Debian 12.
    name: &'static str,
    /// A file that proves its presence under any package name: a program, or an absolute path.
    shows: &'static str,
    /// The reason why the project needs it.
    why: &'static str,
    /// True if only bookworm-backports has a version that is new enough.
    backport: bool,
}

const fn package(name: &'static str, shows: &'static str, why: &'static str) -> Package {
    Package { name, shows, why, backport: false }
}

const PACKAGES: &[Package] = &[
    Package {
        name: "qemu-system-x86",
        shows: "qemu-system-x86_64",
        why: "runs the virtual machine (10.0 to 11.1, for its plugin interface)",
        backport: true,
    },
    package(
        "python3-venv",
        "/usr/lib/python3.11/ensurepip",
        "holds virtme-ng, which boots kernels on the host's files",
    ),
    package("file", "file", "virtme-ng reads a kernel's version with it"),
    package("busybox-static", "busybox", "first program of kernels that need an initial RAM disk"),
    package("kmod", "depmod", "kernel modules"),
    package("iproute2", "ip", "virtme-ng brings up the guest's loopback with it"),
    package("gcc", "gcc", "builds the guest's kernel and module"),
    package("make", "make", "builds the guest's kernel and module"),
    package("flex", "flex", "the kernel's build"),
    package("bison", "bison", "the kernel's build"),
    package("bc", "bc", "the kernel's build"),
    package("dwarves", "pahole", "writes the kernel's type information (BTF)"),
    package("libssl-dev", "/usr/include/openssl/ssl.h", "the kernel's build"),
    package("libelf-dev", "/usr/include/libelf.h", "the kernel's build, and loading BPF programs"),
    package("zlib1g-dev", "/usr/include/zlib.h", "loading BPF programs"),
    package("pkg-config", "pkg-config", "the build of libbpf"),
    package("xz-utils", "xz", "unpacks kernel sources and modules"),
    package("libcap-ng-dev", "/usr/include/cap-ng.h", "the build of virtiofsd"),
    package("libseccomp-dev", "/usr/include/seccomp.h", "the build of virtiofsd"),
    package("clang-19", "clang-19", "compiles the scheduler for BPF"),
    package("libclang1-19", "/usr/lib/llvm-19/lib/libclang-19.so.1", "reads the C headers for Rust"),
    package("stress-ng", "stress-ng", "load in the stress scenarios"),
    package("meson", "meson", "the packagers' build, tested like everything else"),
    package("shellcheck", "shellcheck", "checks the scripts of the scenarios"),
];

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
    /// if standard input is no terminal. Return [`Ask`](Self::Ask) otherwise.
    #[must_use]
    pub fn from_flag(yes: bool) -> Self {
        let ci = std::env::var("CI").is_ok_and(|value| value == "true" || value == "1");
        if yes || ci || !std::io::stdin().is_terminal() { Self::Given } else { Self::Ask }
    }
}

fn present(package: &Package) -> bool {
    let there = match package.shows {
        path if path.starts_with('/') => Path::new(path).exists(),
        program => find_program(program).is_some(),
    };
    there && (!package.backport || crate::qemu::version().and_then(crate::qemu::plugin_api).is_some())
}

/// Install the missing packages.
///
/// # Errors
/// Code 3 if a package is missing and must not or cannot be installed. The message names the
/// packages.
pub fn ensure(consent: Consent) -> Result<()> {
    let missing: Vec<_> = PACKAGES.iter().filter(|package| !present(package)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    eprintln!("xtask: this machine lacks:");
    for package in &missing {
        eprintln!("  {:<18} {}", package.name, package.why);
    }
    let names = missing.iter().map(|package| package.name).collect::<Vec<_>>().join(" ");
    if !supported() {
        return Err(coded(
            KERNEL_OR_PERMISSION,
            format!(
                "installing is only automatic on Debian 12 (amd64); install what provides these, then try again: {names}"
            ),
        ));
    }
    if consent == Consent::Ask && !ask("Install these Debian packages now?")? {
        return Err(coded(
            KERNEL_OR_PERMISSION,
            format!("not installed: {names}; --yes installs without asking"),
        ));
    }
    if !nix::unistd::geteuid().is_root() && find_program("sudo").is_none() {
        return Err(coded(
            KERNEL_OR_PERMISSION,
            format!("installing needs root, and there is no sudo; as root run: apt-get install {names}"),
        ));
    }
    let wanted: Vec<_> = missing
        .iter()
        .map(|package| match package.backport {
            true => format!("{}/bookworm-backports", package.name),
            false => package.name.to_string(),
        })
        .collect();
    Apt::open(Suites::Install)?
        .install(&with_backport_parts(wanted))
        .map_err(|error| coded(KERNEL_OR_PERMISSION, format!("cannot install {names}: {error:#}")))
}

/// Add the data and common parts of QEMU's backport. It needs them from the backports, and apt
/// takes them from there only on request.
fn with_backport_parts(mut wanted: Vec<String>) -> Vec<String> {
    if wanted.iter().any(|name| name.starts_with("qemu-system-x86/")) {
        for part in ["qemu-system-common", "qemu-system-data", "seabios"] {
            wanted.push(format!("{part}/bookworm-backports"));
        }
    }
    wanted
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
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_package_has_a_reason_and_a_name_of_its_own() {
        let mut names: Vec<_> = PACKAGES.iter().map(|package| package.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), PACKAGES.len());
        assert!(PACKAGES.iter().all(|package| !package.why.is_empty() && !package.shows.is_empty()));
    }

    #[test]
    fn qemus_parts_come_from_the_same_suite() {
        assert_eq!(with_backport_parts(vec!["make".into()]), ["make"]);
        assert!(
            with_backport_parts(vec!["qemu-system-x86/bookworm-backports".into()])
                .contains(&"qemu-system-common/bookworm-backports".to_string())
        );
    }
}
