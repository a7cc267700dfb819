//! The processes of one VM: started together, ended together.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result};

/// The process group of virtme-run and QEMU; killed when dropped.
pub struct Guest {
    child: Child,
    gone: bool,
    console: Option<JoinHandle<()>>,
}

impl Guest {
    /// Starts virtme-run; its standard error, which is the guest's console, goes to `console`.
    ///
    /// # Errors
    /// It cannot be started, or the log not be written.
    pub fn start(mut command: Command, console: &Path) -> Result<Self> {
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().to_string_lossy()))?;
        let mut file = File::create(console).context("cannot write in the output folder")?;
        // A pipe and a copy rather than the file itself, because QEMU would empty the file that virtme-run writes.
        let copier = child.stderr.take().map(|mut from| {
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut from, &mut file);
            })
        });
        Ok(Self { child, gone: false, console: copier })
    }

    /// Whether virtme-run has ended.
    ///
    /// # Errors
    /// It cannot be watched.
    pub fn is_gone(&mut self) -> Result<bool> {
        self.gone = self.gone || self.child.try_wait().context("cannot watch virtme-run")?.is_some();
        Ok(self.gone)
    }

    /// Processor time that the group has had from the host so far: what the VM cost, however busy the host was.
    #[must_use]
    pub fn cpu_time(&self) -> Duration {
        let ticks: u64 = std::fs::read_dir("/proc")
            .map(|entries| {
                let stats =
                    entries.filter_map(|entry| std::fs::read_to_string(entry.ok()?.path().join("stat")).ok());
                stats.filter_map(|stat| ticks_in_group(&stat, self.child.id())).sum()
            })
            .unwrap_or_default();
        // The kernel counts these in hundredths of a second on every architecture.
        Duration::from_millis(ticks * 10)
    }

    /// Ends the whole group and collects it. The group outlives its leader if QEMU is still there, so it
    /// is signalled in any case.
    pub fn kill(&mut self) {
        if let Ok(id) = i32::try_from(self.child.id()) {
            let _ =
                nix::sys::signal::killpg(nix::unistd::Pid::from_raw(id), nix::sys::signal::Signal::SIGKILL);
        }
        if !self.gone {
            let _ = self.child.wait();
            self.gone = true;
        }
        if let Some(console) = self.console.take() {
            let _ = console.join();
        }
    }
}

/// User and system time in a line of `/proc/PID/stat`, if the process belongs to `group`.
fn ticks_in_group(stat: &str, group: u32) -> Option<u64> {
    // The name in parentheses may hold anything, so the fields are counted after its end.
    let fields: Vec<_> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    if fields.get(2)?.parse::<u32>().ok()? != group {
        return None;
    }
    Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read_after_any_name() {
        let stat = "7 (a ) b) S 1 42 42 0 -1 4194560 1 2 3 4 250 50 0 0 20 0 1 0 9";
        assert_eq!(ticks_in_group(stat, 42), Some(300));
        assert_eq!(ticks_in_group(stat, 43), None);
        assert_eq!(ticks_in_group("garbage", 42), None);
    }
}
