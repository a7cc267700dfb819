// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The marked C program of the tests.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// A directory with the program, linked with the library or compiled without it.
pub fn compile(extra: &[&str]) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("marked");
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-Wall", "-Werror", "-pthread", "-Wl,--build-id", "-o"]).arg(&program);
    cc.arg(format!("{HERE}/tests/marked.c")).arg(format!("-I{HERE}/include")).args(extra);
    if extra.is_empty() {
        // Cargo puts the library beside the test.
        let test = std::env::current_exe().unwrap();
        let libraries = test.parent().unwrap();
        // Programs find it by this name. Another test may have made it.
        let _ = std::os::unix::fs::symlink("libbias_mark.so", libraries.join("libbias_mark.so.0"));
        let libraries = libraries.display();
        cc.args([format!("-L{libraries}"), format!("-Wl,-rpath,{libraries}"), "-lbias_mark".into()]);
    }
    assert!(cc.status().unwrap().success());
    (directory, program)
}

pub fn run(program: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).envs(environment.iter().copied()).current_dir(program.parent().unwrap());
    // Cargo's value names directories with older builds of the library.
    command.env_remove("LD_LIBRARY_PATH");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("done"), "{output:?}");
    output
}

pub fn complaints(output: &Output) -> Vec<String> {
    String::from_utf8_lossy(&output.stderr).lines().map(String::from).collect()
}
