// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! A wrong command line costs one line of output and leaves no files.

use assert_cmd::Command;

fn xtask(args: &[&str], cache: &std::path::Path) -> (Option<i32>, String) {
    let output = Command::cargo_bin("xtask")
        .unwrap()
        .args(args)
        .env("XDG_CACHE_HOME", cache)
        .env("CI", "true")
        .output()
        .unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn wrong_command_lines_are_refused_in_one_line_with_code_2() {
    let cache = std::env::temp_dir().join(format!("xtask-cli-{}", std::process::id()));
    for (args, part) in [
        (&["vm", "--bogus", "--", "true"][..], "--bogus"),
        (&["vm"], "CMD"),
        (&["frobnicate"], "frobnicate"),
        (&["vm", "--machine", "60:x", "--", "true"], "60:x"),
        (&["vm", "--machine", "2F2S,llcs=3", "--", "true"], "last-level"),
        (&["vm", "--timeout", "soon", "--", "true"], "soon"),
        (&["vm", "--throttle", "0:60@1", "--no-emulation", "--", "true"], "--no-emulation"),
        (&["vm", "--kernel", "5.0", "--", "true"], "5.0"),
        (&["vm", "--kernel", "/", "--", "true"], "/"),
        (&["vm", "--throttle", "9:60@1", "--", "true"], "9:60@1"),
        (&["kernel", "5.0"], "5.0"),
        (&["demo", "--machine", "none"], "none"),
    ] {
        let (code, text) = xtask(args, &cache);
        assert_eq!(code, Some(2), "{args:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{args:?}: {text}");
        assert!(text.contains(part), "{args:?}: {text}");
    }
    assert!(!cache.exists(), "a refused command must leave nothing behind");
}

#[test]
fn help_explains_every_option_of_vm() {
    let output = Command::cargo_bin("xtask").unwrap().args(["vm", "--help"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success());
    for word in ["--kernel", "--machine", "--timeout", "--throttle", "120", "122"] {
        assert!(text.contains(word), "{word} is not in the help");
    }
}
