//! The sources in this tree from which kernels and modules are built.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// Return the directory `tests/ampvm` of the source tree.
#[must_use]
pub fn ampvm_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../ampvm")
}

/// Return name and content of each file directly in `folder`, sorted by path, as parts of a cache
/// key.
pub(super) fn contents(folder: &Path) -> Result<Vec<Vec<u8>>> {
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .with_context(|| format!("cannot read {}", folder.display()))?
        .filter_map(|file| file.ok().map(|file| file.path()))
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    let mut parts = Vec::new();
    for file in files {
        parts.push(file.file_name().unwrap_or_default().as_encoded_bytes().to_vec());
        parts.push(std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?);
    }
    Ok(parts)
}
