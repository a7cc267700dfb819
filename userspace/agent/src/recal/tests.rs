// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of the agent's side with a made-up kernel: readings, spot checks, tables and reports.

#![allow(clippy::unwrap_used)]

use super::recalibrator::AGAIN;
use super::testkit::{Rig, table};
use super::thermal::ThermalEvent;
use super::*;
use crate::store::CapacityFile;
use bias_policy::recal::Reference;
use bias_policy::recal::Trigger;
use bias_policy::table::Class;
use std::time::Duration;

#[test]
fn counted_cycles_reach_the_kernel_side_as_one_table_and_are_told() {
    let mut rig = Rig::new(true, true);
    rig.steps(6);
    assert!(rig.made.tables.is_empty() && rig.quick.borrow().asked.is_empty());
    rig.made.khz[0] = 20_000;
    rig.steps(3);
    assert_eq!(rig.made.tables.len(), 1);
    assert_eq!(rig.made.tables[0], *rig.live.table());
    let report = rig.report();
    assert_eq!((report.cpus[0].cost_permille[0], report.cpus[0].class), (3000, Class::Slow));
    assert!(report.cpus.iter().all(|cpu| cpu.follows == Follows::Cycles && cpu.seen_ms_ago.is_some()));
    assert_eq!((report.changed, report.changes.len()), (1, 1));
    assert_eq!(
        line(&report.changes[0]),
        "CPU 0: fast 1.00/1.00/1.00 became slow 3.00/3.00/1.00 (execute/internal/external), by counted cycles"
    );
    rig.made.khz[0] = 60_000;
    rig.steps(3);
    assert_eq!(rig.made.tables[1], table());
}

#[test]
fn a_throttled_cpu_that_idles_is_asked_until_it_has_recovered() {
    let mut rig = Rig::new(true, true);
    rig.steps(6);
    rig.made.khz[0] = 20_000;
    rig.steps(3);
    rig.made.busy[0] = false;
    rig.steps(8);
    assert!(!rig.quick.borrow().asked.is_empty());
    assert!(rig.quick.borrow().asked.iter().all(|cpu| *cpu == 0));
}

#[test]
fn idle_cpus_are_asked_where_nothing_is_counted() {
    let mut rig = Rig::new(false, true);
    rig.made.busy = [true, false, false, false];
    rig.steps(12);
    assert!(rig.made.tables.is_empty());
    assert!(!rig.quick.borrow().asked.contains(&0), "a busy CPU is left alone");
    rig.quick.borrow_mut().step_ns[1] = 30.0;
    // The check begins at most a second later, and another check confirms it.
    rig.steps(5);
    assert_eq!(rig.live.table().get(1).unwrap().cost_permille[0], 3000);
    let report = rig.report();
    assert_eq!((report.cpus[0].follows, report.cpus[1].follows), (Follows::Nothing, Follows::SpotChecks));
    assert!(report.spot_checks >= 5);
    rig.quick.borrow_mut().step_ns[1] = 10.0;
    rig.steps(5);
    assert_eq!(*rig.live.table(), table());
}

/// With opted-in cgroups, tasks of the default scheduler can keep a check from ending.
#[test]
fn checks_under_way_leave_the_budget_to_other_cpus() {
    let mut rig = Rig::new(true, true);
    rig.made.busy = [true, false, false, false];
    rig.quick.borrow_mut().endless = vec![2, 3];
    rig.steps(4);
    assert_eq!(rig.quick.borrow().asked[..3], [3, 2, 1]);
}

#[test]
fn cpus_whose_checks_give_no_result_leave_the_budget_to_others() {
    let mut rig = Rig::new(true, true);
    rig.made.busy = [true, false, false, false];
    rig.quick.borrow_mut().disturbed = vec![2, 3];
    rig.steps(6);
    assert!(rig.quick.borrow().asked.contains(&1), "{:?}", rig.quick.borrow().asked);
}

#[test]
fn an_idle_machine_is_let_sleep() {
    let mut rig = Rig::new(false, true);
    rig.made.busy = [false; 4];
    rig.steps(20);
    assert!(rig.quick.borrow().asked.is_empty());
}

#[test]
fn nothing_is_done_when_it_is_off() {
    let mut rig = Rig::new(true, false);
    rig.steps(4);
    rig.made.khz[0] = 20_000;
    rig.steps(10);
    assert!(rig.made.tables.is_empty() && !rig.report().on);
    assert_eq!(rig.step(rig.now), Duration::MAX);
}

#[test]
fn a_kernel_side_that_refuses_is_told_of() {
    let mut rig = Rig::new(true, true);
    rig.steps(5);
    rig.made.refuses = true;
    rig.made.khz[0] = 20_000;
    rig.steps(4);
    assert_eq!(rig.report().failure.as_deref(), Some("no program"));
    rig.made.refuses = false;
    rig.made.khz[0] = 60_000;
    rig.steps(4);
    assert_eq!(rig.report().failure, None);
}

#[test]
fn a_call_in_between_does_nothing_and_says_for_how_long() {
    let mut rig = Rig::new(true, true);
    rig.steps(2);
    let left = rig.step(rig.now + EVERY / 5);
    assert_eq!(left, EVERY - EVERY / 5);
}

#[test]
fn what_is_announced_is_looked_at_at_once_and_needs_less_proof() {
    let mut rig = Rig::new(true, true);
    rig.steps(6);
    rig.made.khz[0] = 20_000;
    rig.recal.note_thermal(&ThermalEvent::Cpus(vec![0, 99]), rig.now);
    assert!(rig.step(rig.now) <= AGAIN);
    rig.steps(2);
    let report = rig.report();
    assert_eq!((report.cpus[0].class, report.changes[0].trigger), (Class::Slow, Some(Trigger::Feedback)));
    rig.recal.note_thermal(&ThermalEvent::Somewhere, rig.now);
    assert!(rig.recal.limits_due);
    rig.steps(1);
    assert!(!rig.recal.limits_due);
}

/// No task runs on the CPU, so no cycles are counted, and none will run while its entry says that
/// it is slow.
#[test]
fn an_idle_cpu_is_asked_now_and_then_and_at_once_again_when_it_seems_to_have_changed() {
    let mut rig = Rig::new(true, true);
    rig.steps(6);
    rig.made.busy = [true, false, false, false];
    // The first steps learn the CPUs' speeds.
    rig.steps(12);
    rig.quick.borrow_mut().asked.clear();
    rig.steps(12);
    assert!(rig.made.tables.is_empty());
    let asked = rig.quick.borrow().asked.len();
    assert!((4..=9).contains(&asked), "{asked} checks of three CPUs in 6 s");
    rig.quick.borrow_mut().step_ns[1] = 30.0;
    let start = rig.now;
    while rig.made.tables.is_empty() && rig.now - start < 5 * EVERY {
        let pause = rig.step(rig.now);
        rig.now += pause;
        rig.made.pass(pause.as_nanos() as u64);
    }
    assert_eq!(rig.live.table().get(1).unwrap().cost_permille[0], 3000);
    assert!(rig.now - start <= 4 * EVERY + 2 * AGAIN, "{:?}", rig.now - start);
}

/// As on a busy host of virtual CPUs.
#[test]
fn checks_that_never_agree_are_not_repeated_for_ever() {
    let mut rig = Rig::new(true, true);
    rig.made.busy = [true, false, false, false];
    rig.steps(16);
    rig.quick.borrow_mut().asked.clear();
    let start = rig.now;
    let mut step_ns = 20.0;
    while rig.now - start < 40 * EVERY {
        step_ns = (step_ns * 1.7) % 100.0 + 20.0;
        rig.quick.borrow_mut().step_ns = [10.0, step_ns, 25.0, 25.0, 0.0, 0.0];
        let pause = rig.step(rig.now);
        rig.now += pause;
        rig.made.pass(pause.as_nanos() as u64);
    }
    // At most once per step (40) and six more times per 5 s (24).
    let asked = rig.quick.borrow().asked.iter().filter(|cpu| **cpu == 1).count();
    assert!((20..=80).contains(&asked), "{asked} checks of a CPU in 20 s");
}

#[test]
fn a_cpu_that_came_online_is_looked_at_anew_and_the_log_is_bounded() {
    let mut rig = Rig::new(true, true);
    rig.steps(5);
    rig.made.sums[3].onlined += 1;
    rig.made.khz[3] = 12_000;
    rig.steps(2);
    let report = rig.report();
    assert_eq!(report.changes[0].trigger, Some(Trigger::Hotplug));
    for step in 0..4000 {
        rig.made.khz[(step / 4) % 4] = 10_000 + (step as u64 * 7919) % 50_000;
        rig.steps(1);
    }
    let report = rig.report();
    assert!(report.changed > KEPT as u64 && report.changes.len() == KEPT, "{}", report.changed);
}

#[test]
fn a_cpu_that_comes_later_is_measured_though_it_is_busy_and_told_of_until_then() {
    let mut rig = Rig::new(true, true);
    rig.online("0-3");
    rig.steps(8);
    assert!(rig.quick.borrow().measured.is_empty());
    rig.online("0-5");
    rig.steps(4);
    // The other CPUs have no reference, so one of each class is measured, too. CPU 5 gives no time
    // yet.
    assert_eq!(rig.quick.borrow().measured, [4, 5, 0, 2]);
    rig.steps(1);
    let report = rig.report();
    assert_eq!(report.unmeasured, [5]);
    let joined = rig.made.tables.last().unwrap().get(4).unwrap().clone();
    assert_eq!((joined.class, joined.cost_permille), (Class::Slow, [2000, 2000, 1000]));
    assert_eq!((report.cpus[4].cpu, report.cpus[4].follows), (4, Follows::SpotChecks));
    rig.quick.borrow_mut().step_ns[5] = 10.0;
    rig.steps(5);
    assert_eq!(rig.report().unmeasured, Vec::<u32>::new());
    assert_eq!(rig.made.tables.last().unwrap().get(5).unwrap().cost_permille, [1000; 3]);
    let measured = rig.quick.borrow().measured.len();
    rig.steps(20);
    assert_eq!(rig.quick.borrow().measured.len(), measured);
}

#[test]
fn a_cpu_that_goes_again_is_forgotten_and_without_recalibration_only_told_of() {
    let mut rig = Rig::new(true, true);
    rig.online("0-3,5");
    rig.steps(5);
    assert_eq!(rig.report().unmeasured, [5]);
    rig.online("0-3");
    rig.steps(4);
    assert_eq!(rig.report().unmeasured, Vec::<u32>::new());
    let mut off = Rig::new(true, false);
    off.online("0-4");
    off.steps(4);
    assert_eq!(off.report().unmeasured, [4]);
    assert!(off.made.tables.is_empty() && off.quick.borrow().measured.is_empty());
}

#[test]
fn what_a_file_knows_of_its_measurement_is_the_reference() {
    let text = r#"{"version": 1, "cpus": [{"cpu": 0, "cost_permille": [1000, 1000, 1000], "execute_khz": 60000,
        "samples_ps": [[9000, 10000, 30000], [], []]}, {"cpu": 1, "cost_permille": [2500, 1580, 1000]}]}"#;
    let file: CapacityFile = serde_json::from_str(text).unwrap();
    let expected = [
        Reference { cpu: 0, khz: Some(60e3), step_ns: Some(10.0) },
        Reference { cpu: 1, khz: None, step_ns: None },
    ];
    assert_eq!(references(&file), expected);
}
