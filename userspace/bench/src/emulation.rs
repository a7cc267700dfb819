//! The asymmetric VM's emulation, controlled from inside.
//!
//! Problem: loading a scheduler at 60 MIPS takes ten seconds that nobody measures.
//!
//! Approach: `ampctl stop` and `start` give the clocks to the host meanwhile, and the CPUs run as fast as it lets them.

use crate::{Error, Result};
use std::path::PathBuf;
use std::process::Command;

/// The control program of the VM this runs in.
pub struct Emulation {
    ampctl: PathBuf,
}

/// Clocks are the host's while this lives.
pub struct Suspended<'a>(&'a Emulation);

impl Emulation {
    /// The VM's, if this is one: its path is in `AMPCTL`.
    pub fn find() -> Option<Self> {
        let path = std::env::var_os("AMPCTL").filter(|path| !path.is_empty())?;
        Some(Emulation { ampctl: path.into() })
    }

    fn control(&self, command: &str) -> Result<String> {
        let failed = |why: String| Error::failed(format!("{} {command}", self.ampctl.display()), why);
        let output = Command::new(&self.ampctl).arg(command).output().map_err(|e| failed(e.to_string()))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_string())),
        }
    }

    /// Lets all vCPUs run as fast as the host can, until the result is dropped.
    pub fn suspend(&self) -> Result<Suspended<'_>> {
        self.control("stop")?;
        Ok(Suspended(self))
    }
}

impl Drop for Suspended<'_> {
    fn drop(&mut self) {
        // Nothing tells a VM that stays so from one whose CPUs are alike, so the reader must.
        if let Err(e) = self.0.control("start") {
            eprintln!("bias-bench: {e}; what follows was measured by the host's clocks");
        }
    }
}
