//! The asymmetric VM's emulation, controlled from inside.
//!
//! Problem: loading a scheduler at 60 MIPS takes ten seconds that are not measured. And a time
//! budget is real time, which the guest's clocks do not tell.
//!
//! Approach: `ampctl stop` and `start` give the clocks to the host meanwhile, and the CPUs run as
//! fast as it lets them. How long the host takes for a second of the guest is estimated from the
//! speeds that `ampctl counters` tells.

use crate::{Error, Result};
use serde::Deserialize;
use std::path::PathBuf;
use std::process::Command;

/// Million instructions that a host executes a second, roughly: some reach 60, some 110.
const HOST_MIPS: f64 = 90.0;

/// What `ampctl counters` prints, as far as it is read.
#[derive(Deserialize)]
struct Counters {
    vcpus: Vec<Vcpu>,
}

#[derive(Deserialize)]
struct Vcpu {
    mips_milli: u32,
}

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

    /// Seconds that the host takes for one of the guest in which all CPUs work, roughly.
    pub fn wall_per_guest(&self) -> Result<f64> {
        estimate(&self.control("counters")?).map_err(|e| Error::failed("reading the emulation's speeds", e))
    }

    /// Lets all vCPUs run as fast as the host can, until the result is dropped.
    pub fn suspend(&self) -> Result<Suspended<'_>> {
        self.control("stop")?;
        Ok(Suspended(self))
    }
}

fn estimate(counters: &str) -> serde_json::Result<f64> {
    let counters: Counters = serde_json::from_str(counters)?;
    Ok(counters.vcpus.iter().map(|vcpu| f64::from(vcpu.mips_milli) / 1000.0).sum::<f64>() / HOST_MIPS)
}

impl Drop for Suspended<'_> {
    fn drop(&mut self) {
        // Nothing tells a VM that stays so from one whose CPUs are alike, so the reader must.
        if let Err(e) = self.0.control("start") {
            eprintln!("bias-bench: {e}; what follows was measured by the host's clocks");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_takes_longer_the_faster_its_cpus_are() {
        let text = r#"{"state":"modelling","enabled":true,"virtual_ns":9,"vcpus":[
 {"cpu":0,"instructions":5,"cycles":9,"model_ns":7,"mips_milli":120000,"wanted_mips_milli":0},
 {"cpu":1,"instructions":5,"cycles":9,"model_ns":7,"mips_milli":60000,"wanted_mips_milli":0}]}"#;
        assert_eq!(estimate(text).unwrap(), 2.0);
    }
}
