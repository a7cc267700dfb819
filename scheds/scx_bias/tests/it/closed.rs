// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of closed output. A closed pipe must neither panic the program nor change its exit code.

use std::process::{Command, Stdio};

/// Run the program with both outputs closed, and return its exit code.
fn code(args: &[&str]) -> Option<i32> {
    let closed = || {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        Stdio::from(writer)
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_scx_bias"));
    command.args(args).stdin(Stdio::null()).stdout(closed()).stderr(closed()).status().unwrap().code()
}

/// Lines on the journal's own file get priorities, and only there.
#[test]
fn lines_for_the_journal_have_priorities() {
    use std::os::unix::fs::MetadataExt;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    let file = std::fs::File::create(&path).unwrap();
    let data = file.metadata().unwrap();
    let said = |stream: String, args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_scx_bias"));
        command.args(args).env("JOURNAL_STREAM", stream).stdin(Stdio::null());
        command.stderr(file.try_clone().unwrap()).status().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        text.lines().last().unwrap().to_owned()
    };
    let journal = || format!("{}:{}", data.dev(), data.ino());
    let refused = ["status", "--socket", "/nonexistent"];
    assert!(said(journal(), &refused).starts_with("<3>scx_bias: scx_bias is not running"));
    assert!(said("1:1".to_owned(), &refused).starts_with("scx_bias: scx_bias is not running"));
    let table = directory.path().join("table");
    let quick = ["calibrate", "--rounds", "1", "--visit-ms", "5", "--external-kib", "64", "--output"];
    let line = said(journal(), &[&quick[..], &[table.to_str().unwrap()]].concat());
    assert!(line.starts_with("<6>") || line.starts_with("<4>"), "{line}");
}

#[test]
fn an_error_keeps_its_exit_code() {
    assert_eq!(code(&["table", "--capacity-file", "/nonexistent"]), Some(2));
    assert_eq!(code(&["status", "--socket", "/nonexistent"]), Some(3));
}

#[test]
fn a_full_disk_is_one_line_and_a_code() {
    let help = [&["--help"][..], &["--version"], &["help", "top"], &["top", "-h"], &["--help-stats"]];
    let texts = [&["check"][..], &["config", "--no-config"], &["completions", "bash"], &["man"]];
    for args in [&texts[..], &help[..]].concat() {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_scx_bias")).args(args).stdout(full).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(said.starts_with("scx_bias: cannot write to standard output: No space left"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn what_is_logged_and_printed_may_be_lost() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("capacity.json");
    let file = file.to_str().unwrap();
    let calibrate =
        ["calibrate", "-v", "--rounds", "1", "--visit-ms", "5", "--external-kib", "64", "--output"];
    assert_eq!(code(&[&calibrate[..], &[file]].concat()), Some(0));
    assert_eq!(code(&["exec", "--capacity-file", file, "-n", "1", "-v", "true"]), Some(0));
}
