// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Overhead of a scheduler: CPU time of its program and of its BPF code.
//!
//! # Approach
//! The program's threads are read from `/proc/PID/task/*/schedstat`. The kernel counts the run time
//! of BPF programs while `kernel.bpf_stats_enabled` is set. It shows that time in the fdinfo of the
//! descriptors that the scheduler's process holds. A libbpf object keeps the descriptors of all its
//! programs open. Counting costs two clock reads per call, so it is off unless a plan asks for it.
//!
//! # Invariants
//! * A BPF program counts once, even with several descriptors.
//! * A BPF program that appears between two readings does not count, because the new part of its
//!   time is unknown.
//! * A thread that started between two readings counts from its start.
//!
//! # Limits
//! * A thread that ended since the first reading does not count. Neither do BPF programs whose
//!   descriptors the scheduler has closed, nor processes that it has started.
//! * Time is the machine's own. In the VM it is stretched like all other times. Shares are not
//!   affected.

use crate::{Error, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// sysctl that switches the counting of BPF run time.
const SWITCH: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// Clocks of a scheduler at one moment [ns].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time of each living thread.
    threads: BTreeMap<String, u64>,
    /// Run time of each BPF program. Constant unless counting is on.
    programs: BTreeMap<u64, u64>,
}

/// CPU time used between two moments [ns].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Used {
    /// Time of the program's threads.
    pub agent_ns: u64,
    /// Time of its BPF programs.
    pub bpf_ns: u64,
}

impl Usage {
    /// Read the usage of one process. Threads and descriptors that vanish meanwhile do not count.
    pub fn of(pid: i32) -> Self {
        Self::below(&PathBuf::from(format!("/proc/{pid}")))
    }

    fn below(process: &Path) -> Self {
        let entries =
            |directory: &str| std::fs::read_dir(process.join(directory)).into_iter().flatten().flatten();
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

    /// Return the time used since an earlier reading.
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

/// Return the first number of a schedstat: the time on a CPU.
fn on_cpu_ns(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

/// Return the id and run time of the BPF program behind a descriptor. None for other descriptors.
fn run_time(fdinfo: &str) -> Option<(u64, u64)> {
    let field = |name: &str| fdinfo.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok();
    Some((field("prog_id:")?, field("run_time_ns:")?))
}

/// Guard: BPF run time is counted while this exists.
pub struct Counting {
    before: String,
}

impl Counting {
    /// Switch counting on.
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
        // The same write succeeded before. If it fails here, only the two clock reads per call
        // remain.
        let _ = std::fs::write(SWITCH, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Return fdinfo as the kernel shows it for a descriptor of a program.
    fn program(id: u64, run_time_ns: u64) -> String {
        format!(
            "pos:\t0\nflags:\t02000002\nmnt_id:\t16\nino:\t1053\nprog_type:\t27\nprog_jited:\t1\n\
             prog_tag:\t0123456789abcdef\nmemlock:\t4096\nprog_id:\t{id}\nrun_time_ns:\t{run_time_ns}\n\
             run_cnt:\t1211\nrecursion_misses:\t0\nverified_insns:\t322\n"
        )
    }

    /// fdinfo of a link. It names its program but has no run time.
    const LINK: &str = "pos:\t0\nflags:\t02000000\nmnt_id:\t16\nino:\t1053\nlink_type:\ttracing\nlink_id:\t9\n\
                        prog_tag:\t0123456789abcdef\nprog_id:\t31\nattach_type:\t24\n";

    #[test]
    fn only_descriptors_of_programs_have_a_run_time() {
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
        // Thread 2 ends, thread 7 begins. Program 31 has two descriptors, and a descriptor of an
        // old program 33 is opened.
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
