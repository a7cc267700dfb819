// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The kernels that the VM boots.
//!
//! `tests/ampvm/kernel/kernels.toml` lists them and explains their origins. Both kinds are stored
//! in [`crate::cache`]. With a warm cache, [`ensure`] needs no network.
//!
//! # Limits
//! Only amd64 is supported.

mod build;
mod files;
mod module;
mod stock;
mod table;
mod virtiofsd;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

pub use files::File;
pub use table::{Entry, Headers, Origin, Table};

use crate::exit::{USAGE, coded};

/// A kernel that is ready to boot.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Its name in the table, or its path.
    pub name: String,
    /// Path of the image.
    pub image: PathBuf,
    /// Path of its configuration, if that is available as a file.
    pub config: Option<PathBuf>,
    /// Words of a shell that start virtiofsd, if the kernel accesses the host's files through it;
    /// `None` for 9p.
    pub virtiofsd: Option<String>,
    /// The guest's PMU module for this kernel, or the reason why there is none.
    pub module: Result<PathBuf, String>,
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
    let message = format!(
        "kernel \"{name}\" is neither a file nor one of {}; cargo xtask kernel list explains them",
        names.join(", ")
    );
    Err(coded(USAGE, message))
}

/// Provide a kernel: an entry of the table by name, or any image by path.
///
/// # Errors
/// Code 2 if `name` is neither of them, or the error that prevents the build or the download.
pub fn ensure(name: &str) -> Result<Kernel> {
    check(name)?;
    let table = Table::load()?;
    if let Some(entry) = table.find(name) {
        return provide(&table, entry);
    }
    let image = Path::new(name).canonicalize().with_context(|| format!("cannot open {name}"))?;
    let module = Err("there is no PMU module for a kernel given as a file".to_string());
    Ok(Kernel { name: name.to_string(), image, config: None, virtiofsd: None, module })
}

fn provide(table: &Table, entry: &Entry) -> Result<Kernel> {
    let (name, archives) = (&entry.name, &files::archives(&table.snapshot));
    let built = |source, options: &[String]| -> Result<_> {
        let directory = build::ensure(name, source, options, archives)?;
        let module = module::against_tree(name, &directory)?;
        Ok((directory, Ok(module)))
    };
    let (directory, module) = match &entry.origin {
        Origin::Built { source } => built(source, &[])?,
        Origin::Variant { of, options } => built(table.source(of)?, options)?,
        Origin::Debian { release, packages, module } => {
            let module = match module {
                Headers::Packages(headers) => {
                    Ok(module::against_headers(name, release, headers, &table.libraries, archives)?)
                }
                Headers::Missing(why) => Err(why.clone()),
            };
            (stock::ensure(name, release, packages, archives)?, module)
        }
    };
    Ok(Kernel {
        name: name.clone(),
        image: directory.join("vmlinuz"),
        config: Some(directory.join("config")).filter(|path| path.is_file()),
        virtiofsd: match entry.origin {
            Origin::Debian { .. } => Some(virtiofsd::ensure(table, archives)?),
            _ => None,
        },
        module,
    })
}
