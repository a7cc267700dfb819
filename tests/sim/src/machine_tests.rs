// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;

#[test]
fn presets_of_the_vm_are_known() {
    for (name, cpus, slow, smt) in
        [("2F2S", 4, 2, false), ("1F3S", 4, 3, false), ("SYM", 4, 0, false), ("P2E4", 8, 4, true)]
    {
        let machine = Machine::parse(name).unwrap();
        assert_eq!(machine.cpus.len(), cpus, "{name}");
        assert_eq!(machine.cpus.iter().filter(|cpu| cpu.slow).count(), slow, "{name}");
        assert_eq!(machine.smt(), smt, "{name}");
    }
    let split = Machine::parse("SPLIT").unwrap();
    assert_eq!(split.cpus.iter().map(|cpu| cpu.llc).collect::<Vec<_>>(), [0, 0, 0, 0, 4, 4, 4, 4]);
    let unequal = Machine::parse("60x2:24x4,llcs=2+4").unwrap();
    assert_eq!(unequal.cpus.iter().map(|cpu| cpu.llc).collect::<Vec<_>>(), [0, 0, 2, 2, 2, 2]);
}

#[test]
fn counts_of_types_are_machines() {
    let machine = Machine::parse("8P2T+16E,llcs=2,nodes=2").unwrap();
    assert_eq!(machine.cpus.len(), 32);
    assert_eq!(machine.cpus.iter().filter(|cpu| cpu.slow).count(), 16);
    assert_eq!(machine.cpus[1].core, 0);
    assert_eq!(machine.cpus[1].siblings.iter().collect::<Vec<_>>(), [0, 1]);
    assert_eq!(machine.cpus[16].siblings.count(), 1);
    assert_eq!(machine.cpus[31].node, 1);
    assert!(machine.table().unwrap().nr_classes() == 2);
    let unequal = Machine::parse("1P2T+2E,llcs=1+2").unwrap();
    assert_eq!(unequal.cpus.iter().map(|cpu| cpu.llc).collect::<Vec<_>>(), [0, 0, 2, 2]);
}

#[test]
fn impossible_machines_are_refused() {
    for (text, why) in [
        ("8X", "speed"),
        ("8P3", "threads"),
        ("8P9T", "threads"),
        ("4P,llcs=8", "divide"),
        ("4P,llcs=1+2", "divide"),
        ("4P,llcs=0+4", "divide"),
        ("4P,llcs=1+3,nodes=2", "one node"),
        ("4P,colour=1", "option"),
        ("2000P", "CPUs"),
        ("0P", "divide"),
    ] {
        let error =
            format!("{:#}", Machine::parse(text).err().unwrap_or_else(|| panic!("{text} is a machine")));
        assert!(
            !error.is_empty() && (error.contains(why) || text == "8X" || text == "2000P"),
            "{text}: {error}"
        );
    }
}
