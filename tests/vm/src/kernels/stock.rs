// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Debian's own kernels, unpacked from their packages.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::files::{self, File};
use crate::cache;
use crate::steps::Step;

/// Version of this recipe. Increment it when other parts of the packages are kept.
const RECIPE: &str = "2";

/// Return the directory with the kernel's `vmlinuz` and, if its packages hold it, `config`.
pub(super) fn ensure(name: &str, release: &str, packages: &[File], archives: &[String]) -> Result<PathBuf> {
    let mut parts = vec![RECIPE, release];
    parts.extend(packages.iter().map(|package| package.sha256.as_str()));
    cache::entry("kernels", &format!("{name}-{}", cache::key(&parts)), |directory| {
        let mut step = Step::new(format!("fetching Debian's kernel {release}"));
        let (download, root) = (directory.join("download"), directory.join("root"));
        files::fetch(&mut step, archives, packages, &download, &root)?;
        let keep = |file: &Path, name: &str| {
            fs::rename(file, directory.join(name)).with_context(|| format!("cannot move the kernel's {name}"))
        };
        let Some(image) = find(&root, release, "vmlinuz") else {
            bail!("the packages of kernel {release} hold no image; update the table in kernels.toml");
        };
        keep(&image, "vmlinuz")?;
        if let Some(config) = find(&root, release, "config") {
            keep(&config, "config")?;
        }
        for rest in [download, root] {
            fs::remove_dir_all(&rest).with_context(|| format!("cannot remove {}", rest.display()))?;
        }
        step.done("");
        Ok(())
    })
}

/// Find a release's image or configuration. Packages have it in `boot/` or in the directory of the
/// modules, depending on the release.
fn find(root: &Path, release: &str, kind: &str) -> Option<PathBuf> {
    let candidates = [
        root.join("boot").join(format!("{kind}-{release}")),
        root.join("usr/lib/modules").join(release).join(kind),
        root.join("usr/lib/modules").join(release).join(format!("{kind}.unsigned")),
    ];
    candidates.into_iter().find(|path| path.is_file())
}
