// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! A marked C program in every mode that needs no scheduler: it must always run to its end.

use std::path::Path;

use crate::program::{compile, complaints, run};
use tempfile::TempDir;

fn files(directory: &TempDir) -> Vec<String> {
    let entries = std::fs::read_dir(directory.path()).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn sections(path: &Path) -> Vec<(String, i64)> {
    let profile: toml::Table = std::fs::read_to_string(path).unwrap().parse().unwrap();
    assert!(profile["build_id"].as_str().unwrap().len() >= 16);
    let sections = profile["section"].as_array().unwrap();
    sections
        .iter()
        .map(|section| (section["name"].as_str().unwrap().into(), section["calls"].as_integer().unwrap()))
        .collect()
}

#[test]
fn without_a_mode_nothing_happens() {
    let (directory, program) = compile(&[]);
    for environment in [&[][..], &[("BIAS_MARK", "none")], &[("BIAS_MARK", "")]] {
        assert_eq!(complaints(&run(&program, &[], environment)), [""; 0]);
    }
    assert_eq!(files(&directory), ["marked"]);
}

#[test]
fn marks_that_are_compiled_out_need_no_library() {
    let (_directory, program) = compile(&["-DBIAS_MARK_OFF"]);
    run(&program, &[], &[("BIAS_MARK", "measure")]);
}

#[test]
fn an_unknown_mode_is_reported_in_one_line() {
    let (directory, program) = compile(&[]);
    let said = complaints(&run(&program, &[], &[("BIAS_MARK", "meassure")]));
    assert!(said.len() == 1 && said[0].contains("use measure, hint or none"), "{said:?}");
    assert_eq!(files(&directory), ["marked"]);
}

#[test]
fn measuring_writes_the_graph_and_the_profile_of_all_threads() {
    let (directory, program) = compile(&[]);
    let said = complaints(&run(&program, &[], &[("BIAS_MARK", "measure")]));
    // Without counters the library prints one line.
    assert!(said.len() <= 1 && said.iter().all(|line| line.contains("perf_event_paranoid")), "{said:?}");
    assert_eq!(files(&directory), ["marked", "marked.dot", "marked.svg", "marked.toml"]);
    let path = |extension| directory.path().join("marked").with_extension(extension);
    assert_eq!(sections(&path("toml")), [("even".into(), 100), ("odd \"<&>\"".into(), 100)]);
    let dot = std::fs::read_to_string(path("dot")).unwrap();
    assert!(dot.contains(r#""even" -> "odd \"<&>\"" [label="100 calls"#), "{dot}");
    assert!(dot.contains(r#"-> "(outside)" [label="2 calls"#), "{dot}");
    let svg = std::fs::read_to_string(path("svg")).unwrap();
    assert!(svg.contains(">odd \"&lt;&amp;&gt;\"<"), "{svg}");
}

#[test]
fn a_child_process_has_a_profile_of_its_own() {
    let (directory, program) = compile(&[]);
    run(&program, &["fork"], &[("BIAS_MARK", "measure"), ("BIAS_MARK_OUT", "out")]);
    let profiles: Vec<String> =
        files(&directory).into_iter().filter(|name| name.ends_with(".toml")).collect();
    assert_eq!(profiles.len(), 2, "{profiles:?}");
    let calls: Vec<i64> = profiles
        .iter()
        .map(|name| sections(&directory.path().join(name)).iter().map(|(_, calls)| calls).sum())
        .collect();
    // The child's has a pid in its name and comes first.
    assert_eq!(calls, [100, 200]);
}

#[test]
fn an_unwritable_directory_is_reported_in_one_line() {
    let (directory, program) = compile(&[]);
    let environment = [("BIAS_MARK", "measure"), ("BIAS_MARK_OUT", "/nowhere/out")];
    let said = complaints(&run(&program, &[], &environment));
    let about: Vec<_> = said.iter().filter(|line| line.contains("set BIAS_MARK_OUT")).collect();
    assert_eq!(about.len(), 1, "{said:?}");
    assert_eq!(files(&directory), ["marked"]);
}
