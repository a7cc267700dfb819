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

/// The packages: name in Debian 12, a file that proves the presence under any package name (a
/// program or an absolute path), and the reason why the project needs it.
const PACKAGES: &[(&str, &str, &str)] = &[
    (
        "qemu-system-x86",
        "qemu-system-x86_64",
        "runs the virtual machine (10.0 to 11.1, for its plugin interface)",
    ),
    (
        "python3-venv",
        "/usr/lib/python3.11/ensurepip",
        "holds virtme-ng, which boots kernels on the host's files",
    ),
    ("file", "file", "virtme-ng reads a kernel's version with it"),
    ("busybox-static", "busybox", "first program of kernels that need an initial RAM disk"),
    ("kmod", "depmod", "kernel modules"),
    ("iproute2", "ip", "virtme-ng brings up the guest's loopback with it"),
    ("gcc", "gcc", "builds the guest's kernel and module"),
    ("make", "make", "builds the guest's kernel and module"),
    ("flex", "flex", "the kernel's build"),
    ("bison", "bison", "the kernel's build"),
    ("bc", "bc", "the kernel's build"),
    ("dwarves", "pahole", "writes the kernel's type information (BTF)"),
    ("libssl-dev", "/usr/include/openssl/ssl.h", "the kernel's build"),
    ("libelf-dev", "/usr/include/libelf.h", "the kernel's build, and loading BPF programs"),
    ("zlib1g-dev", "/usr/include/zlib.h", "loading BPF programs"),
    ("pkg-config", "pkg-config", "the build of libbpf"),
    ("xz-utils", "xz", "unpacks kernel sources and modules"),
    ("libcap-ng-dev", "/usr/include/cap-ng.h", "the build of virtiofsd"),
    ("libseccomp-dev", "/usr/include/seccomp.h", "the build of virtiofsd"),
    ("clang-19", "clang-19", "compiles the scheduler for BPF"),
    ("libclang1-19", "/usr/lib/llvm-19/lib/libclang-19.so.1", "reads the C headers for Rust"),
    ("stress-ng", "stress-ng", "load in the stress scenarios"),
    ("meson", "meson", "the packagers' build, tested like everything else"),
    ("shellcheck", "shellcheck", "checks the scripts of the scenarios"),
];
/// The package that is new enough only in bookworm-backports, and the parts that apt takes from
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
    /// if standard input is no terminal. Return [`Ask`](Self::Ask) otherwise.
    #[must_use]
    pub fn from_flag(yes: bool) -> Self {
        let ci = std::env::var("CI").is_ok_and(|value| value == "true" || value == "1");
        if yes || ci || !std::io::stdin().is_terminal() { Self::Given } else { Self::Ask }
    }
}

fn is_present((name, shows, _): &(&str, &str, &str)) -> bool {
    let there =
        if shows.starts_with('/') { Path::new(shows).exists() } else { find_program(shows).is_some() };
    there && (*name != QEMU || crate::qemu::version().and_then(crate::qemu::plugin_api).is_some())
}

/// Install the missing packages.
///
/// # Errors
/// Code 3 if a package is missing and must not or cannot be installed. The message names the
/// packages.
pub fn ensure(consent: Consent) -> Result<()> {
    let missing: Vec<_> = PACKAGES.iter().filter(|package| !is_present(package)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    eprintln!("xtask: this machine lacks:");
    for (name, _, why) in &missing {
        eprintln!("  {name:<18} {why}");
    }
    let missing: Vec<_> = missing.iter().map(|(name, ..)| *name).collect();
    let names = missing.join(" ");
    let refuse = |message: String| Err(coded(KERNEL_OR_PERMISSION, message));
    if !supported() {
        return refuse(format!(
            "installing is only automatic on Debian 12 (amd64); install what provides these, then try again: {names}"
        ));
    }
    if consent == Consent::Ask && !ask("Install these Debian packages now?")? {
        return refuse(format!("not installed: {names}; --yes installs without asking"));
    }
    if !nix::unistd::geteuid().is_root() && find_program("sudo").is_none() {
        return refuse(format!(
            "installing needs root, and there is no sudo; as root run: apt-get install {names}"
        ));
    }
    let installed = Apt::open(Suites::Install)?.install(&with_suites(&missing));
    installed.or_else(|error| refuse(format!("cannot install {names}: {error:#}")))
}

/// Return the packages as arguments of apt-get.
fn with_suites(names: &[&str]) -> Vec<String> {
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
    fn qemus_parts_come_from_the_same_suite() {
        assert_eq!(with_suites(&["make"]), ["make"]);
        let qemu = with_suites(&["make", QEMU]);
        assert_eq!(qemu.len(), 2 + QEMU_PARTS.len());
        assert!(qemu.iter().skip(1).all(|name| name.ends_with("/bookworm-backports")), "{qemu:?}");
    }
}
