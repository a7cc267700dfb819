//! How many instructions a second this host can execute with every access modelled.
//!
//! Problem: a machine whose vCPUs together want more than the host can execute is not the machine that was asked
//! for. The emulation notices (overrun), but only after the run.
//!
//! Approach: measure once, by a boot with unpaced vCPUs that all run a load ([`load`]),
//! and keep the figure, keyed by the host's identity and the plugin's content. [`fit`] then lets a machine pass,
//! scales it down, or refuses it.
//!
//! Invariant: a machine that passes wants at most [`USABLE_PERMILLE`] of what was measured; scaling keeps the ratios.
//!
//! Limits: other work on the host at run time is not foreseen; the overrun account of each run catches it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::cache;
use crate::exit::{VM_SETUP, coded};
use crate::machine::Machine;
use crate::run_folder::Sample;

/// Share of the measured speed that a machine may want, in thousandths: the rest absorbs what the host does besides, and that paced vCPUs
/// execute fewer instructions in the same processor time than unpaced ones (two thirds, where the host is a busy guest).
pub const USABLE_PERMILLE: u64 = 700;
/// How long the load runs when it measures.
pub const LOAD_TIME: Duration = Duration::from_secs(6);

/// What was measured.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct HostSpeed {
    /// Instructions a second with every user-space access modelled, all vCPUs together, in thousandths of a million.
    pub total_mips_milli: u64,
    /// vCPUs that the measurement used.
    pub vcpus: usize,
    /// What the figure belongs to, for the reader.
    pub host: String,
}

/// What to do with a machine that the host cannot keep up with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scaling {
    /// Slow all its CPUs down by the same factor, and say so.
    Down,
    /// Refuse it.
    Refuse,
    /// Run it as it is; its runs may end as overrun.
    Ignore,
}

/// The host's identity: model and number of its CPUs.
#[must_use]
pub fn host_identity() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find(|line| line.starts_with("model name"));
    let name = model.and_then(|line| line.split(':').nth(1)).unwrap_or("unknown processor").trim();
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    format!("{cpus} x {name}")
}

/// The speed measured earlier for this host and plugin, or the one that `measure` finds now.
///
/// # Errors
/// The plugin cannot be read, or `measure` fails.
pub fn ensure(plugin: &Path, measure: impl FnOnce() -> Result<HostSpeed>) -> Result<HostSpeed> {
    let content = fs::read(plugin).with_context(|| format!("cannot read {}", plugin.display()))?;
    let key = cache::key(&[host_identity().as_bytes(), &content]);
    let folder = cache::entry("hostspeed", &key, |folder| {
        let text = serde_json::to_string_pretty(&measure()?).context("cannot write the host's speed")?;
        fs::write(folder.join("speed.json"), text).context("cannot write the host's speed")
    })?;
    let path = folder.join("speed.json");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is damaged; remove its folder", path.display()))
}

/// The median second among the samples, as thousandths of a million instructions a second of all `host_cpus` together.
///
/// Per processor time, not per time that passed: other work on the host must not spoil a figure that is kept. Not the best second: where
/// the host is itself a guest, seconds differ by half, and it cannot keep up with its best one.
#[must_use]
pub fn typical(samples: &[Sample], host_cpus: usize) -> u64 {
    let rate = |pair: &[Sample]| {
        let [earlier, later] = pair else { return None };
        let microseconds = later.cpu_time.saturating_sub(earlier.cpu_time).as_micros();
        let instructions = u128::from(later.instructions.saturating_sub(earlier.instructions));
        // Less than a tenth of a second of work says nothing.
        let rate =
            || u64::try_from(instructions * 1000 * host_cpus as u128 / microseconds).unwrap_or(u64::MAX);
        (microseconds >= 100_000).then(rate)
    };
    let mut rates: Vec<_> = samples.windows(2).filter_map(rate).collect();
    rates.sort_unstable();
    rates.get(rates.len() / 2).copied().unwrap_or_default()
}

/// The machine that may run on a host of this speed, and what to tell the user about it.
///
/// # Errors
/// Code 120: the host is too slow and the machine may not be scaled, or not that far.
pub fn fit(machine: &Machine, speed: &HostSpeed, scaling: Scaling) -> Result<(Machine, Option<String>)> {
    let usable = speed.total_mips_milli * USABLE_PERMILLE / 1000;
    let wanted = machine.total_mips_milli();
    if wanted <= usable {
        return Ok((machine.clone(), None));
    }
    let figures = format!(
        "the machine wants {} MIPS in total and this host keeps up with {} ({} x {} ‰)",
        wanted / 1000,
        usable / 1000,
        speed.total_mips_milli / 1000,
        USABLE_PERMILLE
    );
    match scaling {
        Scaling::Ignore => Ok((machine.clone(), Some(format!("{figures}; running it all the same")))),
        Scaling::Refuse => Err(coded(VM_SETUP, format!("{figures}; choose slower CPUs, or --scale down"))),
        Scaling::Down => {
            // At least one, so that `scaled` decides whether the result still is a machine.
            let permille = u32::try_from(usable * 1000 / wanted).unwrap_or(1).max(1);
            let scaled = machine.scaled(permille).map_err(|error| {
                coded(VM_SETUP, format!("{figures}; slowed down to fit, {error}; choose fewer CPUs"))
            })?;
            let text = format!("{figures}; slowed down to {scaled}");
            Ok((scaled, Some(text)))
        }
    }
}

/// The load as a command for the guest: a shell in a loop on each vCPU. An interpreter accesses memory and branches
/// more than most programs do, so what it reaches is on the safe side.
#[must_use]
pub fn load(vcpus: usize) -> Vec<String> {
    let seconds = LOAD_TIME.as_secs();
    let one = format!("timeout {seconds} sh -c 'while :; do n=$((n+1)); done' &");
    vec!["sh".into(), "-c".into(), format!("{} wait", vec![one; vcpus].join(" "))]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn host(total_mips: u64) -> HostSpeed {
        HostSpeed { total_mips_milli: total_mips * 1000, vcpus: 4, host: String::new() }
    }

    #[test]
    fn the_median_second_counts_and_idle_ones_do_not() {
        let at = |cpu_ms, instructions| Sample { cpu_time: Duration::from_millis(cpu_ms), instructions };
        let mut samples = vec![at(0, 0), at(1000, 50_000_000), at(2000, 150_000_000), at(3000, 210_000_000)];
        assert_eq!(typical(&samples, 2), 120_000);
        samples.extend([at(3010, 220_000_000), at(3011, 230_000_000)]);
        assert_eq!(typical(&samples, 2), 120_000);
        assert_eq!(typical(&samples[..1], 2), 0);
    }

    #[test]
    fn a_machine_within_reach_passes_unchanged() {
        let machine = Machine::parse("2F2S").unwrap();
        assert_eq!(fit(&machine, &host(240), Scaling::Refuse).unwrap(), (machine, None));
    }

    #[test]
    fn one_out_of_reach_is_refused_scaled_or_forced_as_asked() {
        let machine = Machine::parse("2F2S").unwrap();
        let error = fit(&machine, &host(200), Scaling::Refuse).unwrap_err();
        assert_eq!(crate::exit::code_of(&error), VM_SETUP);
        let (same, text) = fit(&machine, &host(200), Scaling::Ignore).unwrap();
        assert!(same == machine && text.is_some());
        let (scaled, text) = fit(&machine, &host(200), Scaling::Down).unwrap();
        assert!(scaled.total_mips_milli() <= 160_000 && text.is_some());
        assert!(fit(&machine, &host(1), Scaling::Down).is_err());
    }

    proptest! {
        #[test]
        fn scaling_down_fits_and_keeps_the_ratios(total in 60u64..2000, speeds in prop::collection::vec(20u32..200, 1..16)) {
            let mut machine = Machine::parse("60").unwrap();
            machine.mips_milli = speeds.iter().map(|mips| mips * 1000).collect();
            if let Ok((scaled, _)) = fit(&machine, &host(total), Scaling::Down) {
                prop_assert!(scaled.total_mips_milli() <= total * USABLE_PERMILLE);
                for (before, after) in machine.mips_milli.windows(2).zip(scaled.mips_milli.windows(2)) {
                    let was = f64::from(before[0]) / f64::from(before[1]);
                    let is = f64::from(after[0]) / f64::from(after[1]);
                    prop_assert!((is / was - 1.0).abs() < 0.01, "{was} became {is}");
                }
            }
        }
    }
}
