//! Energy of a visit: measured where the machine counts joules, modelled where it does not.
//!
//! # Problem
//! A scheduler that fills slow cores may finish later and still cost less; throughput alone cannot tell. Few machines let a
//! program read joules, no virtual machine does, and a model that passes for a measurement is worse than no figure.
//!
//! # Approach
//! Two sources under different names, so that nobody takes one for the other:
//!
//! * `energy_j`, `energy_delay_js`: the kernel's powercap counters (RAPL) of all packages; of the whole platform (`psys`)
//!   where it has no package, since it contains them. Parts of a package (cores, graphics) and DRAM do not count, and a package
//!   that shows twice (as MSR and as MMIO) counts once;
//! * `energy_model_j`, `energy_delay_model_js`: the power model with which Grant and Afsahi judged asymmetric machines. A CPU of
//!   relative speed s draws s² times [`ACTIVE_W`] while it is busy and s² times [`IDLE_W`] while it idles. Fast CPUs have s = 1;
//!   s of the others is their measured speed over the mean of the fast ones. Busy is what `/proc/stat` does not call idle.
//!
//! Arms do not get the same work done in a window, so energy is told for one unit of work. With P the mean power of the visit,
//! warm-up included, and R the work per second of its window ([`rate`]):
//!
//! | figure | value | is |
//! |---|---|---|
//! | energy | P / R, in J | energy of a unit of work |
//! | energy-delay | P / R², in Js | that, times the time per unit of work (1 / R) |
//!
//! A cell without a rate (wakeups at a fixed pace) gets the energy of one second and no energy-delay: all arms have the same to do.
//!
//! # Invariants
//! A run has one of the two sources from beginning to end. A counter that wraps around once between two readings is right.
//!
//! # Limits
//! Counters cover everything that runs on the machine. Those that wrap twice in one visit (an hour at 100 W) are not noticed.
//! The model knows no frequencies, idle states, memory or voltage; its watts are those of a server of 2002, so compare arms and
//! believe no joule. It sees 10 ms: visits should last a second. Where tasks keep all CPUs busy its power is the same under
//! every arm, and energy says what throughput says.

use crate::solo::Solo;
use crate::{Error, Result, files};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Power of a busy CPU of full speed in the model, watts.
pub const ACTIVE_W: f64 = 26.95;
/// Power of an idle one.
pub const IDLE_W: f64 = 5.88;
/// Length of a tick in `/proc/stat`, the same on every architecture that has sched_ext.
const TICK: Duration = Duration::from_millis(10);
/// No file read here is longer, whatever the number of CPUs and interrupts.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Where joules come from.
#[derive(Debug)]
enum Source {
    /// Counters of microjoules, one a domain.
    Counters(Vec<Domain>),
    /// Speed of each CPU, relative to the fast ones.
    Model(BTreeMap<usize, f64>),
}

/// A powercap domain.
#[derive(Debug)]
struct Domain {
    file: PathBuf,
    /// Where the counter begins again.
    range_uj: u64,
}

/// This machine's source of joules.
#[derive(Debug)]
pub struct Meter {
    source: Source,
    stat: PathBuf,
    begun: Instant,
    /// Why there are counters that are not used, for people; None if there is nothing to say.
    pub note: Option<String>,
}

/// The source at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    at: Duration,
    /// Microjoules by domain, or nanoseconds of idleness by CPU.
    counts: BTreeMap<usize, u64>,
}

impl Meter {
    /// Finds the best source below `root`, which is `/` but for tests.
    pub fn find(root: &Path, solo: &Solo) -> Self {
        let (domains, note) = match domains(&root.join("sys/class/powercap")) {
            Ok(domains) => (domains, None),
            Err(e) => (
                Vec::new(),
                Some(format!("{e}; energy is modelled (energy_model_j), run as root to measure it")),
            ),
        };
        let source = if domains.is_empty() { Source::Model(speeds(solo)) } else { Source::Counters(domains) };
        Meter { source, stat: root.join("proc/stat"), begun: Instant::now(), note }
    }

    /// Reads the source.
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

    /// Mean power between two readings, watts; None if nothing was counted.
    fn watts(&self, before: &Reading, after: &Reading) -> Option<f64> {
        let wall_ns = after.at.saturating_sub(before.at).as_nanos() as f64;
        let both = |i: &usize| Some((*before.counts.get(i)?, *after.counts.get(i)?));
        let watts: f64 = match &self.source {
            Source::Counters(domains) => {
                let used = |(i, domain): (usize, &Domain)| both(&i).map(|(from, to)| domain.used(from, to));
                domains.iter().enumerate().filter_map(used).sum::<u64>() as f64 * 1000.0 / wall_ns
            }
            Source::Model(speeds) => {
                let of = |(cpu, speed): (&usize, &f64)| {
                    let (from, to) = both(cpu)?;
                    let idle = (to.saturating_sub(from) as f64 / wall_ns).clamp(0.0, 1.0);
                    Some(speed * speed * (ACTIVE_W * (1.0 - idle) + IDLE_W * idle))
                };
                speeds.iter().filter_map(of).sum()
            }
        };
        (watts.is_finite() && watts > 0.0).then_some(watts)
    }

    /// The energy metrics of a visit between two readings, of which the other `metrics` are known.
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

/// Units of work done per second. A unit of a mix is what one task does in a second alone on a fast CPU (so the rate
/// is its STP), else one repetition, else one of what the workload counts. None if the workload sets the pace.
fn rate(metrics: &BTreeMap<String, f64>) -> Option<f64> {
    let of = |name: &str| metrics.get(name).copied();
    of("stp").or_else(|| of("time_ms").map(|ms| 1000.0 / ms)).or_else(|| of("throughput_per_s"))
}

impl Domain {
    /// Microjoules between two values of the counter.
    fn used(&self, from: u64, to: u64) -> u64 {
        if to >= from { to - from } else { (to + self.range_uj).saturating_sub(from) }
    }
}

/// Speed of each CPU over the mean of the fast ones; exactly 1 for those.
fn speeds(solo: &Solo) -> BTreeMap<usize, f64> {
    let is_fast = |cpu: &usize| solo.fast_cpus.contains(cpu);
    let fast: Vec<f64> = solo.cpu_speed.iter().filter(|(cpu, _)| is_fast(cpu)).map(|(_, &s)| s).collect();
    let mean = crate::metrics::sum(fast.iter().copied()) / fast.len() as f64;
    let relative = |(&cpu, &speed): (&usize, &f64)| (cpu, if is_fast(&cpu) { 1.0 } else { speed / mean });
    solo.cpu_speed.iter().map(relative).collect()
}

/// The domains that together are the machine, each once; none if it has none. One that cannot be read is an error.
fn domains(folder: &Path) -> Result<Vec<Domain>> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    // A package's MSR counts more finely than its MMIO registers: the first of a name is taken.
    folders.sort_by_key(|folder| (folder.to_string_lossy().contains("mmio"), folder.clone()));
    let mut named: BTreeMap<String, PathBuf> = BTreeMap::new();
    for folder in folders {
        if let Ok(name) = std::fs::read_to_string(folder.join("name")) {
            named.entry(name.trim().to_string()).or_insert(folder);
        }
    }
    let of = |wanted: fn(&str) -> bool| named.iter().filter(move |(name, _)| wanted(name)).map(|(_, f)| f);
    let mut chosen: Vec<&PathBuf> = of(|name| name.starts_with("package-")).collect();
    if chosen.is_empty() {
        chosen = of(|name| name == "psys").collect();
    }
    let open = |folder: &PathBuf| {
        let file = folder.join("energy_uj");
        number(&file)?;
        Ok(Domain { file, range_uj: number(&folder.join("max_energy_range_uj"))? })
    };
    chosen.into_iter().map(open).collect()
}

fn number(path: &Path) -> Result<u64> {
    let text = files::read_small_file(path, MAX_FILE_BYTES)?;
    text.trim().parse().map_err(|e| Error::failed(path.display(), e))
}

/// Time that each CPU was idle, of `/proc/stat`: waiting for a disk is idle, too.
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
