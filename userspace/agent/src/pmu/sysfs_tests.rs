// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! PMUs in made-up sysfs directories.

#![allow(clippy::unwrap_used)]

use super::super::fake::FakeSysfs;
use super::*;
use proptest::prelude::*;

#[test]
fn lists_pmus_with_number_and_cpus() {
    let machine = FakeSysfs::hybrid();
    let pmus = Pmu::list(machine.root());
    let of = |name: &str| pmus.iter().find(|pmu| pmu.name == name).unwrap();
    assert_eq!((of("cpu_core").kind, of("cpu_core").cpus.clone()), (4, Some(vec![0, 1])));
    assert!(of("cpu_atom").core && of("cpu_atom").serves(3) && !of("cpu_atom").serves(0));
    assert!(!of("uncore_imc").core && of("uncore_imc").serves(0) && !of("uncore_imc").serves(1));
    assert!(pmus.iter().all(|pmu| pmu.name != "broken"));
    assert!(Pmu::list(Path::new("/nowhere")).is_empty());
}

#[test]
fn terms_become_configurations_by_the_format_files() {
    let machine = FakeSysfs::hybrid();
    let pmus = Pmu::list(machine.root());
    let core = pmus.iter().find(|pmu| pmu.name == "cpu_core").unwrap();
    let configure = |text: &str| parse_terms(text).and_then(|terms| core.configure(&terms));
    assert_eq!(configure("event=0xa3,umask=6,cmask=6"), Ok([0x0600_06a3, 0, 0]));
    assert_eq!(configure("event=0x9c,umask=0x101,inv"), Ok([0x100_0080_019c, 0, 0]));
    assert_eq!(configure("cache-misses"), Ok([0x412e, 0, 0]));
    assert_eq!(configure("offcore_rsp=0x10,event=0x2a"), Ok([0x2a, 0x10, 0]));
    assert_eq!(configure("config=0x3c,config2=5"), Ok([0x3c, 0, 5]));
}

#[test]
fn what_a_pmu_does_not_have_is_named_with_what_it_has() {
    let machine = FakeSysfs::hybrid();
    let pmus = Pmu::list(machine.root());
    let core = pmus.iter().find(|pmu| pmu.name == "cpu_core").unwrap();
    let refuse = |text: &str| parse_terms(text).and_then(|terms| core.configure(&terms)).unwrap_err();
    assert!(refuse("evnt=1").contains("no field or event evnt; it has the fields cmask, edge, event"));
    assert!(refuse("event=0x100").contains("0x100 does not fit the field event"));
    assert!(refuse("cache-misses=1").contains("no field or event cache-misses"));
    assert!(refuse("recursive").contains("no field or event cache-misses"));
    assert!(refuse("parameter").contains("decimal or 0x"));
    assert!(refuse("odd=1").contains("unknown format"));
    for bad in ["", "=1", "a=", "../type", "event=0x+1", "event=-1", "event=1,,umask=1"] {
        assert!(!refuse(bad).contains('\n'), "{bad}");
    }
}

#[test]
fn fields_in_pieces() {
    let field = Field::parse("config:0-7,32-35\n").unwrap();
    assert_eq!(field.place(0x1a0), Some(0x1_0000_00a0));
    assert_eq!(field.place(0x1000), None);
    assert_eq!(Field::parse("config2:0-63").unwrap().place(u64::MAX), Some(u64::MAX));
    for bad in ["", "config", "config:", "config:8-0", "config:0-64", "config9:1", "config:0-7,", "config:a"]
    {
        assert_eq!(Field::parse(bad), None, "{bad}");
    }
}

proptest! {
    #[test]
    fn no_format_panics(text in "(config[0-3]?)?:?[0-9,-]{0,12}", value: u64) {
        if let Some(field) = Field::parse(&text) {
            let _ = field.place(value);
        }
    }

    #[test]
    fn a_field_keeps_every_bit(split in 1u32..63, value: u64) {
        // Two pieces in reverse order lose nothing.
        let field = Field::parse(&format!("config:{split}-63,0-{}", split - 1)).unwrap();
        prop_assert_eq!(field.place(value), Some(value.rotate_left(split)));
    }

    #[test]
    fn terms_survive_printing(names in prop::collection::vec("[a-z][a-z0-9_.-]{0,10}", 1..5), value: Option<u64>) {
        let terms: Vec<Term> = names.into_iter().map(|name| Term { name, value }).collect();
        let text = terms.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        prop_assert_eq!(parse_terms(&text), Ok(terms));
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,60}") {
        let _ = parse_terms(&text);
        let _ = Field::parse(&text);
    }
}
