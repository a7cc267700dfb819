// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The capacity file: a table with its raw samples, as JSON.
//!
//! A calibration writes the file, and a later start on the same machine reads it back.
//! `--capacity-file` takes the same format. It requires only the CPU numbers and costs, so that a
//! user can write it by hand:
//!
//! ```json
//! {"version": 1, "cpus": [{"cpu": 0, "cost_permille": [1000, 1000, 1000]},
//!                         {"cpu": 1, "cost_permille": [2500, 1580, 1000]}]}
//! ```
//!
//! # Invariants
//! A table that is read passes every check of [`bias_policy::table`] and fits the machine. A file
//! is replaced as a whole or not at all. A file that is written is never larger than the limit for
//! reading.

use crate::calibrate::{Calibration, Conditions};
use crate::counter_model::CounterModel;
use crate::cpulist;
use crate::failure::Failure;
use crate::safefile;
use crate::topology::{MachineIdentity, Topology};
use bias_policy::classes::{CpuSamples, SplitReason, SplitRule, split_by_cost};
use bias_policy::sharing::SHARED_DEFAULT;
use bias_policy::table::{COMPONENTS, CapacityTable, Class, CpuCapacity, SHARED_NONE};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Version of the format. Files of version 1, without [`FileCpu::shared_permille`], are read too.
const VERSION: u32 = 2;
/// Most samples kept over all CPUs. A picosecond figure with its comma takes some ten bytes of
/// [`safefile::MAX_BYTES`].
const MAX_SAMPLES: usize = 60_000;

/// The file as it is on disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CapacityFile {
    /// Version of the format, 1 or 2.
    pub version: u32,
    /// Time of the calibration [seconds since 1970]; absent in a file written by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_at_s: Option<u64>,
    /// The machine of the calibration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<MachineIdentity>,
    /// Conditions of the calibration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Conditions>,
    /// The evidence for two classes; absent if there is one class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<SplitReason>,
    /// Scales of the counters; absent without counters and in older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<CounterModel>,
    /// The CPUs.
    pub cpus: Vec<FileCpu>,
}

/// One CPU of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileCpu {
    /// The kernel's CPU number.
    pub cpu: u32,
    /// Cost of execute, internal and external work [permille of the best CPU of each].
    pub cost_permille: [u32; COMPONENTS],
    /// Relative standard deviation of single samples [permille].
    #[serde(default)]
    pub spread_permille: [u32; COMPONENTS],
    /// Cost while all SMT siblings of the core are busy, over the cost alone [permille]. Absent for
    /// a CPU without siblings and in files of version 1, where [`SHARED_DEFAULT`] stands in for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_permille: Option<[u32; COMPONENTS]>,
    /// The CPU's class; derived from the costs when no CPU gives one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    /// Cycles per millisecond while the execute loop ran, if counted: the clock that the costs
    /// belong to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execute_khz: Option<u64>,
    /// Raw samples by component, in the order taken [ps per step].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples_ps: Option<[Vec<u64>; COMPONENTS]>,
}

impl CapacityFile {
    /// Return the file of a calibration.
    #[must_use]
    pub fn of(calibration: &Calibration, topology: &Topology) -> Self {
        let total: usize = calibration.samples.iter().flat_map(|cpu| &cpu.times).map(Vec::len).sum();
        let every = total.div_ceil(MAX_SAMPLES).max(1);
        let picoseconds = |cpu: &CpuSamples| {
            let thin = |times: &Vec<f64>| {
                times.iter().step_by(every).map(|ns| (ns * 1000.0).round() as u64).collect()
            };
            [thin(&cpu.times[0]), thin(&cpu.times[1]), thin(&cpu.times[2])]
        };
        let cpus = calibration.table.cpus.iter().map(|entry| FileCpu {
            cpu: entry.cpu,
            cost_permille: entry.cost_permille,
            spread_permille: entry.spread_permille,
            shared_permille: calibration.table.has_sibling(entry).then_some(entry.shared_permille),
            class: Some(entry.class),
            execute_khz: calibration.clocks.iter().find(|(cpu, _)| *cpu == entry.cpu).map(|(_, khz)| *khz),
            samples_ps: calibration.samples.iter().find(|cpu| cpu.cpu == entry.cpu).map(picoseconds),
        });
        Self {
            version: VERSION,
            measured_at_s: SystemTime::now().duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs()),
            identity: Some(topology.identity()),
            conditions: Some(calibration.conditions.clone()),
            split: calibration.split.reason,
            model: calibration.model.clone(),
            cpus: cpus.collect(),
        }
    }

    /// Read and check a file.
    ///
    /// # Errors
    /// Usage failure when the file cannot be read or is not a capacity file.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        Self::parse(&safefile::read_text(path, "capacity file")?)
            .map_err(|why| Failure::usage(format!("capacity file {}: {why}", path.display())))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let file: Self = serde_json::from_str(text)
            .map_err(|error| format!("{error}; write a new one with `scx_bias calibrate --output FILE`"))?;
        if !(1..=VERSION).contains(&file.version) {
            return Err(format!(
                "has version {}, this program reads 1 to {VERSION}; write a new one with `scx_bias calibrate --output FILE`",
                file.version
            ));
        }
        if let Some(model) = &file.model {
            model.check()?;
        }
        Ok(file)
    }

    /// Return the checked table of the file for the CPUs of `topology`.
    ///
    /// # Errors
    /// A sentence with the fault and its remedy.
    pub fn table(&self, topology: &Topology) -> Result<CapacityTable, String> {
        let missing = topology.cpus.iter().find(|cpu| self.cpus.iter().all(|entry| entry.cpu != cpu.cpu));
        if let Some(cpu) = missing {
            return Err(format!("CPU {} is online but not listed; add it, or calibrate again", cpu.cpu));
        }
        if let Some(entry) = self.cpus.iter().find(|entry| !topology.possible.contains(&entry.cpu)) {
            let possible = cpulist::format(&topology.possible);
            return Err(format!(
                "lists CPU {}, which this machine does not have ({possible}); remove it",
                entry.cpu
            ));
        }
        let classes = self.classes()?;
        let entries = self.cpus.iter().zip(classes).map(|(entry, class)| {
            let place = topology.cpus.iter().find(|cpu| cpu.cpu == entry.cpu);
            CpuCapacity {
                cpu: entry.cpu,
                core: place.map_or(entry.cpu, |cpu| cpu.core),
                llc: place.map_or(0, |cpu| cpu.llc),
                node: place.map_or(0, |cpu| cpu.node),
                class,
                cost_permille: entry.cost_permille,
                spread_permille: entry.spread_permille,
                shared_permille: if place.is_some_and(|place| topology.has_sibling(place)) {
                    entry.shared_permille.unwrap_or(SHARED_DEFAULT)
                } else {
                    [SHARED_NONE; COMPONENTS]
                },
            }
        });
        CapacityTable::new(entries.collect()).map_err(|error| error.to_string())
    }

    /// Return the class of each CPU: as given when all have one, by cost when none has one.
    fn classes(&self) -> Result<Vec<Class>, String> {
        let given: Vec<Class> = self.cpus.iter().filter_map(|entry| entry.class).collect();
        if given.len() == self.cpus.len() {
            return Ok(given);
        }
        if !given.is_empty() {
            return Err("gives a class for some CPUs only; give it for all or for none".to_owned());
        }
        let costs: Vec<_> = self.cpus.iter().map(|entry| entry.cost_permille).collect();
        Ok(split_by_cost(&costs, SplitRule::default()).classes)
    }

    /// Return the raw samples of the CPUs that have them [ns per step].
    #[must_use]
    pub fn samples(&self) -> Vec<CpuSamples> {
        let times = |samples: &[Vec<u64>; COMPONENTS]| {
            let ns = |picoseconds: &Vec<u64>| picoseconds.iter().map(|ps| *ps as f64 / 1000.0).collect();
            [ns(&samples[0]), ns(&samples[1]), ns(&samples[2])]
        };
        self.cpus
            .iter()
            .filter_map(|entry| Some(CpuSamples { cpu: entry.cpu, times: times(entry.samples_ps.as_ref()?) }))
            .collect()
    }

    /// Return the file as text, one CPU per line.
    ///
    /// # Errors
    /// Runtime failure when it cannot be written as JSON.
    pub fn to_text(&self) -> Result<String, Failure> {
        let text =
            |error: serde_json::Error| Failure::runtime(format!("cannot write the table as JSON ({error})"));
        let head = serde_json::to_string(&Self { cpus: Vec::new(), ..self.clone() }).map_err(text)?;
        let lines =
            self.cpus.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>().map_err(text)?;
        let head = head.strip_suffix("]}").unwrap_or(&head);
        Ok(format!("{head}\n{}\n]}}\n", lines.join(",\n")))
    }

    /// Write the file, readable by its owner only, and replace an old one as a whole. Create its
    /// directory if it is missing.
    ///
    /// # Errors
    /// Runtime failure when the directory or the file cannot be written. Usage failure when `path`
    /// is not a regular file.
    pub fn write(&self, path: &Path) -> Result<(), Failure> {
        let failed = |error: std::io::Error| {
            Failure::runtime(format!(
                "cannot write {} ({error}); choose another place with --output",
                path.display()
            ))
        };
        let directory =
            path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::create_dir_all(directory).map_err(failed)?;
        // A rename would replace a device: as root, even /dev/null.
        if let Ok(there) = path.metadata().map(|meta| meta.file_type())
            && !there.is_file()
        {
            let kind = safefile::kind(there);
            return Err(Failure::usage(format!("{} is a {kind}; name a file", path.display())));
        }
        let mut file = tempfile::NamedTempFile::new_in(directory).map_err(failed)?;
        file.write_all(self.to_text()?.as_bytes()).map_err(failed)?;
        file.as_file().sync_all().or_else(unless_forbidden).map_err(failed)?;
        file.persist(path).map_err(|error| failed(error.error))?;
        Ok(())
    }
}

/// Accept that the file is not synced where a sandbox forbids it, as that of scx_loader does. The
/// table can be measured again after a crash.
fn unless_forbidden(error: std::io::Error) -> std::io::Result<()> {
    let forbidden = [nix::libc::EPERM, nix::libc::ENOSYS, nix::libc::EINVAL];
    if error.raw_os_error().is_some_and(|code| forbidden.contains(&code)) { Ok(()) } else { Err(error) }
}

/// Return the default path of the table: below `/var/lib/scx_bias` for root, below the XDG state
/// directory for others. None for a user without a home.
#[must_use]
pub fn default_path() -> Option<PathBuf> {
    let directory = if nix::unistd::geteuid().is_root() {
        PathBuf::from("/var/lib")
    } else {
        let absolute =
            |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?
    };
    Some(directory.join("scx_bias/capacity.json"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::calibrate::evaluate;
    use crate::counter_model::{CounterModel, CounterSet};
    use crate::failure::Exit;
    use bias_policy::model::{CpuModel, Errors, SCALE_MAX, Scale};
    use proptest::prelude::*;
    use std::os::unix::fs::PermissionsExt;

    /// A topology with two CPUs per core.
    fn smt(count: u32) -> Topology {
        let mut topology = Topology::flat(count);
        for cpu in &mut topology.cpus {
            cpu.core = cpu.cpu / 2 * 2;
        }
        topology
    }

    fn calibration(count: u32, samples: u32) -> Calibration {
        let times = |factor: u32| (0..samples).map(|i| f64::from(factor * (100 + i % 7))).collect::<Vec<_>>();
        let cpus = (0..count).map(|cpu| CpuSamples { cpu, times: [times(1 + cpu % 2), times(1), times(1)] });
        evaluate(&Topology::flat(count).cpus, cpus.collect(), Conditions::made_up(), SplitRule::default())
            .unwrap()
    }

    /// A calibration like [`calibration`], with a counter model of `count` CPUs.
    fn counted(count: u32) -> Calibration {
        let scale = Some(Scale::Fitted(SCALE_MAX));
        let cpu = |cpu| CpuModel { cpu, external: scale, internal: scale, error_permille: Some(1000) };
        let event = |name: &str| Some(name.repeat(10));
        let set = CounterSet {
            external: event("external"),
            internal: event("internal"),
            cpus: (0..count).map(cpu).collect(),
        };
        let errors = Some(Errors { mean_permille: 10, worst_permille: 20 });
        let model = CounterModel { errors, loops: Vec::new(), sets: vec![set] };
        Calibration { model: Some(model), ..calibration(count, 60) }
    }

    fn refusal(text: &str) -> String {
        CapacityFile::parse(text).and_then(|file| file.table(&Topology::flat(2))).unwrap_err()
    }

    const BY_HAND: &str = r#"{"version": 1, "cpus": [{"cpu": 0, "cost_permille": [1000, 1000, 1000]},
        {"cpu": 1, "cost_permille": [2500, 1580, 1000]}]}"#;

    #[test]
    fn a_file_written_by_hand_gets_classes_by_cost() {
        let table = CapacityFile::parse(BY_HAND).unwrap().table(&Topology::flat(2)).unwrap();
        assert_eq!(table.get(1).unwrap().class, Class::Slow);
    }

    #[test]
    fn a_written_file_reads_back_and_is_private() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new/capacity.json");
        let calibration = calibration(2, 40);
        let file = CapacityFile::of(&calibration, &Topology::flat(2));
        file.write(&path).unwrap();
        file.write(&path).unwrap();
        let read = CapacityFile::read(&path).unwrap();
        assert_eq!(read, file);
        assert_eq!(read.table(&Topology::flat(2)).unwrap(), calibration.table);
        assert_eq!(read.samples(), calibration.samples);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn the_scales_of_the_counters_are_kept_and_older_files_have_none() {
        let text = CapacityFile::of(&counted(2), &Topology::flat(2)).to_text().unwrap();
        assert_eq!(CapacityFile::parse(&text).unwrap().model, counted(2).model);
        assert_eq!(CapacityFile::parse(BY_HAND).unwrap().model, None);
        let older = CapacityFile::of(&calibration(2, 40), &Topology::flat(2)).to_text().unwrap();
        assert!(!older.contains("\"model\":"));
        assert_eq!(CapacityFile::parse(&older).unwrap().model, None);
        let wild = text.replacen(&SCALE_MAX.to_string(), "0", 1);
        assert!(refusal(&wild).contains("CPU 0 has a counter of scale 0; give"));
        assert!(refusal(&text.replacen("\"sets\"", "\"set\"", 1)).contains("unknown field"));
    }

    #[test]
    fn sibling_factors_are_kept_and_older_files_get_defaults() {
        let topology = smt(4);
        let mut calibration = calibration(4, 40);
        for entry in &mut calibration.table.cpus {
            (entry.core, entry.shared_permille) = (entry.cpu / 2 * 2, [1710, 1020, 1000]);
        }
        let text = CapacityFile::of(&calibration, &topology).to_text().unwrap();
        assert_eq!(CapacityFile::parse(&text).unwrap().table(&topology).unwrap(), calibration.table);
        let usual = CapacityFile::parse(BY_HAND).unwrap().table(&smt(2)).unwrap();
        assert!(usual.cpus.iter().all(|entry| entry.shared_permille == SHARED_DEFAULT));
        // A CPU whose sibling is offline has its core to itself.
        let alone = CapacityFile::parse(&text).unwrap().table(&Topology::flat(4)).unwrap();
        assert!(alone.cpus.iter().all(|entry| entry.shared_permille == [SHARED_NONE; COMPONENTS]));
        let wild = CapacityFile::parse(&text.replace("1710", "4001")).unwrap().table(&topology).unwrap_err();
        assert!(wild.contains("shared execute factor of 4001"), "{wild}");
    }

    #[test]
    fn the_file_of_the_largest_machine_fits_the_read_limit() {
        let text = CapacityFile::of(&counted(1024), &Topology::flat(1024)).to_text().unwrap();
        assert!(text.len() as u64 <= safefile::MAX_BYTES, "{} bytes", text.len());
    }

    #[test]
    fn errors_name_the_fault_and_the_remedy() {
        assert!(refusal("").contains("calibrate --output"));
        assert!(refusal(r#"{"version": 3, "cpus": []}"#).contains("has version 3"));
        assert!(refusal(r#"{"version": 1, "cpus": [], "cpu": 1}"#).contains("unknown field"));
        assert!(refusal(r#"{"version": 1, "cpus": []}"#).contains("CPU 0 is online but not listed"));
        assert!(
            refusal(&BY_HAND.replace("\"cpu\": 1", "\"cpu\": 0")).contains("CPU 1 is online but not listed")
        );
        assert!(refusal(&BY_HAND.replace("2500", "25")).contains("execute cost 25"));
        assert!(refusal(&BY_HAND.replace("2500", "-1")).contains("invalid value"));
        let some = BY_HAND.replace("\"cpu\": 1,", "\"cpu\": 1, \"class\": \"slow\",");
        assert!(refusal(&some).contains("for all or for none"));
        let third = BY_HAND.replace("]}]}", "]}, {\"cpu\": 7, \"cost_permille\": [1000, 1000, 1000]}]}");
        assert!(refusal(&third).contains("CPU 7, which this machine does not have (0-1)"));
    }

    #[test]
    fn deep_nesting_is_refused_not_followed() {
        assert!(refusal(&"[".repeat(100_000)).contains("calibrate --output"));
    }

    #[test]
    fn a_directory_is_not_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let failure =
            CapacityFile::of(&calibration(1, 9), &Topology::flat(1)).write(directory.path()).unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
    }

    #[test]
    fn a_device_or_a_fifo_is_not_replaced() {
        use std::os::unix::fs::FileTypeExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fifo");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRUSR).unwrap();
        let failure = CapacityFile::of(&calibration(1, 9), &Topology::flat(1)).write(&path).unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        assert!(failure.message.ends_with("is a FIFO; name a file"), "{}", failure.message);
        assert!(path.metadata().unwrap().file_type().is_fifo());
    }

    proptest! {
        #[test]
        fn damaged_files_never_panic(at in 0usize..140, byte in 0u8..128) {
            let mut bytes = BY_HAND.as_bytes().to_vec();
            let at = at % bytes.len();
            bytes[at] = byte;
            let text = String::from_utf8(bytes).unwrap();
            if let Ok(table) = CapacityFile::parse(&text).and_then(|file| file.table(&Topology::flat(2))) {
                prop_assert!(table.check().is_ok());
            }
        }
    }

    #[test]
    fn a_sandbox_that_forbids_syncing_keeps_the_table() {
        let error = std::io::Error::from_raw_os_error;
        assert!(unless_forbidden(error(nix::libc::EPERM)).is_ok());
        assert!(unless_forbidden(error(nix::libc::ENOSPC)).is_err());
    }
}
