// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Checks that a file is short enough to be read in one go. Clippy checks the length of functions
//! (`.clippy.toml`).

use std::fs::read_to_string;

use bias_vm::build::workspace;
use bias_vm::sources::sources;

/// Most lines of code of a file: without comments, blank lines and its module of tests.
const MOST: usize = 600;

fn code_lines(text: &str) -> usize {
    let end = text.find("#[cfg(test)]\nmod ").unwrap_or(text.len());
    let is_code =
        |line: &&str| !line.is_empty() && !["//", "* ", "*/"].iter().any(|comment| line.starts_with(comment));
    text[..end].lines().map(str::trim).filter(is_code).count()
}

#[test]
fn files_have_at_most_600_lines_of_code() {
    let mut long = Vec::new();
    for file in sources(&["*.rs", "*.h", "*.c"]).unwrap() {
        let lines = code_lines(&read_to_string(workspace().join(&file)).unwrap());
        if lines > MOST {
            long.push(format!("{file}: {lines}"));
        }
    }
    assert!(long.is_empty(), "{long:?}");
}

#[test]
fn comments_and_tests_do_not_count() {
    let text =
        "// a\n\nfn f() {}\n/*\n * b\n */\n*a = 1;\n#[cfg(test)]\nuse b;\n#[cfg(test)]\nmod tests {}\n";
    // The delimiters of the comment count as one line.
    assert_eq!(code_lines(text), 5);
}
