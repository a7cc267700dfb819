// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! A whole A/B run: the host boots the VM, the guest switches schedulers, and the report shows the
//! results.

use bias_vm::{build, inputs};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Run `bias-bench ab`. Return its standard output and its standard error.
fn bench(out: &Path, options: &[&str]) -> (String, String) {
    let programs = build::programs().unwrap();
    inputs::record(["bias-bench", "scx_bias"].map(|name| programs.join(name))).unwrap();
    let mut command = Command::new(programs.join("bias-bench"));
    command
        .env("BIAS_XTASK", build::xtask().unwrap())
        .current_dir(build::workspace())
        .args(["ab", "--seed", "7", "--out"])
        .arg(out)
        .args(options);
    let output = command.output().unwrap();
    let (text, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n-- stdout\n{text}\n-- stderr\n{error}", output.status);
    (text.into_owned(), error.into_owned())
}

/// Run it without the emulation, with the shortest times. The figures are not checked.
fn ab(out: &Path, more: &[&str]) -> String {
    let shortest = ["--vm", "SYM", "--no-emulation", "--arms", "default,scx_bias", "--window", "0.2"];
    let cells = ["--cells", "2compute+1chase,pingpong@0", "--stretch", "2"];
    bench(out, &[&shortest[..], &cells, more].concat()).0
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Least gain in throughput over the default scheduler that this project accepts, from every start
/// of two compute and two chase tasks. The best placement gains 17 %.
const GATE: f64 = 1.08;

/// Measure scx_bias against the default scheduler in virtual time, where a busy host changes no
/// figure. Two blocks suffice for a difference of this size, and not for a verdict.
fn gated(kernel: &str) {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("run");
    let what = ["--vm", "2F2S", "--kernel", kernel, "--arms", "cfs,scx_bias", "--stretch", "5"];
    let how = ["--cells", "shuffled+2compute+2chase", "--blocks", "2", "--boots", "1", "--window", "1"];
    let (_, error) = bench(&out, &[what, how].concat());
    assert!(error.contains("EEVDF, which replaced CFS"), "{error}");
    let report = json(&out.join("report.json"));
    let row = report["rows"].as_array().unwrap().iter().find(|row| row["metric"] == "stp").unwrap();
    let median = |arm: &str| row[arm].as_f64().unwrap();
    let (default, ours) = (median("baseline_median"), median("arm_median"));
    println!(
        "STP on {kernel}: default {default:.3}, scx_bias {ours:.3}, {:+.1} %",
        (ours / default - 1.0) * 100.0
    );
    assert!(ours / default >= GATE, "{row:#}");
}

#[test]
fn a_mix_is_faster_than_under_the_default_scheduler_on_6_12() {
    gated("6.12");
}

/// Scenarios of `cargo xtask test --full`.
mod full {
    use super::*;

    #[test]
    fn a_run_is_measured_reported_and_resumed() {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path().join("run");
        let text = ab(&out, &["--blocks", "1"]);
        assert!(text.contains("scx_bias against default") && text.contains("too few"), "{text}");
        let samples = || std::fs::read_to_string(out.join("samples.jsonl")).unwrap().lines().count();
        assert_eq!(samples(), 2 * 2 * 2, "two arms, two visits, two cells");

        ab(&out, &["--blocks", "2", "--resume"]);
        assert_eq!(samples(), 2 * 8, "earlier samples are kept, missing ones are added");
        let run = json(&out.join("run.json"));
        assert_eq!(
            (run["complete"].as_bool(), run["blocks_done"].as_u64()),
            (Some(true), Some(2)),
            "{run:#}"
        );
        let rows = json(&out.join("report.json"))["rows"].as_array().unwrap().len();
        assert!(rows > 8, "{rows} rows");
        let html = std::fs::read_to_string(out.join("report.html")).unwrap();
        assert!(
            html.contains("<svg") && !html.contains("http://") && !html.contains("<script"),
            "self-contained"
        );
    }

    #[test]
    fn a_mix_is_faster_than_under_the_default_scheduler_on_7_3() {
        gated("7.3");
    }
}
