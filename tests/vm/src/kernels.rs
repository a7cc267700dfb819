//! The kernels that the VM boots.
//!
//! # Approach
//! One table, `tests/ampvm/kernel/kernels.toml`, lists them. Some entries are built from Debian's
//! source package with a minimal configuration. The others are Debian's own binaries of the cloud
//! flavour, which boot without modules because virtio and virtiofs are built in. Both are stored in
//! the cache, under a key of their inputs.
//!
//! # Invariants
//! A cached kernel is complete (see [`crate::cache`]). With a warm cache, [`ensure`] needs no
//! network. Packages of later releases are only unpacked, never installed on the host.
//!
//! # Limits
//! Only amd64 is supported. Debian's archive drops superseded binaries. The error then advises to
//! update the table.

mod build;
mod files;
mod module;
mod stock;
mod table;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

pub use files::ampvm_folder;
pub use table::{Entry, Table};

use crate::exit::{USAGE, coded};

/// File system through which the guest accesses the host's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSharing {
    /// QEMU's own 9p server. The kernel needs 9p.
    NineP,
    /// The virtiofsd program. The kernel needs virtiofs.
    Virtiofs,
}

/// A kernel that is ready to boot.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Path of the image.
    pub image: PathBuf,
    /// Path of its configuration, if that is available as a file.
    pub config: Option<PathBuf>,
    /// How it accesses the host's files.
    pub sharing: FileSharing,
    /// The guest's PMU module for this kernel, if there is one.
    pub module: Option<PathBuf>,
    /// Reason for a missing module.
    pub no_module: Option<String>,
}

/// Check that `name` can be a kernel, before anything is installed, fetched or built for it.
///
/// # Errors
/// Code 2 if `name` is neither in the table nor a file.
pub fn check(name: &str) -> Result<()> {
    let table = Table::load()?;
    if table.find(name).is_some() || Path::new(name).is_file() {
        return Ok(());
    }
    let names: Vec<_> = table.kernels.iter().map(|entry| entry.name.as_str()).collect();
    let names = names.join(", ");
    Err(coded(
        USAGE,
        format!(
            "kernel \"{name}\" is neither a file nor one of {names}; cargo xtask kernel list explains them"
        ),
    ))
}

/// Provide a kernel: an entry of the table by name, or any image by path.
///
/// # Errors
/// Code 2 if `name` is neither of them, or the error that prevents the build or the download.
pub fn ensure(name: &str) -> Result<Kernel> {
    check(name)?;
    let table = Table::load()?;
    if let Some(entry) = table.find(name) {
        return provide(entry);
    }
    let image = Path::new(name).canonicalize().with_context(|| format!("cannot open {name}"))?;
    Ok(Kernel {
        image,
        config: None,
        sharing: FileSharing::NineP,
        module: None,
        no_module: Some("a kernel given as a file has no module of ours".to_string()),
    })
}

fn provide(entry: &Entry) -> Result<Kernel> {
    let (folder, sharing) = match (&entry.source, &entry.release) {
        (Some(source), _) => (build::ensure(&entry.name, source)?, FileSharing::NineP),
        (None, Some(release)) => {
            (stock::ensure(&entry.name, release, &entry.packages)?, FileSharing::Virtiofs)
        }
        (None, None) => return Err(table::malformed(entry, "has neither source nor release")),
    };
    let image = folder.join("vmlinuz");
    let config = Some(folder.join("config")).filter(|path| path.is_file());
    let module = if let Some(release) = entry.release.as_deref().filter(|_| !entry.headers.is_empty()) {
        Some(module::against_headers(&entry.name, release, &entry.headers)?)
    } else if entry.source.is_some() {
        Some(module::against_tree(&entry.name, &folder)?)
    } else {
        None
    };
    Ok(Kernel { image, config, sharing, module, no_module: entry.no_module.clone() })
}
