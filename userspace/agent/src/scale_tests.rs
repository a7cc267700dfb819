// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Cost of a start on the largest machine: 1024 fake CPUs, each with another cost.

#![allow(clippy::unwrap_used)]

use crate::calibrate::{Conditions, evaluate};
use crate::costs::Live;
use crate::pmu::fake::{FakeOpener, FakeSysfs};
use crate::pmu::{Counters, Options};
use crate::recal::{Recalibrator, references};
use crate::store::CapacityFile;
use crate::swaps::{SwapOptions, Swaps};
use crate::topology::Topology;
use bias_policy::classes::{CpuSamples, SplitRule};
use std::fs;
use std::path::PathBuf;
use std::time::Instant;

const CPUS: u32 = 1024;

/// A machine of 1024 CPUs: two per core, 16 per cache, 128 per node.
fn machine() -> FakeSysfs {
    let machine = FakeSysfs::amd_of(CPUS, 0x1a, 0x02);
    for name in ["online", "possible"] {
        machine.write(&format!("sys/devices/system/cpu/{name}"), &format!("0-{}", CPUS - 1));
    }
    for cpu in 0..CPUS {
        let own = format!("sys/devices/system/cpu/cpu{cpu}");
        let group = |size: u32| format!("{}-{}", cpu / size * size, cpu / size * size + size - 1);
        machine.write(&format!("{own}/topology/core_cpus_list"), &group(2));
        machine.write(&format!("{own}/topology/package_cpus_list"), &group(512));
        for (index, level, size) in [(0, 1, 2), (2, 2, 2), (3, 3, 16)] {
            machine.write(&format!("{own}/cache/index{index}/level"), &level.to_string());
            machine.write(&format!("{own}/cache/index{index}/type"), "Unified");
            machine.write(&format!("{own}/cache/index{index}/shared_cpu_list"), &group(size));
            machine.write(&format!("{own}/cache/index{index}/size"), "32768K");
        }
        machine.write(&format!("{own}/node{}/cpulist", cpu / 128), &group(128));
    }
    machine
}

/// The stored table of `machine`, where each CPU is a little slower than the previous one.
fn stored(machine: &FakeSysfs, topology: &Topology) -> PathBuf {
    let times = |cpu: u32, weight: u32| {
        (0..60).map(|i| f64::from(100_000 + cpu * weight + i % 7)).collect::<Vec<_>>()
    };
    let samples = (0..CPUS).map(|cpu| CpuSamples { cpu, times: [200, 100, 0].map(|by| times(cpu, by)) });
    let calibration =
        evaluate(&topology.cpus, samples.collect(), Conditions::made_up(), SplitRule::default()).unwrap();
    let path = machine.root().join("capacity.json");
    CapacityFile::of(&calibration, topology).write(&path).unwrap();
    path
}

/// Return the largest memory that this process has had [kB].
fn peak_kb() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Start everything but the kernel side. The process also made the table, so its peak memory is an
/// upper bound. Print the time, which depends on the host.
#[test]
fn a_start_with_1024_cpus_stays_small() {
    let machine = machine();
    let path = stored(&machine, &Topology::read_from(&machine.root().join("sys")).unwrap());
    let kernel = FakeOpener::new(|_| None);
    let began = Instant::now();
    let topology = Topology::read_from(&machine.root().join("sys")).unwrap();
    assert_eq!((topology.cpus.len(), topology.cpus[1023].node, topology.cpus[1023].core), (1024, 7, 1022));
    let counters = Counters::open_by(&kernel, machine.root(), &topology, &Options::default());
    let file = CapacityFile::read(&path).unwrap();
    let table = file.table(&topology).unwrap();
    let live = Live::new(table.clone());
    let swaps = Swaps::new(&live, true, &SwapOptions::default());
    let recal = Recalibrator::start(&table, references(&file), true);
    let took = began.elapsed();
    assert_eq!(counters.groups().count(), 1024);
    assert!(swaps.are_planned() && recal.is_on());
    println!("start with 1024 CPUs: {took:?}, {} MB at most", peak_kb() / 1024);
    assert!(peak_kb() < 100_000, "{} kB", peak_kb());
}
