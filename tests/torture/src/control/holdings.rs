// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Resources that a process holds: descriptors, memory, CPU time.

use bias_bench::{Error, Result};
use nix::unistd::Pid;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Longest time for the process to release the clients' resources, and time between two reads.
const SETTLE: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(20);

/// Resources of a process.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Holdings {
    pub descriptors: usize,
    pub memory_kb: u64,
    pub cpu_s: f64,
}

impl Holdings {
    /// Read the resources of `pid` from `/proc`.
    pub(super) fn of(pid: Pid) -> Result<Self> {
        let directory = PathBuf::from(format!("/proc/{pid}"));
        let failed = |e| Error::failed(format!("reading /proc/{pid}"), e);
        let read = |name: &str| std::fs::read_to_string(directory.join(name)).map_err(failed);
        let status = read("status")?;
        let memory = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse().ok());
        // User and system time are the 14th and 15th field, in hundredths of a second. The name,
        // the 2nd field, may contain spaces.
        let stat = read("stat")?;
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let ticks: f64 = fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
        let descriptors = std::fs::read_dir(directory.join("fd")).map_err(failed)?.count();
        Ok(Self { descriptors, memory_kb: memory.unwrap_or(0), cpu_s: ticks / 100.0 })
    }

    /// Return the resources of the process once it has closed the clients' connections, or after
    /// [`SETTLE`].
    pub(super) fn settled(pid: Pid, before: &Holdings) -> Result<Holdings> {
        let start = Instant::now();
        loop {
            let now = Holdings::of(pid)?;
            if now.descriptors <= before.descriptors || start.elapsed() > SETTLE {
                return Ok(now);
            }
            std::thread::sleep(POLL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_files_and_memory_of_a_process_are_counted() {
        let own = Pid::this();
        let before = Holdings::of(own).unwrap();
        let held: Vec<_> = (0..50).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
        let after = Holdings::of(own).unwrap();
        assert!(after.descriptors >= before.descriptors + 50 - 10 && before.memory_kb > 100);
        drop(held);
    }
}
