// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of parsing, and one very short run of every workload.

use super::*;
use crate::counters;
use crate::solo::Solo;
use crate::spec::WorkKind;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::time::Duration;

/// One of each workload, as small as possible, without third-party programs.
const SAMPLES: [&str; 16] = [
    "1compute+1branchy",
    "shuffled:20+1compute+1branchy",
    "interleaved+1compute+1chase:64K",
    "interactive:100+1compute",
    "wakeup:2",
    "pingpong",
    "pingpong:2",
    "groups:1",
    "forks:1",
    "barrier:2",
    "barrier:2:static",
    "barrier:2:dynamic",
    "triad:2",
    "omp:2:dynamic:16",
    "omp:1:reduction",
    "omp:2:triad@pinned",
];

/// Return solo rates without measuring. Metrics are relative to them, and the tests check only
/// their presence.
fn solo(kinds: &[WorkKind]) -> Solo {
    Solo {
        schema: String::new(),
        boot_id: String::new(),
        cpu_speed: BTreeMap::from([(0, 1.0)]),
        fast_cpus: vec![0],
        rates: kinds.iter().map(|kind| (kind.to_string(), 1e6)).collect(),
    }
}

fn run_briefly(text: &str) -> Measured {
    let workload = parse(text).unwrap();
    let solo = solo(&workload.kinds());
    let env = Env {
        solo: &solo,
        warmup: Duration::from_millis(10),
        window: Duration::from_millis(100),
        stretch: 1.0,
        pins: None,
    };
    workload.run(&env).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Return the metrics that the list promises for this workload.
fn promised(text: &str) -> BTreeSet<String> {
    let head = text.split([':', '+', '@']).next().unwrap();
    let of_head = |d: &Description| d.name == text || d.name == head;
    let description = list().into_iter().find(of_head).unwrap_or(mix::DESCRIPTION);
    let with_pmu = if counters::available() { description.with_pmu } else { &[] };
    let mut names = BTreeSet::new();
    for name in description.metrics.iter().chain(with_pmu) {
        match name.strip_suffix("<kind>") {
            Some(prefix) => {
                names.extend(parse(text).unwrap().kinds().iter().map(|kind| format!("{prefix}{kind}")));
            }
            None => {
                names.insert(name.to_string());
            }
        }
    }
    names
}

#[test]
fn every_workload_yields_exactly_the_metrics_it_promises() {
    for text in SAMPLES {
        let outcome = run_briefly(text);
        let found: BTreeSet<String> = outcome.metrics.keys().cloned().collect();
        assert_eq!(found, promised(text), "{text}");
        assert!(
            outcome.metrics.values().all(|value| value.is_finite() && *value >= 0.0),
            "{text}: {outcome:?}"
        );
        assert!(outcome.detail.is_object(), "{text}");
    }
}

#[test]
fn sqlite_runs_if_installed_and_otherwise_names_the_package() {
    let workload = parse("program:sqlite").unwrap();
    match workload.missing() {
        None => assert!(run_briefly("program:sqlite").metrics["time_ms"] > 0.0),
        Some(why) => assert!(why.contains("install sqlite3"), "{why}"),
    }
}

#[test]
fn the_list_describes_every_workload_that_parses() {
    for description in list() {
        let text = match description.name {
            "mix" => "1compute",
            "shuffled" => "shuffled+1compute",
            "interleaved" => "interleaved+1compute",
            "interactive" => "interactive+1compute",
            "groups" => "groups:1",
            "barrier" => "barrier:2",
            "triad" => "triad:2",
            "omp" => "omp:2:guided",
            "command" => "command:make -j8",
            "program" => "program:xz",
            name => name,
        };
        assert_eq!(parse(text).unwrap().name(), text);
        assert!(!description.metrics.is_empty() && !description.measures.contains("  "), "{description:?}");
    }
}

#[test]
fn invalid_workloads_are_refused_with_the_remedy() {
    for (text, remedy) in [
        ("", "pingpong"),
        ("tuba", "known are compute"),
        ("barrier", "barrier:THREADS"),
        ("barrier:0", "1 to 256 threads"),
        ("barrier:4:guided", "barrier:THREADS:static"),
        ("barrier:04", "1 to 256 threads"),
        ("groups", "groups:N"),
        ("pingpong@x", "pingpong[:PAIRS][@CPU]"),
        ("pingpong:0", "1 to 256 pairs"),
        ("wakeup:", "wakeup:WORKERS"),
        ("forks:1:2", "forks:FORKERS"),
        ("triad:2:1", "triad:THREADS[:SIZE]"),
        ("omp:2", "omp:THREADS:BENCHMARK"),
        ("omp:2:tuba", "omp:THREADS:BENCHMARK"),
        ("omp:2:static@x", "@pinned"),
        ("shuffled", "shuffled+TASKS"),
        ("shuffled:5+compute", "20 to 10000"),
        ("interleaved", "interleaved+TASKS"),
        ("interactive", "interactive+TASKS"),
        ("interactive:5+compute", "100 to 1000000"),
        ("interactive+computer", "known are compute"),
        ("program:make", "program:NAME"),
        ("program", "program:NAME"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.contains(remedy) && !error.contains('\n'), "{text}: {error}");
    }
}

#[test]
fn a_placement_must_fit_the_mix() {
    let workload = parse("2compute").unwrap();
    let solo = solo(&workload.kinds());
    let pins = [None];
    let short = Duration::from_millis(1);
    let env = Env { solo: &solo, warmup: short, window: short, stretch: 1.0, pins: Some(&pins) };
    assert_eq!(workload.run(&env).unwrap_err().exit_code(), 2);
}

proptest! {
    #[test]
    fn names_are_read_back(
        n in 1usize..=20, cpu in 0usize..1024, us in 100usize..=1_000_000, set in 128usize..1 << 30
    ) {
        for text in [
            format!("wakeup:{n}"),
            format!("forks:{n}"),
            format!("groups:{n}"),
            format!("pingpong:{n}@{cpu}"),
            format!("barrier:{n}:static"),
            format!("barrier:{n}:dynamic"),
            format!("triad:{n}:{set}"),
            format!("omp:{n}:guided:{us}"),
            format!("omp:{n}:dot@pinned"),
            format!("{n}compute+{n}chase:{set}"),
            format!("interactive:{us}+{n}phases:{}", 50 + n),
            format!("shuffled:{}+{n}compute", 20 + n),
        ] {
            let name = parse(&text).unwrap().name();
            // The name may leave out defaults. Parsing it again must not change it.
            let again = parse(&name).unwrap();
            prop_assert_eq!(again.name(), name);
            prop_assert_eq!(format!("{again:?}"), format!("{:?}", parse(&text).unwrap()));
        }
    }

    #[test]
    fn no_text_panics(text in "(wakeup|pingpong|groups|forks|barrier|triad|omp|tool|shuffled|interactive)?[:@+]?\\PC{0,12}") {
        if let Ok(workload) = parse(&text) {
            prop_assert!(parse(&workload.name()).is_ok());
        }
    }
}
