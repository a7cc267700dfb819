// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Reading of files that a user names, and the choice of a directory for temporary ones.

use crate::{Error, Result};
use nix::unistd::{AccessFlags, access};
use std::io::Read;
use std::path::Path;

/// Read a small regular file that a user named. Refuse anything else: a directory, a FIFO, a file
/// larger than `max_bytes`.
pub fn read_small_file(path: &Path, max_bytes: u64) -> Result<String> {
    let usage = |why: String| Error::Usage(format!("{}: {why}", path.display()));
    let meta = std::fs::metadata(path).map_err(|e| usage(e.to_string()))?;
    if !meta.is_file() {
        return Err(usage("not a regular file".into()));
    }
    if meta.len() > max_bytes {
        return Err(usage(format!("{} bytes; at most {max_bytes} are read", meta.len())));
    }
    let file = std::fs::File::open(path).map_err(|e| usage(e.to_string()))?;
    let mut text = String::new();
    file.take(max_bytes).read_to_string(&mut text).map_err(|e| usage(e.to_string()))?;
    Ok(text)
}

/// Return a directory that programs may write to. If none is writable, return /tmp and let the
/// programs report the error.
pub fn writable_directory() -> String {
    let wanted = ["OUT", "TMPDIR"].into_iter().filter_map(|name| std::env::var(name).ok());
    let usual = ["/tmp", "/run", "/dev/shm"].map(String::from);
    let writable =
        |directory: &String| access(directory.as_str(), AccessFlags::W_OK | AccessFlags::X_OK).is_ok();
    wanted.chain(usual).find(writable).unwrap_or_else(|| "/tmp".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_small_regular_files_are_read() {
        let dir = tempfile::tempdir().unwrap();
        assert!(read_small_file(dir.path(), 10).unwrap_err().to_string().contains("not a regular file"));
        let file = dir.path().join("f");
        std::fs::write(&file, "12345678901").unwrap();
        assert!(read_small_file(&file, 10).is_err());
        assert_eq!(read_small_file(&file, 11).unwrap(), "12345678901");
    }
}
