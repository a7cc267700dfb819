// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The machine as programs in the VM see it: speed ratios, stalls, and the results of calibration.

use crate::common::{Expectations, Results, Scenario};
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Document and pointer of a figure, its value in the model, and the allowed deviation.
type Figure = (&'static str, &'static str, f64, f64);

/// Return the time of this many instructions at 60 MIPS, in ns. Waiting times of a step are added
/// to it.
const fn at_60(insns: f64) -> f64 {
    insns * 1000.0 / 60.0
}

/// Two busy siblings, and a chase. A step of the chase has 3 instructions and a miss of 600 ns, 360
/// ns more from the other node.
const CORES: [Figure; 5] = [
    ("smt", "/share0", 0.62, 0.01),
    ("smt", "/share1", 0.62, 0.01),
    ("memory", "/local_ns", at_60(3.0) + 600.0, 0.03),
    ("memory", "/remote_ns", at_60(3.0) + 960.0, 0.03),
    ("memory", "/interleaved_ns", at_60(3.0) + 780.0, 0.03),
];

/// The same of siblings that take less from each other, and of nodes further apart.
const OTHER_CORES: [Figure; 4] = [
    ("smt", "/share0", 0.7, 0.01),
    ("smt", "/share1", 0.7, 0.01),
    ("memory", "/remote_ns", at_60(3.0) + 1080.0, 0.03),
    ("memory", "/interleaved_ns", at_60(3.0) + 840.0, 0.03),
];

/// A node serves 50 MB/s, so a line of 64 bytes takes 1280 ns.
const BANDWIDTH: [Figure; 7] = [
    ("bandwidth", "/one_ns", 1280.0, 0.03),
    ("bandwidth", "/two_ns0", 2560.0, 0.03),
    ("bandwidth", "/two_ns1", 2560.0, 0.03),
    ("bandwidth", "/nodes_ns0", 1280.0, 0.03),
    ("bandwidth", "/nodes_ns1", 1280.0, 0.03),
    ("bandwidth", "/beside_ns", 1280.0, 0.03),
    ("bandwidth", "/loop_ns", at_60(10.0), 0.03),
];

/// An increment takes 3 instructions, and 80 ns for each transfer.
const TRANSFERS: [Figure; 8] = [
    ("transfers", "/counter2_transfers", 0.5, 0.03),
    ("transfers", "/counter2_ns", at_60(3.0) + 40.0, 0.03),
    ("transfers", "/counter4_transfers", 0.75, 0.03),
    ("transfers", "/counter4_ns", at_60(3.0) + 60.0, 0.03),
    ("transfers", "/falsely_transfers", 0.5, 0.03),
    ("transfers", "/falsely_ns", at_60(3.0) + 40.0, 0.03),
    ("transfers", "/falsely_stall_cycles", 80.0 * 60.0 / 1000.0, 0.03),
    ("transfers", "/padded_ns", at_60(3.0), 0.03),
];

/// A word handed over moves twice: to the CPU that waits for it, and for the write. Short quanta
/// make many handovers.
const HANDOVER: [Figure; 2] = [
    ("handover", "/pingpong_transfers", 2.0, 0.03),
    ("handover", "/pingpong_stall_cycles", 80.0 * 60.0 / 1000.0, 0.03),
];

fn compare(expect: &mut Expectations, results: &Results, figures: &[Figure]) {
    for (name, pointer, model, share) in figures {
        expect.within(&format!("{name}{pointer}"), results.number(name, pointer), *model, *share);
    }
}

/// Check the figures, and that the comparison distinguishes this machine from another one.
#[test]
fn siblings_nodes_and_idle_time_are_those_of_the_model() {
    let machine = "60x4,threads=2,nodes=2,remote_ns=360";
    let results = Scenario::model(machine).figures(&["smt", "memory", "sleep"]);
    let mut expect = Expectations::default();
    compare(&mut expect, &results, &CORES);
    expect.within("ten seconds of sleep", results.number("sleep", "/slept_s"), 10.0, 0.001);
    expect.judge();
    for figure in OTHER_CORES {
        let mut expect = Expectations::default();
        compare(&mut expect, &results, &[figure]);
        assert!(!expect.is_met(), "{}{}", figure.0, figure.1);
    }
}

#[test]
fn bandwidth_is_shared_as_in_the_model() {
    let results = Scenario::model("60x4,nodes=2,bandwidth_mb_s=50").figures(&["bandwidth"]);
    let mut expect = Expectations::default();
    compare(&mut expect, &results, &BANDWIDTH);
    expect.judge();
}

#[test]
fn lines_move_between_cpus_as_in_the_model() {
    let results = Scenario::model("60x4,transfer_ns=80,quantum_us=20").figures(&["transfers", "handover"]);
    let mut expect = Expectations::default();
    compare(&mut expect, &results, &TRANSFERS);
    compare(&mut expect, &results, &HANDOVER);
    expect.judge();
}

/// One busy CPU has 1.5 of its speed, and two have 1.25. A step of the loop that spins is a PAUSE
/// of 140 or 43 cycles, its own cycle and two instructions.
const BOOSTED: [Figure; 7] = [
    ("boost", "/work_ns1", at_60(1.0) / 1.5, 0.01),
    ("boost", "/work_ns2", at_60(1.0) / 1.25, 0.015),
    ("boost", "/work_ns3", at_60(1.0), 0.01),
    ("boost", "/work_ns4", at_60(1.0), 0.01),
    ("spin", "/step_ns0", at_60(143.0) / 1.5, 0.03),
    ("spin", "/step_ns2", at_60(46.0) * 60.0 / 24.0 / 1.5, 0.03),
    ("spin", "/step_ns3", at_60(46.0) * 60.0 / 24.0 / 1.5, 0.03),
];

#[test]
fn boost_and_pause_are_those_of_the_model() {
    let machine = "60:60:24:24,pause_cycles=140:140:43:43,boost=1.5:1.25";
    let results = Scenario::model(machine).figures(&["boost", "spin"]);
    let mut expect = Expectations::default();
    compare(&mut expect, &results, &BOOSTED);
    expect.judge();
}

/// Check that time on the host is not time in the guest: three busy loops on the host change
/// nothing.
#[test]
fn speeds_are_the_same_on_a_busy_host() {
    let quiet = Scenario::model("2F2S").figures(&["execute", "attribution"]);
    let ended = AtomicBool::new(false);
    let busy = std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !ended.load(Relaxed) {
                    std::hint::spin_loop()
                }
            });
        }
        let results = Scenario::model("2F2S").figures(&["execute"]);
        ended.store(true, Relaxed);
        results
    });
    let mut expect = Expectations::default();
    let ratio = |results: &Results, what: &str| {
        results.number("execute", &format!("/{what}2")) / results.number("execute", &format!("/{what}0"))
    };
    expect.within("ratio by work", ratio(&quiet, "work_ns"), 2.5, 0.005);
    // The timer's tick takes more of a slow CPU's time.
    expect.within("ratio by time", ratio(&quiet, "step_ns"), 2.5, 0.015);
    expect.within("on a busy host", ratio(&busy, "step_ns"), ratio(&quiet, "step_ns"), 0.005);
    for cpu in 0..4 {
        for (host, results) in [("quiet", &quiet), ("busy", &busy)] {
            let spread = results.number("execute", &format!("/spread{cpu}"));
            expect.at_most(&format!("spread of CPU time, CPU {cpu}, {host} host"), spread, 0.003);
        }
    }
    let foreign = quiet.number("attribution", "/foreign_share");
    expect.at_most("share of stalls charged to the wrong task", foreign, 0.005);
    expect.judge();
}

/// Return the ratio of a kind of work, predicted from its stalls on the fast CPU. External stalls
/// take the same time on every CPU. Internal ones grow with the square root of the speed ratio, all
/// other cycles with the ratio itself.
fn stacked(number: &dyn Fn(&str) -> f64, kind: usize, ratio: f64) -> f64 {
    let external = number(&format!("/kinds/{kind}/sides/0/stall_external"));
    let internal = number(&format!("/kinds/{kind}/sides/0/stall_internal"));
    (1.0 - external - internal) * ratio + internal * ratio.sqrt() + external
}

/// Return the classes that `scx_bias calibrate` found, by CPU, and the execute costs in thousandths
/// of the best CPU's.
fn classes_and_costs(table: &Value) -> (Vec<String>, Vec<u64>) {
    let cpus = table.pointer("/cpus").and_then(Value::as_array).cloned().unwrap_or_default();
    let class = |cpu: &Value| cpu["class"].as_str().unwrap_or("none").to_lowercase();
    let cost = |cpu: &Value| cpu["cost_permille"][0].as_u64().unwrap_or(0);
    (cpus.iter().map(class).collect(), cpus.iter().map(cost).collect())
}

const CALIBRATE: &str = "keep table $BIAS calibrate --force";

/// Calibrate four equal CPUs several times. Different work before each calibration leaves other
/// pages free and other lines in the caches.
fn one_class_each_time(calibrations: usize) {
    let results = Scenario::emulated("6.12", "SYM", 8).run("one_class", &[&calibrations.to_string()]);
    let mut expect = Expectations::default();
    for run in 1..=calibrations {
        let (classes, costs) = classes_and_costs(&results.json(&format!("table{run}")));
        let alike = classes.len() == 4 && classes.iter().all(|c| *c == classes[0]);
        expect.holds(&format!("calibration {run}: one class: {classes:?}, {costs:?}"), alike);
    }
    expect.judge();
}

#[test]
fn equal_cpus_are_one_class_after_other_work() {
    one_class_each_time(6);
}

/// Check the guest's caches, its `/tmp` and its root in memory. The first cache has two cores of
/// two threads, the second one four cores of one.
fn guest_has_what_was_ordered(kernel: &str) {
    let mut scenario = Scenario::bare(kernel, "P2E4,llcs=2+4");
    scenario.root(&["hello"]);
    let results = scenario.shell(
        "for cpu in 0 1 2 3 4 5 6 7; do
            cat /sys/devices/system/cpu/cpu$cpu/cache/index3/shared_cpu_list
        done >$OUT/caches
        echo kept >/tmp/file; cat /tmp/file >$OUT/tmp
        chroot $ROOT hello >$OUT/hello; stat -f -c %T $ROOT >$OUT/type",
    );
    let mut expect = Expectations::default();
    let caches = results.text("caches");
    let lists: Vec<&str> = caches.lines().collect();
    expect.holds(&format!("shared_cpu_list {lists:?}"), lists == [["0-3"; 4], ["4-7"; 4]].concat());
    for (name, due) in [("tmp", "kept"), ("hello", "Hello, world!"), ("type", "tmpfs")] {
        let text = results.text(name);
        expect.holds(&format!("{name}: {text:?}"), text.trim() == due);
    }
    expect.judge();
}

#[test]
fn guest_has_what_was_ordered_on_6_12() {
    guest_has_what_was_ordered("6.12");
}

#[test]
fn guest_has_what_was_ordered_on_7_3() {
    guest_has_what_was_ordered("7.3");
}

/// Scenarios of `cargo xtask test --full`.
mod full {
    use super::*;

    #[test]
    fn speed_ratios_are_those_of_the_model() {
        // One boot serves three ratios: each CPU against the first.
        let results = Scenario::emulated("6.12", "60:54:36:24", 4).shell(
            "for cpu in 1 2 3; do keep ratio$cpu $BENCH ratio --cpus 0,$cpu --kinds compute,chase,stalled; done",
        );
        let mut expect = Expectations::default();
        for (cpu, ratio) in [(1, 60.0 / 54.0), (2, 60.0 / 36.0), (3, 60.0 / 24.0)] {
            let number = |pointer: &str| results.number(&format!("ratio{cpu}"), pointer);
            expect.within(&format!("compute, CPU {cpu}"), number("/kinds/0/ratio"), ratio, 0.02);
            for (i, kind) in [(1, "chase"), (2, "stalled")] {
                let (measured, model) = (number(&format!("/kinds/{i}/ratio")), stacked(&number, i, ratio));
                expect.within(&format!("{kind}, CPU {cpu}"), measured, model, 0.05);
            }
        }
        let external = results.number("ratio3", "/kinds/1/sides/0/stall_external");
        expect.at_least("chase: share of stalls outside the core", external, 0.9);
        expect.within(
            "stalled: half of the cycles",
            results.number("ratio3", "/kinds/2/sides/0/stall_external"),
            0.5,
            0.1,
        );
        expect.judge();
    }

    /// Threads of a busy core have 0.62 of their speed, and a miss takes the same time as on an
    /// idle core.
    #[test]
    fn calibration_prices_siblings() {
        let results = Scenario::emulated("6.12", "60x4,threads=2,smt_share=0.62", 3).shell(CALIBRATE);
        let mut expect = Expectations::default();
        for cpu in 0..4 {
            let factor = |k: u32| results.number("table", &format!("/cpus/{cpu}/shared_permille/{k}"));
            expect.within(&format!("execute factor of CPU {cpu}"), factor(0), 1000.0 / 0.62, 0.03);
            expect.at_most(&format!("external factor of CPU {cpu}"), factor(2), 1100.0);
        }
        expect.judge();
    }

    /// The demo's scenario checks the same table in fewer runs.
    #[test]
    fn calibration_finds_two_classes() {
        let results = Scenario::emulated("6.12", "2F2S", 3).shell(CALIBRATE);
        let mut expect = Expectations::default();
        let (classes, costs) = classes_and_costs(&results.json("table"));
        expect.holds(&format!("classes {classes:?}"), classes == ["fast", "fast", "slow", "slow"]);
        for cpu in [2, 3] {
            expect.within(&format!("execute cost of CPU {cpu}"), costs[cpu] as f64, 2500.0, 0.03);
        }
        expect.judge();
    }

    #[test]
    fn calibration_orders_cpus_that_are_nearly_alike() {
        let results = Scenario::emulated("6.12", "NEAR", 3).shell(CALIBRATE);
        let mut expect = Expectations::default();
        let (_, costs) = classes_and_costs(&results.json("table"));
        expect.holds(&format!("costs {costs:?} rise"), costs.is_sorted_by(|a, b| a < b) && costs.len() == 4);
        expect.judge();
    }

    #[test]
    fn equal_cpus_are_one_class_each_of_twenty_times() {
        one_class_each_time(20);
    }
}
