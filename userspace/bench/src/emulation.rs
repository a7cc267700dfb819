// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Control of the asymmetric VM's emulation from inside the VM.
//!
//! # Problem
//! Loading a scheduler at 60 MIPS takes ten seconds that are not measured. A time budget is real
//! time, which the guest's clocks do not show.
//!
//! # Approach
//! `ampctl stop` hands the clocks to the host until `ampctl start`, and the CPUs run as fast as the
//! host can execute them. The host's time for a second of the guest is estimated from the speeds
//! that `ampctl counters` reports.

use crate::{Error, Result};
use serde::Deserialize;
use std::path::PathBuf;
use std::process::Command;

/// Million instructions per second that a host executes, roughly: hosts reach 60 to 110.
const HOST_MIPS: f64 = 90.0;

/// The part of the output of `ampctl counters` that is read here.
#[derive(Deserialize)]
struct Counters {
    vcpus: Vec<Vcpu>,
}

#[derive(Deserialize)]
struct Vcpu {
    mips_milli: u32,
}

/// The control program of the VM that this process runs in.
pub struct Emulation {
    ampctl: PathBuf,
}

/// A suspended emulation. The clocks follow the host while this value lives.
pub struct Suspended<'a>(&'a Emulation);

impl Emulation {
    /// Return the VM's control program. The variable `AMPCTL` holds its path; None if it is unset
    /// or empty.
    pub fn find() -> Option<Self> {
        let path = std::env::var_os("AMPCTL").filter(|path| !path.is_empty())?;
        Some(Emulation { ampctl: path.into() })
    }

    fn control(&self, words: &[&str]) -> Result<String> {
        let what = format!("{} {}", self.ampctl.display(), words.join(" "));
        let failed = |why: String| Error::failed(&what, why);
        let output = Command::new(&self.ampctl).args(words).output().map_err(|e| failed(e.to_string()))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_string())),
        }
    }

    /// Return the seconds that the host needs for one second of a guest in which all CPUs work,
    /// roughly.
    pub fn wall_per_guest(&self) -> Result<f64> {
        Ok(self.speeds_mips()?.iter().sum::<f64>() / HOST_MIPS)
    }

    /// Return the speed of each CPU [MIPS].
    pub fn speeds_mips(&self) -> Result<Vec<f64>> {
        speeds(&self.control(&["counters"])?).map_err(|e| Error::failed("reading the emulation's speeds", e))
    }

    /// Set the speed of a CPU.
    pub fn set_speed(&self, cpu: usize, mips: f64) -> Result<()> {
        self.control(&["speed", &cpu.to_string(), &format!("{mips:.3}")]).map(drop)
    }

    /// Let all vCPUs run as fast as the host can, until the result is dropped.
    pub fn suspend(&self) -> Result<Suspended<'_>> {
        self.control(&["stop"])?;
        Ok(Suspended(self))
    }
}

fn speeds(counters: &str) -> serde_json::Result<Vec<f64>> {
    let counters: Counters = serde_json::from_str(counters)?;
    Ok(counters.vcpus.iter().map(|vcpu| f64::from(vcpu.mips_milli) / 1000.0).collect())
}

impl Drop for Suspended<'_> {
    fn drop(&mut self) {
        // A VM that stays suspended looks like one whose CPUs are all alike, so the failure is
        // reported.
        if let Err(e) = self.0.control(&["start"]) {
            eprintln!("bias-bench: {e}; later figures follow the host's clocks");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_read_in_mips() {
        let text = r#"{"state":"modelling","enabled":true,"virtual_ns":9,"vcpus":[
 {"cpu":0,"instructions":5,"cycles":9,"model_ns":7,"mips_milli":120000,"wanted_mips_milli":0},
 {"cpu":1,"instructions":5,"cycles":9,"model_ns":7,"mips_milli":60000,"wanted_mips_milli":0}]}"#;
        assert_eq!(speeds(text).unwrap(), [120.0, 60.0]);
    }
}
