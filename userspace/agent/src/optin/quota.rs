//! Limits of CPU time (`cpu.max`, systemd's `CPUQuota=`) that do not hold for tasks under scx_bias.
//!
//! # Problem
//!
//! sched_ext leaves such limits to the scheduler, and the kernel side does not enforce them. A
//! container's limit does not work while scx_bias schedules it, and no other component reports
//! that.
//!
//! # Approach
//!
//! Search all cgroups for those with a limit of their own, at the start and on request.
//!
//! # Limits
//!
//! At most [`MAX_CGROUPS_SEARCHED`] cgroups are searched. Limits of cgroup v1 are not found.

use std::path::Path;

use serde::Serialize;

use super::cgroup::{below, is_limited, mounts, walk};

/// Most cgroups that are searched.
const MAX_CGROUPS_SEARCHED: usize = 20_000;
/// Most names that are reported.
const NAMED: usize = 3;

/// Cgroups with a limit that does not hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Quotas {
    /// Number of cgroups with a limit.
    pub count: usize,
    /// Names of the first ones in alphabetical order.
    pub first: Vec<String>,
    /// True if all cgroups were searched.
    pub complete: bool,
}

impl Quotas {
    /// Find the cgroups with a limit on the machine below `root`.
    #[must_use]
    pub fn unenforced(root: &Path) -> Self {
        Self::search(root, MAX_CGROUPS_SEARCHED)
    }

    /// Find them among the first `most` cgroups.
    fn search(root: &Path, most: usize) -> Self {
        let mountinfo = std::fs::read_to_string(root.join("proc/self/mountinfo")).unwrap_or_default();
        let (mut names, mut searched, mut complete) = (Vec::new(), 0, true);
        // All mounts show the same tree.
        if let Some(mount) = mounts(&mountinfo).first() {
            let top = below(root, &mount.point);
            walk(&top, &mut |directory| {
                if searched == most {
                    complete = false;
                    return false;
                }
                searched += 1;
                if is_limited(directory) {
                    let name = Path::new("/").join(directory.strip_prefix(&top).unwrap_or(directory));
                    names.push(name.to_string_lossy().replace(char::is_control, "?"));
                }
                true
            });
        }
        names.sort_unstable();
        let count = names.len();
        names.truncate(NAMED);
        Self { count, first: names, complete }
    }

    /// Return a warning and its remedy, None if no limit is set.
    #[must_use]
    pub fn note(&self) -> Option<(String, &'static str)> {
        let more = self.count - self.first.len();
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        let (least, many) =
            (if self.complete { "" } else { "at least " }, if self.count == 1 { "" } else { "s" });
        let found = format!(
            "cpu.max (CPUQuota=) of {least}{} cgroup{many} does not hold while scx_bias schedules the whole system: {}{more}",
            self.count,
            self.first.join(", ")
        );
        (self.count > 0).then_some((
            found,
            "limit them by cpuset.cpus (AllowedCPUs=), or start scx_bias with --cgroup for others only",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::cgroup::tests::{UNIFIED, make, root};
    use super::*;

    #[test]
    fn those_that_have_a_limit_are_counted_and_the_first_named() {
        let unified = root(UNIFIED);
        let limit = |path: &str, text: &str| {
            let path = format!("/sys/fs/cgroup{path}");
            make(unified.path(), &path, "");
            assert!(std::fs::write(below(unified.path(), Path::new(&path)).join("cpu.max"), text).is_ok());
        };
        make(unified.path(), "/sys/fs/cgroup", "");
        limit("/a", "max 100000\n");
        let none = Quotas::unenforced(unified.path());
        assert_eq!((none.count, none.note(), none.complete), (0, None, true));
        limit("/a/b", "50000 100000\n");
        let one = Quotas::unenforced(unified.path()).note();
        assert!(one.is_some_and(|(found, _)| {
            found.starts_with("cpu.max (CPUQuota=) of 1 cgroup does not hold") && found.ends_with(": /a/b")
        }));
        for path in ["/e", "/d\x1b[2J", "/c", "/c/f"] {
            limit(path, "1 2\n");
        }
        let five = Quotas::unenforced(unified.path());
        assert_eq!((five.count, &five.first[..]), (5, &["/a/b", "/c", "/c/f"].map(str::to_owned)[..]));
        assert!(five.note().is_some_and(|(found, _)| found.ends_with("/a/b, /c, /c/f and 2 more")));
        limit("/a", "1 2\n");
        assert!(Quotas::unenforced(unified.path()).first.contains(&"/a".to_owned()));
    }

    #[test]
    fn a_search_that_reaches_its_limit_at_the_last_cgroup_is_complete() {
        let unified = root(UNIFIED);
        for path in ["/sys/fs/cgroup", "/sys/fs/cgroup/a", "/sys/fs/cgroup/b"] {
            make(unified.path(), path, "");
            let limit = below(unified.path(), Path::new(path)).join("cpu.max");
            assert!(std::fs::write(limit, "1 2\n").is_ok());
        }
        let counts = |most| {
            let found = Quotas::search(unified.path(), most);
            (found.count, found.complete)
        };
        assert_eq!([2, 3, 4].map(counts), [(2, false), (3, true), (3, true)]);
    }

    #[test]
    fn a_machine_without_cgroups_has_none() {
        assert_eq!(Quotas::unenforced(root("").path()).count, 0);
    }
}
