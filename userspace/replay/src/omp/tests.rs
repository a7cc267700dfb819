// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of the conditions, of a short run and of pages.

use super::frequency_log::FrequencySeries;
use super::*;
use clap::Parser;
use proptest::prelude::*;

#[derive(Parser)]
struct OmpLine {
    #[command(flatten)]
    options: TeamOptions,
}

fn options(text: &str) -> TeamOptions {
    OmpLine::try_parse_from(["omp"].into_iter().chain(text.split_whitespace())).unwrap().options
}

fn refused(text: &str) -> String {
    OmpLine::try_parse_from(["omp"].into_iter().chain(text.split_whitespace())).err().unwrap().to_string()
}

#[test]
fn the_defaults_are_those_of_the_paper() {
    let defaults = options("");
    assert_eq!((defaults.runs, defaults.repetitions), (10, 100));
    for benchmark in bias_bench::ab::workload::openmp::NAMES.map(|(name, _)| name) {
        assert!(defaults.benchmarks.iter().any(|of| of.name == benchmark), "{benchmark}");
    }
    assert!(refused("--benchmarks tuba").contains("known are parallel"));
    assert!(refused("--bind far").contains("spread"));
}

#[test]
fn factors_are_combined_and_equal_teams_measured_once() {
    let cores = [vec![0, 2], vec![1, 3]];
    let of = |text: &str| conditions(&options(text), &cores).unwrap();
    assert_eq!(of("--bind none,close --smt one,all --spare 0,1").len(), 8);
    // Without siblings, one thread on a core and all threads give the same team.
    assert_eq!(conditions(&options("--smt one,all"), &[vec![0], vec![1]]).unwrap().len(), 1);
    assert!(conditions(&options("--spare 2"), &cores).unwrap_err().contains("--spare"));
}

#[test]
fn runs_are_measured_evaluated_and_drawn() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("page.html");
    let line = "--benchmarks reduction,dynamic:8,triad --bind none,close --threads 1 --runs 3 --repetitions 5 \
                --constructs 20 --iterations 20 --rounds 10 --bytes 96K --page";
    let report = super::run(&options(&format!("{line} {}", page.display()))).unwrap();
    assert_eq!((report.conditions.len(), report.cases.len()), (2, 6));
    for case in &report.cases {
        assert!(case.times_ns.len() == 3 && case.times_ns.iter().all(|times| times.len() == 5));
        let variation = case.variation.as_ref().unwrap();
        assert!(variation.mean_ns > 0.0 && variation.cv_between_permille.is_some());
    }
    let html = std::fs::read_to_string(page).unwrap();
    assert_eq!(html.matches("<circle").count(), 6 * 15);
    assert!(!html.contains("NaN") && !html.contains("http") && report.text().contains("dynamic:8"));
}

proptest! {
    #[test]
    fn any_times_and_frequencies_make_a_page(
        times_ns in prop::collection::vec(prop::collection::vec(1u64..1 << 50, 1..30), 1..4),
        khz in prop::collection::vec(prop::collection::vec(0u32..6_000_000, 2), 0..5),
    ) {
        let condition = TeamCondition::new(&[vec![0, 1]], Bind::None, Smt::All, 0, None).unwrap();
        let frequencies = vec![FrequencySeries { cpus: vec![0, 1], at_ms: (0..khz.len() as u64).collect(), khz }];
        let case = TeamCase {
            benchmark: "static".into(),
            condition: 0,
            size: 1,
            variation: Variation::of(&times_ns),
            times_ns,
            frequencies,
        };
        let report = TeamReport {
            schema: SCHEMA,
            scheduler: "default".into(),
            wait: None,
            conditions: vec![condition],
            cases: vec![case],
        };
        let page = team_page::of(&report);
        prop_assert!(["NaN", "\"inf", "-inf", ">inf"].iter().all(|wrong| !page.contains(wrong)));
        prop_assert!(report.text().contains("static"));
    }
}
