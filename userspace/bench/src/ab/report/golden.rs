// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Golden tests: the report of a small fixed run, compared byte by byte. `BIAS_BLESS=1 cargo test`
//! rewrites the expected files.

use super::Report;
use crate::ab::sample::{Host, Run, RunCell, Sample, tests::sample};
use std::path::Path;

/// Return reproducible "noise" of up to ±1, without a pattern that blocks could share.
fn wobble(i: u32) -> f64 {
    let mixed = i.wrapping_add(1).wrapping_mul(0x9E37_79B1);
    let mixed = (mixed ^ mixed >> 15).wrapping_mul(0x85EB_CA77);
    f64::from(mixed >> 8) / f64::from(1 << 23) - 1.0
}

fn run() -> Run {
    let cell = |name: &str, diversity| RunCell {
        name: name.into(),
        workload: "mix".into(),
        machine: None,
        diversity,
    };
    Run {
        suite: "quick".into(),
        seed: 42,
        arms: ["default", "scx_bias", "lavd <&> \"x\""].map(String::from).to_vec(),
        cells: vec![cell("2compute+2chase", Some(1.0)), cell("4compute", Some(0.0))],
        boots: 3,
        blocks: 4,
        stretch: 50.0,
        unstretched_arms: vec!["lavd <&> \"x\"".into()],
        machine: "60:60:24:24".into(),
        emulated: true,
        kernel: "6.12.117".into(),
        host: Host { cpu: "test".into(), cores: 2 },
        command: "bias-bench ab --suite quick --seed 42".into(),
        incomplete_why: Some("the disk is full".into()),
        ..Run::default()
    }
}

fn samples() -> Vec<Sample> {
    let arms = ["default", "scx_bias", "lavd <&> \"x\""];
    let mut samples = Vec::new();
    for block in 0..12u32 {
        for (visit, arm) in (0..).zip([0usize, 1, 2, 2, 1, 0]) {
            for (c, cell) in ["2compute+2chase", "4compute"].into_iter().enumerate() {
                let noise = 1.0 + 0.006 * wobble(samples.len() as u32);
                let stp = [[2.8, 3.1, 2.7], [2.8, 2.8, 2.5]][c][arm] * noise;
                let antt = if arm == 2 && c == 0 { f64::INFINITY } else { 4.0 / stp };
                let late = 900.0 * (1.0 + 0.2 * wobble(samples.len() as u32 + 77));
                let share = [0.5, 0.7, 0.5][arm] * noise;
                let mut metrics =
                    vec![("stp", stp), ("antt", antt), ("latency_p99_us", late), ("fast_share", share)];
                if arm == 1 {
                    metrics.push(("agent_cpu_permille", 2.0 * noise));
                }
                let at = [block / 4, block % 4, visit, if block == 5 { 2 } else { 1 }];
                samples.push(sample(at, arms[arm], cell, &metrics));
            }
        }
    }
    // Add an aborted first attempt to the block with a second attempt.
    samples.push(sample([1, 1, 0, 1], "default", "4compute", &[("stp", 1.0)]));
    samples
}

/// Return the report of the fixed run.
pub(super) fn report() -> Report {
    Report::new(run(), &samples())
}

fn check(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/ab/report/golden").join(name);
    if std::env::var_os("BIAS_BLESS").is_some_and(|v| v == "1") {
        std::fs::write(&path, found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    let differing = expected.lines().zip(found.lines()).position(|(a, b)| a != b);
    assert!(expected == found, "{name} differs, first in line {differing:?} (0 is the first)");
}

#[test]
fn the_text_is_as_expected() {
    check("report.txt", &report().text());
}

#[test]
fn the_json_is_as_expected_and_reads_back() {
    let text = report().json().unwrap();
    check("report.json", &text);
    let back: Report = serde_json::from_str(&text).unwrap();
    assert_eq!(back.json().unwrap(), text);
}

#[test]
fn the_html_is_as_expected_self_contained_and_escaped() {
    let html = report().html();
    // The golden file has an element per line, all samples of a strip in one, and no style sheet.
    let lines = html.replace(crate::plot::STYLE, "");
    let lines = lines.replace("><", ">\n<").replace(">\n</", "></");
    let lines = lines.replace("\n<circle class=\"dot\"", "<circle class=\"dot\"");
    check("report.html", &(lines + "\n"));
    for outside in ["<script", "http:", "https:", "src=", "@import", "url(", "lavd <&>"] {
        assert!(!html.contains(outside), "{outside}");
    }
    assert!(html.contains("lavd &lt;&amp;&gt; &quot;x&quot;"));
}

#[test]
fn an_empty_run_has_a_report() {
    let report = Report::new(run(), &[]);
    assert!(report.text().contains("0 used of 12") && report.html().contains("</html>"));
    assert!(report.warnings.iter().any(|w| w.contains("has no samples, so nothing is judged")));
}

#[test]
fn files_are_written_beside_the_samples() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = crate::ab::store::Store::create(dir.path(), &run()).unwrap();
    samples().iter().for_each(|s| store.append(s).unwrap());
    let read = Report::from_dir(dir.path()).unwrap();
    assert_eq!(read.json().unwrap(), report().json().unwrap());
    read.write(dir.path()).unwrap();
    assert_eq!(std::fs::read_to_string(dir.path().join("report.html")).unwrap(), read.html());
}
