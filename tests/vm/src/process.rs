//! The processes of one VM: started together, ended together.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command};
use std::thread::JoinHandle;

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
        let mut file = File::create(console).context("cannot write in the output directory")?;
        // A pipe and a copy rather than the file itself, because QEMU would empty the file that virtme-run writes.
        let copier = child.stderr.take().map(|mut from| {
            std::thread::spawn(move || {
                // A full disk must not end QEMU, which dies of a console that nothing reads.
                if std::io::copy(&mut from, &mut file).is_err() {
                    let _ = std::io::copy(&mut from, &mut std::io::sink());
                }
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

impl Drop for Guest {
    fn drop(&mut self) {
        self.kill();
    }
}
