// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests on generated directory trees.

use std::fs;

use super::*;
use crate::failure::Exit;
use proptest::prelude::*;

pub(in crate::optin) const UNIFIED: &str = "25 1 0:22 / /proc rw - proc proc rw\n\
    30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
const HYBRID: &str = "30 24 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
    31 30 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
    32 30 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
const V1: &str = "31 30 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";

/// Make a root directory with these mounts and nothing else.
pub(in crate::optin) fn root(mountinfo: &str) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("proc/self")).unwrap();
    fs::write(root.path().join("proc/self/mountinfo"), mountinfo).unwrap();
    root
}

/// Make a cgroup with these threads.
pub(in crate::optin) fn make(root: &Path, path: &str, threads: &str) {
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
fn a_cgroup_has_the_name_the_kernel_gives_it() {
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
fn what_is_no_cgroup_is_refused_with_what_it_is() {
    let unified = root(UNIFIED);
    make(unified.path(), "/sys/fs/cgroup", "1\n");
    make(unified.path(), "/sys/fs/cgroup/a", "");
    fs::create_dir_all(unified.path().join("tmp")).unwrap();
    for (path, why) in [
        ("/sys/fs/cgroup/none", "cannot be found"),
        ("/tmp", "not below a mount of cgroup v2; name a directory below /sys/fs/cgroup"),
        ("/sys/fs/cgroup/a/cgroup.threads", "is no cgroup"),
        ("/sys/fs/cgroup", "without --cgroup"),
        ("/sys/fs/cgroup/a/..", "without --cgroup"),
        ("", "no path"),
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
fn what_can_become_a_cgroup_is_told_from_what_cannot() {
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
    for path in
        ["/nonexistent", "/sys/fs/none/a", "/sys/fs/cgroup/none/../../x", "/sys/fs/cgroup/a/cgroup.threads/b"]
    {
        assert_eq!(find(path).unwrap_err().exit, Exit::Usage, "{path}");
    }
    assert!(matches!(find("/sys/fs/cgroup/a"), Ok(Found::Here(_))));
}

#[test]
fn threads_are_those_of_the_whole_subtree() {
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
fn a_name_covers_what_is_below_it_only() {
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
