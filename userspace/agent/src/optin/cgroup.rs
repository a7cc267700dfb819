// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Cgroups as directories: the cgroup that a path names, and its threads.
//!
//! All files are read below a root directory, so that tests can have their own trees.
//!
//! # Invariants
//!
//! A removed cgroup is never taken for a later one of the same name, because their ids differ. Only
//! cgroup v2 counts. The error for any other path states what the path is.

use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use crate::failure::Failure;
use crate::optin::reconcile::Tid;

/// A cgroup at the time when its path was resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cgroup {
    /// Path of its directory.
    pub path: String,
    /// Name in `/proc/PID/cgroup`.
    pub name: String,
    /// The kernel's id of the cgroup.
    pub id: u64,
}

impl Cgroup {
    /// Return true if `name` is that of this cgroup or of one below it.
    #[must_use]
    pub fn covers(&self, name: &str) -> bool {
        name.strip_prefix(&self.name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// Result of resolving a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// This cgroup.
    Here(Cgroup),
    /// No cgroup yet: the path of one that can be made.
    Later(String),
}

impl Found {
    /// Return the path.
    #[must_use]
    pub fn path(&self) -> &str {
        match self {
            Self::Here(cgroup) => &cgroup.path,
            Self::Later(path) => path,
        }
    }

    /// Return the cgroup.
    ///
    /// # Errors
    /// Fail with a usage failure when the cgroup does not exist yet.
    pub fn here(self) -> Result<Cgroup, Failure> {
        match self {
            Self::Here(cgroup) => Ok(cgroup),
            Self::Later(path) => Err(Failure::usage(format!(
                "cgroup {path}: cannot be found; name a directory below the mount of cgroup v2"
            ))),
        }
    }
}

/// A mount of cgroup v2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mount {
    /// Mount point.
    pub(super) point: PathBuf,
    /// Name of the cgroup at the mount point, `/` for the root cgroup.
    name: String,
}

/// Return the mounts of cgroup v2 in a text of the format of `/proc/self/mountinfo`
/// (proc_pid_mountinfo(5)).
pub(super) fn mounts(text: &str) -> Vec<Mount> {
    let mount = |line: &str| {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ').skip(3);
        let (name, point) = (left.next()?, left.next()?);
        (right.split(' ').next()? == "cgroup2")
            .then(|| Mount { point: PathBuf::from(unescape(point)), name: unescape(name) })
    };
    text.lines().filter_map(mount).collect()
}

/// Decode blanks and other characters that are written like `\040`.
fn unescape(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()).filter(u8::is_ascii);
        match code {
            Some(code) => {
                out.push(char::from(code));
                out.push_str(part.get(3..).unwrap_or_default());
            }
            None => {
                out.push('\\');
                out.push_str(part);
            }
        }
    }
    out
}

/// Return the absolute `path` below `root`.
pub(super) fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// Resolve `path` to a cgroup, or to the path of one that can be made.
///
/// # Errors
/// Fail with a usage failure when the path cannot name a cgroup, or names the root. Fail with a
/// kernel failure when the machine has no cgroup v2.
pub fn find(root: &Path, path: &Path) -> Result<Found, Failure> {
    let shown = path.display();
    let mountinfo = std::fs::read_to_string(root.join("proc/self/mountinfo")).unwrap_or_default();
    let mounts = mounts(&mountinfo);
    let Some(first) = mounts.first() else {
        return Err(Failure::kernel(format!(
            "cgroup {shown}: this machine has no cgroup v2; boot with systemd.unified_cgroup_hierarchy=1, or mount it: mount -t cgroup2 none DIRECTORY"
        )));
    };
    let example = first.point.display();
    let usage = |why: String| Failure::usage(format!("cgroup {shown}: {why}"));
    let absolute = std::path::absolute(path)
        .map_err(|error| usage(format!("is no path ({error}); name a directory below {example}")))?;
    let found = below(root, &absolute).canonicalize().and_then(|found| {
        let root = root.canonicalize()?;
        Ok(Path::new("/").join(found.strip_prefix(&root).unwrap_or(&found)))
    });
    if found.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound)
        && let Some(path) = later(root, &absolute, &mounts)
    {
        return Ok(Found::Later(path));
    }
    let found = found
        .map_err(|error| usage(format!("cannot be found ({error}); name a directory below {example}")))?;
    // Take the longest of nested mount points.
    let mount = mounts.iter().filter(|mount| found.starts_with(&mount.point));
    let Some(mount) = mount.max_by_key(|mount| mount.point.as_os_str().len()) else {
        return Err(usage(format!("is not below a mount of cgroup v2; name a directory below {example}")));
    };
    let directory = below(root, &found);
    if !directory.join("cgroup.threads").is_file() {
        return Err(usage(format!("is no cgroup; name a directory below {}", mount.point.display())));
    }
    let inside = found.strip_prefix(&mount.point).unwrap_or(Path::new(""));
    let (Some(inside), Some(path)) = (inside.to_str(), found.to_str()) else {
        return Err(usage("its name is not UTF-8; rename it".to_owned()));
    };
    if inside.is_empty() {
        return Err(usage(
            "is the root, which holds everything; start scx_bias without --cgroup to schedule the whole system"
                .to_owned(),
        ));
    }
    let (path, name) = (path.to_owned(), format!("{}/{inside}", mount.name.trim_end_matches('/')));
    // Without an id the cgroup was removed a moment ago.
    Ok(number(&directory).map_or(Found::Later(path.clone()), |id| Found::Here(Cgroup { path, name, id })))
}

/// Return the path of a cgroup that does not exist but can be made, None for other paths. The path
/// must be below a mount of cgroup v2, and its existing part must be a directory.
fn later(root: &Path, path: &Path, mounts: &[Mount]) -> Option<String> {
    let root = root.canonicalize().ok()?;
    let there = path.ancestors().find_map(|part| Some((part, below(&root, part).canonicalize().ok()?)))?;
    let rest = path.strip_prefix(there.0).ok()?;
    let is_plain = rest.components().all(|part| matches!(part, Component::Normal(_)));
    let whole = Path::new("/").join(there.1.strip_prefix(&root).ok()?).join(rest);
    let is_below = |mount: &Mount| whole.starts_with(&mount.point) && whole != mount.point;
    (is_plain && there.1.is_dir() && mounts.iter().any(is_below))
        .then(|| whole.to_str().map(str::to_owned))?
}

/// Return the kernel's id of the cgroup in this directory.
fn number(directory: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    Some(directory.metadata().ok()?.ino())
}

/// Return the threads of a cgroup and of all below it, None if the cgroup is gone. Leave out
/// threads that this process may not see.
#[must_use]
pub fn threads(root: &Path, cgroup: &Cgroup) -> Option<Vec<Tid>> {
    let top = below(root, Path::new(&cgroup.path));
    if number(&top) != Some(cgroup.id) {
        return None;
    }
    let mut threads = Vec::new();
    walk(&top, &mut |directory| {
        // A directory that has gone meanwhile has no threads.
        let text = std::fs::read_to_string(directory.join("cgroup.threads")).unwrap_or_default();
        threads.extend(text.lines().filter_map(|line| line.parse::<Tid>().ok()).filter(|tid| *tid != 0));
        true
    });
    Some(threads)
}

/// Call `visit` for a directory and all below it, as long as it returns true.
pub(super) fn walk(top: &Path, visit: &mut impl FnMut(&Path) -> bool) {
    let mut directories = vec![top.to_owned()];
    while let Some(directory) = directories.pop() {
        if !visit(&directory) {
            return;
        }
        let Ok(entries) = std::fs::read_dir(&directory) else { continue };
        let is_directory = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        directories.extend(entries.filter_map(Result::ok).filter(is_directory).map(|entry| entry.path()));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "cgroup_tests.rs"]
pub(super) mod tests;
