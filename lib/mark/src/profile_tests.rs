// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;
use crate::graph::Counts;

fn graph(rates: &[(&'static str, u64)]) -> Graph<&'static str> {
    let mut graph = Graph::new();
    for &(name, misses) in rates {
        let counts = Counts { calls: 3, time_ns: 9, cycles: 1500, instructions: 1000, misses };
        graph.add(name, OUTSIDE, &counts);
        graph.add(OUTSIDE, name, &counts);
    }
    graph
}

#[test]
fn sections_are_divided_by_the_threshold() {
    let profile = Profile::new(&graph(&[("scan", 40), ("join", 50), ("parse", 1), ("plan", 0)]), "ab");
    let classes = profile.classes();
    assert_eq!(classes["scan"], Class::Slow);
    assert_eq!(classes["join"], Class::Slow);
    assert_eq!(classes["parse"], Class::Fast);
    assert_eq!(classes["plan"], Class::Fast);
    assert!(!classes.contains_key(OUTSIDE));
    assert_eq!(profile.sections[0].cpi, Some(1.5));
}

#[test]
fn sections_that_are_alike_are_neutral() {
    let profile = Profile::new(&graph(&[("a", 40), ("b", 41)]), "");
    assert_eq!(profile.threshold, None);
    assert!(profile.classes().values().all(|class| *class == Class::Neutral));
    let mut blind = Graph::new();
    blind.add("a", "b", &Counts { calls: 1, time_ns: 5, ..Counts::default() });
    assert_eq!(Profile::new(&blind, "").sections[0].cpi, None);
}

#[test]
fn an_edited_threshold_counts() {
    let text = Profile::new(&graph(&[("a", 40), ("b", 20), ("c", 1)]), "ab").text();
    let edited: String = text
        .lines()
        .map(|line| if line.starts_with("threshold") { "threshold = 0.03" } else { line })
        .map(|line| format!("{line}\n"))
        .collect();
    let classes = Profile::parse(&edited, "ab").unwrap().classes();
    assert_eq!((classes["a"], classes["b"]), (Class::Slow, Class::Fast));
}

#[test]
fn refusals_are_one_line_with_a_remedy() {
    let text = Profile::new(&graph(&[("a", 40), ("b", 1)]), "ab").text();
    let refused = |text: &str, build_id: &str| Profile::parse(text, build_id).unwrap_err().to_string();
    assert!(refused(&text, "cd").contains("another build of the program (ab)"));
    assert!(refused(&text.replace("version = 1", "version = 7"), "ab").contains("version 7"));
    assert!(refused(&text.replace("0.04", "nan"), "ab").contains("no number"));
    assert!(refused(&text.replace("0.04", "-1.0"), "ab").contains("no number"));
    for cut in [0, 5, text.rfind('=').unwrap_or(0)] {
        let refusal = refused(&text[..cut], "ab");
        assert!(refusal.contains("measure again") && !refusal.contains('\n'), "{refusal}");
    }
}

proptest! {
    #[test]
    fn what_is_written_reads_back(
        sections in prop::collection::vec((".*", any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>()), 0..8)
    ) {
        let mut graph = Graph::<String>::new();
        for (name, calls, cycles, instructions, misses) in sections {
            let counts = Counts { calls, time_ns: cycles, cycles, instructions, misses };
            graph.add(name, "next".into(), &counts);
        }
        let profile = Profile::new(&graph, "0123");
        prop_assert_eq!(Profile::parse(&profile.text(), "0123").unwrap(), profile);
    }

    #[test]
    fn no_text_is_too_strange(text in ".*", build_id in "[0-9a-f]*") {
        let _ = Profile::parse(&text, &build_id);
    }
}
