// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Energy of a visit: measured where the machine counts joules, modelled elsewhere.
//!
//! # Problem
//! A scheduler that fills slow cores may finish later and still use less energy. Throughput alone
//! does not show this. Few machines let a program read joules, and no virtual machine does. A model
//! that passes for a measurement is worse than no figure.
//!
//! # Approach
//! Two sources under different names, so that they cannot be confused:
//!
//! * `energy_j`, `energy_delay_js`: the kernel's powercap counters (RAPL) of all packages. A
//!   machine without packages uses the whole platform (`psys`), which otherwise includes them.
//!   Parts of a package (cores, graphics) and DRAM do not count. A package that appears twice (as
//!   MSR and as MMIO) counts once.
//! * `energy_model_j`, `energy_delay_model_js`: the power model that [Grant06] uses to judge
//!   asymmetric machines. A CPU of relative speed s draws s² times [`ACTIVE_W`] while busy and s²
//!   times [`IDLE_W`] while idle. Fast CPUs have s = 1. For the other CPUs, s is the measured speed
//!   over the mean of the fast ones. A CPU is busy when `/proc/stat` does not count it as idle.
//!
//! Arms do not do the same amount of work in a window, so energy is given per unit of work. P is
//! the mean power of the visit, with warm-up. R is the work per second of its window ([`rate`]):
//!
//! | figure | value | meaning |
//! |---|---|---|
//! | energy | P / R, in J | energy of a unit of work |
//! | energy-delay | P / R², in Js | energy times the time per unit of work (1 / R) |
//!
//! A cell without a rate, such as wakeups at a fixed pace, gets the energy of one second and no
//! energy-delay. All arms have the same work there.
//!
//! # Invariants
//! * A run uses one of the two sources from beginning to end.
//! * A counter that wraps around once between two readings gives the correct result.
//!
//! # Limits
//! * The counters include everything that runs on the machine. Wrapping twice in one visit (an hour
//!   at 100 W) is not detected.
//! * The model has no frequencies, idle states, memory or voltage. Its watts are those of a server
//!   of 2002: compare arms, and do not trust absolute joules.
//! * The model has a resolution of 10 ms, so visits should last a second.
//! * If tasks keep all CPUs busy, modelled power is the same under every arm. Energy then says the
//!   same as throughput.

use crate::solo::Solo;
use crate::{Error, Result, files};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Power of a busy CPU of full speed in the model [W].
pub const ACTIVE_W: f64 = 26.95;
/// Power of an idle CPU of full speed in the model [W].
pub const IDLE_W: f64 = 5.88;
/// Length of a tick in `/proc/stat`, equal on all architectures that have sched_ext.
const TICK: Duration = Duration::from_millis(10);
/// Maximum size of the files read here, for any number of CPUs and interrupts.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Source of joules.
#[derive(Debug)]
enum Source {
    /// Counters of microjoules, one per domain.
    Counters(Vec<Domain>),
    /// Power of each CPU over that of a fast CPU in the same state: the square of its relative
    /// speed.
    Model(BTreeMap<usize, f64>),
}

/// A powercap domain.
#[derive(Debug)]
struct Domain {
    file: PathBuf,
    /// Value at which the counter wraps around.
    range_uj: u64,
}

/// The source of joules of this machine.
#[derive(Debug)]
pub struct EnergyMeter {
    source: Source,
    stat: PathBuf,
    begun: Instant,
    /// Reason why existing counters are not used, as a message. None if there is no such problem.
    pub note: Option<String>,
}

/// One reading of the source.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    at: Duration,
    /// Microjoules by domain, or nanoseconds of idle time by CPU.
    counts: BTreeMap<usize, u64>,
}

impl EnergyMeter {
    /// Find the best source below `root`, which is `/` except in tests.
    pub fn find(root: &Path, solo: &Solo) -> Self {
        let (domains, note) = match domains(&root.join("sys/class/powercap")) {
            Ok(domains) => (domains, None),
            Err(e) => (
                Vec::new(),
                Some(format!("{e}; energy is modelled (energy_model_j), run as root to measure it")),
            ),
        };
        let source = if domains.is_empty() { Source::Model(powers(solo)) } else { Source::Counters(domains) };
        EnergyMeter { source, stat: root.join("proc/stat"), begun: Instant::now(), note }
    }

    /// Use the model on this machine, with this power of each CPU over that of a fast CPU in the
    /// same state.
    pub fn modelled(powers: BTreeMap<usize, f64>) -> Self {
        let stat = PathBuf::from("/proc/stat");
        EnergyMeter { source: Source::Model(powers), stat, begun: Instant::now(), note: None }
    }

    /// Read the source.
    pub fn read(&self) -> Result<Reading> {
        let counts = match &self.source {
            Source::Counters(domains) => {
                let read = |(i, domain): (usize, &Domain)| Ok((i, number(&domain.file)?));
                domains.iter().enumerate().map(read).collect::<Result<_>>()?
            }
            Source::Model(_) => {
                let text = std::fs::read_to_string(&self.stat);
                idle_ns(&text.map_err(|e| Error::failed(self.stat.display(), e))?)
            }
        };
        Ok(Reading { at: self.begun.elapsed(), counts })
    }

    /// Return the mean power between two readings [W]. None if nothing was counted.
    pub fn watts(&self, before: &Reading, after: &Reading) -> Option<f64> {
        let wall_ns = after.at.saturating_sub(before.at).as_nanos() as f64;
        let both = |i: &usize| Some((*before.counts.get(i)?, *after.counts.get(i)?));
        let watts: f64 = match &self.source {
            Source::Counters(domains) => {
                let used = |(i, domain): (usize, &Domain)| both(&i).map(|(from, to)| domain.used(from, to));
                domains.iter().enumerate().filter_map(used).sum::<u64>() as f64 * 1000.0 / wall_ns
            }
            Source::Model(powers) => {
                let of = |(cpu, power): (&usize, &f64)| {
                    let (from, to) = both(cpu)?;
                    let idle = (to.saturating_sub(from) as f64 / wall_ns).clamp(0.0, 1.0);
                    Some(power * (ACTIVE_W * (1.0 - idle) + IDLE_W * idle))
                };
                powers.iter().filter_map(of).sum()
            }
        };
        (watts.is_finite() && watts > 0.0).then_some(watts)
    }

    /// Return the energy metrics of a visit between two readings. `metrics` holds its other
    /// metrics.
    pub fn metrics(
        &self,
        before: &Reading,
        after: &Reading,
        metrics: &BTreeMap<String, f64>,
    ) -> BTreeMap<String, f64> {
        let [energy, energy_delay] = match self.source {
            Source::Counters(_) => ["energy_j", "energy_delay_js"],
            Source::Model(_) => ["energy_model_j", "energy_delay_model_js"],
        };
        let mut found = BTreeMap::new();
        let Some(watts) = self.watts(before, after) else { return found };
        let rate = rate(metrics);
        found.insert(energy.into(), watts / rate.unwrap_or(1.0));
        if let Some(rate) = rate {
            found.insert(energy_delay.into(), watts / (rate * rate));
        }
        found
    }
}

/// Return the units of work done per second. None if the workload sets the pace.
///
/// The unit of a mix is the work of one task in a second alone on a fast CPU. The rate of a mix is
/// therefore its STP. For other workloads it is one repetition, or else one unit of their
/// throughput.
fn rate(metrics: &BTreeMap<String, f64>) -> Option<f64> {
    let of = |name: &str| metrics.get(name).copied();
    of("stp").or_else(|| of("time_ms").map(|ms| 1000.0 / ms)).or_else(|| of("throughput_per_s"))
}

impl Domain {
    /// Return the microjoules between two values of the counter.
    fn used(&self, from: u64, to: u64) -> u64 {
        if to >= from { to - from } else { (to + self.range_uj).saturating_sub(from) }
    }
}

/// Return the square of the speed of each CPU over the mean of the fast CPUs. Exactly 1 for the
/// fast ones.
fn powers(solo: &Solo) -> BTreeMap<usize, f64> {
    let is_fast = |cpu: &usize| solo.fast_cpus.contains(cpu);
    let fast: Vec<f64> = solo.cpu_speed.iter().filter(|(cpu, _)| is_fast(cpu)).map(|(_, &s)| s).collect();
    let mean = crate::metrics::sum(fast.iter().copied()) / fast.len() as f64;
    let relative =
        |(&cpu, &speed): (&usize, &f64)| (cpu, if is_fast(&cpu) { 1.0 } else { (speed / mean).powi(2) });
    solo.cpu_speed.iter().map(relative).collect()
}

/// Return the domains that together cover the machine, each once. Empty if the machine has none. A
/// domain that cannot be read is an error.
fn domains(directory: &Path) -> Result<Vec<Domain>> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut directories: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    // Take the first domain of a name: the MSR of a package has a finer resolution than its MMIO
    // registers.
    directories.sort_by_key(|directory| (directory.to_string_lossy().contains("mmio"), directory.clone()));
    let mut named: BTreeMap<String, PathBuf> = BTreeMap::new();
    for directory in directories {
        if let Ok(name) = std::fs::read_to_string(directory.join("name")) {
            named.entry(name.trim().to_string()).or_insert(directory);
        }
    }
    let of = |wanted: fn(&str) -> bool| named.iter().filter(move |(name, _)| wanted(name)).map(|(_, f)| f);
    let mut chosen: Vec<&PathBuf> = of(|name| name.starts_with("package-")).collect();
    if chosen.is_empty() {
        chosen = of(|name| name == "psys").collect();
    }
    let open = |directory: &PathBuf| {
        let file = directory.join("energy_uj");
        number(&file)?;
        Ok(Domain { file, range_uj: number(&directory.join("max_energy_range_uj"))? })
    };
    chosen.into_iter().map(open).collect()
}

fn number(path: &Path) -> Result<u64> {
    let text = files::read_small_file(path, MAX_FILE_BYTES)?;
    text.trim().parse().map_err(|e| Error::failed(path.display(), e))
}

/// Return the idle time of each CPU from `/proc/stat` [ns]. Waiting for a disk counts as idle.
fn idle_ns(stat: &str) -> BTreeMap<usize, u64> {
    let of = |line: &str| {
        let mut words = line.split_whitespace();
        let cpu = words.next()?.strip_prefix("cpu")?.parse().ok()?;
        let ticks = words.skip(3).take(2).map(|word| word.parse::<u64>().ok()).sum::<Option<u64>>()?;
        Some((cpu, ticks.saturating_mul(TICK.as_nanos() as u64)))
    };
    stat.lines().filter_map(of).collect()
}

#[cfg(test)]
mod tests;
