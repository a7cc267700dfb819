// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Version of the running kernel, where no type, function or file tells what it can do.

use std::fs;
use std::path::Path;

/// Return the release of the kernel whose files are under `root`, for example `6.12.9-amd64`.
#[must_use]
pub fn release(root: &Path) -> Option<String> {
    let text = fs::read_to_string(root.join("proc/sys/kernel/osrelease")).ok()?;
    Some(text.trim().to_owned())
}

/// Return true if `release` names a version before `than` (major and minor).
#[must_use]
pub fn is_before(release: &str, than: (u32, u32)) -> bool {
    let mut parts = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    matches!((parts.next(), parts.next()), (Some(Ok(major)), Some(Ok(minor))) if (major, minor) < than)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_by_major_and_minor_version() {
        for (release, before) in
            [("6.12.9-amd64", true), ("6.9", true), ("5.15.0", true), ("6.15.0", false), ("7.0-rc1", false)]
        {
            assert_eq!(is_before(release, (6, 15)), before, "{release}");
        }
        assert!(!is_before("unknown", (6, 15)) && !is_before("6", (6, 15)) && !is_before("", (6, 15)));
    }
}
