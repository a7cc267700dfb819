// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Knobs, maps and globals have one owner, `bpf/state.bpf.h`. A global that two BPF units define
//! survives linking as two variables. Rust then writes one, and BPF reads the other.

use std::fs;
use std::path::Path;

/// Return the lines of `text` that define data outside functions. These lines are not indented, end
/// in a semicolon, and are not prototypes, types or extern declarations.
fn definitions(text: &str) -> Vec<&str> {
    text.lines()
        .filter(|line| line.ends_with(';') && !line.starts_with([' ', '\t', '*', '/', '#', '}']))
        .filter(|line| !line.contains('(') || line.contains("SEC(") || line.contains("__attribute__"))
        .filter(|line| {
            !["struct ", "enum ", "typedef ", "extern "].iter().any(|start| line.starts_with(start))
                || line.contains('[')
        })
        .chain(
            text.lines().filter(|line| line.contains("SEC(\".maps\")") || line.starts_with("const volatile")),
        )
        .collect()
}

#[test]
fn state_has_one_owner() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bpf");
    let mut found_in_owner = 0;
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let mut found = definitions(&text);
        found.retain(|line| !line.contains("_license"));
        if path.ends_with("state.bpf.h") {
            found_in_owner = found.len();
        } else {
            assert!(found.is_empty(), "{} defines state; move it to state.bpf.h: {found:?}", path.display());
        }
    }
    assert!(found_in_owner >= 10, "this test no longer recognises definitions: it saw {found_in_owner}");
}

#[test]
fn a_global_elsewhere_is_detected() {
    assert_eq!(definitions("u64 counter;\n").len(), 1);
    assert_eq!(definitions("} scratches SEC(\".maps\");\n").len(), 1);
    assert_eq!(definitions("const volatile u32 knob = 1;\n").len(), 2);
    assert!(definitions("static void f(void);\nstruct a;\n\tlocal = 1;\n").is_empty());
}
