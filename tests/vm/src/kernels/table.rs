//! The table of kernels: its format and its checks.

use anyhow::{Context as _, Result, anyhow};
use serde::Deserialize;

/// The table of all kernels.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Its entries, the oldest kernel first.
    #[serde(rename = "kernel")]
    pub kernels: Vec<Entry>,
}

/// One kernel. The head of the file describes the fields.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "described in the table itself")]
pub struct Entry {
    pub name: String,
    pub why: String,
    pub source: Option<String>,
    pub release: Option<String>,
    #[serde(default)]
    pub packages: Vec<String>,
    #[serde(default)]
    pub headers: Vec<String>,
    pub no_module: Option<String>,
}

impl Table {
    /// Read the table of the source tree.
    ///
    /// # Errors
    /// The table is missing or malformed.
    pub fn load() -> Result<Self> {
        let path = super::files::ampvm_folder().join("kernel/kernels.toml");
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("{} is malformed", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let table: Self = toml::from_str(text)?;
        for entry in &table.kernels {
            if entry.source.is_some() == entry.release.is_some() {
                return Err(malformed(entry, "needs either source or release"));
            }
            if entry.release.is_some() && entry.packages.is_empty() {
                return Err(malformed(entry, "names no packages"));
            }
            if entry.source.is_none() && entry.headers.is_empty() != entry.no_module.is_some() {
                return Err(malformed(entry, "needs either headers or no_module"));
            }
        }
        Ok(table)
    }

    /// Return the entry of this name, or `None`.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Entry> {
        self.kernels.iter().find(|entry| entry.name == name)
    }
}

/// Return an error about one entry.
pub(super) fn malformed(entry: &Entry, what: &str) -> anyhow::Error {
    anyhow!("kernels.toml: the entry of {} {what}", entry.name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_projects_table_has_the_kernels_the_project_promises() {
        let table = Table::load().unwrap();
        for name in ["6.12", "6.18", "7.0", "7.2", "7.3"] {
            assert!(table.find(name).is_some(), "{name}");
        }
        assert!(table.find("5.0").is_none());
    }

    #[test]
    fn incomplete_entries_are_refused() {
        for text in [
            "[[kernel]]\nname = \"x\"\nwhy = \"\"\n",
            "[[kernel]]\nname = \"x\"\nwhy = \"\"\nsource = \"a\"\nrelease = \"b\"\n",
            "[[kernel]]\nname = \"x\"\nwhy = \"\"\nrelease = \"b\"\nno_module = \"c\"\n",
            "[[kernel]]\nname = \"x\"\nwhy = \"\"\nrelease = \"b\"\npackages = [\"p\"]\n",
            "[[kernel]]\nname = \"x\"\nwhy = \"\"\nsource = \"a\"\ncolour = \"red\"\n",
        ] {
            assert!(Table::parse(text).is_err(), "{text}");
        }
    }
}
