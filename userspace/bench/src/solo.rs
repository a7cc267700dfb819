// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Solo speeds: the speed of each CPU, and the rate of each kind of work alone on a fast CPU.
//!
//! Progress in a mix is relative to these rates, so all mixes of a comparison must use the same
//! ones. Measure once per boot, keep the file, and pass it to every run. The file names its boot,
//! because another boot may have another machine.

use crate::measure::{self, Until};
use crate::spec::{CpuList, WorkKind};
use crate::{Error, Result, cpus, files, metrics, work};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread::Builder;
use std::time::Duration;

/// Version of the file's format.
const SCHEMA: &str = "bias-bench.solo/1";
/// CPUs whose speeds differ by less than this share are one class.
const MIN_EFFECT: f64 = 0.03;
/// Time per CPU and round of the speed probe, and number of rounds.
const PROBE: Duration = Duration::from_millis(100);
const PROBE_ROUNDS: usize = 2;
/// Time per kind and round of the solo rate, and number of rounds.
const SOLO: Duration = Duration::from_millis(300);
const SOLO_ROUNDS: usize = 3;
/// Largest accepted file of solo rates.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Speeds of one boot of one machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Solo {
    /// Format of this file.
    pub schema: String,
    /// The boot that these figures belong to.
    pub boot_id: String,
    /// Units of compute per second on each CPU.
    pub cpu_speed: BTreeMap<usize, f64>,
    /// CPUs of the fast class; all CPUs if they are alike.
    pub fast_cpus: Vec<usize>,
    /// Units per second of each kind, alone on the fastest CPU.
    pub rates: BTreeMap<String, f64>,
}

/// Return the units per second of a kind alone on one CPU: the median of some rounds.
pub fn alone(kind: &WorkKind, cpu: usize) -> Result<f64> {
    let time = Until::Elapsed(SOLO.max(kind.period()));
    let once = || Ok(measure::run(kind, Some(cpu), time)?.units_per_s());
    let rates = std::iter::repeat_with(once).take(SOLO_ROUNDS).collect::<Result<Vec<f64>>>()?;
    Ok(metrics::median(&rates).unwrap_or(0.0))
}

/// Return the units per second of a kind on one CPU while all its `siblings` compute, as
/// [`alone`] does.
pub fn with_busy_siblings(kind: &WorkKind, cpu: usize, siblings: &[usize]) -> Result<f64> {
    let stop = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let rate = siblings
            .iter()
            .try_for_each(|&sibling| {
                let (sender, pinned) = mpsc::channel();
                let busy = move || {
                    let pin = cpus::Pinned::to(sibling);
                    let mut work = work::build(&WorkKind::Compute);
                    let is_pinned = pin.is_ok();
                    // The receiver waits for this message.
                    let _ = sender.send(pin.as_ref().map(drop).map_err(ToString::to_string));
                    while is_pinned && !stop.load(Relaxed) {
                        work.step();
                    }
                };
                let failed = |why: String| Error::failed(format!("keeping CPU {sibling} busy"), why);
                Builder::new().spawn_scoped(scope, busy).map_err(|e| failed(e.to_string()))?;
                pinned.recv().map_err(|e| failed(e.to_string()))?.map_err(failed)
            })
            .and_then(|()| alone(kind, cpu));
        stop.store(true, Relaxed);
        rate
    })
}

impl Solo {
    /// Probe every CPU, one after the other, without measuring any kind. `fast` overrides the
    /// choice of fast CPUs.
    pub fn probe(fast: Option<&CpuList>) -> Result<Self> {
        let online = cpus::online()?.0;
        let mut cpu_speed: BTreeMap<usize, f64> = BTreeMap::new();
        for _ in 0..PROBE_ROUNDS {
            for &cpu in &online {
                let rate = measure::run(&WorkKind::Compute, Some(cpu), Until::Elapsed(PROBE))?.units_per_s();
                // The best round counts, because a disturbance only ever slows a CPU down.
                let best = cpu_speed.entry(cpu).or_insert(rate);
                *best = best.max(rate);
            }
        }
        let speeds: Vec<f64> = cpu_speed.values().copied().collect();
        let is_fast = metrics::fast_cpus(&speeds, MIN_EFFECT);
        let fast_cpus = match fast {
            Some(list) => {
                cpus::require_online(&list.0)?;
                list.0.clone()
            }
            None => online.iter().zip(is_fast).filter_map(|(&cpu, fast)| fast.then_some(cpu)).collect(),
        };
        Ok(Solo { schema: SCHEMA.into(), boot_id: boot_id()?, cpu_speed, fast_cpus, rates: BTreeMap::new() })
    }

    /// Measure the kinds that have no rate yet. Return true if there were any.
    pub fn add(&mut self, kinds: &[WorkKind]) -> Result<bool> {
        let cpu = self.fastest();
        let mut changed = false;
        for kind in kinds {
            if self.rates.contains_key(&kind.to_string()) {
                continue;
            }
            self.rates.insert(kind.to_string(), alone(kind, cpu)?);
            changed = true;
        }
        Ok(changed)
    }

    /// Return the fastest of the fast CPUs.
    pub fn fastest(&self) -> usize {
        let speed = |cpu: &usize| self.cpu_speed.get(cpu).copied().unwrap_or(0.0);
        self.fast_cpus.iter().copied().max_by(|a, b| speed(a).total_cmp(&speed(b))).unwrap_or(0)
    }

    /// Return the solo rate of a kind, units per second.
    pub fn rate(&self, kind: &WorkKind) -> Result<f64> {
        let rate = self.rates.get(&kind.to_string()).copied().filter(|rate| *rate > 0.0);
        rate.ok_or_else(|| Error::failed("solo rates", format!("none for {kind}")))
    }

    /// Parse the text of a file and check that it belongs to this boot.
    fn parse(text: &str, boot_id: &str) -> std::result::Result<Self, String> {
        let solo: Solo = serde_json::from_str(text).map_err(|e| format!("not a file of solo rates ({e})"))?;
        if solo.schema != SCHEMA {
            return Err(format!("has format '{}', this program reads {SCHEMA}", solo.schema));
        }
        if solo.boot_id != boot_id {
            return Err("was measured in another boot; delete it to measure again".into());
        }
        if solo.fast_cpus.is_empty() || solo.rates.values().any(|rate| !(rate.is_finite() && *rate > 0.0)) {
            return Err(
                "holds no fast CPU, or a rate that is not positive; delete it to measure again".into()
            );
        }
        Ok(solo)
    }
}

/// Return solo rates for `kinds`. Read them from `file` if it exists, measure the missing ones, and
/// write them back.
pub fn load_or_measure(file: Option<&Path>, kinds: &[WorkKind], fast: Option<&CpuList>) -> Result<Solo> {
    let mut solo = match file.filter(|path| path.exists()) {
        Some(path) => {
            let text = files::read_small_file(path, MAX_FILE_BYTES)?;
            let parsed = Solo::parse(&text, &boot_id()?);
            parsed.map_err(|why| Error::Usage(format!("{}: {why}", path.display())))?
        }
        None => Solo::probe(fast)?,
    };
    let changed = solo.add(kinds)?;
    if let Some(path) = file.filter(|path| changed || !path.exists()) {
        let text = serde_json::to_string_pretty(&solo).map_err(|e| Error::failed("writing solo rates", e))?;
        std::fs::write(path, text + "\n").map_err(|e| Error::failed(path.display(), e))?;
    }
    Ok(solo)
}

/// Return the kernel's name for this boot.
fn boot_id() -> Result<String> {
    let path = "/proc/sys/kernel/random/boot_id";
    let text = std::fs::read_to_string(path).map_err(|e| Error::failed(path, e))?;
    Ok(text.trim().to_string())
}

/// Example data for tests of other modules.
#[cfg(test)]
pub(crate) mod example {
    use super::*;

    /// CPU 0 is fast and CPU 1 has 0.4 times its speed; the rates are given.
    pub(crate) fn unequal(rates: &[(&str, f64)]) -> Solo {
        Solo {
            schema: SCHEMA.into(),
            boot_id: "b".into(),
            cpu_speed: BTreeMap::from([(0, 10.0), (1, 4.0)]),
            fast_cpus: vec![0],
            rates: rates.iter().map(|(kind, rate)| (kind.to_string(), *rate)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Solo {
        Solo {
            schema: SCHEMA.into(),
            boot_id: "b".into(),
            cpu_speed: BTreeMap::from([(0, 9.0), (1, 10.0), (2, 4.0)]),
            fast_cpus: vec![0, 1],
            rates: BTreeMap::from([("compute".into(), 10.0)]),
        }
    }

    #[test]
    fn the_fastest_cpu_is_one_of_the_fast() {
        assert_eq!(example().fastest(), 1);
        assert_eq!(Solo { fast_cpus: vec![2], ..example() }.fastest(), 2);
    }

    #[test]
    fn a_rate_with_busy_siblings_is_measured_and_an_absent_sibling_is_named() {
        let online = cpus::online().unwrap().0;
        let (cpu, others) = online.split_first().unwrap();
        assert!(with_busy_siblings(&WorkKind::Compute, *cpu, &others[..others.len().min(1)]).unwrap() > 0.0);
        let absent = crate::spec::MAX_CPUS - 1;
        let error = with_busy_siblings(&WorkKind::Compute, *cpu, &[absent]).unwrap_err().to_string();
        assert!(error.contains(&format!("CPU {absent}")), "{error}");
    }

    #[test]
    fn a_file_is_read_back_and_checked() {
        let text = serde_json::to_string(&example()).unwrap();
        assert_eq!(Solo::parse(&text, "b"), Ok(example()));
        assert!(Solo::parse(&text, "c").unwrap_err().contains("another boot"));
        assert!(Solo::parse("{", "b").unwrap_err().contains("not a file of solo rates"));
        let old = serde_json::to_string(&Solo { schema: "x".into(), ..example() }).unwrap();
        assert!(Solo::parse(&old, "b").unwrap_err().contains("format 'x'"));
        let none = serde_json::to_string(&Solo { fast_cpus: vec![], ..example() }).unwrap();
        assert!(Solo::parse(&none, "b").unwrap_err().contains("no fast CPU"));
    }
}
