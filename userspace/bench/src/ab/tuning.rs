// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Changes that an arm makes to the machine while it is active, and restores at its end.
//!
//! # Problem
//! * Where a machine's time is stretched, its slices must be stretched too. Otherwise the default
//!   scheduler switches fifty times as often per instruction as on hardware, and performs worse.
//! * The kernel of the asymmetric VM considers all cores equal, unlike the kernel of a real hybrid.
//!   One boot hosts several arms, so the knowledge must come and go with its arm.
//! * The ability of a comparison to find a difference must be proved. A difference of known size
//!   shows it.
//!
//! # Approach
//! * [`Knobs`]: `/sys/kernel/debug/sched` has EEVDF's slice and the kernel's estimate of a
//!   migration's cost. They are multiplied while an arm without its own scheduler is active.
//! * [`Hybrid`]: the guest's module has a file that switches cpufreq, core priorities and
//!   capacities on and off together. The arm writes 1 to it.
//! * [`Eaters`]: the arm `eater-30` is the default scheduler with one process pinned to each CPU.
//!   The process is in the real-time class, so that normal tasks cannot preempt it. It computes for
//!   30 thousandths of every [`PERIOD`] and sleeps the rest.
//!
//! # Invariants
//! Dropping one of them restores the earlier state.
//!
//! # Limits
//! * A kernel without debugfs or without these files keeps its constants. [`Knobs::changed`] shows
//!   that.
//! * The kernel rebuilds its scheduling domains at each switch of the knowledge, which waits for
//!   grace periods. In the VM the emulation should be suspended meanwhile. The kernel of a real
//!   hybrid has the knowledge anyway, and lacks the file.
//! * Eaters need root. Their wakeups add some thousand instructions per period, 0.2 % of a CPU of
//!   60 MIPS.

use crate::task::{cpu_time_ns, end, spawn};
use crate::{Error, Result, cpus};
use nix::unistd::Pid;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Files that hold a time.
const FILES: [&str; 2] = ["base_slice_ns", "migration_cost_ns"];

/// Changed constants. Dropping this restores them.
pub struct Knobs {
    original: Vec<(PathBuf, u64)>,
}

impl Knobs {
    /// Multiply this machine's constants by `factor`.
    pub fn stretch(factor: f64) -> Result<Self> {
        Self::stretch_in(Path::new("/sys/kernel/debug/sched"), factor)
    }

    /// Multiply the constants below `directory` by `factor`. A factor of 1 changes nothing.
    pub fn stretch_in(directory: &Path, factor: f64) -> Result<Self> {
        let mut knobs = Knobs { original: Vec::new() };
        if (factor - 1.0).abs() < 1e-9 {
            return Ok(knobs);
        }
        for name in FILES {
            let path = directory.join(name);
            let Some(value) =
                std::fs::read_to_string(&path).ok().and_then(|text| text.trim().parse::<u64>().ok())
            else {
                continue;
            };
            let stretched = (value as f64 * factor).round() as u64;
            let failed = |e| Error::failed(format!("setting {} to {stretched}", path.display()), e);
            std::fs::write(&path, stretched.to_string()).map_err(failed)?;
            knobs.original.push((path, value));
        }
        Ok(knobs)
    }

    /// Return the number of constants that were changed.
    pub fn changed(&self) -> usize {
        self.original.len()
    }
}

impl Drop for Knobs {
    fn drop(&mut self) {
        for (path, value) in &self.original {
            if let Err(e) = std::fs::write(path, value.to_string()) {
                eprintln!("bias-bench: {} could not be restored to {value}: {e}", path.display());
            }
        }
    }
}

/// The switch of the guest's module.
const HYBRID_FILE: &str = "/sys/module/amp_pmu/parameters/hybrid";

/// Guard: the kernel knows its unequal cores while this exists.
pub struct Hybrid {
    file: PathBuf,
    before: String,
}

impl Hybrid {
    /// Switch the knowledge of this machine's kernel on.
    pub fn on() -> Result<Self> {
        Self::on_in(Path::new(HYBRID_FILE))
    }

    fn on_in(file: &Path) -> Result<Self> {
        let before = std::fs::read_to_string(file).map_err(|_| {
            Error::Kernel(
                "default-hybrid needs the asymmetric VM's module amp_pmu, which is not loaded here; use --vm with --kernel 6.12, and plain default on a real hybrid"
                    .into(),
            )
        })?;
        std::fs::write(file, "1").map_err(|e| {
            Error::Kernel(format!(
                "this kernel cannot treat its cores as unequal ({e}); see dmesg, or use kernel 6.12 with --vm"
            ))
        })?;
        Ok(Hybrid { file: file.to_path_buf(), before: before.trim().to_string() })
    }
}

impl Drop for Hybrid {
    fn drop(&mut self) {
        if let Err(e) = std::fs::write(&self.file, &self.before) {
            eprintln!("bias-bench: {} could not be restored to {}: {e}", self.file.display(), self.before);
        }
    }
}

/// Time between two wakeups of an eater.
const PERIOD: Duration = Duration::from_millis(50);

/// Running eaters. They end when this is dropped, or with this process.
pub struct Eaters {
    pids: Vec<Pid>,
}

impl Eaters {
    /// Start one eater on each online CPU.
    pub fn start(permille: u32) -> Result<Self> {
        let mut eaters = Eaters { pids: Vec::new() };
        for cpu in cpus::online()?.0 {
            let pid = spawn(|| eat(cpu, permille))?;
            eaters.pids.push(pid);
            // SAFETY: this is a plain system call. The structure is valid and outlives it.
            let done = unsafe {
                let parameters = nix::libc::sched_param { sched_priority: 1 };
                nix::libc::sched_setscheduler(pid.as_raw(), nix::libc::SCHED_FIFO, &parameters)
            };
            if done != 0 {
                let why = std::io::Error::last_os_error();
                return Err(Error::Kernel(format!(
                    "an eater needs the real-time class ({why}); run as root"
                )));
            }
        }
        Ok(eaters)
    }
}

impl Drop for Eaters {
    fn drop(&mut self) {
        end(&self.pids);
    }
}

/// Run an eater until a signal ends it.
fn eat(cpu: usize, permille: u32) -> u8 {
    if cpus::set_affinity(Pid::from_raw(0), &[cpu]).is_err() {
        return 1;
    }
    let meal_ns = PERIOD.as_nanos() as u64 * u64::from(permille) / 1000;
    let mut next = Instant::now();
    loop {
        next += PERIOD;
        let full_ns = cpu_time_ns() + meal_ns;
        while cpu_time_ns() < full_ns {
            std::hint::spin_loop();
        }
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_stretched_and_restored() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("base_slice_ns");
        std::fs::write(&file, "2800000\n").unwrap();
        let knobs = Knobs::stretch_in(dir.path(), 5.0).unwrap();
        assert_eq!(knobs.changed(), 1, "the other file does not exist");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "14000000");
        drop(knobs);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "2800000");
        assert_eq!(Knobs::stretch_in(dir.path(), 1.0).unwrap().changed(), 0);
    }

    #[test]
    fn the_hybrid_switch_is_set_and_restored() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("hybrid");
        std::fs::write(&file, "0\n").unwrap();
        let hybrid = Hybrid::on_in(&file).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "1");
        drop(hybrid);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "0");
    }

    #[test]
    fn a_missing_module_is_named_with_the_remedy() {
        let dir = tempfile::tempdir().unwrap();
        let error = Hybrid::on_in(&dir.path().join("none")).err().unwrap().to_string();
        assert!(
            error.contains("amp_pmu") && error.contains("--kernel 6.12") && !error.contains('\n'),
            "{error}"
        );
    }
}
