// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Random machines and loads.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use bias_sim::case::{Case, Disturbance};
use bias_sim::findings::{self, FINDINGS};
use bias_sim::unit::Image;
use bias_sim::{campaign, fault_report, random};

/// Cases in every test run.
const CASES: u64 = 4000;

/// Random machines and loads break no rule but those of known findings, and these about as often as
/// expected.
#[test]
fn random_cases_break_no_other_rule() {
    let faults = campaign::survey(0..CASES, Image::Plain).unwrap();
    for (rule, list) in &faults {
        println!("{rule}: {} cases", list.len());
    }
    if let Some((seed, fault)) = faults.values().flatten().find(|(_, fault)| !findings::is_known(fault)) {
        panic!("{}", fault_report::describe(&random::case(*seed), fault, Image::Plain).unwrap());
    }
    for finding in FINDINGS {
        let found = faults.get(finding.rule).map_or(0, Vec::len);
        assert_eq!(findings::unexpected(finding, found, CASES), None);
    }
}

/// All tasks announce sections: any hint, any other content, or none. No rule breaks but those of
/// known findings.
///
/// Changes of affinity are left out: they cancel an arrival, and the CPU that awaits it is idle for
/// longer than the rule allows (`bpf/arrival.bpf.h`, Limits).
#[test]
fn random_hints_break_no_rule() {
    for seed in 0..CASES / 4 {
        let mut case = random::short(seed);
        case.hints = true;
        case.disturbances.retain(|one| !matches!(one.what, Disturbance::Affinity { .. }));
        let fault = campaign::run(&case, Image::Plain).unwrap();
        if let Some(fault) = fault.filter(|fault| !findings::is_known(fault)) {
            panic!("{}", fault_report::describe(&case, &fault, Image::Plain).unwrap());
        }
    }
}

/// A task disables migration between a change of its affinity and the stopper, which lets it stay.
/// It leaves when it enables migration (migrate_enable()). A simulator that forgets this reports a
/// task on a CPU that it may not use.
#[test]
fn a_task_that_disabled_migration_leaves_when_it_enables_it() {
    let case = Case::parse(include_str!("../cases/disabled_before_stopper.json")).unwrap();
    assert_eq!(campaign::run(&case, Image::Plain).unwrap(), None);
}

/// A task's nice value changes while another CPU takes the task from its runqueue. task_rq_lock()
/// waits until it has arrived. A simulator that does not wait leaves weight over at the end.
#[test]
fn a_change_waits_for_a_task_that_migrates() {
    let case = Case::parse(include_str!("../cases/nice_while_migrating.json")).unwrap();
    assert_eq!(campaign::run(&case, Image::Plain).unwrap(), None);
}
