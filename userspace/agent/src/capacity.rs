//! Where a capacity table comes from: a file that the user names, the last calibration, or a new one.

use crate::calibrate::{self, Settings, calibrate};
use crate::failure::{Exit, Failure};
use crate::pmu::{Counters, Group, Seen};
use crate::store::{CapacityFile, default_path};
use crate::topology::Topology;
use bias_policy::samples::median;
use bias_policy::table::CapacityTable;
use indicatif::{ProgressBar, ProgressStyle};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tracing::{debug, info, warn};

/// What the user asked for.
#[derive(Debug, Clone, Default)]
pub struct Source {
    /// Use this file, and neither measure nor store anything.
    pub capacity_file: Option<PathBuf>,
    /// Measure even if the stored table is good.
    pub force: bool,
    /// How to measure.
    pub settings: Settings,
    /// Where to keep what was measured; None for the default place.
    pub output: Option<PathBuf>,
}

/// A table with what is known about its origin.
#[derive(Debug, Clone)]
pub struct Capacity {
    /// The checked table.
    pub table: CapacityTable,
    /// The file it is in, or would be.
    pub file: CapacityFile,
    /// What the counters did while it was measured; empty if it was not measured now.
    pub seen: Vec<Seen>,
}

impl Capacity {
    /// Does the file, not [`bias_policy::sharing::SHARED_DEFAULT`], say what busy siblings cost, wherever there are any?
    fn prices_siblings(&self) -> bool {
        let with_sibling = |cpu: u32| self.table.get(cpu).is_some_and(|entry| self.table.has_sibling(entry));
        self.file.cpus.iter().all(|entry| entry.shared_permille.is_some() || !with_sibling(entry.cpu))
    }

    /// Takes the counters out that do not count: those that calibration saw stand still, where it was done now, and those that stand still
    /// over work of some milliseconds, where it was not. Scheduling needs this; showing a table does not.
    ///
    /// # Errors
    /// Kernel failure when the machine's description cannot be read.
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
            info!(
                "counters of {nominal} CPUs are taken at their nominal scale; --recalibrate finds the true one"
            );
        }
        Ok(())
    }
}

/// The table to schedule by: the file that was named; else the stored one if the machine is the same and a spot check
/// agrees; else a new calibration with `counters` running, which is stored.
///
/// # Errors
/// Usage failure for a bad file that the user named; runtime failure when measuring fails again and again. A bad stored file and a place that
/// cannot be written to are warnings.
pub fn obtain(source: &Source, counters: &Counters) -> Result<Capacity, Failure> {
    let topology = Topology::read()?;
    if let Some(path) = &source.capacity_file {
        return from_file(path, &topology);
    }
    let stored = source.output.clone().or_else(default_path);
    if !source.force
        && let Some(path) = stored.as_deref().filter(|path| path.exists())
    {
        match reusable(path, &topology, &source.settings) {
            Ok(capacity) => {
                info!("using the capacity table in {}", path.display());
                return Ok(capacity);
            }
            Err(why) => info!("calibrating anew: {why}"),
        }
    }
    // The online CPUs are read each time: one that has gone may be why it failed.
    let capacity = persistently(PAUSE, || measure(&Topology::read()?, &source.settings, counters))?;
    if let Some(path) = &stored {
        match capacity.file.write(path) {
            Ok(()) => info!("capacity table stored in {}", path.display()),
            // A place the user named must work; the default one is a convenience.
            Err(failure) if source.output.is_some() => return Err(failure),
            Err(failure) => warn!("the table is not kept: {failure}"),
        }
    }
    Ok(capacity)
}

/// Tries at measuring, and the pause between them: enough for a script that switches CPUs or cpusets.
const TRIES: usize = 3;
const PAUSE: Duration = Duration::from_secs(1);

/// What `work` gives; it is tried again after `pause` where it failed for what may pass.
fn persistently<T>(pause: Duration, mut work: impl FnMut() -> Result<T, Failure>) -> Result<T, Failure> {
    for _ in 1..TRIES {
        match work() {
            Err(failure) if failure.exit == Exit::Runtime => {
                warn!("measuring is tried again: {failure}");
                std::thread::sleep(pause);
            }
            result => return result,
        }
    }
    work()
}

/// The table that `scx_bias table` shows: the file that was named or the stored one, as it is.
///
/// # Errors
/// Usage failure when there is none or it is bad.
pub fn stored(capacity_file: Option<&Path>) -> Result<Capacity, Failure> {
    stored_on(&Topology::read()?, capacity_file)
}

/// As [`stored`], of a machine that was read already.
///
/// # Errors
/// As [`stored`].
pub fn stored_on(topology: &Topology, capacity_file: Option<&Path>) -> Result<Capacity, Failure> {
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

/// Measures every CPU, with a progress bar if standard error is a terminal.
///
/// # Errors
/// Those of [`calibrate()`].
pub fn measure(topology: &Topology, settings: &Settings, counters: &Counters) -> Result<Capacity, Failure> {
    // Hidden by indicatif itself when standard error is no terminal.
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

/// The stored table if it still describes this machine, or why it does not.
fn reusable(path: &Path, topology: &Topology, settings: &Settings) -> Result<Capacity, String> {
    let capacity = from_file(path, topology).map_err(|failure| failure.message)?;
    let identity =
        capacity.file.identity.as_ref().ok_or("the stored table does not say which machine it is of")?;
    if let Some(difference) = identity.difference(&topology.identity()) {
        return Err(difference);
    }
    if !capacity.prices_siblings() {
        return Err("the stored table does not say what SMT siblings cost each other".to_owned());
    }
    let seen = calibrate::spot_check(topology, settings).map_err(|failure| failure.message)?;
    agrees(&capacity, &seen)?;
    Ok(capacity)
}

/// Highest deviation of a spot check from the stored table [permille].
const SPOT_TOLERANCE_PERMILLE: f64 = 50.0;

/// Compares execute times of a spot check, (CPU, ns per step), with the stored costs. Only ratios count, so both are
/// brought to the same scale by the median of their quotients: one disturbed CPU does not make all look wrong.
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
        let cpus = (0..3).map(|cpu| Cpu { cpu, core: cpu, llc: 0, node: 0 }).collect();
        let topology = Topology { cpus, possible: vec![0, 1, 2], llc_bytes: 0 };
        let text = r#"{"version": 1, "cpus": [{"cpu": 0, "cost_permille": [1000, 1000, 1000]},
            {"cpu": 1, "cost_permille": [2500, 1000, 1000]}, {"cpu": 2, "cost_permille": [2500, 1000, 1000]}]}"#;
        let file: CapacityFile = serde_json::from_str(text).unwrap();
        Capacity { table: file.table(&topology).unwrap(), file, seen: Vec::new() }
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
    fn a_cpu_that_goes_while_it_is_measured_is_left_out_of_the_next_try() {
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
    fn what_does_not_pass_is_given_up_and_has_not_the_code_of_what_cannot() {
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
    fn a_table_of_before_siblings_were_priced_is_not_reused_where_there_are_any() {
        let mut capacity = capacity();
        assert!(capacity.prices_siblings());
        capacity.table.cpus[2].core = 1;
        assert!(!capacity.prices_siblings());
        for entry in &mut capacity.file.cpus[1..] {
            entry.shared_permille = Some([1600, 1300, 1000]);
        }
        assert!(capacity.prices_siblings());
    }

    #[test]
    fn a_table_of_another_machine_is_not_reused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("capacity.json");
        let topology = Topology::read().unwrap();
        let settings = quick();
        let mut file = measure(&topology, &settings, &Counters::default()).unwrap().file;
        file.identity.as_mut().unwrap().kernel = "another".into();
        file.write(&path).unwrap();
        let why = reusable(&path, &topology, &settings).unwrap_err();
        assert!(why.contains("the kernel was another"), "{why}");
        file.identity = None;
        file.write(&path).unwrap();
        assert!(reusable(&path, &topology, &settings).unwrap_err().contains("which machine"));
    }
}
