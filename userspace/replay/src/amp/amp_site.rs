// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The machine of the experiment: the housekeeping CPU, its speed, the cgroup of the team, and the
//! noise that a system makes beside the measured program.
//!
//! # Approach
//! The noise is one process that computes for a given part of each [`PERIOD`], like a daemon that
//! wakes up. Its work is fixed, so a slow CPU needs longer for it. Every [`START_PERIOD`] it also
//! starts a short program: work of the kernel (fork, exec, page faults, exit) in a new process.
//!
//! # Limits
//! A period that lasts longer, because the noise does not get its CPU time, delays the next one.
//! The started programs come on top of the given part.

use bias_bench::emulation::Emulation;
use bias_bench::measure::{self, Until};
use bias_bench::spec::WorkKind;
use bias_bench::task::{end, spawn};
use bias_bench::{Error, Result, cpus, sched, work};
use nix::unistd::{Pid, getpid};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Duty cycles are given in these parts of full speed.
pub(super) const DUTY_PARTS: u32 = 8;
/// Mount point of cgroup v2.
const CGROUPS: &str = "/sys/fs/cgroup";
/// Longest time until scx_bias schedules this process, and has set its affinity.
const SETTLE: Duration = Duration::from_secs(20);
/// Time between two checks.
const POLL: Duration = Duration::from_millis(100);

/// Time between two beginnings of the computing part.
const PERIOD: Duration = Duration::from_millis(100);
/// Periods between two starts of a program.
const START_PERIOD: u32 = 3;
/// Time for which the speed of this machine is measured.
const SAMPLE: Duration = Duration::from_millis(100);
/// The program that is started.
const PROGRAM: &str = "/bin/true";

/// The housekeeping CPU on its machine.
pub(super) struct AmpCore {
    /// The CPU.
    pub(super) housekeeping: usize,
    /// All CPUs, by core.
    cores: Vec<Vec<usize>>,
    /// Control of the VM, with the full speed of each CPU [MIPS]. None on another machine.
    emulation: Option<(Emulation, Vec<f64>)>,
}

impl AmpCore {
    /// Choose the housekeeping CPU among these: the given one, or the last.
    pub(super) fn of(allowed: &[usize], wanted: Option<usize>) -> Result<Self> {
        let last = allowed.last().copied().unwrap_or(0);
        let housekeeping = wanted.unwrap_or(last);
        if allowed.len() < 2 || !allowed.contains(&housekeeping) {
            let why =
                format!("CPU {housekeeping} and another one are needed; this process may use {allowed:?}");
            return Err(Error::Usage(why));
        }
        let with_speeds = |emulation: Emulation| {
            let speeds = emulation.speeds_mips()?;
            Ok((emulation, speeds))
        };
        let emulation = Emulation::find().map(with_speeds).transpose()?;
        Ok(AmpCore { housekeeping, cores: cpus::cores(allowed), emulation })
    }

    /// Fail if this machine cannot set a duty cycle.
    pub(super) fn check(&self, duties: &[u32]) -> Result<()> {
        match self.emulation {
            None if duties.iter().any(|&duty| duty != DUTY_PARTS) => Err(Error::Usage(format!(
                "only the asymmetric VM can change the speed of a CPU; give --duties {DUTY_PARTS}"
            ))),
            _ => Ok(()),
        }
    }

    /// Return the number of CPUs.
    pub(super) fn threads(&self) -> usize {
        self.cores.iter().map(Vec::len).sum()
    }

    /// Return the power of each CPU over that of a core at full speed in the same state.
    pub(super) fn powers(&self, duty: u32) -> BTreeMap<usize, f64> {
        let of = |core: &Vec<usize>| {
            let speed = if core.contains(&self.housekeeping) { share(duty) } else { 1.0 };
            let power = speed * speed / core.len() as f64;
            core.iter().map(|&cpu| (cpu, power)).collect::<Vec<_>>()
        };
        self.cores.iter().flat_map(of).collect()
    }

    /// Set the duty cycle of the core of the housekeeping CPU until the result is dropped.
    pub(super) fn slow_down(&self, duty: u32) -> Result<AmpSpeed<'_>> {
        let speed = AmpSpeed(self);
        speed.set(duty)?;
        Ok(speed)
    }
}

/// Return the part of full speed of a duty cycle.
pub(super) fn share(duty: u32) -> f64 {
    f64::from(duty) / f64::from(DUTY_PARTS)
}

/// A changed duty cycle. Dropping it restores full speed.
pub(super) struct AmpSpeed<'a>(&'a AmpCore);

impl AmpSpeed<'_> {
    fn set(&self, duty: u32) -> Result<()> {
        let Some((emulation, full_mips)) = &self.0.emulation else { return Ok(()) };
        let slow = |core: &&Vec<usize>| core.contains(&self.0.housekeeping);
        for &cpu in self.0.cores.iter().filter(slow).flatten() {
            let full =
                full_mips.get(cpu).ok_or_else(|| Error::failed("the emulation", "a CPU is missing"))?;
            emulation.set_speed(cpu, full * share(duty))?;
        }
        Ok(())
    }
}

impl Drop for AmpSpeed<'_> {
    fn drop(&mut self) {
        if let Err(e) = self.set(DUTY_PARTS) {
            eprintln!("bias-replay: {e}; the housekeeping CPU stays slow");
        }
    }
}

/// A cgroup for the team. It vanishes when this is dropped.
pub(super) struct AmpCgroup(PathBuf);

impl AmpCgroup {
    pub(super) fn create() -> Result<Self> {
        if !PathBuf::from(CGROUPS).join("cgroup.controllers").exists() {
            let remedy = format!("no cgroup v2 at {CGROUPS}; mount it: mount -t cgroup2 none {CGROUPS}");
            return Err(Error::Kernel(remedy));
        }
        let directory = PathBuf::from(format!("{CGROUPS}/bias-bench-{}", getpid()));
        std::fs::create_dir(&directory)
            .map_err(|e| Error::Kernel(format!("{}: {e}", directory.display())))?;
        Ok(AmpCgroup(directory))
    }

    pub(super) fn path(&self) -> std::path::Display<'_> {
        self.0.display()
    }

    /// Move this process into the cgroup. Return when the scheduler runs it, and keeps it away from
    /// the housekeeping CPU.
    pub(super) fn enter(&self, housekeeping: usize) -> Result<AmpInside> {
        let home = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let home = home.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default().to_string();
        let inside = AmpInside(PathBuf::from(CGROUPS).join(home));
        join(&self.0)?;
        let deadline = Instant::now() + SETTLE;
        while cpus::allowed()?.contains(&housekeeping) || sched::runs(getpid()) == Some(false) {
            if Instant::now() > deadline {
                let why =
                    format!("CPU {housekeeping} is not free of the cgroup after {} s", SETTLE.as_secs());
                return Err(Error::failed("the scheduler", why + "; does it have --housekeeping?"));
            }
            std::thread::sleep(POLL);
        }
        Ok(inside)
    }
}

impl Drop for AmpCgroup {
    fn drop(&mut self) {
        // It stays if a process is left in it, which does no harm.
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// This process inside the cgroup. Dropping it moves the process back.
pub(super) struct AmpInside(PathBuf);

impl Drop for AmpInside {
    fn drop(&mut self) {
        if let Err(e) = join(&self.0) {
            eprintln!("bias-replay: {e}; this process stays in its cgroup");
        }
    }
}

/// Move this process to a cgroup.
fn join(cgroup: &std::path::Path) -> Result<()> {
    let file = cgroup.join("cgroup.procs");
    std::fs::write(&file, "0").map_err(|e| Error::failed(file.display(), e))
}

/// Running noise. It ends when this is dropped, or with this process.
pub(super) struct Background(Vec<Pid>);

impl Background {
    /// Return the steps of a period in which noise needs `permille` thousandths of the CPU that
    /// this process runs on now. 0 for 0.
    pub(super) fn work(permille: u32) -> Result<u64> {
        if permille == 0 {
            return Ok(0);
        }
        let sample = measure::run(&WorkKind::Compute, None, Until::Elapsed(SAMPLE))?;
        Ok(steps_of(permille, sample.cpu_ns as f64 / sample.steps.max(1) as f64))
    }

    /// Start noise of this many steps in a period, or none for 0.
    pub(super) fn start(steps: u64) -> Result<Self> {
        let pids = if steps == 0 { Vec::new() } else { vec![spawn(|| make_noise(steps))?] };
        Ok(Background(pids))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        end(&self.0);
    }
}

/// Return the steps of a period, at least one.
fn steps_of(permille: u32, ns_per_step: f64) -> u64 {
    let ns = PERIOD.as_nanos() as f64 * f64::from(permille) / 1000.0;
    (ns / ns_per_step.max(1.0)).round().max(1.0) as u64
}

/// Make noise until a signal ends this process.
fn make_noise(steps: u64) -> u8 {
    let mut work = work::build(&WorkKind::Compute);
    for period in 0_u32.. {
        let begun = Instant::now();
        if period % START_PERIOD == 0 {
            // If it cannot be started, the noise has less work.
            let _ = Command::new(PROGRAM).stdin(Stdio::null()).stderr(Stdio::null()).status();
        }
        for _ in 0..steps {
            work.step();
        }
        std::thread::sleep(PERIOD.saturating_sub(begun.elapsed()));
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_computes_for_its_part_of_a_period() {
        assert_eq!(steps_of(100, 1e6), 10);
        assert_eq!(steps_of(1000, 1e6), 100);
        assert_eq!((steps_of(1, 1e9), steps_of(1000, 0.0)), (1, 100_000_000));
    }

    #[test]
    fn noise_ends_when_it_is_dropped() {
        let noise = Background::start(Background::work(10).unwrap()).unwrap();
        let pid = noise.0[0];
        drop(noise);
        assert_eq!(nix::sys::wait::waitpid(pid, None), Err(nix::errno::Errno::ECHILD));
        assert!(Background::start(Background::work(0).unwrap()).unwrap().0.is_empty());
    }

    #[test]
    fn siblings_share_the_power_and_the_duty_of_their_core() {
        let of = |cores: Vec<Vec<usize>>| AmpCore { housekeeping: 3, cores, emulation: None }.powers(6);
        let alone = of(vec![vec![0], vec![1], vec![2], vec![3]]);
        assert_eq!(alone.into_values().collect::<Vec<_>>(), [1.0, 1.0, 1.0, 0.5625]);
        let pairs = of(vec![vec![0, 1], vec![2, 3]]);
        assert_eq!(pairs.into_values().collect::<Vec<_>>(), [0.5, 0.5, 0.28125, 0.28125]);
    }
}
