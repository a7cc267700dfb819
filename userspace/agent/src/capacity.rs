// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Source of the capacity table: a file that the user names, the last calibration, or a new one.

use crate::calibrate::{self, Settings, calibrate};
use crate::failure::{Exit, Failure};
use crate::pmu::{Counters, Group, Probed};
use crate::store::{CapacityFile, default_path};
use crate::topology::Topology;
use bias_policy::samples::median;
use bias_policy::table::CapacityTable;
use indicatif::{ProgressBar, ProgressStyle};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tracing::{debug, info, warn};

/// The user's choice of the source.
#[derive(Debug, Clone, Default)]
pub struct TableSource {
    /// File to use instead of measuring. Nothing is stored then.
    pub capacity_file: Option<PathBuf>,
    /// True to measure even if the stored table is valid.
    pub force: bool,
    /// Parameters of the calibration.
    pub settings: Settings,
    /// File to store the measured table in; None for the default path.
    pub output: Option<PathBuf>,
}

/// A table with its origin.
#[derive(Debug, Clone)]
pub struct Capacity {
    /// The checked table.
    pub table: CapacityTable,
    /// The file that holds the table, or would hold it.
    pub file: CapacityFile,
    /// Counts of the events during the calibration; empty if the table was not measured in this
    /// run.
    pub seen: Vec<Probed>,
}

impl Capacity {
    /// Return true if the file gives the cost of busy siblings for every CPU that has siblings.
    /// Otherwise [`bias_policy::sharing::SHARED_DEFAULT`] stands in for it.
    fn has_sibling_costs(&self) -> bool {
        let with_sibling = |cpu: u32| self.table.get(cpu).is_some_and(|entry| self.table.has_sibling(entry));
        self.file.cpus.iter().all(|entry| entry.shared_permille.is_some() || !with_sibling(entry.cpu))
    }

    /// Close the counters that do not count. After a calibration its counts show them. Otherwise a
    /// probe of some milliseconds finds them. Scheduling needs this; showing a table does not.
    ///
    /// # Errors
    /// Kernel failure when sysfs is not mounted or names no CPU.
    pub fn settle(&self, counters: &mut Counters) -> Result<(), Failure> {
        if counters.groups().next().is_none() {
            return Ok(());
        }
        counters.probe_at_start(&self.seen, Topology::read()?.llc_bytes);
        for summary in counters.summary() {
            if let Some(reason) = summary.source.reason() {
                debug!("CPU {}: {reason}", summary.cpu);
            }
        }
        let covered = |group: &&Group| self.file.model.as_ref().is_some_and(|model| model.covers(group));
        let nominal = counters.groups().filter(|group| !covered(group)).count();
        if nominal > 0 {
            info!("counters of {nominal} CPUs have nominal scales; --new-table measures the true ones");
        }
        Ok(())
    }
}

/// Return the table to schedule by, from the first of these sources that applies:
///
/// 1. the file that the user names,
/// 2. the stored table, if the machine is the same and a spot check agrees,
/// 3. a new calibration with `counters` open, which is stored.
///
/// # Errors
/// Usage failure for a bad file that the user names, runtime failure when measuring fails
/// repeatedly. A bad stored file and a default path that cannot be written are only logged.
pub fn obtain(source: &TableSource, counters: &Counters) -> Result<Capacity, Failure> {
    let topology = Topology::read()?;
    if let Some(path) = &source.capacity_file {
        return from_file(path, &topology);
    }
    let stored = source.output.clone().or_else(default_path);
    if !source.force
        && let Some(path) = stored.as_deref().filter(|path| path.exists())
    {
        match reusable(path, &topology) {
            Ok(capacity) => {
                info!("using the capacity table in {}", path.display());
                return Ok(capacity);
            }
            Err(why) => info!("calibrating again: {why}"),
        }
    }
    // The online CPUs are read each time: the failure may be due to a CPU that went offline.
    let capacity = persistently(PAUSE, || measure(&Topology::read()?, &source.settings, counters))?;
    if let Some(path) = &stored {
        match capacity.file.write(path) {
            Ok(()) => info!("capacity table stored in {}", path.display()),
            // A path that the user names must work; the default path is a convenience.
            Err(failure) if source.output.is_some() => return Err(failure),
            Err(failure) => warn!("the table is not stored: {failure}"),
        }
    }
    Ok(capacity)
}

/// Attempts to measure, and the pause between them: enough for a script that switches CPUs or
/// cpusets.
const TRIES: usize = 3;
const PAUSE: Duration = Duration::from_secs(1);

/// Call `work`, and again after `pause` while it fails with a runtime failure, which may pass.
fn persistently<T>(pause: Duration, mut work: impl FnMut() -> Result<T, Failure>) -> Result<T, Failure> {
    for _ in 1..TRIES {
        match work() {
            Err(failure) if failure.exit == Exit::Runtime => {
                warn!("measuring again: {failure}");
                std::thread::sleep(pause);
            }
            result => return result,
        }
    }
    work()
}

/// Return the table that `scx_bias table` shows: the named file or the stored one, unchanged.
///
/// # Errors
/// Usage failure when there is no such file or it is invalid.
pub fn stored(topology: &Topology, capacity_file: Option<&Path>) -> Result<Capacity, Failure> {
    let nowhere =
        || Failure::usage("no place to look for a table (HOME is not set); name one with --capacity-file");
    let path = capacity_file.map(Path::to_owned).or_else(default_path).ok_or_else(nowhere)?;
    if capacity_file.is_none() && !path.exists() {
        return Err(Failure::usage(format!(
            "no capacity table in {} yet; run `scx_bias calibrate` first, or name one with --capacity-file",
            path.display()
        )));
    }
    from_file(&path, topology)
}

fn from_file(path: &Path, topology: &Topology) -> Result<Capacity, Failure> {
    let file = CapacityFile::read(path)?;
    let table = file
        .table(topology)
        .map_err(|why| Failure::usage(format!("capacity file {}: {why}", path.display())))?;
    Ok(Capacity { table, file, seen: Vec::new() })
}

/// Measure every CPU, with a progress bar if standard error is a terminal.
///
/// # Errors
/// Those of [`calibrate()`].
pub fn measure(topology: &Topology, settings: &Settings, counters: &Counters) -> Result<Capacity, Failure> {
    // indicatif hides the bar when standard error is not a terminal.
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} visits, {eta} left") {
        bar.set_style(style);
    }
    bar.set_message(format!("Calibrating {} CPUs", topology.cpus.len()));
    let result = calibrate(topology, settings, counters, &|done, total| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    let calibration = result?;
    Ok(Capacity {
        file: CapacityFile::of(&calibration, topology),
        table: calibration.table,
        seen: calibration.seen,
    })
}

/// Return the stored table if it still describes this machine, else the reason why it does not.
fn reusable(path: &Path, topology: &Topology) -> Result<Capacity, String> {
    let capacity = from_file(path, topology).map_err(|failure| failure.message)?;
    let identity =
        capacity.file.identity.as_ref().ok_or("the stored table does not say which machine it describes")?;
    if let Some(difference) = identity.difference(&topology.identity()) {
        return Err(difference);
    }
    if !capacity.has_sibling_costs() {
        return Err("the stored table lacks the costs of busy SMT siblings".to_owned());
    }
    let seen =
        calibrate::spot_check(topology, &capacity.file.samples()).map_err(|failure| failure.message)?;
    agrees(&capacity, &seen)?;
    Ok(capacity)
}

/// Largest deviation of a spot check from the stored table [permille].
const SPOT_TOLERANCE_PERMILLE: f64 = 50.0;

/// Compare execute times of a spot check, (CPU, ns per step), with the stored costs.
///
/// Only ratios count, so the median of the quotients brings both to the same scale: one disturbed
/// CPU does not make all CPUs look wrong.
fn agrees(capacity: &Capacity, seen: &[(u32, f64)]) -> Result<(), String> {
    let quotient = |(cpu, time): &(u32, f64)| {
        let cost = capacity.table.get(*cpu)?.cost_permille[0];
        Some((*cpu, time / f64::from(cost)))
    };
    let quotients: Vec<(u32, f64)> = seen.iter().filter_map(quotient).collect();
    let scale = median(&quotients.iter().map(|(_, quotient)| *quotient).collect::<Vec<_>>());
    let scale = scale.filter(|scale| *scale > 0.0).ok_or("the spot check measured nothing")?;
    for (cpu, quotient) in quotients {
        let deviation = (quotient / scale - 1.0) * 1000.0;
        if deviation.abs() > SPOT_TOLERANCE_PERMILLE {
            return Err(format!("CPU {cpu} deviates by {deviation:+.0} permille from the stored table"));
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::topology::Cpu;

    fn capacity() -> Capacity {
        let text = r#"{"version": 1, "cpus": [{"cpu": 0, "cost_permille": [1000, 1000, 1000]},
            {"cpu": 1, "cost_permille": [2500, 1000, 1000]}, {"cpu": 2, "cost_permille": [2500, 1000, 1000]}]}"#;
        let file: CapacityFile = serde_json::from_str(text).unwrap();
        Capacity { table: file.table(&Topology::flat(3)).unwrap(), file, seen: Vec::new() }
    }

    #[test]
    fn a_spot_check_compares_ratios_not_times() {
        assert_eq!(agrees(&capacity(), &[(0, 7.0), (1, 17.5), (2, 17.6)]), Ok(()));
        let why = agrees(&capacity(), &[(0, 7.0), (1, 17.5), (2, 8.75)]).unwrap_err();
        assert!(why.starts_with("CPU 2 deviates by -500 permille"), "{why}");
        assert!(agrees(&capacity(), &[]).is_err());
    }

    fn quick() -> Settings {
        Settings {
            rounds: 1,
            visit: Some(Duration::from_millis(2)),
            external_bytes: Some(1 << 16),
            ..Settings::default()
        }
    }

    #[test]
    fn a_cpu_that_goes_offline_is_left_out_of_the_next_attempt() {
        let now = Topology::read().unwrap();
        let mut before = now.clone();
        before.cpus.push(Cpu { cpu: 1022, core: 1022, llc: 0, node: 0 });
        let mut readings = [before, now.clone()].into_iter();
        let measured = persistently(Duration::ZERO, || {
            measure(&readings.next().unwrap(), &quick(), &Counters::default())
        });
        assert_eq!(measured.unwrap().table.cpus.len(), now.cpus.len());
    }

    #[test]
    fn only_runtime_failures_are_retried_and_each_keeps_its_code() {
        let tries = |failure: fn(&'static str) -> Failure| {
            let mut tries = 0;
            let result = persistently(Duration::ZERO, || {
                tries += 1;
                Err::<(), _>(failure("no"))
            });
            (tries, result.unwrap_err().exit)
        };
        assert_eq!(tries(Failure::runtime), (TRIES, Exit::Runtime));
        assert_eq!(tries(Failure::kernel), (1, Exit::Kernel));
        assert_eq!(tries(Failure::usage), (1, Exit::Usage));
    }

    #[test]
    fn a_table_without_sibling_costs_is_not_reused_with_siblings() {
        let mut capacity = capacity();
        assert!(capacity.has_sibling_costs());
        capacity.table.cpus[2].core = 1;
        assert!(!capacity.has_sibling_costs());
        for entry in &mut capacity.file.cpus[1..] {
            entry.shared_permille = Some([1600, 1300, 1000]);
        }
        assert!(capacity.has_sibling_costs());
    }

    #[test]
    fn a_table_of_another_machine_is_not_reused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("capacity.json");
        let topology = Topology::read().unwrap();
        let settings = quick();
        let mut file = measure(&topology, &settings, &Counters::default()).unwrap().file;
        file.identity.as_mut().unwrap().kernel = "another".into();
        file.write(&path).unwrap();
        let why = reusable(&path, &topology).unwrap_err();
        assert!(why.contains("the kernel was another"), "{why}");
        file.identity = None;
        file.write(&path).unwrap();
        assert!(reusable(&path, &topology).unwrap_err().contains("which machine"));
    }
}
