// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Programs of the host: their paths, their first lines of output, and scripts that start them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::guest::quote;

/// Return the path of a program in the search path, or `None`.
#[must_use]
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // depmod is in a directory for administrators, which is missing in an ordinary user's path.
    let extra = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(extra)
        .map(|directory| directory.join(name))
        .find(|file| file.is_file())
}

/// Return the first line of a program's output, or an empty text if it cannot run.
#[must_use]
pub fn first_line(program: &Path, argument: &str) -> String {
    let output = Command::new(program).arg(argument).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_string()
}

/// Write an executable script.
///
/// # Errors
/// The file cannot be written.
pub fn write_script(path: &Path, text: &str) -> Result<()> {
    let written = fs::write(path, text);
    let done = written.and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o755)));
    done.with_context(|| format!("cannot write {}", path.display()))
}

/// Return the words of a shell that start `program` with the C library and the other libraries of a
/// Debian that is unpacked in `root`, because those of the host may be too old for it.
#[must_use]
pub fn loader(root: &Path, program: &Path) -> String {
    let libraries = root.join("usr/lib/x86_64-linux-gnu");
    let loader = libraries.join("ld-linux-x86-64.so.2");
    let [loader, libraries, program] =
        [&loader, &libraries, program].map(|path| quote(&path.to_string_lossy()));
    format!("{loader} --library-path {libraries} --argv0 \"$0\" {program}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found() {
        assert!(find_program("sh").is_some());
        assert!(find_program("no-such-program-of-ours").is_none());
    }
}
