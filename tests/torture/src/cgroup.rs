// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Two cgroups to move tasks between, on a machine with a writable cgroup v2 hierarchy.

use bias_bench::{Error, Result};
use nix::unistd::Pid;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Usual place of the hierarchy.
const ROOT: &str = "/sys/fs/cgroup";

/// A pair of cgroups below the root. Dropping it moves their tasks back and removes them.
pub struct Pair {
    root: PathBuf,
    dirs: [PathBuf; 2],
}

impl Pair {
    /// Create both. An error names the reason: cgroup v1, a read-only hierarchy, missing
    /// permission.
    pub fn create() -> Result<Self> {
        let root = PathBuf::from(ROOT);
        if !root.join("cgroup.controllers").exists() {
            return Err(Error::Kernel(format!("{ROOT} is not a cgroup v2 hierarchy")));
        }
        // Weights need the controller. A kernel without it still moves tasks.
        let _ = std::fs::write(root.join("cgroup.subtree_control"), "+cpu");
        let pid = std::process::id();
        let pair =
            Pair { dirs: ["a", "b"].map(|name| root.join(format!("bias-torture-{pid}-{name}"))), root };
        for dir in &pair.dirs {
            std::fs::create_dir(dir)
                .map_err(|e| Error::Kernel(format!("creating {}: {e}", dir.display())))?;
        }
        Ok(pair)
    }

    /// Move a process into the first cgroup (0), the second (1), or back into the root (2).
    pub fn move_to(&self, pid: Pid, which: usize) -> Result<()> {
        let dir = self.dirs.get(which).unwrap_or(&self.root);
        write_pid(dir, pid)
    }

    /// Set the cpu.weight of one cgroup, 1 to 10000. Return false if the kernel has no CPU
    /// controller.
    pub fn set_weight(&self, which: usize, weight: u64) -> bool {
        self.dirs
            .get(which)
            .is_some_and(|dir| std::fs::write(dir.join("cpu.weight"), weight.to_string()).is_ok())
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for dir in &self.dirs {
            let members = std::fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
            for pid in members.lines().filter_map(|line| line.parse().ok()) {
                // An exited process needs no move.
                let _ = write_pid(&self.root, Pid::from_raw(pid));
            }
            // A cgroup stays busy until the kernel has dropped its last dead task.
            for _ in 0..50 {
                if std::fs::remove_dir(dir).is_ok() || !dir.exists() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

fn write_pid(dir: &Path, pid: Pid) -> Result<()> {
    std::fs::write(dir.join("cgroup.procs"), pid.to_string()).map_err(|e| Error::failed(dir.display(), e))
}
