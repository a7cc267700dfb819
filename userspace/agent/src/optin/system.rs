//! What the kernel tells of threads and does to them.
//!
//! A trait, so that everything above it is tested on machines that do not exist: ones that fork, exec, move and reuse numbers between
//! any two questions.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nix::libc;

use super::cgroup::{self, Cgroup, Found};
use super::plan::Tid;
use crate::failure::Failure;

/// The machine.
pub trait System {
    /// The cgroup that a path names, or will.
    ///
    /// # Errors
    /// As [`cgroup::find`].
    fn find(&self, path: &Path) -> Result<Found, Failure>;
    /// The cgroup that a path names.
    ///
    /// # Errors
    /// As [`Self::find`]; usage failure when it is not there.
    fn resolve(&self, path: &Path) -> Result<Cgroup, Failure> {
        self.find(path)?.here()
    }
    /// Is there anything at this path? It is cheaper to ask than [`Self::find`].
    fn is_there(&self, path: &str) -> bool;
    /// The threads of a cgroup and of all below; None if it is gone.
    fn threads(&self, cgroup: &Cgroup) -> Option<Vec<Tid>>;
    /// The threads of the process that this one belongs to; none if it is gone.
    fn process(&self, tid: Tid) -> Vec<Tid>;
    /// The threads of this process.
    fn own(&self) -> Vec<Tid>;
    /// What a thread is; None if it is gone.
    fn stat(&self, tid: Tid) -> Option<Stat>;
    /// The name of its cgroup; None if it is gone.
    fn cgroup_of(&self, tid: Tid) -> Option<String>;
    /// Where it comes from; None if it is gone.
    fn lineage(&self, tid: Tid) -> Option<Lineage>;
    /// How it is scheduled; None if it is gone.
    fn attr(&self, tid: Tid) -> Option<Attr>;
    /// Schedules it so.
    ///
    /// # Errors
    /// The kernel's; `ESRCH` if it is gone.
    fn set_attr(&self, tid: Tid, attr: Attr) -> io::Result<()>;
    /// A cgroup whose `cpu.max` limits threads of this one.
    fn limited_by(&self, cgroup: &Cgroup) -> Option<String>;
}

/// What a thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// When it started [clock ticks since boot].
    pub start: u64,
    /// It has ended, and nobody has asked how.
    pub dead: bool,
    /// It is the kernel's.
    pub kernel: bool,
}

/// Where a thread comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lineage {
    /// Its process.
    pub process: Tid,
    /// The process that made that, or took its place when it ended.
    pub parent: Tid,
}

/// How a thread is scheduled: what is told and set as a whole, so that what is not meant to change is handed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attr {
    /// The policy.
    pub policy: u32,
    /// Nice value.
    pub nice: i32,
    /// Children do not inherit real-time policies and negative nice values.
    pub reset_on_fork: bool,
    /// Slice of its own [ns], for the default scheduler; 0 for everybody's.
    pub slice_ns: u64,
}

/// This machine, or a made-up one whose files are below a folder. System calls are this machine's in any case.
#[derive(Debug, Clone)]
pub struct Linux {
    root: PathBuf,
    /// Slice of threads that have none of their own, as the kernel tells it of this one [ns].
    common_slice_ns: u64,
}

impl Linux {
    /// With files below `root`.
    #[must_use]
    pub fn new(root: PathBuf) -> Self {
        let common_slice_ns = get_attr(0).map_or(0, |raw| raw.sched_runtime);
        Self { root, common_slice_ns }
    }

    /// This boot's number.
    #[must_use]
    pub fn boot(&self) -> String {
        let boot = fs::read_to_string(self.root.join("proc/sys/kernel/random/boot_id")).unwrap_or_default();
        boot.split_whitespace().next().unwrap_or("unknown").to_owned()
    }

    /// The text of a file of a thread; None if that is gone. Names in it need not be UTF-8.
    fn text(&self, tid: Tid, file: &str) -> Option<String> {
        // By the task folder, for the other's figures are sums over the process.
        let bytes = fs::read(self.root.join(format!("proc/{tid}/task/{tid}/{file}"))).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
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
        // The line of cgroup v2; the others are of v1 hierarchies.
        let text = self.text(tid, "cgroup")?;
        text.lines().find_map(|line| line.strip_prefix("0::")).map(str::to_owned)
    }

    fn lineage(&self, tid: Tid) -> Option<Lineage> {
        let status = self.text(tid, "status")?;
        let field = |name| status.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        Some(Lineage { process: field("Tgid:")?, parent: field("PPid:")? })
    }

    fn attr(&self, tid: Tid) -> Option<Attr> {
        // 0 would be the calling thread.
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
        // Without flags for them, the limits of utilisation that were set for the thread stay.
        let raw = libc::sched_attr {
            size: SIZE,
            sched_policy: attr.policy,
            sched_flags: flags,
            sched_nice: attr.nice,
            sched_priority: 0,
            sched_runtime: attr.slice_ns,
            sched_deadline: 0,
            sched_period: 0,
        };
        // SAFETY: the structure is as long as it says and outlives the call, which only reads it.
        let result = unsafe { libc::syscall(libc::SYS_sched_setattr, tid as libc::pid_t, &raw const raw, 0) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    fn limited_by(&self, cgroup: &Cgroup) -> Option<String> {
        cgroup::limited_by(&self.root, cgroup)
    }
}

/// Size of the structure: its first version, which every kernel with SCHED_EXT knows.
const SIZE: u32 = size_of::<libc::sched_attr>() as u32;

/// How the kernel schedules a thread, 0 being the calling one; None if there is no such thread.
fn get_attr(tid: Tid) -> Option<libc::sched_attr> {
    let mut raw = libc::sched_attr {
        size: SIZE,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the kernel writes at most the size it is told, which is the structure's, and that outlives the call.
    let result = unsafe { libc::syscall(libc::SYS_sched_getattr, tid as libc::pid_t, &raw mut raw, SIZE, 0) };
    (result == 0).then_some(raw)
}

/// The fields of `/proc/PID/stat` (proc_pid_stat(5)) that matter. The name may hold anything, so they are counted behind its end.
fn parse_stat(text: &str) -> Option<Stat> {
    const KTHREAD: u64 = 0x0020_0000;
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Stat {
        start: number(19)?,
        dead: matches!(*fields.first()?, "Z" | "X" | "x"),
        kernel: number(6)? & KTHREAD != 0,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::optin::plan::policy;
    use proptest::prelude::*;

    fn made_up(root: &Path, tid: Tid, file: &str, text: &[u8]) {
        let folder = root.join(format!("proc/{tid}/task/{tid}"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(file), text).unwrap();
    }

    fn this_thread() -> Tid {
        // SAFETY: a system call without arguments that only returns a number.
        unsafe { libc::gettid() as Tid }
    }

    #[test]
    fn a_thread_is_told_from_files() {
        let root = tempfile::tempdir().unwrap();
        let system = Linux::new(root.path().to_owned());
        let stat = |state, flags| {
            format!("7 (a) b\u{fffd}) {state} 1 7 7 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 4242 0")
        };
        made_up(root.path(), 7, "stat", stat("R", "4194560").replace('\u{fffd}', "\n").as_bytes());
        assert_eq!(system.stat(7), Some(Stat { start: 4242, dead: false, kernel: false }));
        made_up(root.path(), 7, "stat", stat("Z", "2129984").as_bytes());
        assert_eq!(system.stat(7), Some(Stat { start: 4242, dead: true, kernel: true }));
        made_up(root.path(), 7, "cgroup", b"2:cpu:/old\n1:name=systemd:/\xff\n0::/a/b c\n");
        assert_eq!(system.cgroup_of(7).as_deref(), Some("/a/b c"));
        made_up(root.path(), 7, "cgroup", b"2:cpu:/old\n");
        assert_eq!((system.cgroup_of(7), system.cgroup_of(8), system.stat(8)), (None, None, None));
        made_up(root.path(), 9, "stat", b"9 (x) S");
        assert_eq!(system.stat(9), None);
    }

    #[test]
    fn this_thread_is_what_it_is() {
        let system = Linux::new(PathBuf::from("/"));
        let tid = this_thread();
        assert!(system.own().contains(&tid) && system.process(tid).contains(&tid));
        let stat = system.stat(tid).unwrap();
        assert!(!stat.dead && !stat.kernel && stat.start > 0);
        let lineage = Lineage { process: std::process::id(), parent: std::os::unix::process::parent_id() };
        assert_eq!(system.lineage(tid), Some(lineage));
        assert!(!system.boot().is_empty() && !system.boot().contains('\n'));
    }

    /// On a thread of its own, which ends afterwards.
    #[test]
    fn a_policy_goes_and_comes_back_and_nothing_else_changes() {
        std::thread::spawn(|| {
            let system = Linux::new(PathBuf::from("/"));
            let tid = this_thread();
            let before = system.attr(tid).unwrap();
            let batch = Attr { policy: policy::BATCH, reset_on_fork: true, ..before };
            // A container may forbid it.
            if system.set_attr(tid, batch).is_ok() {
                assert_eq!(system.attr(tid), Some(batch));
            }
            assert_eq!(before.slice_ns, 0);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn nobody_is_taken_for_this_thread() {
        let system = Linux::new(PathBuf::from("/"));
        assert_eq!(system.attr(0), None);
        let attr = Attr { policy: policy::BATCH, nice: 0, reset_on_fork: false, slice_ns: 0 };
        assert!(system.set_attr(0, attr).is_err());
        // Numbers end at 4194304.
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
