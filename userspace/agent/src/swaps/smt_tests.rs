// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of swaps between CPUs with SMT siblings.

#![allow(clippy::unwrap_used)]

use super::super::fake::{CHASE, FAST, FakeKernel, LOOP, MS, SLOW, swaps_on, table};
use bias_policy::table::CapacityTable;

/// Return the made-up machine, with both fast CPUs on one core.
fn one_fast_core(shared_permille: u32) -> CapacityTable {
    let mut table = table();
    for cpu in &mut table.cpus[..2] {
        (cpu.core, cpu.shared_permille) = (0, [shared_permille, 1000, 1000]);
    }
    table
}

/// Return the swaps that the first step plans, with the fast CPU's costs that they are judged by.
fn planned(shared_permille: u32, prepare: impl Fn(&FakeKernel)) -> Vec<(u32, [u32; 3])> {
    let mut fake = FakeKernel::new(&[CHASE, CHASE, LOOP, LOOP]);
    let mut swaps = swaps_on(one_fast_core(shared_permille));
    fake.advance(100 * MS);
    prepare(&fake);
    swaps.step(fake.now_ns.get(), &mut fake);
    let trials = swaps.trials.iter();
    trials.map(|trial| (trial.swap.up.after_ppm, trial.fast_permille)).collect()
}

#[test]
fn a_busy_sibling_counts_in_plan_and_judgement() {
    assert_eq!(planned(1600, |_| ()), [(625_000, [1600, 1000, 1000]); 2]);
    assert_eq!(planned(1000, |_| ()), [(1_000_000, FAST); 2]);
    assert_eq!(planned(SLOW[0], |_| ()), [], "a thread of the fast core is no better");
}

#[test]
fn a_sibling_without_profile_is_busy_and_one_that_sleeps_is_not() {
    let unknown = |fake: &FakeKernel| fake.with(101, |one| one.task.stack_permille = None);
    assert_eq!(planned(1600, unknown), [(625_000, [1600, 1000, 1000])]);
    let asleep = |fake: &FakeKernel| fake.with(101, |one| one.task.runnable = false);
    assert_eq!(planned(1600, asleep), [(1_000_000, FAST)]);
}

#[test]
fn a_shared_core_that_executes_slower_than_a_slow_one_gives_its_loops_away() {
    let mut fake = FakeKernel::new(&[LOOP, LOOP, CHASE, CHASE]);
    let mut swaps = swaps_on(one_fast_core(4000));
    fake.advance(100 * MS);
    swaps.step(fake.now_ns.get(), &mut fake);
    let moves: Vec<_> = swaps.trials.iter().map(|trial| (trial.swap.up.pid, trial.swap.down.pid)).collect();
    assert_eq!(moves, [(102, 100), (103, 101)]);
}

#[test]
fn no_task_is_queried_where_no_swap_can_gain() {
    let mut fake = FakeKernel::new(&[CHASE, CHASE, LOOP, LOOP]);
    let mut swaps = swaps_on(one_fast_core(SLOW[0]));
    fake.advance(100 * MS);
    swaps.step(fake.now_ns.get(), &mut fake);
    assert_eq!(fake.queries.get(), 0);
}
