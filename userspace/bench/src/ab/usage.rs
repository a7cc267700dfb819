//! What a scheduler itself costs: CPU time of its program, and of its BPF code.
//!
//! Approach: the program's threads are read from `/proc/PID/task/*/schedstat`. The kernel counts the run time of BPF
//! programs while `kernel.bpf_stats_enabled` is set, and shows it in the fdinfo of the descriptors that the scheduler's
//! process holds; libbpf keeps those of all programs of an object open as long as the object. Counting costs two clock reads
//! for each call, so it is off unless a plan asks for it.
//!
//! Invariants: a BPF program counts once, however many descriptors it has; one that shows up between two readings does not
//! count, for nobody knows how much of its time is new. A thread that was started since counts from its beginning.
//!
//! Limits: a thread that ended since the first reading counts nothing, nor do BPF programs whose descriptors the scheduler closed and
//! processes that it started. Time is the machine's, stretched in the VM like everything else; shares are not.

use crate::{Error, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The switch for counting BPF run time.
const SWITCH: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// A scheduler's clocks at one moment, nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time by thread, of those that are alive.
    threads: BTreeMap<String, u64>,
    /// Run time by BPF program; stands still unless counting is on.
    programs: BTreeMap<u64, u64>,
}

/// CPU time used between two moments, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Used {
    /// By the program's threads.
    pub agent_ns: u64,
    /// By its BPF programs.
    pub bpf_ns: u64,
}

impl Usage {
    /// Of one process. Threads and descriptors that vanish meanwhile count nothing.
    pub fn of(pid: i32) -> Self {
        Self::below(&PathBuf::from(format!("/proc/{pid}")))
    }

    fn below(process: &Path) -> Self {
        let entries = |folder: &str| std::fs::read_dir(process.join(folder)).into_iter().flatten().flatten();
        let thread = |entry: std::fs::DirEntry| {
            let text = std::fs::read_to_string(entry.path().join("schedstat")).ok()?;
            Some((entry.file_name().to_string_lossy().into_owned(), on_cpu_ns(&text)?))
        };
        let program = |entry: std::fs::DirEntry| run_time(&std::fs::read_to_string(entry.path()).ok()?);
        Usage {
            threads: entries("task").filter_map(thread).collect(),
            programs: entries("fdinfo").filter_map(program).collect(),
        }
    }

    /// Used since an earlier reading.
    pub fn since(&self, earlier: &Self) -> Used {
        let thread =
            |(id, ns): (&String, &u64)| ns.saturating_sub(earlier.threads.get(id).copied().unwrap_or(0));
        let program = |(id, ns): (&u64, &u64)| Some(ns.saturating_sub(*earlier.programs.get(id)?));
        Used {
            agent_ns: self.threads.iter().map(thread).sum(),
            bpf_ns: self.programs.iter().filter_map(program).sum(),
        }
    }
}

/// First number of a schedstat: time on a CPU.
fn on_cpu_ns(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

/// Id and run time of the BPF program that a descriptor stands for; None if it stands for something else.
fn run_time(fdinfo: &str) -> Option<(u64, u64)> {
    let field = |name: &str| fdinfo.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok();
    Some((field("prog_id:")?, field("run_time_ns:")?))
}

/// BPF run time is counted while this lives.
pub struct Counting {
    before: String,
}

impl Counting {
    /// Turns counting on.
    pub fn on() -> Result<Self> {
        let failed = |e| {
            Error::Kernel(format!(
                "counting BPF run time ({SWITCH}): {e}; run as root, or without --bpf-stats"
            ))
        };
        let before = std::fs::read_to_string(SWITCH).map_err(failed)?;
        std::fs::write(SWITCH, "1").map_err(failed)?;
        Ok(Counting { before })
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        // It was written a moment ago; should it fail now, only two clock reads a call remain.
        let _ = std::fs::write(SWITCH, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel shows of a program's descriptor.
    fn program(id: u64, run_time_ns: u64) -> String {
        format!(
            "pos:\t0\nflags:\t02000002\nmnt_id:\t16\nino:\t1053\nprog_type:\t27\nprog_jited:\t1\n\
             prog_tag:\t0123456789abcdef\nmemlock:\t4096\nprog_id:\t{id}\nrun_time_ns:\t{run_time_ns}\n\
             run_cnt:\t1211\nrecursion_misses:\t0\nverified_insns:\t322\n"
        )
    }

    /// Of a link: it names its program, whose run time is not its own.
    const LINK: &str = "pos:\t0\nflags:\t02000000\nmnt_id:\t16\nino:\t1053\nlink_type:\ttracing\nlink_id:\t9\n\
                        prog_tag:\t0123456789abcdef\nprog_id:\t31\nattach_type:\t24\n";

    #[test]
    fn a_descriptor_of_a_program_is_told_from_others() {
        assert_eq!(run_time(&program(31, 900)), Some((31, 900)));
        assert_eq!(run_time(LINK), None);
        assert_eq!(run_time("pos:\t0\nflags:\t02\nmap_type:\t2\nmap_id:\t5\nmemlock:\t8192\n"), None);
        assert_eq!(run_time(""), None);
    }

    #[test]
    fn threads_and_programs_are_summed_each_once() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put("task/1/schedstat", "100 7 3\n");
        put("task/2/schedstat", "5000 0 0\n");
        put("fdinfo/0", "pos:\t0\nflags:\t02\n");
        put("fdinfo/3", &program(31, 900));
        put("fdinfo/4", &program(31, 900));
        put("fdinfo/5", LINK);
        put("fdinfo/6", &program(32, 10));
        let before = Usage::below(dir.path());
        // Thread 2 ends, thread 7 begins; program 31 has two descriptors, and one of an old program 33 is opened.
        std::fs::remove_dir_all(dir.path().join("task/2")).unwrap();
        put("task/1/schedstat", "150 7 3\n");
        put("task/7/schedstat", "20 0 0\n");
        put("fdinfo/3", &program(31, 1000));
        put("fdinfo/4", &program(31, 1000));
        put("fdinfo/6", &program(32, 13));
        put("fdinfo/7", &program(33, 1_000_000));
        let after = Usage::below(dir.path());
        assert_eq!(after.since(&before), Used { agent_ns: 70, bpf_ns: 103 });
        assert_eq!(Usage::below(Path::new("/nonexistent")), Usage::default());
    }
}
