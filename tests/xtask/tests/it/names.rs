// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Checks that a name has one meaning: no two types or traits of a crate share one. Types in tests
//! count, those inside functions do not.

use std::collections::BTreeMap;
use std::fs::read_to_string;

use bias_vm::build::workspace;
use bias_vm::sources::sources;

/// Return the name of the type or trait that a line at the level of modules defines.
fn defined(line: &str) -> Option<&str> {
    let item = line.trim_start();
    // A module in a file is indented once, a function's own types twice at least.
    if line.len() - item.len() > 4 {
        return None;
    }
    let item = item.strip_prefix("pub").map_or(item, |rest| {
        let rest =
            rest.strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or(rest, |(_, rest)| rest);
        rest.trim_start()
    });
    let (kind, rest) = item.split_once(' ')?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    let alias = kind == "type" && line.len() == item.len();
    (["struct", "enum", "trait", "union"].contains(&kind) || alias).then_some(&rest[..end])
}

#[test]
fn no_two_types_of_a_crate_share_a_name() {
    let manifest: toml::Table = read_to_string(workspace().join("Cargo.toml")).unwrap().parse().unwrap();
    let mut shared = Vec::new();
    for member in manifest["workspace"]["members"].as_array().unwrap() {
        let member = member.as_str().unwrap();
        let mut names = BTreeMap::new();
        let files = sources(&[&format!("/{member}/src/**/*.rs")]).unwrap();
        assert!(!files.is_empty(), "{member} has no sources");
        for file in files {
            for name in read_to_string(workspace().join(file)).unwrap().lines().filter_map(defined) {
                *names.entry(format!("{member}: {name}")).or_insert(0) += 1;
            }
        }
        shared.extend(names.into_iter().filter(|(_, count)| *count > 1).map(|(name, _)| name));
    }
    assert!(shared.is_empty(), "{shared:?}");
}

#[test]
fn definitions_are_found() {
    for (line, name) in [
        ("pub struct A<'a> {", Some("A")),
        ("pub(super) enum B {", Some("B")),
        ("    trait C: D {", Some("C")),
        ("type Pairs = u32;", Some("Pairs")),
        ("    type Value = u32;", None),
        ("        struct Local;", None),
        ("// struct E", None),
        ("impl F for G {", None),
    ] {
        assert_eq!(defined(line), name, "{line}");
    }
}
