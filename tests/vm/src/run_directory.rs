//! The private directory of one run, below its output directory. It holds the guest's marks, the
//! logs and the shared page.

use std::fs;
use std::path::PathBuf;

use crate::guest;
use crate::verdict::{Evidence, Late};

/// The run's private directory below the output directory.
pub struct RunDirectory {
    /// Path of the directory.
    pub path: PathBuf,
}

impl RunDirectory {
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

    /// Return what the run left behind.
    #[must_use]
    pub fn evidence(&self, late: Option<Late>) -> Evidence {
        // The guest writes these files, so they need not be UTF-8.
        let text = |path: PathBuf| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
        Evidence {
            started: self.has(guest::STARTED),
            failed: text(self.path.join(guest::FAILED)),
            exit_code: text(self.path.join(guest::EXIT_CODE)).trim().parse().ok(),
            late,
            console: text(self.console()),
            launcher: text(self.launcher_log()),
            disk_full: nix::sys::statvfs::statvfs(&self.path).is_ok_and(|disk| disk.blocks_available() == 0),
        }
    }
}
