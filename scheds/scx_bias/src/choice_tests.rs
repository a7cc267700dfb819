// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
#![allow(clippy::unwrap_used)]

use super::*;
use crate::cli::{ClassName, RankName};
use bias_agent::topology::Cpu;
use std::num::NonZeroUsize;

/// Four cores of two CPUs, two cores per cache. The second two cores are slow.
fn capacity() -> (CapacityFile, Topology) {
    let cpus = (0..8).map(|cpu| Cpu { cpu, core: cpu / 2 * 2, llc: cpu / 4 * 4, node: 0 }).collect();
    let topology = Topology { cpus, possible: (0..8).collect(), llc_bytes: 0 };
    let cpu = |cpu: u32| {
        let costs = if cpu < 4 { [1000 + cpu / 2 * 50, 1000, 1000] } else { [2500, 1500, 1000 + cpu * 20] };
        let class = if cpu < 4 { "fast" } else { "slow" };
        serde_json::json!({"cpu": cpu, "cost_permille": costs, "class": class})
    };
    let document = serde_json::json!({"version": 1, "cpus": (0..8).map(cpu).collect::<Vec<_>>()});
    (serde_json::from_value(document).unwrap(), topology)
}

fn table() -> CapacityTable {
    let (file, topology) = capacity();
    file.table(&topology).unwrap()
}

fn args(count: usize, class: Option<ClassName>) -> ExecArgs {
    ExecArgs {
        cpus: NonZeroUsize::new(count),
        class,
        component: RankName::Execute,
        whole_cores: false,
        capacity_file: None,
        dry_run: false,
        json: false,
        verbose: false,
        command: Vec::new(),
    }
}

fn chosen(allowed: &[u32], args: &ExecArgs) -> String {
    Choice::of(&table(), allowed.to_vec(), args).unwrap().list()
}

fn refusal(allowed: &[u32], args: &ExecArgs) -> String {
    let failure = Choice::of(&table(), allowed.to_vec(), args).unwrap_err();
    assert_eq!(failure.exit, Exit::Usage);
    failure.message
}

const ALL: [u32; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

#[test]
fn fast_classes_from_the_top_and_slow_ones_from_the_bottom() {
    assert_eq!(chosen(&ALL, &args(2, None)), "0,2");
    // A further thread of a core adds a quarter of it: less than a core that is 2.5 times slower.
    assert_eq!(chosen(&ALL, &args(4, None)), "0,2,4,6");
    assert_eq!(chosen(&ALL, &args(6, None)), "0-4,6");
    assert_eq!(chosen(&ALL, &ExecArgs { whole_cores: true, ..args(2, None) }), "0,2");
    assert_eq!(chosen(&[1, 3, 5], &args(2, None)), "1,3");
    assert_eq!(chosen(&ALL, &args(0, Some(ClassName::Fast))), "0-3");
    assert_eq!(chosen(&ALL, &args(0, Some(ClassName::Slow))), "4-7");
    // Among equal CPUs, the one that is worse in the other components.
    assert_eq!(chosen(&ALL, &args(1, Some(ClassName::Slow))), "7");
    assert_eq!(
        chosen(&ALL, &ExecArgs { component: RankName::Mean, ..args(2, Some(ClassName::Slow)) }),
        "6-7"
    );
}

#[test]
fn too_few_are_counted_and_told_how_to_get_more() {
    assert!(refusal(&ALL, &args(9, None)).contains("there are 8 among"));
    let text = refusal(&[0, 1, 4], &args(3, Some(ClassName::Fast)));
    assert!(text.contains("there are 2 of class fast among") && text.contains("(0-1,4)"), "{text}");
    let text = refusal(&ALL, &ExecArgs { whole_cores: true, ..args(5, None) });
    assert!(text.contains("there are 4, one a core") && text.contains("--whole-cores"), "{text}");
    let text = refusal(&[0, 2], &args(0, Some(ClassName::Slow)));
    assert!(text.contains("may use CPU 0,2 only") && text.contains("slow ones are 4-7"), "{text}");
}

#[test]
fn a_machine_of_one_class_has_no_slow_cpus() {
    let mut alike = table();
    for entry in &mut alike.cpus {
        entry.class = Class::Fast;
    }
    let of = |table: &CapacityTable, class| Choice::of(table, ALL.to_vec(), &args(1, class));
    assert!(of(&alike, Some(ClassName::Slow)).unwrap_err().message.contains("one class"));
    assert!(of(&alike, Some(ClassName::Fast)).unwrap().warnings[0].contains("one class"));
    assert!(of(&alike, None).unwrap().warnings.is_empty());
    assert!(of(&table(), Some(ClassName::Fast)).unwrap().warnings.is_empty());
}

#[test]
fn the_choice_is_explained() {
    let choice = Choice::of(&table(), ALL.to_vec(), &args(3, None)).unwrap();
    let summary = choice.summary();
    assert_eq!(
        summary,
        "CPU 0,2,4: the fastest 3 of the CPUs in 0-7 by execute (1.00 to 2.50); next is CPU 6 (2.50)"
    );
    let both = Choice::of(&table(), vec![0, 1], &args(1, None)).unwrap().summary();
    assert!(both.ends_with("by execute (1.00); next is CPU 1 (1.60)"), "{both}");
    assert!(
        choice.text().starts_with(&summary) && choice.text().contains("\n    2   fast     1.05"),
        "{}",
        choice.text()
    );
    let all = Choice::of(&table(), ALL.to_vec(), &args(0, Some(ClassName::Slow))).unwrap().summary();
    assert_eq!(all, "CPU 4-7: the slowest 4 of the slow CPUs in 0-7 by execute (4.00); none is left");
    let value: serde_json::Value = serde_json::from_str(&choice.json().unwrap()).unwrap();
    assert_eq!(
        (&value["list"], &value["by"], &value["next"]["cpu"]),
        (&"0,2,4".into(), &"execute".into(), &6.into())
    );
    assert_eq!(value["cpus"][0]["cost_permille"], serde_json::json!([1000, 1000, 1000]));
}

#[test]
fn a_table_of_other_cpus_is_told() {
    let (mut file, topology) = capacity();
    assert_eq!(foreign(&file, &topology), None);
    let identity =
        |topology: &Topology| MachineIdentity { kernel: "older".to_owned(), ..topology.identity() };
    file.identity = Some(identity(&topology));
    assert_eq!(foreign(&file, &topology), None);
    let fewer = Topology { cpus: topology.cpus[..6].to_vec(), ..topology.clone() };
    assert_eq!(foreign(&file, &fewer), None);
    file.identity = Some(identity(&fewer));
    assert!(foreign(&file, &topology).unwrap().contains("topology changed"));
    file.identity = Some(MachineIdentity { cpu_models: vec!["other".to_owned()], ..identity(&topology) });
    assert!(foreign(&file, &topology).unwrap().contains("CPU model"));
}

#[test]
fn what_cannot_run_has_the_exit_codes_of_env() {
    let failure = |program: &str, kind: ErrorKind| cannot_run(OsStr::new(program), &Error::from(kind));
    let missing = failure("no-such-program", ErrorKind::NotFound);
    assert_eq!(missing.exit as u8, 127);
    assert!(missing.message.contains("in PATH"));
    assert!(failure("/no/such/program", ErrorKind::NotFound).message.contains("check the path"));
    assert!(failure("/proc/self/status", ErrorKind::NotFound).message.contains("interpreter"));
    assert_eq!(failure("/etc", ErrorKind::PermissionDenied).exit as u8, 126);
}
