// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Cgroups as directories: the cgroup that a path names, and its threads.
//!
//! All files are read below a root directory, so that tests can have their own trees.
//!
//! # Invariants
//!
//! A removed cgroup is never mistaken for a later one of the same name, because their ids differ.
//! Only cgroup v2 counts. The error for any other path says why it is refused.

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
struct Mount {
    /// Mount point.
    point: PathBuf,
    /// Name of the cgroup at the mount point, `/` for the root cgroup.
    name: String,
}

/// Return the mounts of cgroup v2 in a text of the format of `/proc/self/mountinfo`
/// (proc_pid_mountinfo(5)).
fn mounts(text: &str) -> Vec<Mount> {
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
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |out, part| {
        let code = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()).filter(u8::is_ascii);
        match code.zip(part.get(3..)) {
            Some((code, rest)) => format!("{out}{}{rest}", char::from(code)),
            None => format!("{out}\\{part}"),
        }
    })
}

/// Return the absolute `path` below `root`.
fn below(root: &Path, path: &Path) -> PathBuf {
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
        .map_err(|error| usage(format!("is not a path ({error}); name a directory below {example}")))?;
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
        return Err(usage(format!("is not a cgroup; name a directory below {}", mount.point.display())));
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
    let (mut threads, mut directories) = (Vec::new(), vec![top]);
    while let Some(directory) = directories.pop() {
        // A directory that has gone meanwhile has no threads.
        let text = std::fs::read_to_string(directory.join("cgroup.threads")).unwrap_or_default();
        threads.extend(text.lines().filter_map(|line| line.parse::<Tid>().ok()).filter(|tid| *tid != 0));
        let Ok(entries) = std::fs::read_dir(&directory) else { continue };
        let is_directory = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        directories.extend(entries.filter_map(Result::ok).filter(is_directory).map(|entry| entry.path()));
    }
    Some(threads)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::failure::Exit;
    use proptest::prelude::*;
    use std::fs;

    const UNIFIED: &str = "25 1 0:22 / /proc rw - proc proc rw\n\
        30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
    const HYBRID: &str = "30 24 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
        31 30 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
        32 30 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
    const V1: &str = "31 30 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";

    /// Make a root directory with these mounts and nothing else.
    fn root(mountinfo: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("proc/self")).unwrap();
        fs::write(root.path().join("proc/self/mountinfo"), mountinfo).unwrap();
        root
    }

    /// Make a cgroup with these threads.
    fn make(root: &Path, path: &str, threads: &str) {
        let directory = below(root, Path::new(path));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("cgroup.threads"), threads).unwrap();
    }

    fn resolve(root: &Path, path: &Path) -> Result<Cgroup, Failure> {
        find(root, path)?.here()
    }

    fn refused(root: &Path, path: &str) -> (Exit, String) {
        let failure = resolve(root, Path::new(path)).unwrap_err();
        assert!(failure.message.contains(';') || failure.message.contains("removed"), "{failure}");
        (failure.exit, failure.message)
    }

    #[test]
    fn a_cgroup_has_the_kernels_name_for_it() {
        let unified = root(UNIFIED);
        make(unified.path(), "/sys/fs/cgroup", "1\n");
        make(unified.path(), "/sys/fs/cgroup/work.slice/build", "");
        make(unified.path(), "/sys/fs/cgroup/work.slice", "");
        let cgroup =
            resolve(unified.path(), Path::new("/sys/fs/cgroup/./work.slice/../work.slice/build/")).unwrap();
        assert_eq!(
            (cgroup.path.as_str(), cgroup.name.as_str()),
            ("/sys/fs/cgroup/work.slice/build", "/work.slice/build")
        );
        let hybrid = root(HYBRID);
        make(hybrid.path(), "/sys/fs/cgroup/unified/a", "");
        assert_eq!(resolve(hybrid.path(), Path::new("/sys/fs/cgroup/unified/a")).unwrap().name, "/a");
        // A container sees a part of the tree, but the names of the whole.
        let part = root("30 24 0:26 /docker/x /sys/fs/cgroup rw - cgroup2 cgroup rw\n");
        make(part.path(), "/sys/fs/cgroup/a", "");
        assert_eq!(resolve(part.path(), Path::new("/sys/fs/cgroup/a")).unwrap().name, "/docker/x/a");
    }

    #[test]
    fn paths_that_are_not_cgroups_are_refused_with_the_reason() {
        let unified = root(UNIFIED);
        make(unified.path(), "/sys/fs/cgroup", "1\n");
        make(unified.path(), "/sys/fs/cgroup/a", "");
        fs::create_dir_all(unified.path().join("tmp")).unwrap();
        for (path, why) in [
            ("/sys/fs/cgroup/none", "cannot be found"),
            ("/tmp", "not below a mount of cgroup v2; name a directory below /sys/fs/cgroup"),
            ("/sys/fs/cgroup/a/cgroup.threads", "is not a cgroup"),
            ("/sys/fs/cgroup", "without --cgroup"),
            ("/sys/fs/cgroup/a/..", "without --cgroup"),
            ("", "not a path"),
        ] {
            let (exit, message) = refused(unified.path(), path);
            assert!(exit == Exit::Usage && message.contains(why), "{path}: {message}");
        }
        let hybrid = root(HYBRID);
        make(hybrid.path(), "/sys/fs/cgroup/cpu/a", "");
        assert!(refused(hybrid.path(), "/sys/fs/cgroup/cpu/a").1.contains("below /sys/fs/cgroup/unified"));
        for mountinfo in [V1, "", "nonsense\n - \n1 2 3 - cgroup2"] {
            let (exit, message) = refused(root(mountinfo).path(), "/sys/fs/cgroup/a");
            assert!(exit == Exit::Kernel && message.contains("mount -t cgroup2"), "{message}");
        }
    }

    #[test]
    fn only_paths_that_can_become_cgroups_are_found_later() {
        let unified = root(UNIFIED);
        make(unified.path(), "/sys/fs/cgroup", "1\n");
        make(unified.path(), "/sys/fs/cgroup/a", "");
        std::os::unix::fs::symlink("a", unified.path().join("sys/fs/cgroup/link")).unwrap();
        let find = |path: &str| find(unified.path(), Path::new(path));
        for (path, later) in [
            ("/sys/fs/cgroup/work.slice", "/sys/fs/cgroup/work.slice"),
            ("/sys/fs/cgroup/a/./b/c/", "/sys/fs/cgroup/a/b/c"),
            ("/sys/fs/cgroup/link/b", "/sys/fs/cgroup/a/b"),
        ] {
            assert_eq!(find(path), Ok(Found::Later(later.to_owned())), "{path}");
        }
        for path in [
            "/nonexistent",
            "/sys/fs/none/a",
            "/sys/fs/cgroup/none/../../x",
            "/sys/fs/cgroup/a/cgroup.threads/b",
        ] {
            assert_eq!(find(path).unwrap_err().exit, Exit::Usage, "{path}");
        }
        assert!(matches!(find("/sys/fs/cgroup/a"), Ok(Found::Here(_))));
    }

    #[test]
    fn threads_of_the_whole_subtree_are_listed() {
        let unified = root(UNIFIED);
        make(unified.path(), "/sys/fs/cgroup/a", "1\n0\n2\n");
        make(unified.path(), "/sys/fs/cgroup/a/b/c", "3\nx\n");
        make(unified.path(), "/sys/fs/cgroup/ab", "4\n");
        let a = resolve(unified.path(), Path::new("/sys/fs/cgroup/a")).unwrap();
        let mut found = threads(unified.path(), &a).unwrap();
        found.sort_unstable();
        assert_eq!(found, [1, 2, 3]);
        // A later cgroup of the same name is another one. The old one stays, so that its id is not
        // reused.
        fs::rename(unified.path().join("sys/fs/cgroup/a"), unified.path().join("sys/fs/cgroup/old")).unwrap();
        assert_eq!(threads(unified.path(), &a), None);
        make(unified.path(), "/sys/fs/cgroup/a", "1\n");
        assert_eq!(threads(unified.path(), &a), None);
    }

    #[test]
    fn a_name_covers_its_subtree_only() {
        let cgroup = Cgroup { path: String::new(), name: "/a/b".to_owned(), id: 1 };
        for (name, inside) in
            [("/a/b", true), ("/a/b/c", true), ("/a/bc", false), ("/a", false), ("/", false), ("", false)]
        {
            assert_eq!(cgroup.covers(name), inside, "{name}");
        }
    }

    #[test]
    fn escaped_names_are_read() {
        assert_eq!(unescape(r"/a\040b\134c\x"), r"/a b\c\x");
    }

    proptest! {
        #[test]
        fn any_text_has_mounts_or_none(text in ".{0,80}", escapes in r"[\\0-9/ é-]{0,40}") {
            mounts(&format!("{text}\n1 2 3 {escapes} / - cgroup2 x\n"));
            unescape(&escapes);
        }
    }
}
