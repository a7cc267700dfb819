// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Deletions: parts of the BPF code that no case misses.
//!
//! # Problem
//!
//! The list of mutations covers only mechanisms that are known. A mechanism outside of it may do
//! nothing, yet every test passes.
//!
//! # Approach
//!
//! Each statement of `bpf/` is left out in turn, and each condition of an `if` is made false and
//! true. Scenarios, some cases of each family and random cases run until one of them fails. A
//! change that survives shows code that is needless, or lacks a case.
//!
//! # Limits
//!
//! Statements are found by the layout of clang-format. Declarations with a value, `return` and the
//! parts of a condition stay. Code for the verifier, for statistics and for a kernel that the
//! simulator does not model survives, too.

use std::ops::Range;
use std::path::Path;

use anyhow::Result;

use crate::campaign;
use crate::findings::is_known;
use crate::mutant;
use crate::random;
use crate::scenario::{self, Scenario};
use crate::unit::Image;

/// Cases of each family.
const FAMILY_CASES: u64 = 16;

/// One change of a file of `bpf/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Line of the file, from 1 on.
    pub line: usize,
    /// The replaced range.
    at: Range<usize>,
    /// Its replacement.
    new: String,
}

impl Change {
    /// Return the text with this change.
    #[must_use]
    pub fn apply(&self, text: &str) -> String {
        [&text[..self.at.start], &self.new, &text[self.at.end..]].concat()
    }

    /// Return the replaced text and its replacement, in one line.
    #[must_use]
    pub fn describe(&self, text: &str) -> String {
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let new = if self.new == ";" { "nothing" } else { &self.new };
        format!("{} -> {}", words(&text[self.at.clone()]), words(new))
    }
}

/// Return all changes of a C text, in order.
#[must_use]
pub fn changes(text: &str) -> Vec<Change> {
    let mut found = Vec::new();
    let (mut at, mut is_comment) = (0, false);
    let lines: Vec<_> = text.split_inclusive('\n').collect();
    for (number, line) in lines.iter().enumerate() {
        let start = at + line.len() - line.trim_start().len();
        at += line.len();
        let code = line.trim();
        let is_code = !is_comment && line.starts_with('\t') && !code.starts_with("/*");
        is_comment = (is_comment || code.starts_with("/*")) && !code.contains("*/");
        if !is_code {
            continue;
        }
        let mut push = |range: Range<usize>, new: String| {
            found.push(Change { line: number + 1, at: range, new });
        };
        if let Some(head) = ["if (", "} else if ("].iter().find(|head| code.starts_with(**head)) {
            let open = start + head.len() - 1;
            if let Some(length) = balanced(&text[open..]) {
                let condition = open + 1..open + length - 1;
                push(condition.clone(), format!("0 && ({})", &text[condition.clone()]));
                push(condition.clone(), format!("1 || ({})", &text[condition]));
            }
        } else if is_statement(code)
            && let Some(length) = statement(&text[start..])
        {
            push(start..start + length, ";".into());
        }
    }
    found
}

/// Return true if a line begins an assignment or a call.
fn is_statement(code: &str) -> bool {
    const OTHERS: [&str; 24] = [
        "u8", "u32", "u64", "s32", "s64", "bool", "int", "char", "struct", "const", "enum", "static",
        "volatile", "return", "break", "continue", "case", "default", "else", "for", "while", "switch", "do",
        "__uint",
    ];
    let word: String = code.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    let begins = code.starts_with(|c: char| c.is_alphabetic() || "_*+-(".contains(c));
    begins && !OTHERS.contains(&word.as_str()) && !word.starts_with("bpf_for") && !word.starts_with("__type")
}

/// Return the length of the statement at the start of `text`: up to the first semicolon outside of
/// parentheses. `None` if a block, or a line without tab, comes first.
fn statement(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ';' if depth == 0 => return Some(at + 1),
            '{' | '}' => return None,
            '\n' if !text[at + 1..].starts_with('\t') => return None,
            ',' if depth == 0 => return None,
            _ => {}
        }
        if depth < 0 {
            return None;
        }
    }
    None
}

/// Return the length of the parenthesis that `text` begins with.
fn balanced(text: &str) -> Option<usize> {
    let mut depth = 0;
    text.char_indices().find_map(|(at, c)| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        (depth == 0).then_some(at + 1)
    })
}

/// Return what finds a change of `file`: a rule or a scenario, "the compiler", or `None`.
///
/// # Errors
/// Fail if `bpf/` cannot be read, or a case is impossible.
pub fn find(file: &str, change: &Change, cases: u64, scratch: &Path) -> Result<Option<String>> {
    let changed = mutant::compile_changed(file, |text| Ok(change.apply(text)), scratch);
    let Ok(object) = changed else { return Ok(Some("the compiler".into())) };
    let image = Image::File(&object);
    let of_families = scenario::families();
    let of_families = of_families.iter().flat_map(|family| (0..FAMILY_CASES).map(|seed| family.with(seed)));
    let fails = |scenario: Scenario| {
        let fault = campaign::reach(&scenario, image).transpose()?;
        Some(fault.map(|fault| format!("{}: {}", scenario.name, fault.rule)))
    };
    if let Some(found) = scenario::all().into_iter().chain(of_families).find_map(fails) {
        return found.map(Some);
    }
    for seed in 0..cases {
        let fault = campaign::run(&random::case(seed), image)?.filter(|fault| !is_known(fault));
        if let Some(fault) = fault {
            return Ok(Some(format!("seed {seed}: {}", fault.rule)));
        }
    }
    Ok(None)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn statements_and_conditions_are_found_and_declarations_stay() {
        let text = "/* a;\n * b(c);\n */\nint f(void)\n{\n\tu32 a = 1;\n\n\tif (a > (2))\n\t\tg(a,\n\t\t  1);\n\ta = 3;\n\
                    \tfor (;;)\n\t\ta++;\n\treturn a;\n}\n";
        let found: Vec<_> = changes(text).iter().map(|change| (change.line, change.describe(text))).collect();
        let expected = [
            (8, "a > (2) -> 0 && (a > (2))"),
            (8, "a > (2) -> 1 || (a > (2))"),
            (9, "g(a, 1); -> nothing"),
            (11, "a = 3; -> nothing"),
            (13, "a++; -> nothing"),
        ];
        assert_eq!(found, expected.map(|(line, what)| (line, what.to_string())));
        let first = changes(text).swap_remove(2);
        assert!(first.apply(text).contains("\tif (a > (2))\n\t\t;\n\ta = 3;\n"));
    }
}
