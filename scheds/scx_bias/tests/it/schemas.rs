// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of the JSON that every command prints against the keys that `docs/guides/json.md`
//! publishes.

use crate::instance::instance;
use assert_cmd::Command;
use bias_agent::bpf::Stats;
use bias_agent::topology::Topology;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

/// Return the published keys of each form.
fn published() -> BTreeMap<String, BTreeSet<String>> {
    let guide = include_str!("../../../../docs/guides/json.md");
    let rows = guide.lines().filter_map(|line| line.strip_prefix("| `scx_bias."));
    let mut forms = BTreeMap::new();
    for row in rows {
        let (form, rest) = row.split_once('`').unwrap();
        let (_, keys) = rest.trim_end_matches('|').trim().rsplit_once(" | ").unwrap();
        let mut keys: BTreeSet<String> = keys.split(", ").map(|key| key.trim_matches('`').into()).collect();
        if form == "stats/1" {
            keys = Stats::ALL.iter().map(|(name, _)| (*name).to_owned()).collect();
        }
        forms.insert(format!("scx_bias.{form}"), keys);
    }
    forms
}

/// Run the program, whatever its exit code, and return the first JSON object that it prints.
fn first(args: &[&str], flags: &[(&str, &Path)]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scx_bias"));
    command.args(args).timeout(Duration::from_secs(60));
    for (flag, path) in flags {
        command.arg(flag).arg(path);
    }
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut values = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
    values.next().unwrap_or_else(|| panic!("{args:?} printed {text:?}")).unwrap()
}

/// Return a capacity table of this machine at `path`.
fn write_table(path: &Path) {
    let entry = |cpu| json!({"cpu": cpu, "cost_permille": [1000, 1000, 1000]});
    let cpus: Vec<Value> = Topology::read().unwrap().cpus.iter().map(|cpu| entry(cpu.cpu)).collect();
    std::fs::write(path, json!({"version": 1, "cpus": cpus}).to_string()).unwrap();
}

#[test]
fn every_command_prints_the_published_keys() {
    let directory = tempfile::tempdir().unwrap();
    let table = directory.path().join("table.json");
    write_table(&table);
    let table = [("--capacity-file", table.as_path())];
    let ask = |asked: usize, args: &[&str]| {
        let path = directory.path().join(args.concat().replace('/', ""));
        let server = instance(&path, asked);
        let value = first(args, &[("--socket", &path)]);
        server.join().unwrap();
        value
    };
    let documents = [
        first(&["check", "--json"], &[("--root", directory.path())]),
        first(&["table", "--json"], &table),
        first(&["exec", "-n", "1", "--dry-run", "--json"], &table),
        first(&["cgroup", "restore", "--json"], &[]),
        ask(2, &["status", "--json"]),
        ask(9, &["top", "-i", "0.1", "-n", "1", "--json"]),
        ask(5, &["trace", "--perfetto", "-", "--seconds", "0.1"]),
        ask(1, &["swaps", "--json"]),
        ask(2, &["swaps", "--follow", "--json"]),
        ask(1, &["cgroup", "list", "--json"]),
        ask(1, &["reload", "--json"]),
        ask(3, &["--monitor", "0.1", "--stats-format", "json"]),
    ];
    let mut published = published();
    for document in documents {
        let mut keys: BTreeSet<String> = document.as_object().unwrap().keys().cloned().collect();
        assert!(keys.remove("schema"), "{document}");
        let form = document["schema"].as_str().unwrap();
        let promised = published.remove(form).unwrap_or_else(|| panic!("{form} is not published"));
        assert_eq!(keys, promised, "{form}");
    }
    assert!(published.is_empty(), "no command prints {published:?}");
}
