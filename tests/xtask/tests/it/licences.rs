// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Checks that every dependency has a licence that may be linked into GPL-2.0-only programs. The
//! rules are those of `.deny.toml`. `cargo deny check` applies them in full, but is an additional
//! tool.

use serde_json::Value;
use spdx::{Expression, ParseMode};
use std::collections::HashSet;
use std::process::Command;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Return the names in an array of the rules.
fn names(array: &toml::Value) -> HashSet<String> {
    array.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

#[test]
fn every_dependency_has_a_licence_that_fits() {
    let rules: toml::Value =
        toml::from_str(&std::fs::read_to_string(format!("{ROOT}/.deny.toml")).unwrap()).unwrap();
    let allowed = names(&rules["licenses"]["allow"]);
    let exceptions: HashSet<&str> = rules["licenses"]["exceptions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["crate"].as_str().unwrap())
        .collect();
    let mut cargo = Command::new(env!("CARGO"));
    let output =
        cargo.args(["metadata", "--locked", "--format-version", "1"]).current_dir(ROOT).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 100, "{} packages", packages.len());
    let unfit: Vec<String> = packages
        .iter()
        .filter(|package| !exceptions.contains(package["name"].as_str().unwrap()))
        .filter(|package| {
            let licence = package["license"].as_str().unwrap_or("none");
            let expression = Expression::parse_mode(licence, ParseMode::LAX);
            !expression
                .is_ok_and(|expression| expression.evaluate(|one| allowed.contains(&one.license.to_string())))
        })
        .map(|package| format!("{} {}", package["name"], package["license"]))
        .collect();
    assert!(unfit.is_empty(), "{unfit:?}");
}
