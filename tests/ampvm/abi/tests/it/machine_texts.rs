// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Accepted and refused texts of machines, and their meaning.

use ampvm_abi::{Machine, PRESETS, Penalty, SpeedChange, Stall};
use proptest::prelude::*;

fn milli(cycles: u32) -> Penalty {
    Penalty::Cycles { milli: cycles }
}

#[test]
fn every_preset_parses_and_its_written_form_is_the_same_machine() {
    for (name, text, why) in PRESETS {
        let machine = Machine::parse(name).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(Machine::parse(text).unwrap(), machine, "{name}");
        assert_eq!(Machine::parse(&machine.to_string()).unwrap(), machine, "{name}");
        assert!(!why.is_empty());
    }
}

#[test]
fn defaults_are_the_documented_ones() {
    let machine = Machine::parse("2F2S").unwrap();
    let (fast, slow) = (machine.slots[0].unwrap(), machine.slots[3].unwrap());
    assert_eq!(fast.penalties[..3], [milli(140_000), milli(15_000), milli(3_000)]);
    assert_eq!(slow.penalties[0], milli(140_000), "of the CPU's own clock");
    assert_eq!(slow.penalties[1..3], [milli(9_487), milli(1_897)], "the square root of 0.4");
    assert_eq!(slow.penalties[3..], [150, 600, 0, 0].map(Penalty::Ns));
    assert!(machine.boost_permille.is_empty());
    assert_eq!((machine.l1.sets(), machine.l2.sets(), machine.llcs[0].sets()), (32, 128, 256));
    assert_eq!(machine.quantum_ns, 200_000);
    let real = Machine::parse("3000:3000:1200:1200").unwrap();
    assert_eq!(
        (real.slots[0].unwrap().penalties[Stall::Mem as usize], real.quantum_ns),
        (Penalty::Ns(80), 20_000)
    );
}

#[test]
fn user_options_override_those_of_a_preset() {
    let machine = Machine::parse("2S,remote_ns=7,mem_ns=300").unwrap();
    assert_eq!(machine.slots[5].unwrap().penalties[Stall::Remote as usize], Penalty::Ns(7));
    assert_eq!(machine.to_string(), "60x8,nodes=2,remote_ns=7,mem_ns=300");
    let machine = Machine::parse("2F2S,pause_cycles=140:140:43:43,boost=1.5:1.25").unwrap();
    assert_eq!(machine.slots[3].unwrap().penalties[Stall::Pause as usize], milli(43_000));
    assert_eq!(machine.boost_permille, [1500, 1250]);
}

#[test]
fn topology_is_translated_for_qemu() {
    let smp = |text: &str| Machine::parse(text).unwrap().smp_args();
    assert_eq!(smp("2F2S"), "4,sockets=1,cores=4,threads=1");
    assert_eq!(smp("SPLIT"), "8,sockets=2,cores=4,threads=1");
    assert_eq!(smp("2S"), "8,sockets=2,cores=4,threads=1");
    let hybrid = Machine::parse("P2E4").unwrap();
    assert_eq!(hybrid.cpus(), 8);
    assert_eq!(hybrid.smp_args(), "1,maxcpus=12,sockets=1,cores=6,threads=2");
    let devices = hybrid.cpu_devices("max");
    assert_eq!(devices.len(), 7);
    assert_eq!(devices[0], "max-x86_64-cpu,socket-id=0,core-id=0,thread-id=1");
    assert_eq!(devices[6], "max-x86_64-cpu,socket-id=0,core-id=5,thread-id=0");
    assert!(Machine::parse("2F2S").unwrap().cpu_devices("max").is_empty());
}

#[test]
fn caches_may_be_unequal_in_cores_and_size() {
    let machine = Machine::parse("60x2:24x4,llcs=2+4,llc=262144/16:1048576/16").unwrap();
    assert_eq!(machine.smp_args(), "1,maxcpus=8,sockets=2,cores=4,threads=1");
    let present: Vec<_> = machine.slots.iter().map(Option::is_some).collect();
    assert_eq!(present, [true, true, false, false, true, true, true, true]);
    assert_eq!(machine.llcs.iter().map(|llc| llc.bytes).collect::<Vec<_>>(), [256 << 10, 1 << 20]);
    let devices = machine.cpu_devices("max");
    assert_eq!(devices.len(), 5);
    assert_eq!(devices[1], "max-x86_64-cpu,socket-id=1,core-id=0,thread-id=0");
    // The fast cores have two threads each, the slow ones one.
    let hybrid = Machine::parse("P2E4,llcs=2+4").unwrap();
    assert_eq!((hybrid.cpus(), hybrid.slots.len()), (8, 16));
    assert_eq!(hybrid.smp_args(), "1,maxcpus=16,sockets=2,cores=4,threads=2");
}

#[test]
fn impossible_machines_are_refused_in_one_line() {
    for (bad, names) in [
        ("", "neither a speed"),
        ("3F3S", "preset (2F2S"),
        ("60:abc", "\"abc\""),
        ("60x65", "repeat count"),
        ("60x64:60", "65 CPUs"),
        ("0.5", "outside 1 to 10000"),
        ("60,mem_ns", "key=value"),
        ("60,colour=red", "unknown"),
        ("60,mem_ns=1000001", "mem_ns"),
        ("60,mem_cycles=-1", "cycles"),
        ("60,mem_ns=1,mem_cycles=1", "exclude"),
        ("60:60:60,mem_ns=1:2", "2 values"),
        ("60,l1=8192", "l1"),
        ("60,llc=196608/16", "llc"),
        ("60x4,threads=2,smt_share=1.2", "smt_share"),
        ("60x4,threads=2,smt_share=0", "smt_share"),
        ("60,boost=0.9", "boost"),
        ("60x2,boost=1.1:1.2", "falling list"),
        ("60,boost=5", "from 4 to 1"),
        ("60:24,threads=2", "threads of core 0 differ"),
        ("60:60,threads=2,mem_ns=1:2", "threads of core 0 differ"),
        ("-:60,threads=2", "no first thread"),
        ("-", "no first thread"),
        ("60:60,nodes=4", "4 node(s)"),
        ("60x3,llcs=2", "2 last-level cache(s)"),
        ("60x3,threads=2", "cores of 2 threads"),
        ("60x8,nodes=4,llcs=2", "4 nodes"),
        ("60x4,llcs=1+2", "names 3 cores"),
        ("60x4,llcs=0+4", "llcs=0"),
        ("60x44,llcs=1+1+42", "more equal"),
        ("60x4,llcs=2,llc=65536/8:65536/8:65536/8", "3 values"),
        ("60x4,llcs=1+3,nodes=2", "several nodes"),
        ("60x4:60:-:60:-,threads=2,nodes=2", "several nodes"),
    ] {
        let error = Machine::parse(bad).unwrap_err().to_string();
        assert!(error.contains(names) && !error.contains('\n'), "{bad}: {error}");
    }
}

#[test]
fn changes_of_speed_are_read_and_written() {
    for (text, at_ms, cpu, mips_milli) in [("0:20@3", 3000, 0, 20_000), ("11:12.5@4.25", 4250, 11, 12_500)] {
        let change: SpeedChange = text.parse().unwrap();
        assert_eq!(change, SpeedChange { at_ms, cpu, mips_milli });
        assert_eq!(change.to_string(), text);
    }
    for bad in ["1", "1:12", "1:nan@1", "1:0.05@1", "1:10001@1", "1:10@-1", "x:10@1"] {
        let error = bad.parse::<SpeedChange>().unwrap_err().to_string();
        assert!(error.contains("CPU:MIPS@SECONDS") && !error.contains('\n'), "{bad}: {error}");
    }
}

proptest! {
    #[test]
    fn accepted_texts_give_sane_machines(text in "(60|24\\.5|-|60x4)(:(60|24|-)){0,7}(,(threads|nodes|llcs|mem_ns|mem_cycles|l1|smt_share|boost|pause_cycles|quantum_us)=[0-9:./+]{1,6}){0,4}") {
        if let Ok(machine) = Machine::parse(&text) {
            prop_assert_eq!(&Machine::parse(&machine.to_string()).unwrap(), &machine);
            prop_assert!(machine.cpus() >= 1 && machine.slots.len() <= 64);
            for groups in [machine.nodes, machine.llcs.len()] {
                prop_assert!(machine.slots.len() % (groups * machine.threads) == 0);
            }
            for g in [machine.l1, machine.l2].iter().chain(&machine.llcs) {
                prop_assert!(g.sets().is_power_of_two() && g.sets() * g.ways * 64 == g.bytes);
            }
            prop_assert!(machine.quantum_ns > 0 && machine.smt_share_permille <= 1000);
            prop_assert!(machine.total_mips_milli() >= 1000);
        }
    }
}
