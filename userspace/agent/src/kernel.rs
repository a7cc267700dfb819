// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Version of the running kernel, for features that no type, function or file reveals.

use std::fs;
use std::path::Path;

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Func;

/// Return the release of the kernel whose files are under `root`, for example `6.12.9-amd64`.
#[must_use]
pub fn release(root: &Path) -> Option<String> {
    let text = fs::read_to_string(root.join("proc/sys/kernel/osrelease")).ok()?;
    Some(text.trim().to_owned())
}

/// Return true if the running kernel has one of the functions `any_of`, according to its BTF.
#[must_use]
pub fn has_function(any_of: &[&str]) -> bool {
    Btf::from_vmlinux()
        .is_ok_and(|btf| any_of.iter().any(|name| btf.type_by_name::<Func<'_>>(name).is_some()))
}

/// Major and minor version, and number of the stable release.
pub type Version = (u32, u32, u32);

/// Return the version that `release` names. The third number is 0 if it is absent.
#[must_use]
pub fn version(release: &str) -> Option<Version> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    let (major, minor) = (parts.next()?.ok()?, parts.next()?.ok()?);
    Some((major, minor, parts.next().and_then(Result::ok).unwrap_or(0)))
}

/// Return true if `release` names a version before `than` (major and minor).
#[must_use]
pub fn is_before(release: &str, than: (u32, u32)) -> bool {
    version(release).is_some_and(|(major, minor, _)| (major, minor) < than)
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

    #[test]
    fn the_third_number_of_a_release_is_optional() {
        for (release, third) in [("7.1.13+deb14-amd64", 13), ("7.1-rc2", 0), ("7.1", 0), ("7.1.0-rc2", 0)] {
            assert_eq!(version(release), Some((7, 1, third)), "{release}");
        }
    }
}
