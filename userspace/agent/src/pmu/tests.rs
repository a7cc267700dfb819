// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of whole machines: fake ones, and this machine's software events.

#![allow(clippy::unwrap_used)]

use super::events::ROLES;
use super::fake::{FakeOpener, FakeSysfs};
use super::*;
use crate::topology::Topology;
use bias_policy::model::Scale;
use nix::errno::Errno;
use std::sync::Mutex;

/// Lock of the tests that open real events, so that they can count descriptors.
static REAL: Mutex<()> = Mutex::new(());

fn open(machine: &FakeSysfs, kernel: &FakeOpener<'_>, named: &[&str]) -> Counters {
    let events = named.iter().map(|text| text.parse().unwrap()).collect();
    let options = Options { events, enabled: true };
    let counters = Counters::open_by(kernel, machine.root(), &machine.topology, &options);
    for summary in counters.summary() {
        let group = counters.cpu(summary.cpu);
        assert_eq!(group.is_none(), matches!(summary.source, CounterState::Unknown { .. }));
        assert_eq!(summary.events.len(), group.map_or(0, |group| group.fds().iter().flatten().count()));
        assert!(
            summary.source.reason().is_none_or(|why| !why.contains('\n') && why.contains(';')),
            "{summary:?}"
        );
    }
    counters
}

fn sources(counters: &Counters) -> String {
    let name = |summary: &CpuSummary| match summary.source {
        CounterState::Full => 'F',
        CounterState::Degraded { .. } => 'D',
        CounterState::Unknown { .. } => 'U',
    };
    counters.summary().iter().map(name).collect()
}

#[test]
fn every_kind_of_machine_opens_all_counters() {
    for machine in
        [FakeSysfs::hybrid(), FakeSysfs::big_little(), FakeSysfs::amd(0x1a, 0x44), FakeSysfs::amp()]
    {
        let kernel = FakeOpener::new(|_| None);
        let counters = open(&machine, &kernel, &[]);
        let cpus = machine.topology.cpus.len();
        assert_eq!(sources(&counters), "F".repeat(cpus));
        assert_eq!((kernel.alive(), counters.groups().count()), (4 * cpus, cpus));
        drop(counters);
        assert_eq!(kernel.alive(), 0);
    }
}

#[test]
fn counters_reopen_on_cpus_that_come_back_and_not_on_offline_ones() {
    let machine = FakeSysfs::hybrid();
    let kernel = FakeOpener::new(|_| None);
    let mut counters = open(&machine, &kernel, &[]);
    let without = |gone: u32| {
        let cpus = machine.topology.cpus.iter().filter(|cpu| cpu.cpu != gone).cloned().collect();
        Topology { cpus, ..machine.topology.clone() }
    };
    // CPU 1 is offline again when the topology is read; CPU 2 came back.
    counters.reopen_by(&kernel, machine.root(), &[1, 2], &without(1), &Options::default());
    assert_eq!(sources(&counters), "FUFF");
    assert!(counters.of(1).unwrap().source.reason().unwrap().contains("offline; bring it online"));
    assert_eq!((kernel.alive(), kernel.opened()[&2].len()), (12, 8));
    counters.reopen_by(&kernel, machine.root(), &[1], &machine.topology, &Options::default());
    assert_eq!((sources(&counters).as_str(), kernel.alive()), ("FFFF", 16));
}

#[test]
fn a_hybrid_opens_on_each_cpus_own_pmu() {
    let kernel = FakeOpener::new(|_| None);
    let counters = open(&FakeSysfs::hybrid(), &kernel, &[]);
    let opened = kernel.opened();
    assert!(opened[&1].iter().all(|(kind, _)| *kind == 4) && opened[&2].iter().all(|(kind, _)| *kind == 10));
    assert_eq!(counters.cpu(3).unwrap().unit(Role::Internal), Some(Unit::Slots { width: 5 }));
    assert_eq!(counters.cpu(9).map(Group::cpu), None);
}

/// A kernel that supports generic cycles, instructions and the events in `known`.
fn generic_only<'a>(known: &'a [u64]) -> impl Fn(&PerfEvent) -> Option<i32> + 'a {
    |event| {
        let generic = event.kind == 0 && known.contains(&(event.config[0] & 0xffff_ffff));
        (!generic).then_some(Errno::ENOENT as i32)
    }
}

#[test]
fn events_that_cannot_be_opened_degrade_in_order() {
    let machine = FakeSysfs::hybrid();
    let kernel = FakeOpener::new(generic_only(&[0, 1, 3, 7, 8]));
    assert_eq!(sources(&open(&machine, &kernel, &[])), "FFFF");
    let kernel = FakeOpener::new(generic_only(&[0, 1, 3, 8]));
    let counters = open(&machine, &kernel, &[]);
    let reason = counters.of(0).unwrap().source.reason().unwrap().to_owned();
    assert!(
        reason.starts_with("internal stalls are not counted: the PMU of this CPU has no event CPU_CLK"),
        "{reason}"
    );
    let kernel = FakeOpener::new(generic_only(&[0, 1, 3]));
    let counters = open(&machine, &kernel, &[]);
    assert_eq!(sources(&counters), "DDDD");
    let group = counters.cpu(2).unwrap();
    assert_eq!((group.unit(Role::External), group.unit(Role::Internal)), (Some(Unit::Misses), None));
    assert!(group.fds()[3].is_none());
    let kernel = FakeOpener::new(generic_only(&[0, 1]));
    assert_eq!(sources(&open(&machine, &kernel, &[])), "UUUU");
    assert_eq!(kernel.alive(), 0);
}

#[test]
fn misses_in_the_table_are_degraded_too() {
    let kernel = FakeOpener::new(|_| None);
    let counters = open(&FakeSysfs::amd(0x19, 0x21), &kernel, &[]);
    assert_eq!(sources(&counters), "DD");
    assert!(counters.of(0).unwrap().source.reason().unwrap().contains("counted as misses"));
}

#[test]
fn a_pmu_on_one_cpu_leaves_the_others_unknown() {
    let machine = FakeSysfs::new(3);
    machine.pmu("cpu", &[("type", "4"), ("cpus", "1")]);
    let kernel = FakeOpener::new(|_| None);
    assert_eq!(sources(&open(&machine, &kernel, &[])), "UFU");
    let none = FakeSysfs::new(2);
    assert_eq!(sources(&open(&none, &kernel, &[])), "UU");
}

#[test]
fn the_users_event_is_never_replaced() {
    let machine = FakeSysfs::hybrid();
    let kernel = FakeOpener::new(|event| (event.config[0] == 0x77).then_some(Errno::EINVAL as i32));
    let counters = open(&machine, &kernel, &["external=cpu_core/event=0x77/"]);
    assert_eq!(sources(&counters), "UUFF");
    assert!(
        counters.of(0).unwrap().source.reason().unwrap().contains("does not accept cpu_core/event=0x77/")
    );
}

#[test]
fn without_permission_or_with_counting_disabled_all_are_unknown() {
    let machine = FakeSysfs::hybrid();
    let kernel = FakeOpener::new(|_| Some(Errno::EACCES as i32));
    let counters = open(&machine, &kernel, &[]);
    assert_eq!(sources(&counters), "UUUU");
    assert!(counters.of(3).unwrap().source.reason().unwrap().contains("CAP_PERFMON"));
    let off = Options { enabled: false, ..Options::default() };
    assert_eq!(sources(&Counters::open_by(&kernel, machine.root(), &machine.topology, &off)), "UUUU");
}

#[test]
fn the_summary_is_plain_data() {
    let kernel = FakeOpener::new(|_| None);
    let counters = open(&FakeSysfs::amp(), &kernel, &[]);
    let json = serde_json::to_value(counters.summary()).unwrap();
    assert_eq!(json[1]["source"], "full");
    assert_eq!(json[1]["origin"], "table: asymmetric VM");
    assert_eq!(json[1]["events"][2]["role"], "external");
    assert_eq!(json[1]["events"][2]["name"], "stall_external");
    assert_eq!(json[1]["events"][2]["unit"], "cycles");
    let unknown = open(&FakeSysfs::new(1), &kernel, &[]);
    let json = serde_json::to_value(unknown.summary()).unwrap();
    assert!(json[0]["source"] == "unknown" && json[0]["reason"].as_str().unwrap().contains("no PMU"));
}

/// Open a machine and probe it with the counts that `count` gives each event.
fn probed(machine: &FakeSysfs, kernel: &FakeOpener<'_>, count: impl Fn(&str) -> u64 + Sync) -> Counters {
    let mut counters = Counters::open_by(kernel, machine.root(), &machine.topology, &Options::default());
    counters.probe_by(kernel, &|group| {
        let counts = group.events.each_ref().map(|event| event.as_ref().map(|event| count(&event.name)));
        let delta = Delta { counts, enabled: 10, running: 10, backwards: false };
        Some((delta, delta))
    });
    counters
}

#[test]
fn the_next_memory_event_replaces_a_dead_one() {
    let machine = FakeSysfs::hybrid();
    let kernel = FakeOpener::new(|_| None);
    let counters = probed(&machine, &kernel, |name| {
        u64::from(!name.ends_with("STALLS_L3_MISS") && !name.contains("DRAM"))
    });
    let external = |cpu: u32| counters.cpu(cpu).unwrap().events[2].clone().unwrap().name;
    assert_eq!(
        (external(0).as_str(), external(2).as_str()),
        ("EXE_ACTIVITY.BOUND_ON_LOADS", "stalled-cycles-backend")
    );
    assert_eq!(kernel.alive(), 4 * ROLES);
    // Full again: both are stall time.
    assert_eq!(counters.of(0).unwrap().source, CounterState::Full);
}

#[test]
fn misses_are_the_last_resort_and_say_why() {
    let machine = FakeSysfs::amd(0x1a, 0x44);
    let kernel = FakeOpener::new(|_| None);
    let stalls = ["ex_no_retire.load_not_complete", "stalled-cycles-backend"];
    let counters = probed(&machine, &kernel, |name| u64::from(!stalls.contains(&name)));
    let reason = counters.of(1).unwrap().source.reason().unwrap();
    assert!(reason.contains("counted as misses: stalled-cycles-backend stays at zero"), "{reason}");
    assert_eq!(counters.cpu(1).unwrap().origin, "generic misses and front-end stalls");
}

#[test]
fn a_machine_that_counts_nothing_ends_unknown_with_nothing_open() {
    let machine = FakeSysfs::big_little();
    let kernel = FakeOpener::new(|_| None);
    let counters = probed(&machine, &kernel, |_| 0);
    assert!(counters.summary().iter().all(|s| matches!(s.source, CounterState::Unknown { .. })));
    assert_eq!(kernel.alive(), 0);
    // Only cycles and instructions count: every plan is tried.
    let counters = probed(&machine, &kernel, |name| {
        u64::from(matches!(name, "CPU_CYCLES" | "INST_RETIRED" | "cycles" | "instructions"))
    });
    let reason = counters.of(0).unwrap().source.reason().unwrap();
    assert!(reason.contains("stays at zero") && reason.contains("no other events are known"), "{reason}");
    assert_eq!(kernel.alive(), 0);
}

#[test]
fn a_cpu_that_cannot_be_measured_keeps_its_counters() {
    let machine = FakeSysfs::hybrid();
    let kernel = FakeOpener::new(|_| None);
    let mut counters = Counters::open_by(&kernel, machine.root(), &machine.topology, &Options::default());
    counters.probe_by(&kernel, &|_| None);
    assert_eq!(counters.groups().count(), 4);
    assert_eq!(counters.of(0).unwrap().source, CounterState::Full);
}

/// Counts that a calibration would have seen of the open counters: every event moves except `dead`.
fn seen_by_calibration(counters: &Counters, dead: &str) -> Vec<Probed> {
    let seen = |group: &Group| {
        let count = |event: &PerfEvent| u64::from(event.name != dead);
        let counts = group.events.each_ref().map(|event| event.as_ref().map(count));
        let delta = Delta { counts, enabled: 10, running: 10, backwards: false };
        let event = group.event(Role::External).unwrap().id();
        Probed { cpu: group.cpu, event, external: delta, internal: delta }
    };
    counters.groups().map(seen).collect()
}

#[test]
fn counters_that_calibration_saw_are_not_measured_again() {
    let machine = FakeSysfs::hybrid();
    let kernel = FakeOpener::new(|_| None);
    let open = || Counters::open_by(&kernel, machine.root(), &machine.topology, &Options::default());
    let dead = "MEM_BOUND_STALLS.LOAD_DRAM_HIT";
    let mut counters = open();
    let seen = seen_by_calibration(&counters, dead);
    let measured = Mutex::new(Vec::new());
    counters.probe_by(&kernel, &|group| {
        let both = seen_of(&seen, group);
        if both.is_none() {
            measured.lock().unwrap().push((group.cpu, group.event(Role::External).unwrap().name.clone()));
        }
        both
    });
    // The large cores keep their events; the small ones got others, which the calibration did not
    // count.
    let mut measured = measured.into_inner().unwrap();
    measured.sort();
    assert_eq!(measured.iter().map(|(cpu, _)| *cpu).collect::<Vec<_>>(), [2, 3]);
    assert!(measured.iter().all(|(_, event)| event != dead), "{measured:?}");
    assert_eq!(counters.of(0).unwrap().source, CounterState::Full);
    assert!(counters.cpu(2).is_some_and(|group| group.event(Role::External).unwrap().name != dead));
    // There are no counts of another machine's CPUs.
    assert_eq!(seen_of(&[], open().cpu(0).unwrap()), None);
}

/// Count this process's descriptors of performance events.
fn perf_descriptors() -> usize {
    let fds = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    fds.filter(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to.ends_with("anon_inode:[perf_event]")))
        .count()
}

/// Open this machine's software events in the roles of counters; None where the kernel forbids it.
fn real(named: &[&str]) -> Option<Counters> {
    let events: Vec<Override> = named.iter().map(|text| text.parse().unwrap()).collect();
    events::check(&events).unwrap();
    let counters = Counters::open(&Topology::read().unwrap(), &Options { events, enabled: true });
    let forbidden =
        counters.summary().iter().any(|s| s.source.reason().is_some_and(|why| why.contains("CAP_PERFMON")));
    if forbidden {
        eprintln!("skipped: this user may not count on whole CPUs");
    }
    (!forbidden).then_some(counters)
}

/// cpu-clock, task-clock, cpu-clock, and emulation faults, which never move.
const SOFTWARE: [&str; 4] = [
    "cycles=software/config=0/",
    "instructions=software/config=1/",
    "external=software/config=0/",
    "internal=software/config=8/",
];

fn spin() {
    crate::loops::execute(200_000);
}

#[test]
fn software_events_are_opened_read_and_closed() {
    let _turn = REAL.lock().unwrap();
    let before = perf_descriptors();
    let Some(counters) = real(&SOFTWARE) else { return };
    assert_eq!(perf_descriptors() - before, 4 * counters.summary().len());
    for group in counters.groups() {
        let one = group.read().unwrap();
        spin();
        std::thread::sleep(std::time::Duration::from_millis(2));
        let delta = group.read().unwrap().since(&one);
        assert!(delta.count(Role::Cycles).unwrap() >= 2_000_000 && !delta.backwards, "{delta:?}");
        assert!(delta.enabled > 0 && delta.running == delta.enabled, "{delta:?}");
        assert_eq!(delta.count(Role::Internal), Some(0));
    }
    drop(counters);
    assert_eq!(perf_descriptors(), before);
}

#[test]
fn a_real_counter_that_stands_still_is_closed() {
    let _turn = REAL.lock().unwrap();
    let before = perf_descriptors();
    let Some(mut counters) = real(&SOFTWARE) else { return };
    assert!(sources(&counters).chars().all(|source| source == 'F'));
    counters.probe_at_start(&[], 1 << 20);
    for summary in counters.summary() {
        let reason = summary.source.reason().unwrap();
        assert!(reason.contains("software/config=0x8/ stays at zero"), "{reason}");
        assert_eq!(counters.cpu(summary.cpu).unwrap().read().unwrap().counts[3], None);
    }
    assert_eq!(perf_descriptors() - before, 3 * counters.summary().len());
}

#[test]
fn calibration_counts_its_loops_and_reports_still_counters() {
    let _turn = REAL.lock().unwrap();
    let Some(mut counters) = real(&SOFTWARE) else { return };
    let topology = Topology::read().unwrap();
    let settings = crate::calibrate::Settings {
        rounds: 2,
        visit: Some(std::time::Duration::from_millis(6)),
        chunk: std::time::Duration::from_micros(100),
        external_bytes: Some(1 << 20),
        ..Default::default()
    };
    let calibration = crate::calibrate::calibrate(&topology, &settings, &counters, &|_, _| ()).unwrap();
    let model = calibration.model.unwrap();
    assert_eq!(model.sets.iter().map(|set| set.cpus.len()).sum::<usize>(), topology.cpus.len());
    // A clock ticks equally fast in every loop, so it follows no stall. Faults of emulation never
    // happen.
    for cpu in &model.sets[0].cpus {
        assert!(matches!(cpu.external, Some(Scale::Unrelated | Scale::Unclear)), "{cpu:?}");
        assert_eq!(cpu.internal, Some(Scale::Still));
    }
    assert_eq!(calibration.seen.len(), topology.cpus.len());
    counters.probe_at_start(&calibration.seen, topology.llc_bytes);
    assert!(counters.groups().all(|group| group.unit(Role::Internal).is_none()));
}

#[test]
fn a_start_without_calibration_probes_in_milliseconds() {
    let _turn = REAL.lock().unwrap();
    let Some(mut counters) = real(&SOFTWARE) else { return };
    let start = std::time::Instant::now();
    counters.probe_at_start(&[], 1 << 30);
    // The clock moves over the small set, so the large one is never built.
    assert!(start.elapsed().as_secs() < 5, "{:?}", start.elapsed());
    eprintln!("probed in {:?}", start.elapsed());
    assert!(counters.groups().all(|group| group.unit(Role::Internal).is_none()));
}

#[test]
fn this_machines_counters_leak_no_descriptor() {
    let _turn = REAL.lock().unwrap();
    let before = perf_descriptors();
    let topology = Topology::read().unwrap();
    let counters = Counters::open(&topology, &Options::default());
    assert_eq!(counters.summary().len(), topology.cpus.len());
    drop(counters);
    assert_eq!(perf_descriptors(), before);
}
