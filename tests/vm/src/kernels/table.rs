// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The table of kernels: its format and its checks.
#![allow(missing_docs, reason = "described in the table itself")]

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use super::files::File;

/// The table of all kernels.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    pub snapshot: String,
    pub virtiofsd: File,
    pub libraries: Vec<File>,
    /// Its entries, the oldest kernel first.
    #[serde(rename = "kernel")]
    pub kernels: Vec<Entry>,
}

/// One kernel. The head of the file describes the fields.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub name: String,
    pub why: String,
    pub origin: Origin,
}

/// Origin of a kernel: built from a source package, built from that of another entry, or Debian's
/// own.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "lowercase")]
pub enum Origin {
    Built { source: File },
    Variant { of: String, options: Vec<String> },
    Debian { release: String, packages: Vec<File>, module: Headers },
}

/// Packages for the build of the guest's module, or the reason why it cannot be built.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Headers {
    Packages(Vec<File>),
    Missing(String),
}

impl Table {
    /// Read the table of the source tree.
    ///
    /// # Errors
    /// The table is missing or malformed.
    pub fn load() -> Result<Self> {
        let path = crate::build::ampvm_directory().join("kernel/kernels.toml");
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        toml::from_str(&text).with_context(|| format!("{} is malformed", path.display()))
    }

    /// Return the entry of this name, or `None`.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Entry> {
        self.kernels.iter().find(|entry| entry.name == name)
    }

    /// Return the source that the built kernel `name` is built from.
    ///
    /// # Errors
    /// The table has no built kernel of this name.
    pub fn source(&self, name: &str) -> Result<&File> {
        match self.find(name).map(|entry| &entry.origin) {
            Some(Origin::Built { source }) => Ok(source),
            _ => bail!("kernels.toml has no kernel \"{name}\" with a source; name a built one in of="),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_projects_table_has_the_kernels_the_project_promises() {
        let table = Table::load().unwrap();
        for name in ["6.12", "6.12-1000", "6.16", "6.17", "6.18", "6.19", "7.0", "7.2", "7.3"] {
            assert!(table.find(name).is_some(), "{name}");
        }
        assert!(table.find("5.0").is_none());
    }

    #[test]
    fn each_variant_has_a_source() {
        let table = Table::load().unwrap();
        for entry in &table.kernels {
            if let Origin::Variant { of, .. } = &entry.origin {
                table.source(of).unwrap();
            }
        }
        assert!(table.source("7.3").is_err());
    }

    #[test]
    fn each_file_has_a_place_and_a_digest() {
        let table = Table::load().unwrap();
        let mut files = [vec![table.virtiofsd], table.libraries].concat();
        for entry in table.kernels {
            match entry.origin {
                Origin::Built { source } => files.push(source),
                Origin::Variant { .. } => {}
                Origin::Debian { packages, module, .. } => {
                    files.extend(packages);
                    if let Headers::Packages(headers) = module {
                        files.extend(headers);
                    }
                }
            }
        }
        for File { file, sha256 } in files {
            assert!(file.starts_with("pool/main/") && file.ends_with(".deb"), "{file}");
            assert!(sha256.len() == 64 && sha256.chars().all(|digit| digit.is_ascii_hexdigit()), "{file}");
        }
    }
}
