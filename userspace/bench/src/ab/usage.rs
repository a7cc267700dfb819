//! What a scheduler itself costs: CPU time of its program, and of its BPF code.
//!
//! Approach: the program's threads are read from `/proc/PID/task/*/schedstat`. The kernel counts the run time of BPF
//! programs while `kernel.bpf_stats_enabled` is set, and shows it in the fdinfo of the descriptors that the scheduler's
//! program holds. Counting costs two clock reads for each call, so it is off unless a plan asks for it.
//!
//! Limits: BPF programs whose descriptors the scheduler closed are not seen. Time is the machine's, stretched in the VM
//! like everything else; shares are not.

use crate::{Error, Result};
use std::path::{Path, PathBuf};

/// The switch for counting BPF run time.
const SWITCH: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// CPU time used so far, nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// By the program's threads that are alive.
    pub agent_ns: u64,
    /// By its BPF programs; 0 unless counting is on.
    pub bpf_ns: u64,
}

impl Usage {
    /// Of one process. Threads and descriptors that vanish meanwhile count nothing.
    pub fn of(pid: i32) -> Self {
        Self::below(&PathBuf::from(format!("/proc/{pid}")))
    }

    fn below(process: &Path) -> Self {
        let texts = |folder: &str, file: &str| {
            let entries = std::fs::read_dir(process.join(folder)).into_iter().flatten().flatten();
            let path = |entry: std::fs::DirEntry| {
                if file.is_empty() { entry.path() } else { entry.path().join(file) }
            };
            entries.filter_map(|entry| std::fs::read_to_string(path(entry)).ok()).collect::<Vec<_>>()
        };
        Usage {
            agent_ns: texts("task", "schedstat").iter().filter_map(|text| on_cpu_ns(text)).sum(),
            bpf_ns: texts("fdinfo", "").iter().filter_map(|text| run_time_ns(text)).sum(),
        }
    }

    /// Used since an earlier reading.
    pub fn since(&self, earlier: &Self) -> Self {
        Usage {
            agent_ns: self.agent_ns.saturating_sub(earlier.agent_ns),
            bpf_ns: self.bpf_ns.saturating_sub(earlier.bpf_ns),
        }
    }
}

/// First number of a schedstat: time on a CPU.
fn on_cpu_ns(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

/// Run time of the BPF program that a descriptor stands for.
fn run_time_ns(fdinfo: &str) -> Option<u64> {
    fdinfo.lines().find_map(|line| line.strip_prefix("run_time_ns:"))?.trim().parse().ok()
}

/// BPF run time is counted while this lives.
pub struct Counting {
    before: String,
}

impl Counting {
    /// Turns counting on.
    pub fn on() -> Result<Self> {
        let failed = |e| Error::failed(format!("counting BPF run time ({SWITCH})"), e);
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

    #[test]
    fn threads_and_programs_are_summed() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put("task/1/schedstat", "100 7 3\n");
        put("task/2/schedstat", "50 0 0\n");
        put("fdinfo/3", "pos:\t0\nprog_type:\t27\nrun_time_ns:\t900\nrun_cnt:\t2\n");
        put("fdinfo/4", "pos:\t0\nflags:\t02\n");
        put("fdinfo/5", "run_time_ns:\t90\n");
        let usage = Usage::below(dir.path());
        assert_eq!(usage, Usage { agent_ns: 150, bpf_ns: 990 });
        assert_eq!(usage.since(&Usage { agent_ns: 100, bpf_ns: 1000 }), Usage { agent_ns: 50, bpf_ns: 0 });
        assert_eq!(Usage::below(Path::new("/nonexistent")), Usage::default());
    }
}
