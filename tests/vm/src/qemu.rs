//! The QEMU that runs the VM: 10.0, because a plugin's interface changes from release to release.
//!
//! The plugin is built for interface version 4. QEMU 10.0 speaks it; 9.x speaks an older one and 10.1 a newer one that
//! refuses ours, with a message nobody understands. So the version is checked first.

use std::path::PathBuf;

use anyhow::Result;

use crate::exit::{KERNEL_OR_PERMISSION, coded};
use crate::packages::{find_program, first_line};

const PROGRAM: &str = "qemu-system-x86_64";

/// Major and minor version of the QEMU in the search path; `None` if there is none.
#[must_use]
pub fn version() -> Option<(u32, u32)> {
    parse(&first_line(&find_program(PROGRAM)?, "--version"))
}

/// Whether a QEMU of this version takes the plugin.
#[must_use]
pub fn acceptable(version: (u32, u32)) -> bool {
    version == (10, 0)
}

/// The QEMU program.
///
/// # Errors
/// Code 3: there is none, or its version does not take the plugin.
pub fn find() -> Result<PathBuf> {
    let Some(path) = find_program(PROGRAM) else {
        return Err(coded(
            KERNEL_OR_PERMISSION,
            format!("{PROGRAM} is missing; cargo xtask setup installs it"),
        ));
    };
    match parse(&first_line(&path, "--version")) {
        Some(version) if acceptable(version) => Ok(path),
        Some((major, minor)) => Err(coded(
            KERNEL_OR_PERMISSION,
            format!(
                "{} is QEMU {major}.{minor}, but the plugin needs 10.0 (plugin interface 4); install that version \
                 (Debian 12: qemu-system-x86 from bookworm-backports)",
                path.display()
            ),
        )),
        None => Err(coded(
            KERNEL_OR_PERMISSION,
            format!("{} does not tell its version; reinstall it", path.display()),
        )),
    }
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
    fn only_the_version_with_our_interface_is_taken() {
        assert_eq!(
            parse("QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2+deb13u1~bpo12+1)"),
            Some((10, 0))
        );
        assert_eq!(parse("QEMU emulator version 7.2.17"), Some((7, 2)));
        assert_eq!(parse("zsh: command not found"), None);
        assert!(acceptable((10, 0)) && !acceptable((7, 2)) && !acceptable((10, 1)) && !acceptable((11, 0)));
    }
}
