// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The program that shows the host's files to kernels without 9p: the installed one, or else
//! Debian's from the table.

use anyhow::Result;

use super::files;
use super::table::Table;
use crate::cache;
use crate::guest::quote;
use crate::programs::{find_program, loader};
use crate::steps::Step;

/// Path of the program in its package.
const PROGRAM: &str = "usr/libexec/virtiofsd";

/// Return the words of a shell that start the program.
pub(super) fn ensure(table: &Table, archives: &[String]) -> Result<String> {
    if let Some(path) = find_program("virtiofsd") {
        return Ok(quote(&path.to_string_lossy()));
    }
    let own = std::slice::from_ref(&table.virtiofsd);
    let digests: Vec<_> = own.iter().chain(&table.libraries).map(|file| &file.sha256).collect();
    let directory = cache::entry("tools", &format!("virtiofsd-{}", cache::key(&digests)), |directory| {
        let mut step = Step::new("fetching virtiofsd, which shows the host's files to Debian's kernels");
        let root = directory.join("root");
        for files in [own, &table.libraries] {
            files::fetch(&mut step, archives, files, &directory.join("download"), &root)?;
        }
        step.done("");
        Ok(())
    })?;
    let root = directory.join("root");
    Ok(loader(&root, &root.join(PROGRAM)))
}
