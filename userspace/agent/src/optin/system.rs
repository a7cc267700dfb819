// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Access to the threads and cgroups of a machine.
//!
//! The access is a trait, so that the code above it can be tested on simulated machines. Their
//! threads fork, exec, move and reuse pids between any two calls.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nix::libc;

use super::cgroup::{self, Cgroup, Found};
use super::reconcile::Tid;
use crate::failure::Failure;

/// A machine.
pub trait System {
    /// Resolve a path to a cgroup, or to the path of one that can be made.
    ///
    /// # Errors
    /// Fail as [`cgroup::find`] does.
    fn find(&self, path: &Path) -> Result<Found, Failure>;
    /// Return the existing cgroup that a path names.
    ///
    /// # Errors
    /// Fail as [`Self::find`] does, and with a usage failure when the cgroup does not exist.
    fn resolve(&self, path: &Path) -> Result<Cgroup, Failure> {
        self.find(path)?.here()
    }
    /// Return true if the directory at this path exists. This is cheaper than [`Self::find`].
    fn is_there(&self, path: &str) -> bool;
    /// Return the threads of a cgroup and of all below it, None if the cgroup is gone.
    fn threads(&self, cgroup: &Cgroup) -> Option<Vec<Tid>>;
    /// Return the threads of the process to which this thread belongs, none if it is gone.
    fn process(&self, tid: Tid) -> Vec<Tid>;
    /// Return the threads of this process.
    fn own(&self) -> Vec<Tid>;
    /// Return the start time and the state of a thread, None if it is gone.
    fn stat(&self, tid: Tid) -> Option<Stat>;
    /// Return the name of a thread's cgroup, None if the thread is gone.
    fn cgroup_of(&self, tid: Tid) -> Option<String>;
    /// Return the ancestry of a thread, None if it is gone.
    fn lineage(&self, tid: Tid) -> Option<Lineage>;
    /// Return the scheduling attributes of a thread, None if it is gone.
    fn attr(&self, tid: Tid) -> Option<Attr>;
    /// Set the scheduling attributes of a thread.
    ///
    /// # Errors
    /// Fail with the kernel's error, which is `ESRCH` if the thread is gone.
    fn set_attr(&self, tid: Tid, attr: Attr) -> io::Result<()>;
}

/// Start time and state of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Start time [clock ticks since boot].
    pub start: u64,
    /// True if the thread has ended but was not reaped.
    pub dead: bool,
    /// True for a kernel thread.
    pub kernel: bool,
    /// True if the kernel forbids other threads to change its affinity.
    pub pinned: bool,
}

/// Ancestry of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lineage {
    /// Pid of its process.
    pub process: Tid,
    /// Pid of the parent process, or of the one that adopted the process when its parent ended.
    pub parent: Tid,
}

/// Scheduling attributes of a thread. They are read and set as a whole, so that the unchanged ones
/// are passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attr {
    /// Policy.
    pub policy: u32,
    /// Nice value.
    pub nice: i32,
    /// True if children do not inherit real-time policies and negative nice values.
    pub reset_on_fork: bool,
    /// Slice of its own for the default scheduler [ns], 0 for the common one.
    pub slice_ns: u64,
}

/// This machine, or a simulated one with its files below a directory. System calls always go to
/// this machine.
#[derive(Debug, Clone)]
pub struct Linux {
    root: PathBuf,
    /// Slice of threads that have none of their own, as the kernel reports it for this thread [ns].
    common_slice_ns: u64,
}

impl Default for Linux {
    fn default() -> Self {
        Self::below("/".into())
    }
}

impl Linux {
    /// Read files below `root`.
    pub(super) fn below(root: PathBuf) -> Self {
        let common_slice_ns = get_attr(0).map_or(0, |raw| raw.sched_runtime);
        Self { root, common_slice_ns }
    }

    /// Return the id of this boot.
    #[must_use]
    pub fn boot(&self) -> String {
        let boot = fs::read_to_string(self.root.join("proc/sys/kernel/random/boot_id")).unwrap_or_default();
        boot.split_whitespace().next().unwrap_or("unknown").to_owned()
    }

    /// Return the text of a thread's file, None if the file is gone. Names in it need not be UTF-8.
    fn text(&self, tid: Tid, file: &str) -> Option<String> {
        // Read the thread's own directory: figures in the other one are sums over the process.
        let bytes = fs::read(self.root.join(format!("proc/{tid}/task/{tid}/{file}"))).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Return the name of a thread, None if the thread is gone.
    pub(crate) fn name(&self, tid: Tid) -> Option<String> {
        Some(self.text(tid, "comm")?.trim_end().to_owned())
    }

    fn tasks(&self, process: &str) -> Vec<Tid> {
        let Ok(entries) = fs::read_dir(self.root.join("proc").join(process).join("task")) else {
            return Vec::new();
        };
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
    }
}

impl System for Linux {
    fn find(&self, path: &Path) -> Result<Found, Failure> {
        cgroup::find(&self.root, path)
    }

    fn is_there(&self, path: &str) -> bool {
        self.root.join(path.trim_start_matches('/')).is_dir()
    }

    fn threads(&self, cgroup: &Cgroup) -> Option<Vec<Tid>> {
        cgroup::threads(&self.root, cgroup)
    }

    fn process(&self, tid: Tid) -> Vec<Tid> {
        self.tasks(&tid.to_string())
    }

    fn own(&self) -> Vec<Tid> {
        self.tasks("self")
    }

    fn stat(&self, tid: Tid) -> Option<Stat> {
        parse_stat(&self.text(tid, "stat")?)
    }

    fn cgroup_of(&self, tid: Tid) -> Option<String> {
        // This is the line of cgroup v2. The others are of v1 hierarchies.
        let text = self.text(tid, "cgroup")?;
        text.lines().find_map(|line| line.strip_prefix("0::")).map(str::to_owned)
    }

    fn lineage(&self, tid: Tid) -> Option<Lineage> {
        let status = self.text(tid, "status")?;
        let field = |name| status.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        Some(Lineage { process: field("Tgid:")?, parent: field("PPid:")? })
    }

    fn attr(&self, tid: Tid) -> Option<Attr> {
        // To the kernel 0 means the calling thread.
        let raw = (tid != 0).then(|| get_attr(tid)).flatten()?;
        let own_slice = raw.sched_runtime != self.common_slice_ns;
        Some(Attr {
            policy: raw.sched_policy,
            nice: raw.sched_nice,
            reset_on_fork: raw.sched_flags & libc::SCHED_FLAG_RESET_ON_FORK as u64 != 0,
            slice_ns: if own_slice { raw.sched_runtime } else { 0 },
        })
    }

    fn set_attr(&self, tid: Tid, attr: Attr) -> io::Result<()> {
        if tid == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let flags = if attr.reset_on_fork { libc::SCHED_FLAG_RESET_ON_FORK as u64 } else { 0 };
        // Without flags for them the thread keeps its utilisation clamps.
        let raw = libc::sched_attr {
            sched_policy: attr.policy,
            sched_flags: flags,
            sched_nice: attr.nice,
            sched_runtime: attr.slice_ns,
            ..NO_ATTR
        };
        // SAFETY: the structure has the size that it states and outlives the call, which only reads
        // it.
        let result = unsafe { libc::syscall(libc::SYS_sched_setattr, tid as libc::pid_t, &raw const raw, 0) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// Attributes that are all zero. The size is that of the structure's first version, which every
/// kernel with SCHED_EXT knows.
const NO_ATTR: libc::sched_attr = libc::sched_attr {
    size: size_of::<libc::sched_attr>() as u32,
    sched_policy: 0,
    sched_flags: 0,
    sched_nice: 0,
    sched_priority: 0,
    sched_runtime: 0,
    sched_deadline: 0,
    sched_period: 0,
};

/// Return the attributes of a thread, None if there is no such thread. 0 is the calling thread.
fn get_attr(tid: Tid) -> Option<libc::sched_attr> {
    let mut raw = NO_ATTR;
    // SAFETY: the kernel writes at most the given size, which is the structure's. The structure
    // outlives the call.
    let result =
        unsafe { libc::syscall(libc::SYS_sched_getattr, tid as libc::pid_t, &raw mut raw, NO_ATTR.size, 0) };
    (result == 0).then_some(raw)
}

/// Parse the needed fields of `/proc/PID/stat`, proc_pid_stat(5). The name may hold any characters,
/// so that fields are counted from its end.
fn parse_stat(text: &str) -> Option<Stat> {
    const KTHREAD: u64 = 0x0020_0000;
    const NO_SETAFFINITY: u64 = 0x0400_0000;
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Stat {
        start: number(19)?,
        dead: matches!(*fields.first()?, "Z" | "X" | "x"),
        kernel: number(6)? & KTHREAD != 0,
        pinned: number(6)? & NO_SETAFFINITY != 0,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::optin::reconcile::policy;
    use proptest::prelude::*;

    fn made_up(root: &Path, tid: Tid, file: &str, text: &[u8]) {
        let directory = root.join(format!("proc/{tid}/task/{tid}"));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(file), text).unwrap();
    }

    fn this_thread() -> Tid {
        // SAFETY: the call has no arguments and only returns a number.
        unsafe { libc::gettid() as Tid }
    }

    #[test]
    fn the_state_of_a_thread_is_read_from_files() {
        let root = tempfile::tempdir().unwrap();
        let system = Linux::below(root.path().to_owned());
        let stat = |state, flags| {
            format!("7 (a) b\u{fffd}) {state} 1 7 7 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 4242 0")
        };
        made_up(root.path(), 7, "stat", stat("R", "4194560").replace('\u{fffd}', "\n").as_bytes());
        assert_eq!(system.stat(7), Some(Stat { start: 4242, dead: false, kernel: false, pinned: false }));
        made_up(root.path(), 7, "stat", stat("Z", "69238848").as_bytes());
        assert_eq!(system.stat(7), Some(Stat { start: 4242, dead: true, kernel: true, pinned: true }));
        made_up(root.path(), 7, "cgroup", b"2:cpu:/old\n1:name=systemd:/\xff\n0::/a/b c\n");
        assert_eq!(system.cgroup_of(7).as_deref(), Some("/a/b c"));
        made_up(root.path(), 7, "cgroup", b"2:cpu:/old\n");
        assert_eq!((system.cgroup_of(7), system.cgroup_of(8), system.stat(8)), (None, None, None));
        made_up(root.path(), 9, "stat", b"9 (x) S");
        assert_eq!(system.stat(9), None);
    }

    #[test]
    fn this_thread_and_process_are_found() {
        let system = Linux::default();
        let tid = this_thread();
        assert!(system.own().contains(&tid) && system.process(tid).contains(&tid));
        let stat = system.stat(tid).unwrap();
        assert!(!stat.dead && !stat.kernel && stat.start > 0);
        let lineage = Lineage { process: std::process::id(), parent: std::os::unix::process::parent_id() };
        assert_eq!(system.lineage(tid), Some(lineage));
        assert!(!system.boot().is_empty() && !system.boot().contains('\n'));
    }

    /// Run in a separate thread, which ends afterwards.
    #[test]
    fn setting_a_policy_changes_nothing_else() {
        std::thread::spawn(|| {
            let system = Linux::default();
            let tid = this_thread();
            let before = system.attr(tid).unwrap();
            let batch = Attr { policy: policy::BATCH, reset_on_fork: true, ..before };
            // A container may forbid the change.
            if system.set_attr(tid, batch).is_ok() {
                assert_eq!(system.attr(tid), Some(batch));
            }
            assert_eq!(before.slice_ns, 0);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn pid_0_does_not_mean_this_thread() {
        let system = Linux::default();
        assert_eq!(system.attr(0), None);
        let attr = Attr { policy: policy::BATCH, nice: 0, reset_on_fork: false, slice_ns: 0 };
        assert!(system.set_attr(0, attr).is_err());
        // Pids stay below 4194304.
        assert_eq!(system.set_attr(5_000_000, attr).unwrap_err().raw_os_error(), Some(libc::ESRCH));
        assert_eq!(system.attr(5_000_000), None);
    }

    proptest! {
        #[test]
        fn any_text_is_a_stat_or_none(name in ".{0,20}", rest in "[-0-9A-Z ]{0,120}") {
            parse_stat(&rest);
            parse_stat(&format!("1 ({name}) {rest}"));
        }
    }
}
