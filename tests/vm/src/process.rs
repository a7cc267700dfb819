//! The processes of one VM, which start and end together.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command};
use std::thread::JoinHandle;

use anyhow::{Context as _, Result};

/// The process group of virtme-run and QEMU, which is killed when this value is dropped.
pub struct Guest {
    child: Child,
    console: Option<JoinHandle<()>>,
}

impl Guest {
    /// Start virtme-run, and copy its standard error, which is the guest's console, to the file
    /// `console`.
    ///
    /// # Errors
    /// virtme-run cannot start, or the file cannot be created.
    pub fn start(mut command: Command, console: &Path) -> Result<Self> {
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().to_string_lossy()))?;
        let mut file = File::create(console).context("cannot write in the output directory")?;
        // Use a pipe and a copy instead of the file itself, because QEMU would truncate the file
        // that virtme-run writes.
        let copier = child.stderr.take().map(|mut from| {
            std::thread::spawn(move || {
                // A full disk must not end QEMU, which fails if its console has no reader.
                if std::io::copy(&mut from, &mut file).is_err() {
                    let _ = std::io::copy(&mut from, &mut std::io::sink());
                }
            })
        });
        Ok(Self { child, console: copier })
    }

    /// Return true if virtme-run has ended.
    ///
    /// # Errors
    /// The state of virtme-run cannot be read.
    pub fn is_gone(&mut self) -> Result<bool> {
        Ok(self.child.try_wait().context("cannot watch virtme-run")?.is_some())
    }
}

impl Drop for Guest {
    /// Kill the whole group and reap its leader. The group outlives its leader while QEMU runs, so
    /// the signal is sent in any case.
    fn drop(&mut self) {
        if let Ok(id) = i32::try_from(self.child.id()) {
            let _ =
                nix::sys::signal::killpg(nix::unistd::Pid::from_raw(id), nix::sys::signal::Signal::SIGKILL);
        }
        let _ = self.child.wait();
        if let Some(console) = self.console.take() {
            let _ = console.join();
        }
    }
}
