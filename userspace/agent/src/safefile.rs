// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Reading of small files that a user names, safe for any type of file.
//!
//! A capacity or configuration file may be a FIFO without a writer, a directory, a device or a
//! gigabyte of zeros. Each is refused with one line and without blocking. No more than the limit is
//! ever read.

use crate::failure::Failure;
use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Largest capacity or configuration file that is read [bytes].
pub const MAX_BYTES: u64 = 1 << 20;

/// Return the text of a regular file of at most [`MAX_BYTES`]. `what` names the file's role in
/// messages, such as "capacity file".
///
/// # Errors
/// Usage failure when it cannot be opened, is not a regular file, is too large or is not UTF-8.
pub fn read_text(path: &Path, what: &str) -> Result<String, Failure> {
    read_if(path, what, |_| Ok(()))
}

/// Like [`read_text`], but as root accept only a file that no other user can have written.
///
/// # Errors
/// As [`read_text`]. Usage failure when the file belongs to another user or is writable to others.
pub fn read_own_text(path: &Path, what: &str) -> Result<String, Failure> {
    read_if(path, what, |meta| {
        let is_root = nix::unistd::geteuid().is_root();
        if is_root && meta.uid() != 0 {
            return Err(format!("belongs to user {}, not to root; chown root it", meta.uid()));
        }
        if is_root && meta.mode() & 0o022 != 0 {
            return Err("is writable by users other than root; chmod go-w it".to_owned());
        }
        Ok(())
    })
}

/// Create a directory for this user alone, unless it exists.
///
/// # Errors
/// The error of the creation. Also an error if the existing path is a link or not a directory,
/// belongs to another user, or is writable to others.
pub fn private_directory(directory: &Path) -> std::io::Result<()> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let meta = directory.symlink_metadata()?;
    if !meta.is_dir() || meta.uid() != nix::unistd::geteuid().as_raw() || meta.mode() & 0o022 != 0 {
        let text = "it is not a directory private to this user; remove it, scx_bias creates it again";
        return Err(std::io::Error::new(ErrorKind::NotADirectory, text));
    }
    Ok(())
}

/// Return the options to open files in such a directory: for their owner only, and never through a
/// link.
#[must_use]
pub fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600).custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_CLOEXEC);
    options
}

fn read_if(
    path: &Path,
    what: &str,
    may: impl Fn(&Metadata) -> Result<(), String>,
) -> Result<String, Failure> {
    let name = path.display();
    let refuse = |why: String| Failure::usage(format!("{what} {name}: {why}"));
    // O_NONBLOCK: opening a FIFO without a writer would otherwise wait for ever.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK | nix::libc::O_CLOEXEC)
        .open(path)
        .map_err(|error| refuse(format!("cannot be opened ({error}); check the path and its permissions")))?;
    let meta = file.metadata().map_err(|error| refuse(format!("cannot be examined ({error})")))?;
    if !meta.is_file() {
        return Err(refuse(format!("is a {}; name a regular file", kind(meta.file_type()))));
    }
    may(&meta).map_err(refuse)?;
    if meta.len() > MAX_BYTES {
        return Err(refuse(format!(
            "has {} bytes, more than the {MAX_BYTES} allowed; name the right file",
            meta.len()
        )));
    }
    read_bounded(file).map_err(refuse)
}

fn read_bounded(file: File) -> Result<String, String> {
    let mut bytes = Vec::new();
    // The file may have grown since it was examined.
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| format!("cannot be read ({error})"))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("has more than the {MAX_BYTES} bytes allowed; name the right file"));
    }
    String::from_utf8(bytes).map_err(|_| "is not UTF-8 text; name the right file".to_owned())
}

/// Return the name of a file type that is not a regular file.
pub(crate) fn kind(file_type: std::fs::FileType) -> &'static str {
    if file_type.is_dir() {
        "directory"
    } else if file_type.is_fifo() {
        "FIFO"
    } else if file_type.is_socket() {
        "socket"
    } else {
        "device"
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::failure::Exit;

    fn refusal(path: &Path) -> String {
        let failure = read_text(path, "capacity file").unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        failure.message
    }

    #[test]
    fn reads_a_regular_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "text").unwrap();
        assert_eq!(read_text(&path, "x").unwrap(), "text");
    }

    #[test]
    fn refuses_everything_else_without_blocking() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        assert!(refusal(&path("none")).contains("cannot be opened"));
        assert!(refusal(directory.path()).contains("is a directory"));
        assert!(refusal(Path::new("/dev/zero")).contains("is a device"));
        nix::unistd::mkfifo(&path("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(refusal(&path("fifo")).contains("is a FIFO"));
        File::create(path("large")).unwrap().set_len(1 << 30).unwrap();
        assert!(refusal(&path("large")).contains("1073741824 bytes"));
        std::fs::write(path("binary"), [0xff, 0xfe]).unwrap();
        assert!(refusal(&path("binary")).contains("not UTF-8"));
    }
}
