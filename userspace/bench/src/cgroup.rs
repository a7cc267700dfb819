//! Two cgroups to move tasks between, where the machine has a writable cgroup v2 hierarchy.

use crate::{Error, Result};
use nix::unistd::Pid;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Usual place of the hierarchy.
const ROOT: &str = "/sys/fs/cgroup";

/// A pair of cgroups below the root; removed when dropped, with their tasks moved back.
pub struct Pair {
    root: PathBuf,
    dirs: [PathBuf; 2],
}

impl Pair {
    /// Creates both. An error says why this machine cannot: cgroup v1, read-only, no rights.
    pub fn create() -> Result<Self> {
        let root = PathBuf::from(ROOT);
        if !root.join("cgroup.controllers").exists() {
            return Err(Error::Kernel(format!("{ROOT} is no cgroup v2 hierarchy")));
        }
        // Weights need the controller; a kernel without it still moves tasks.
        let _ = std::fs::write(root.join("cgroup.subtree_control"), "+cpu");
        let pid = std::process::id();
        let pair = Pair { dirs: ["a", "b"].map(|name| root.join(format!("bias-bench-{pid}-{name}"))), root };
        for dir in &pair.dirs {
            std::fs::create_dir(dir)
                .map_err(|e| Error::Kernel(format!("creating {}: {e}", dir.display())))?;
        }
        Ok(pair)
    }

    /// Moves a process into the first, the second, or (2) back into the root.
    pub fn move_to(&self, pid: Pid, which: usize) -> Result<()> {
        let dir = self.dirs.get(which).unwrap_or(&self.root);
        write_pid(dir, pid)
    }

    /// Sets one group's cpu.weight, 1 to 10000. False where the kernel has no CPU controller.
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
                // A process that ended in between needs no moving.
                let _ = write_pid(&self.root, Pid::from_raw(pid));
            }
            // A group stays busy until the kernel has dropped its last dead task.
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
