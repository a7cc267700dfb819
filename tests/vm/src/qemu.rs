// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The QEMU that runs the VM: 10.0 to 11.1, because the plugin interface changes between releases.
//!
//! # Problem
//! QEMU refuses a plugin of another interface version than its own, with an obscure message.
//!
//! # Approach
//! The runner checks QEMU's version first, and passes the interface version to the plugin. The
//! parts of the interface that the plugin uses are the same in all these versions. Tests cover 10.0
//! and 11.1.
//!
//! # Limits
//! The program must not be a script, because the plugin is preloaded into it.

use std::path::PathBuf;

use anyhow::Result;

use crate::exit::{KERNEL_OR_PERMISSION, coded};
use crate::programs::{find_program, first_line};

const PROGRAM: &str = "qemu-system-x86_64";

/// Return major and minor version of the QEMU in the search path; `None` if there is none.
#[must_use]
pub fn version() -> Option<(u32, u32)> {
    parse(&first_line(&find_program(PROGRAM)?, "--version"))
}

/// Return the plugin interface of a QEMU version; `None` if the plugin does not support it.
#[must_use]
pub fn plugin_api(version: (u32, u32)) -> Option<u32> {
    match version {
        (10, 0) => Some(4),
        (10, 1 | 2) => Some(5),
        (11, 0) => Some(6),
        (11, 1) => Some(7),
        _ => None,
    }
}

/// A QEMU that supports the plugin.
#[derive(Clone, Debug)]
pub struct Qemu {
    /// Path of the program.
    pub path: PathBuf,
    /// Version of its plugin interface.
    pub plugin_api: u32,
}

/// Return the QEMU program in the search path.
///
/// # Errors
/// Code 3: there is no QEMU, or its version does not support the plugin.
pub fn find() -> Result<Qemu> {
    let lacks = |message: String| Err(coded(KERNEL_OR_PERMISSION, message));
    let Some(path) = find_program(PROGRAM) else {
        return lacks(format!("{PROGRAM} is missing; cargo xtask setup installs it"));
    };
    let Some((major, minor)) = parse(&first_line(&path, "--version")) else {
        return lacks(format!("{} does not report its version; reinstall it", path.display()));
    };
    let Some(plugin_api) = plugin_api((major, minor)) else {
        return lacks(format!(
            "{} is QEMU {major}.{minor}, but the plugin needs 10.0 to 11.1; install one of those (Debian 12: \
             qemu-system-x86 from bookworm-backports)",
            path.display()
        ));
    };
    Ok(Qemu { path, plugin_api })
}

fn parse(line: &str) -> Option<(u32, u32)> {
    let numbers = line.split("version ").nth(1)?;
    let mut parts = numbers.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_versions_with_a_known_interface_are_supported() {
        assert_eq!(
            parse("QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2+deb13u1~bpo12+1)"),
            Some((10, 0))
        );
        assert_eq!(parse("QEMU emulator version 7.2.17"), Some((7, 2)));
        assert_eq!(parse("zsh: command not found"), None);
        assert_eq!((plugin_api((10, 0)), plugin_api((11, 1))), (Some(4), Some(7)));
        assert_eq!((plugin_api((9, 2)), plugin_api((11, 2)), plugin_api((12, 0))), (None, None, None));
    }
}
