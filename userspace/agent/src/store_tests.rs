// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of the capacity file.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::calibrate::evaluate;
use crate::counter_model::{CounterModel, CounterSet};
use crate::failure::Exit;
use crate::topology::Cpu;
use bias_policy::model::{CpuModel, Errors, SCALE_MAX, Scale};
use proptest::prelude::*;
use std::os::unix::fs::PermissionsExt;

fn topology(count: u32) -> Topology {
    let cpus = (0..count).map(|cpu| Cpu { cpu, core: cpu, llc: 0, node: 0 });
    Topology { cpus: cpus.collect(), possible: (0..count).collect(), llc_bytes: 0 }
}

/// A topology like [`topology`], with two CPUs per core.
fn smt(count: u32) -> Topology {
    let mut topology = topology(count);
    for cpu in &mut topology.cpus {
        cpu.core = cpu.cpu / 2 * 2;
    }
    topology
}

fn calibration(count: u32, samples: u32) -> Calibration {
    let times = |factor: u32| (0..samples).map(|i| f64::from(factor * (100 + i % 7))).collect::<Vec<_>>();
    let cpus = (0..count).map(|cpu| CpuSamples { cpu, times: [times(1 + cpu % 2), times(1), times(1)] });
    evaluate(&topology(count).cpus, cpus.collect(), Conditions::made_up(), SplitRule::default()).unwrap()
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
    CapacityFile::parse(text).and_then(|file| file.table(&topology(2))).unwrap_err()
}

const BY_HAND: &str = r#"{"version": 1, "cpus": [{"cpu": 0, "cost_permille": [1000, 1000, 1000]},
    {"cpu": 1, "cost_permille": [2500, 1580, 1000]}]}"#;

#[test]
fn a_file_written_by_hand_gets_classes_by_cost() {
    let table = CapacityFile::parse(BY_HAND).unwrap().table(&topology(2)).unwrap();
    assert_eq!(table.get(1).unwrap().class, Class::Slow);
}

#[test]
fn a_written_file_reads_back_and_is_private() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("new/capacity.json");
    let calibration = calibration(2, 40);
    let file = CapacityFile::of(&calibration, &topology(2));
    file.write(&path).unwrap();
    file.write(&path).unwrap();
    let read = CapacityFile::read(&path).unwrap();
    assert_eq!(read, file);
    assert_eq!(read.table(&topology(2)).unwrap(), calibration.table);
    assert_eq!(read.samples(), calibration.samples);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn the_scales_of_the_counters_are_kept_and_older_files_have_none() {
    let text = CapacityFile::of(&counted(2), &topology(2)).to_text().unwrap();
    assert_eq!(CapacityFile::parse(&text).unwrap().model, counted(2).model);
    assert_eq!(CapacityFile::parse(BY_HAND).unwrap().model, None);
    let older = CapacityFile::of(&calibration(2, 40), &topology(2)).to_text().unwrap();
    assert!(!older.contains("\"model\":"));
    assert_eq!(CapacityFile::parse(&older).unwrap().model, None);
    let wild = text.replacen(&SCALE_MAX.to_string(), "0", 1);
    assert!(refusal(&wild).contains("CPU 0 has a counter of scale 0; give"));
    assert!(refusal(&text.replacen("\"sets\"", "\"set\"", 1)).contains("unknown field"));
}

#[test]
fn what_siblings_cost_each_other_is_kept_and_older_files_get_the_usual() {
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
    let alone = CapacityFile::parse(&text).unwrap().table(&self::topology(4)).unwrap();
    assert!(alone.cpus.iter().all(|entry| entry.shared_permille == [SHARED_NONE; COMPONENTS]));
    let wild = CapacityFile::parse(&text.replace("1710", "4001")).unwrap().table(&topology).unwrap_err();
    assert!(wild.contains("shared execute factor of 4001"), "{wild}");
}

#[test]
fn the_largest_machine_fits_the_limit_of_reading() {
    let text = CapacityFile::of(&counted(1024), &topology(1024)).to_text().unwrap();
    assert!(text.len() as u64 <= safefile::MAX_BYTES, "{} bytes", text.len());
}

#[test]
fn says_what_is_wrong_and_what_to_do() {
    assert!(refusal("").contains("calibrate --output"));
    assert!(refusal(r#"{"version": 3, "cpus": []}"#).contains("has version 3"));
    assert!(refusal(r#"{"version": 1, "cpus": [], "cpu": 1}"#).contains("unknown field"));
    assert!(refusal(r#"{"version": 1, "cpus": []}"#).contains("CPU 0 is online but not listed"));
    assert!(refusal(&BY_HAND.replace("\"cpu\": 1", "\"cpu\": 0")).contains("CPU 1 is online but not listed"));
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
    let failure = CapacityFile::of(&calibration(1, 9), &topology(1)).write(directory.path()).unwrap_err();
    assert_eq!(failure.exit, Exit::Usage);
}

#[test]
fn a_device_or_a_fifo_is_not_replaced() {
    use std::os::unix::fs::FileTypeExt;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fifo");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRUSR).unwrap();
    let failure = CapacityFile::of(&calibration(1, 9), &topology(1)).write(&path).unwrap_err();
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
        if let Ok(table) = CapacityFile::parse(&text).and_then(|file| file.table(&topology(2))) {
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
