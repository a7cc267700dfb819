// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The cache directory: everything that is fetched or built once per user.
//!
//! Its path is `$XDG_CACHE_HOME/scx_bias` or `~/.cache/scx_bias`. An entry is a directory. Its name
//! contains a digest of its inputs, or their name and version, so a changed recipe makes a new
//! entry. Entries are made in a temporary directory next to their place and then renamed, so an
//! existing entry is complete. One lock per entry keeps two processes from building the same entry
//! at the same time.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow};
use nix::fcntl::{Flock, FlockArg};
use sha2::{Digest as _, Sha256};

/// Return the cache directory, and create it if it is missing.
///
/// # Errors
/// Neither XDG_CACHE_HOME nor HOME is set, or the directory cannot be made.
pub fn root() -> Result<PathBuf> {
    let base = match std::env::var_os("XDG_CACHE_HOME").filter(|value| !value.is_empty()) {
        Some(directory) => PathBuf::from(directory),
        None => PathBuf::from(
            std::env::var_os("HOME").ok_or_else(|| anyhow!("HOME is not set; set it or XDG_CACHE_HOME"))?,
        )
        .join(".cache"),
    };
    let root = base.join("scx_bias");
    fs::create_dir_all(&root)
        .with_context(|| format!("cannot create the cache directory {}", root.display()))?;
    Ok(root)
}

/// Return a digest of `parts` as twelve hexadecimal digits. The length of each part is included, so
/// that two lists with the same concatenation differ.
#[must_use]
pub fn key<T: AsRef<[u8]>>(parts: &[T]) -> String {
    let mut digest = digest(parts);
    digest.truncate(12);
    digest
}

/// Return the whole digest of `parts`, which begins with [`key`].
#[must_use]
pub fn digest<T: AsRef<[u8]>>(parts: &[T]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        let part = part.as_ref();
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Take the lock of an entry, with one message if another process holds it. The lock is released
/// when it is dropped or when the process ends for any reason.
fn lock(directory: &Path, kind: &str, name: &str) -> Result<Flock<File>> {
    let path = directory.join(format!(".{name}.lock"));
    let mut file = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
    let mut told = false;
    loop {
        // Poll instead of blocking, because Ctrl-C must end the wait.
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Ok(lock),
            Err((unlocked, nix::errno::Errno::EWOULDBLOCK)) => file = unlocked,
            Err((_, error)) => return Err(error).with_context(|| format!("cannot lock {}", path.display())),
        }
        if !std::mem::replace(&mut told, true) {
            eprintln!("xtask: waiting for another xtask that prepares {kind}/{name}");
        }
        crate::interrupt::check()?;
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
}

/// Return the cache entry `kind/name`. If it is missing, `make` fills a temporary directory that
/// then becomes the entry.
///
/// # Errors
/// The error of `make`, after which the entry does not exist, or an I/O error.
pub fn entry(kind: &str, name: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    entry_in(&root()?, kind, name, make)
}

fn entry_in(root: &Path, kind: &str, name: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let directory = root.join(kind);
    let path = directory.join(name);
    if path.is_dir() {
        return Ok(path);
    }
    fs::create_dir_all(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
    let _lock = lock(&directory, kind, name)?;
    if path.is_dir() {
        return Ok(path);
    }
    // An interrupted process left a directory at this path, because this process holds the lock.
    let temporary = directory.join(format!(".making-{name}"));
    if temporary.exists() {
        fs::remove_dir_all(&temporary).with_context(|| format!("cannot remove {}", temporary.display()))?;
    }
    fs::create_dir(&temporary).with_context(|| format!("cannot create {}", temporary.display()))?;
    make(&temporary)?;
    fs::rename(&temporary, &path).with_context(|| format!("cannot rename {}", temporary.display()))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn keys_depend_on_every_part_and_its_place() {
        assert_eq!(key(&["a", "b"]), key(&["a", "b"]));
        assert_ne!(key(&["a", "b"]), key(&["b", "a"]));
        assert_ne!(key(&["ab", ""]), key(&["a", "b"]));
        assert_eq!(key(&["a"]).len(), 12);
    }

    #[test]
    fn an_interrupted_entry_is_not_an_entry() {
        let directory = tempfile::tempdir().unwrap();
        let failed = entry_in(directory.path(), "test-cache", "x", |path| {
            fs::write(path.join("half"), "")?;
            Err(anyhow!("interrupted"))
        });
        assert!(failed.is_err());
        assert!(!directory.path().join("test-cache/x").exists());
        let made = entry_in(directory.path(), "test-cache", "x", |path| {
            assert!(!path.join("half").exists());
            fs::write(path.join("whole"), "").map_err(Into::into)
        });
        assert!(made.unwrap().join("whole").exists());
        let kept = entry_in(directory.path(), "test-cache", "x", |_| Err(anyhow!("must not be made again")));
        assert!(kept.is_ok());
    }
}
