// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests that the build finds the compiler under any name and names missing dependencies. Programs
//! are scripts on a PATH that holds nothing else.

#![allow(clippy::unwrap_used, missing_docs)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// Create a directory of scripts, each with its name and the first line of `--version`.
fn programs(all: &[(&str, &str)]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, version) in all {
        let path = directory.path().join(name);
        fs::write(&path, format!("#!/bin/sh\necho '{version}'\necho \"{name} got: $*\"\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    directory
}

fn find(path: &str, args: &[&str]) -> Output {
    Command::new(Path::new(HERE).join("bpf-clang")).args(args).env("PATH", path).output().unwrap()
}

/// Return the program that the script chose from those on `path`.
fn taken(path: &str) -> String {
    let output = find(path, &["-c", "a b.c"]);
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().last().unwrap_or_default().to_owned()
}

#[test]
fn the_newest_clang_of_any_name_gets_the_arguments() {
    let directory = programs(&[
        ("clang", "Debian clang version 14.0.6"),
        ("clang-18", "clang version 18.1.8"),
        ("clang-19", "Debian clang version 19.1.7 (3~deb12u1)"),
        ("clang-9", "clang version 9.0.1"),
        ("clang-format", "clang-format version 30.0.0"),
    ]);
    assert_eq!(taken(&directory.path().to_string_lossy()), "clang-19 got: -c a b.c");
}

#[test]
fn a_plain_clang_is_found_and_versions_compare_as_numbers() {
    let fedora = programs(&[("clang", "clang version 21.1.0 (Fedora 21.1.0-1.fc43)")]);
    let old = programs(&[("clang-19", "clang version 19.1.0"), ("clang-100", "clang version 100.0.0git")]);
    let (fedora, old) = (fedora.path().to_string_lossy(), old.path().to_string_lossy());
    assert_eq!(taken(&fedora), "clang got: -c a b.c");
    assert_eq!(taken(&format!("/nowhere:{fedora}:{old}")), "clang-100 got: -c a b.c");
}

#[test]
fn of_equal_versions_the_first_on_path_wins() {
    let [first, second] =
        [("clang", "clang version 20.1.0"), ("clang-20", "clang version 20.1.0")].map(|one| programs(&[one]));
    let (first, second) = (first.path().to_string_lossy(), second.path().to_string_lossy());
    assert_eq!(taken(&format!("{first}:{second}")), "clang got: -c a b.c");
    assert_eq!(taken(&format!("{second}:{first}")), "clang-20 got: -c a b.c");
}

#[test]
fn programs_that_are_too_old_or_not_clang_are_reported() {
    let directory = programs(&[("clang", "Debian clang version 14.0.6"), ("clang-22", "gcc 22")]);
    let output = find(&directory.path().to_string_lossy(), &[]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(127));
    assert!(
        text.contains("no clang of version 18 or later") && text.contains("clang (version 14)"),
        "{text}"
    );
    let none = find("/nowhere", &[]);
    assert!(
        String::from_utf8(none.stderr)
            .unwrap()
            .starts_with("no clang of version 18 or later on PATH; install")
    );
}

/// Run the check in an environment with only these variables.
fn check(variables: &[(&str, &str)]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bias-needs"));
    let output = command.env_clear().envs(variables.iter().copied()).output().unwrap();
    (output.status.success(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_complete_machine_passes_with_any_compiler_name() {
    let directory = programs(&[
        ("make", "GNU Make 4.3"),
        ("pkg-config", "1.8.1"),
        ("libclang-19.so.1", ""),
        ("clang-20", "clang version 20.1.0"),
        ("other", "clang version 18.1.0"),
        ("older", "clang version 17.0.6"),
    ]);
    let path = directory.path().to_str().unwrap();
    let with = |compiler: &[(&'static str, &'static str)]| {
        // This compiler accepts every header.
        let machine = [("PATH", path), ("LIBCLANG_PATH", path), ("CC", "/bin/true")];
        check(&[&machine, compiler].concat())
    };
    assert_eq!(with(&[]), (true, String::new()));
    assert_eq!(with(&[("BPF_CLANG", "other")]), (true, String::new()));
    let (passes, text) = with(&[("BPF_CLANG", "older")]);
    assert!(!passes && text.contains("older is clang 17, 18 or later is needed"), "{text}");
    let (passes, text) = with(&[("BPF_CLANG", "nothing")]);
    assert!(!passes && text.contains("nothing does not run"), "{text}");
}

#[test]
fn all_missing_dependencies_are_listed_with_four_commands() {
    let directory = programs(&[("make", "GNU Make 4.3")]);
    let path = directory.path().to_str().unwrap();
    let (passes, text) = check(&[("PATH", path), ("LIBCLANG_PATH", "/nowhere"), ("CC", "/bin/false")]);
    assert!(!passes);
    for what in ["compiler for BPF", "libclang", "pkg-config,", "libelf.h", "zlib.h"] {
        assert!(
            text.contains(&format!("* {what}")) || text.contains(&format!("* the {what}")),
            "{what}: {text}"
        );
    }
    assert!(!text.contains("* make"), "{text}");
    // The README lists the same commands.
    let readme = fs::read_to_string(Path::new(HERE).join("../../README.md")).unwrap();
    for (family, command) in bias_needs::INSTALL {
        assert!(readme.contains(&format!("| {family} | `{command}` |")), "{family}");
    }
    for command in ["apt install", "dnf install", "pacman -S", "zypper install"] {
        assert!(text.contains(command), "{command}: {text}");
    }
}
