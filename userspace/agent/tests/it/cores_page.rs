// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! `docs/cores.md` is generated from `data/events.toml`. This test writes it if the environment has
//! `SCX_BIAS_UPDATE`.

use std::fmt::Write as _;
use std::path::Path;

const HEAD: &str = "\
# Supported cores

This page is generated from `userspace/agent/data/events.toml`. On these cores scx_bias tells tasks
that execute from tasks that wait. *Full* means that both kinds of stall are counted in cycles or in
issue slots. *Degraded* means that memory stalls are estimated from misses, or that other stalls are
not counted. `scx_bias check` and `status` show what this machine has.

The events come from published files of the vendors and of the kernel. They have not been tried on
each of these cores, so scx_bias probes every counter before it trusts it. Other cores get the
kernel's generic stall events if their PMU has them, and `--events` names any others. Without
counters, as in most virtual machines, scx_bias places tasks by the speed of the CPUs alone.

| cores | vendor | counters | memory stalls | other stalls | not counted |
|---|---|---|---|---|---|
";

fn names(events: &toml::Value) -> String {
    let names: Vec<String> = events
        .as_array()
        .unwrap()
        .iter()
        .map(|event| format!("`{}`", event["name"].as_str().unwrap()))
        .collect();
    if names.is_empty() { "-".to_owned() } else { names.join(", else ") }
}

/// Return true if memory stalls are estimated from misses.
fn misses(events: &toml::Value) -> bool {
    events
        .as_array()
        .unwrap()
        .iter()
        .any(|event| event.get("unit").and_then(toml::Value::as_str).is_some_and(|unit| unit == "misses"))
}

fn page(table: &toml::Value) -> String {
    let mut page = HEAD.to_owned();
    for entry in table["entry"].as_array().unwrap() {
        let vendor = match entry["vendor"].as_str().unwrap() {
            "GenuineIntel" => "Intel",
            "AuthenticAMD" => "AMD",
            "arm" => "Arm",
            _ => continue,
        };
        let (external, internal) = (&entry["external"], &entry["internal"]);
        let degraded = misses(external) || internal.as_array().unwrap().is_empty();
        let counters = if degraded { "degraded" } else { "full" };
        let (name, lost) = (entry["name"].as_str().unwrap(), entry["lost"].as_str().unwrap());
        let (external, internal) = (names(external), names(internal));
        writeln!(page, "| {name} | {vendor} | {counters} | {external} | {internal} | {lost} |").unwrap();
    }
    page
}

#[test]
fn the_page_of_cores_agrees_with_the_table_of_events() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let table = std::fs::read_to_string(root.join("data/events.toml")).unwrap();
    let wanted = page(&toml::from_str(&table).unwrap());
    let path = root.join("../../docs/cores.md");
    if std::env::var_os("SCX_BIAS_UPDATE").is_some() {
        std::fs::write(&path, &wanted).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap();
    assert!(found == wanted, "docs/cores.md is stale; run this test with SCX_BIAS_UPDATE=1");
    assert!(wanted.lines().count() > 30);
}
