//! Debian's own kernels, unpacked from their packages.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::apt::{Apt, Suites};
use crate::cache;
use crate::progress::Step;

/// Change this when what is kept of the packages changes.
const RECIPE: &str = "1";

/// The folder with the kernel's `vmlinuz`.
pub(super) fn ensure(name: &str, release: &str, packages: &[String]) -> Result<PathBuf> {
    let mut parts = vec![RECIPE, release];
    parts.extend(packages.iter().map(String::as_str));
    cache::entry("kernels", &format!("{name}-{}", cache::key(&parts)), |folder| {
        let apt = Apt::open(Suites::Download)?;
        let mut step = Step::new(format!("fetching Debian's kernel {release}"));
        let (download, root) = (folder.join("download"), folder.join("root"));
        apt.download(&mut step, packages, &download, &root)?;
        let image = find_image(&root, release)?;
        fs::rename(&image, folder.join("vmlinuz")).context("cannot move the kernel's image")?;
        for rest in [download, root] {
            fs::remove_dir_all(&rest).with_context(|| format!("cannot remove {}", rest.display()))?;
        }
        step.done("");
        Ok(())
    })
}

/// Where a release's packages put its image: it moved from `boot/` to the modules' folder.
fn find_image(root: &Path, release: &str) -> Result<PathBuf> {
    let candidates = [
        root.join("boot").join(format!("vmlinuz-{release}")),
        root.join("usr/lib/modules").join(release).join("vmlinuz"),
        root.join("usr/lib/modules").join(release).join("vmlinuz.unsigned"),
    ];
    match candidates.iter().find(|path| path.is_file()) {
        Some(path) => Ok(path.clone()),
        None => bail!(
            "the packages of kernel {release} hold no image; has the table in kernels.toml to be updated?"
        ),
    }
}
