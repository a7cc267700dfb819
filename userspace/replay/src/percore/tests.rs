// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of the comparison of CPUs, on made-up times and on this machine.

use super::*;
use clap::Parser;
use proptest::prelude::*;

#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    options: PercoreOptions,
}

fn options(line: &str) -> PercoreOptions {
    CommandLine::parse_from(std::iter::once("percore").chain(line.split_whitespace())).options
}

/// Return times around `ns`, which spread by 0.2 %.
fn times(cpu: usize, ns: f64, runs: usize) -> CpuTimes {
    CpuTimes { cpu, times_ns: (0..runs).map(|run| ns * (1.0 + (run * 7 % 20) as f64 / 10_000.0)).collect() }
}

fn kind(name: &str, of_cpu: impl Fn(usize) -> f64, cpus: usize) -> KindTimes {
    KindTimes {
        kind: name.into(),
        units: 1,
        cpus: (0..cpus).map(|cpu| times(cpu, of_cpu(cpu), 40)).collect(),
    }
}

/// 96 CPUs in which a pattern of 24 repeats, as in Fig 5 of [Reif20].
fn large() -> PercoreReport {
    let cg = kind("compute", |cpu| 1000.0 + 20.0 * (cpu % 24 / 6) as f64, 96);
    let ep = kind("chase", |_| 1000.0, 96);
    let cost = |cpu: usize| CpuCost { cpu, cost_permille: [1000 + 20 * (cpu as u32 % 24 / 6), 1000, 1000] };
    PercoreReport { schema: SCHEMA.into(), kinds: vec![cg, ep], costs: (0..96).map(cost).collect() }
}

#[test]
fn cpus_are_distinguished_only_where_they_differ() {
    let report = large();
    let compared = Compared::of(&report.kinds[0]).unwrap();
    assert_eq!((compared.fastest % 24 / 6, compared.slowest % 24 / 6), (0, 3));
    assert!((compared.ratio - 1.06).abs() < 1e-9);
    let found = groups(&report.kinds[0]);
    assert_eq!(found.len(), 4);
    assert!(found[1].iter().all(|cpu| cpu % 24 / 6 == 1) && found[1].len() == 24);
    assert_eq!(groups(&report.kinds[1]).len(), 1);
    assert!((cost_order(&report.kinds[0], &report.costs).unwrap() - 1.0).abs() < 1e-9);
    // CPUs that do not differ have no order.
    assert_eq!(cost_order(&report.kinds[1], &report.costs), None);
}

#[test]
fn a_page_of_96_cpus_is_complete_and_of_moderate_size() {
    let page = pictures::of(&large());
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
    assert_eq!(page.matches("<polyline").count(), 2 * 96);
    // Every CPU is like the 24 of its group.
    assert!(page.matches("<rect").count() >= 96 * 24 + 96 * 96);
    assert!(page.contains("rank correlation 1.00") && !page.contains("NaN"), "a figure is missing");
}

#[test]
fn a_report_is_read_again_and_damage_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("report.json");
    let page = dir.path().join("page.html");
    let text = serde_json::to_string(&large()).unwrap();
    std::fs::write(&file, &text).unwrap();
    let again = options(&format!("--from {} --page {}", file.display(), page.display()));
    assert_eq!(super::run(&again).unwrap().text(), large().text());
    assert_eq!(std::fs::read_to_string(&page).unwrap(), pictures::of(&large()));
    for (from, to, why) in [
        ("percore/1", "percore/9", "percore/9"),
        ("1000.0", "-1000.0", "not a positive number"),
        ("\"kinds\"", "\"kind\"", "percore --json"),
    ] {
        std::fs::write(&file, text.replacen(from, to, 1)).unwrap();
        let error = super::run(&again).unwrap_err().to_string();
        assert!(error.contains(why), "{from}: {error}");
    }
    let other = options(&format!("--from {} --table {}", dir.path().join("none").display(), file.display()));
    assert!(matches!(super::run(&other), Err(Error::Usage(_))));
}

#[test]
fn this_machine_runs_every_kind_on_every_cpu() {
    let cpus = cpus::allowed().unwrap();
    let report =
        super::run(&options("--kinds compute,chase:32K --runs 25 --warmups 1 --seconds 0.0001")).unwrap();
    assert_eq!(
        report.kinds.iter().map(|kind| kind.kind.as_str()).collect::<Vec<_>>(),
        ["compute", "chase:32768"]
    );
    for kind in &report.kinds {
        assert_eq!(kind.cpus.iter().map(|of| of.cpu).collect::<Vec<_>>(), cpus);
        assert!(kind.units > 0 && kind.cpus.iter().all(|of| of.times_ns.len() == 25));
    }
    assert!(report.text().contains("compute"));
}

proptest! {
    #[test]
    fn any_times_make_a_page(times in prop::collection::vec(prop::collection::vec(1.0..1e12f64, 1..40), 1..6)) {
        let cpus = times.into_iter().enumerate().map(|(cpu, times_ns)| CpuTimes { cpu, times_ns }).collect();
        let kinds = vec![KindTimes { kind: "x".into(), units: 1, cpus }];
        let costs = vec![CpuCost { cpu: 0, cost_permille: [1000; 3] }];
        let report = PercoreReport { schema: SCHEMA.into(), kinds, costs };
        let page = pictures::of(&report);
        prop_assert!(["NaN", "\"inf", "-inf", ">inf"].iter().all(|wrong| !page.contains(wrong)));
        prop_assert!(Compared::of(&report.kinds[0]).unwrap().ratio >= 1.0);
        prop_assert!(!report.text().is_empty());
    }
}
