// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The results of a nextest run, from its JUnit file.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use bias_vm::build::workspace;

/// The JUnit file of a profile of nextest. `.config/nextest.toml` names it.
pub struct Report(PathBuf);

impl Report {
    /// Return the report of a run that begins now. There is none until nextest ends.
    ///
    /// # Errors
    /// The report of an earlier run cannot be removed.
    pub fn of(profile: &str) -> Result<Self> {
        let path = workspace().join("target/nextest").join(profile).join("junit.xml");
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", path.display()))
            }
            _ => Ok(Self(path)),
        }
    }

    /// Return the outcomes; none if nextest ended before it wrote them.
    pub fn outcomes(&self) -> Vec<TestOutcome> {
        parse(&fs::read_to_string(&self.0).unwrap_or_default())
    }
}

/// The outcome of a test.
#[derive(Debug, PartialEq, Eq)]
pub struct TestOutcome {
    /// Its program, for example `bias_vm::it`.
    pub program: String,
    /// Its name in that program.
    pub name: String,
    /// False if any attempt failed.
    pub passed: bool,
    /// Why it returned without a check, from a line that begins with `skipped: `.
    pub skipped: Option<String>,
}

/// Return the outcomes in a JUnit file of nextest.
fn parse(junit: &str) -> Vec<TestOutcome> {
    let cases = junit.split("<testcase ").skip(1);
    let outcome = |case: &str| {
        let (head, body) = case.split_once('>')?;
        let body = if head.ends_with('/') { "" } else { body.split("</testcase>").next().unwrap_or(body) };
        const FAILED: [&str; 4] = ["<failure", "<error", "<flakyFailure", "<rerunFailure"];
        let text = body.replace("<system-err>", "\n").replace("</system-err>", "\n");
        let skipped = text.lines().find_map(|line| line.strip_prefix("skipped: ")).map(String::from);
        Some(TestOutcome {
            program: attribute(head, "classname")?,
            name: attribute(head, "name")?,
            passed: !FAILED.iter().any(|element| body.contains(element)),
            skipped,
        })
    };
    cases.filter_map(outcome).collect()
}

/// Return an attribute of an element.
fn attribute(element: &str, name: &str) -> Option<String> {
    let key = format!("{name}=\"");
    let mut words = element.split(&key).skip(1);
    Some(words.next()?.split('"').next()?.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_any_attempt_and_skips_are_seen() {
        let junit = r#"<?xml version="1.0"?>
<testsuites name="nextest-run" tests="4">
  <testsuite name="bias_vm::it" tests="3">
    <testcase name="recal::follows" classname="bias_vm::it" time="1.5">
      <system-err>skipped: this process may not count
second line</system-err>
    </testcase>
    <testcase name="recal::late" classname="bias_vm::it" time="1.5">
      <failure message="x" type="test failure">skipped: no line of its output</failure>
    </testcase>
    <testcase name="ab::again" classname="bias_vm::it" time="1.5">
      <flakyFailure type="test failure"></flakyFailure>
    </testcase>
    <testcase name="ab::short" classname="bias_vm::it" time="1.5"/>
  </testsuite>
</testsuites>"#;
        let seen = parse(junit);
        let of = |name: &str| seen.iter().find(|one| one.name == name);
        let passed: Vec<_> = seen.iter().filter(|one| one.passed).map(|one| one.name.as_str()).collect();
        assert_eq!(passed, ["recal::follows", "ab::short"]);
        assert_eq!(seen.len(), 4);
        assert!(seen.iter().all(|one| one.program == "bias_vm::it"));
        let why = of("recal::follows").and_then(|one| one.skipped.as_deref());
        assert_eq!(why, Some("this process may not count"));
        assert_eq!(of("ab::short").and_then(|one| one.skipped.as_deref()), None);
    }
}
