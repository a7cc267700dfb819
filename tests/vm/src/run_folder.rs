//! The private directory of one run, below its output directory. It holds the guest's marks, the
//! logs and the shared page.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::guest;
use crate::verdict::{self, Evidence, Late, Verdict};

/// Observations of the watch.
#[derive(Default)]
pub struct Watched {
    /// Wall time from power-on to the start of the command.
    pub boot: Duration,
    /// Wall time from start to end of the command.
    pub command: Duration,
    /// Virtual time from start to end of the command: its duration by the guest's clocks.
    pub virtual_time: Duration,
    /// The limit that was exceeded, if any.
    pub late: Option<Late>,
}

/// The run's private directory below the output directory.
pub struct RunFolder {
    /// Path of the directory.
    pub path: PathBuf,
}

impl RunFolder {
    /// Return the path of the log of the guest's console.
    #[must_use]
    pub fn console(&self) -> PathBuf {
        self.path.join("console.log")
    }

    /// Return the path of the log of virtme-run and QEMU.
    #[must_use]
    pub fn launcher_log(&self) -> PathBuf {
        self.path.join("launcher.log")
    }

    /// Return the path of the page that is shared with plugin and guest.
    #[must_use]
    pub fn shared(&self) -> PathBuf {
        self.path.join("shared")
    }

    /// Return true if the guest left this mark.
    #[must_use]
    pub fn has(&self, mark: &str) -> bool {
        self.path.join(mark).exists()
    }

    /// Return a file's text, or an empty one if the file is missing. The guest writes these files,
    /// so they need not be UTF-8.
    fn text(&self, path: &Path) -> String {
        String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
    }

    /// Return how QEMU itself failed before the command started, if it did. One such failure is an
    /// assertion in QEMU, another a CPU without a timer. A crash shows as a guest that booted and
    /// ended without a message from the guest or the launcher.
    #[must_use]
    pub fn early_failure(&self) -> Option<String> {
        if self.has(guest::STARTED) {
            return None;
        }
        let console = self.text(&self.console());
        let known = |line: &&str| line.starts_with("qemu-system") && line.contains("Assertion");
        if let Some(line) = console.lines().find(known) {
            return Some(line.to_string());
        }
        let reason = self.text(&self.path.join(guest::FAILED));
        if reason.contains(guest::NO_TIMER) {
            return Some(reason.trim().to_string());
        }
        let silent = self.text(&self.launcher_log()).trim().is_empty() && !self.has(guest::FAILED);
        let crashed = silent && console.contains("BIOS-") && !console.contains("Kernel panic");
        crashed.then(|| "QEMU crashed while the guest booted".to_string())
    }

    /// Judge the run from its files and the observations of the watch.
    #[must_use]
    pub fn judge(&self, watched: &Watched) -> Verdict {
        let failed = self.text(&self.path.join(guest::FAILED));
        verdict::judge(&Evidence {
            started: self.has(guest::STARTED),
            failed: Some(failed.as_str()).filter(|text| !text.is_empty()),
            exit_code: self.text(&self.path.join(guest::EXIT_CODE)).trim().parse().ok(),
            late: watched.late,
            console: &self.text(&self.console()),
            launcher: &self.text(&self.launcher_log()),
            disk_full: self.disk_is_full(),
        })
    }

    /// Return true if the directory's file system has no block left.
    fn disk_is_full(&self) -> bool {
        nix::sys::statvfs::statvfs(&self.path).is_ok_and(|disk| disk.blocks_available() == 0)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn qemus_own_failures_are_known_until_the_command_starts() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunFolder { path: folder.path().to_path_buf() };
        let console = |text: &str| fs::write(run.console(), text).unwrap();
        console("[    0.1] booting\n");
        assert_eq!(run.early_failure(), None);
        console("[    1.7] 9pnet_virtio: no channels available for device\n");
        assert_eq!(run.early_failure(), None, "every boot from 9p says so");
        console("qemu-system-x86_64: msix.c:228: f: Assertion `x' failed.\n");
        assert!(run.early_failure().is_some());
        let booted = "[    0.0] BIOS-e820: usable\n[    6.8] amp_pmu: loading\n";
        console(booted);
        assert!(run.early_failure().is_some_and(|why| why.contains("crashed")));
        fs::write(folder.path().join(guest::FAILED), "no module\n").unwrap();
        assert_eq!(run.early_failure(), None, "what the guest complains of is not mended by another boot");
        fs::write(folder.path().join(guest::FAILED), format!("{}\n", guest::NO_TIMER)).unwrap();
        assert!(run.early_failure().is_some_and(|why| why.contains("no timer")));
        fs::remove_file(folder.path().join(guest::FAILED)).unwrap();
        console(&format!("{booted}[    7.0] Kernel panic - not syncing: x\n"));
        assert_eq!(run.early_failure(), None, "a guest that panicked is not QEMU's fault");
        fs::write(folder.path().join(guest::STARTED), "").unwrap();
        assert_eq!(run.early_failure(), None, "from then on it is the command's affair");
    }
}
