// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Errors of `bias-bench` when standard output is full.

use std::fs::OpenOptions;
use std::process::Command;

#[test]
fn a_full_standard_output_gives_one_line_and_an_exit_code() {
    let texts: [&[&str]; 6] =
        [&["--help"], &["--version"], &["work", "--help"], &["man"], &["completions", "bash"], &["list"]];
    for args in texts {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_bias-bench")).args(args).stdout(full).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
        assert!(said.lines().count() == 1 && said.contains("standard output"), "{args:?}: {said}");
    }
}
