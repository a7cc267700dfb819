// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of verdicts and their consequences on made-up machines.

#![allow(clippy::unwrap_used, clippy::panic)]

use super::super::Options;
use super::super::fake::{FakeOpener, FakeSysfs};
use super::super::roles::ROLES;
use super::*;
use proptest::prelude::*;

fn delta(counts: [u64; 4]) -> Delta {
    Delta { counts: counts.map(Some), enabled: 10, running: 10, backwards: false }
}

#[test]
fn a_counter_that_never_moves_is_absent() {
    let moved = delta([9, 9, 9, 9]);
    assert_eq!(judge(&moved, &moved), ProbeVerdict::Sound);
    // A counter that moves in one of the two pieces of work moves.
    assert_eq!(judge(&delta([9, 9, 9, 0]), &delta([9, 9, 0, 9])), ProbeVerdict::Sound);
    let only =
        |external, internal| judge(&delta([9, 9, external, internal]), &delta([9, 9, external, internal]));
    assert_eq!(only(0, 1), ProbeVerdict::Absent { external: true, internal: false });
    assert_eq!(only(1, 0), ProbeVerdict::Absent { external: false, internal: true });
    // A slot without a counter does not count as one that stands still.
    let without = Delta { counts: [Some(9), Some(9), Some(9), None], ..moved };
    assert_eq!(judge(&without, &without), ProbeVerdict::Sound);
}

#[test]
fn without_cycles_or_instructions_nothing_is_known() {
    let says = |one: Delta| match judge(&one, &one) {
        ProbeVerdict::Dead(why) => why,
        other => panic!("{other:?}"),
    };
    assert!(says(delta([0, 9, 9, 9])).contains("cycles stay at zero"));
    assert!(says(delta([9, 0, 9, 9])).contains("instructions stay at zero"));
    assert!(says(Delta { running: 0, ..delta([9; 4]) }).contains("multiplexing never gave"));
}

/// Counters that perf multiplexes with a profiler's may miss a short piece of work.
#[test]
fn work_is_repeated_until_the_counters_had_a_turn() {
    let after = |turns: usize| {
        let worked = std::cell::Cell::new(0);
        let read = || {
            let ran = worked.get() >= turns;
            let count = if ran { 5 } else { 0 };
            Some(CounterReading {
                counts: [Some(count); ROLES],
                enabled: worked.get() as u64,
                running: u64::from(ran),
            })
        };
        let delta = counted(&read, &|| worked.set(worked.get() + 1)).unwrap();
        (worked.get(), delta.running)
    };
    assert_eq!(after(1), (1, 1));
    assert_eq!(after(5), (5, 1));
    assert_eq!(after(usize::MAX), (TURNS, 0), "it ends, and tells that there was none");
    assert_eq!(counted(&|| None, &|| {}), None);
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
fn a_dead_memory_event_is_followed_by_the_next() {
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
        let count = |event: &crate::pmu::PerfEvent| u64::from(event.name != dead);
        let counts = group.events.each_ref().map(|event| event.as_ref().map(count));
        let delta = Delta { counts, enabled: 10, running: 10, backwards: false };
        let event = group.event(Role::External).unwrap().id();
        Probed { cpu: group.cpu, event, external: delta, internal: delta }
    };
    counters.groups().map(seen).collect()
}

#[test]
fn what_calibration_saw_is_not_measured_again() {
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

proptest! {
    #[test]
    fn only_open_counters_at_zero_are_condemned(one: [Option<u64>; 4], other: [Option<u64>; 4], running: u64) {
        let delta = |counts| Delta { counts, enabled: running, running, backwards: false };
        let verdict = judge(&delta(one), &delta(other));
        let zero = |slot: usize| one[slot] == Some(0) && other[slot] == Some(0);
        match verdict {
            ProbeVerdict::Sound => prop_assert!(running > 0 && !(0..4).any(zero)),
            ProbeVerdict::Absent { external, internal } => {
                prop_assert!(external == zero(2) && internal == zero(3) && (external || internal));
            }
            ProbeVerdict::Dead(_) => prop_assert!(running == 0 || zero(0) || zero(1)),
        }
    }
}
