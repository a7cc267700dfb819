// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The command `bias-bench sim`, as a user runs it.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn sim(words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bias-bench-sim"));
    command.args(words.split_whitespace());
    command
}

fn ended(output: &Output, code: i32) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{out}{err}");
    (out, err)
}

fn json(words: &str) -> Value {
    let (out, _) = ended(&sim(words).arg("--json").output().unwrap(), 0);
    serde_json::from_str(&out).unwrap()
}

/// The picture has a row for each CPU. Tasks that compute are on fast CPUs most of the time.
#[test]
fn a_run_shows_placement_throughput_and_waits() {
    let folder = tempfile::tempdir().unwrap();
    let svg = folder.path().join("picture.svg");
    let words = "--machine 2P+2E --mix 2compute+2chase --seconds 1";
    let (text, _) = ended(&sim(words).arg("--svg").arg(&svg).output().unwrap(), 0);
    for part in
        ["   0 fast  ", "   3 slow  ", "STP 3.", "% of the most that any schedule", "p99", "c-d    chase"]
    {
        assert!(text.contains(part), "no '{part}' in\n{text}");
    }
    let row = text.lines().find(|line| line.starts_with("   0 fast")).unwrap();
    assert!(row.len() == 91 && row[11..].chars().all(|c| "abcd.".contains(c)), "{row}");
    assert!(text.lines().all(|line| line.len() <= 100), "{text}");
    let picture = std::fs::read_to_string(&svg).unwrap();
    assert!(picture.starts_with("<svg") && picture.contains("task 3, chase"), "{picture}");
    // Equal options give equal results.
    assert_eq!(ended(&sim(words).output().unwrap(), 0).0, text);
}

#[test]
fn json_has_the_same_figures() {
    let report = json("--machine P2E4 --mix 3compute+server --seconds 0.5 --seed 7");
    assert_eq!((&report["schema"], &report["seed"]), (&"bias-bench.sim/1".into(), &7.into()));
    assert_eq!(report["cpus"].as_array().unwrap().len(), 8);
    assert_eq!(report["placement"]["rows"].as_array().unwrap().len(), 8);
    let number = |value: &Value| value.as_f64().unwrap();
    let (stp, best) = (number(&report["stp"]), number(&report["best_stp"]));
    assert!(stp > 0.9 * best && stp < 1.001 * best, "{stp} of {best}");
    // Equal progress has no meaning for a task that sleeps.
    assert!(report["best_equal_stp"].is_null());
    let waits = &report["kinds"][1]["waits"];
    assert!(number(&waits["p50_us"]) <= number(&waits["longest_us"]) && number(&waits["count"]) > 50.0);
    let sum: f64 = report["tasks"].as_array().unwrap().iter().map(|task| number(&task["progress"])).sum();
    assert!((sum - stp).abs() < 0.01, "{sum} and {stp}");
    let equal = json("--machine 1P+1E --mix 4compute --seconds 1");
    assert!(equal["best_equal_stp"].is_number());
}

/// Write a program that stands for scx_bias.
fn scx_bias(folder: &Path, script: &str) {
    let path = folder.join("scx_bias");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn in_path(folder: &Path, words: &str) -> Output {
    sim(words).env("PATH", format!("{}:/usr/bin:/bin", folder.display())).output().unwrap()
}

#[test]
fn this_machine_is_that_of_the_table() {
    let folder = tempfile::tempdir().unwrap();
    let entry = |cpu, class, cost| {
        format!(
            r#"{{"cpu":{cpu},"core":{cpu},"llc":4,"node":0,"class":"{class}","cost_permille":[{cost},1000,1000],"spread_permille":[0,0,0],"shared_permille":[1000,1000,1000]}}"#
        )
    };
    let table = format!(r#"{{"version":1,"cpus":[{},{}]}}"#, entry(4, "fast", 1000), entry(6, "slow", 2000));
    scx_bias(folder.path(), &format!("[ \"$1 $2\" = 'table --json' ] && echo '{table}'"));
    let words = "--this-machine --mix 2compute --seconds 0.5";
    let (text, _) = ended(&in_path(folder.path(), words), 0);
    assert!(text.contains("   4 fast") && text.contains("   6 slow"), "{text}");

    scx_bias(folder.path(), "echo 'scx_bias: no capacity table; run `scx_bias calibrate` first' >&2; exit 2");
    let (_, error) = ended(&in_path(folder.path(), words), 2);
    assert!(error.contains("--this-machine: scx_bias: no capacity table; run"), "{error}");
    scx_bias(folder.path(), "echo nonsense");
    assert!(ended(&in_path(folder.path(), words), 2).1.contains("unknown table"));
}

/// Each wrong input ends with code 2 and one line that names cause and remedy.
#[test]
fn wrong_input_gets_one_line() {
    for (words, parts) in [
        ("--machine 8Q --mix compute", ["'8Q' is not a machine", "8P2T+16E"]),
        ("--machine 4P,llcs=8 --mix compute", ["do not divide 4 cores", "write core counts"]),
        ("--machine 2000P --mix compute", ["at most 1024", "write core counts"]),
        ("--machine 2P --mix 2computer", ["unknown task kind 'computer'", "known are compute"]),
        ("--machine 2P --mix 5000compute", ["1 to 4096 tasks", "5000compute"]),
        ("--machine 2P --mix server:1", ["server:1", "5 to 100000"]),
        ("--machine 2P --mix compute --seconds 0", ["0.01 to 60", "--help"]),
        ("--machine 2P --mix compute --seed x", ["invalid digit", "--help"]),
        ("--machine 2P --mix compute --svg /nowhere/x.svg", ["cannot write /nowhere/x.svg", "name a file"]),
        ("--machine 2P --this-machine --mix compute", ["cannot be used with", "--help"]),
        ("--machine 2P --capacity-file x --mix compute", ["--capacity-file", "--help"]),
        ("--mix compute", ["--machine", "--help"]),
        ("--machine 2P", ["--mix", "--help"]),
        ("--machine 2P --mix compute --fast", ["--fast", "--help"]),
    ] {
        let (out, error) = ended(&sim(words).output().unwrap(), 2);
        assert!(out.is_empty() && error.lines().count() == 1, "{words}: {out}{error}");
        assert!(error.starts_with("bias-bench sim: "), "{words}: {error}");
        for part in parts {
            assert!(error.contains(part), "{words}: no '{part}' in {error}");
        }
    }
}

#[test]
fn the_help_names_the_limits_of_the_model() {
    let (help, _) = ended(&sim("--help").output().unwrap(), 0);
    for part in ["Usage: bias-bench sim", "Not modelled", "server[:US]", "Exit codes", "--this-machine"] {
        assert!(help.contains(part), "no '{part}' in\n{help}");
    }
}
