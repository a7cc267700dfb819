// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Every mutation of the BPF code is found.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use std::time::Instant;

use bias_sim::case::Case;
use bias_sim::unit::Image;
use bias_sim::{campaign, mutant, scenario, shrink};

/// Random cases in which a mutation must be found, however long this host takes for them.
const CASES: u64 = 4000;

/// Cases of a family in which a mutation must be found.
const FAMILY_CASES: u64 = 1000;

/// Run the cases of a family until one fails.
fn find_in(family: &str, name: &str, image: Image<'_>) {
    let families = scenario::families();
    let family = families.iter().find(|one| one.name == family).unwrap();
    for seed in 0..FAMILY_CASES {
        if let Some(fault) = campaign::reach(&family.with(seed), image).unwrap() {
            println!("{name}: family {}, seed {seed}: {fault}", family.name);
            return;
        }
    }
    panic!("{name} is not found in {FAMILY_CASES} cases of the family {}", family.name);
}

/// Run scenarios and random cases, or the cases of the mutation's family, until one fails.
fn find(name: &str) {
    let mutant = mutant::all().unwrap().into_iter().find(|mutant| mutant.name == name).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let object = mutant.compile(directory.path()).unwrap();
    let image = Image::File(&object);
    let begun = Instant::now();
    if let Some(family) = &mutant.family {
        find_in(family, name, image);
        return;
    }
    for scenario in scenario::all() {
        if let Some(fault) = campaign::reach(&scenario, image).unwrap() {
            println!("{name}: scenario {} after {:?}: {fault}", scenario.name, begun.elapsed());
            return;
        }
    }
    for seed in 0..CASES {
        if let Some((_, fault)) = campaign::find([seed], image).unwrap() {
            println!("{name}: seed {seed} after {:?}: {fault}", begun.elapsed());
            return;
        }
    }
    panic!("{name} is not found in {CASES} cases: {}", mutant.what);
}

/// Of ten cases that find a mutation, at least one shrinks to a case that still finds it, and its
/// text repeats it.
#[test]
fn a_case_shrinks_and_repeats() {
    let mutants = mutant::all().unwrap();
    let mutant = mutants.iter().find(|mutant| mutant.name == "skipped_affinity_of_request").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let object = mutant.compile(directory.path()).unwrap();
    let image = Image::File(&object);
    let size = |case: &Case| {
        case.tasks.iter().filter(|task| task.start_ns.is_some()).count() + case.disturbances.len()
    };
    let found = (0..).filter_map(|seed| campaign::find([seed], image).unwrap());
    let shrunk = found.take(10).find_map(|(case, fault)| {
        let small = shrink::shrink(&case, &fault.rule, image);
        (size(&small) < size(&case)).then_some((small, fault))
    });
    let (small, fault) = shrunk.unwrap();
    let again = campaign::run(&Case::parse(&small.text()).unwrap(), image).unwrap();
    assert_eq!(again.unwrap().rule, fault.rule);
    assert_eq!(campaign::run(&small, Image::Plain).unwrap(), None);
}

macro_rules! mutants {
    ($($name:ident)*) => {
        $(#[test] fn $name() { find(stringify!($name)); })*

        #[test]
        fn every_mutation_has_a_test() {
            let listed: Vec<String> = mutant::all().unwrap().into_iter().map(|mutant| mutant.name).collect();
            assert_eq!(listed, [$(stringify!($name)),*]);
        }
    };
}

mutants! {
    lost_kick_of_last_task
    lost_kick_of_request
    skipped_affinity_of_request
    skipped_migration_disabled
    skipped_affinity_of_idle_search
    stale_affinity
    clock_goes_back
    weight_never_subtracted
    owed_weight_kept
    owed_weight_to_another_group
    nice_ignored
    time_charged_as_work
    other_caches_ignored
    mark_of_cache_lost
    other_class_ignored
    pinned_ignored
    use_not_noted
    no_pull
    no_wake_better
    no_release
    no_release_at_switch
    classes_exchanged
    no_rotation
    wakers_task_kept_too_long
    no_way_made
    yield_ignored
    stale_table
    use_of_pinned_dsq_not_noted
    counted_weight_kept
    weight_change_not_propagated
    kthread_waits
    caches_apart
    wakee_waits_behind_hog
    busy_kthread_keeps_its_cpu
    lone_tasks_hold_the_clock
    heavier_tasks_hold_the_clock
    lag_lost_between_classes
    any_lead_forgiven
    no_lead_forgiven
    lead_without_limit
    free_birth
    birth_at_own_weight
    lag_of_a_partition_forgotten
    pinned_tasks_in_no_partition
    unfollowed_partition
    limit_ignored
    debt_forgiven
    throttled_task_runs_on
    parked_for_ever
    weight_of_parked_subtracted_twice
    overdue_tasks_wait_on
    overdue_pinned_task_waits_on
    overdue_slow_task_waits_on
    charge_of_light_task_forgiven
    task_leaves_a_brief_kthread
    no_nominated_victim
    overdue_again_forgotten
    clock_stands_still
    clock_never_holds
    clock_never_catches_up
    clock_not_raised
    clock_not_lowered
    first_clock_not_lowered
    clock_of_sent_task_kept
    clock_falls_in_pauses
    capacity_ignored
    pauses_ignored
    no_gain_swap
    partners_apart
    tiers_ignored
    hints_unread
    hints_unfollowed
    hints_without_swap
    tick_never_stops
    charged_for_time_alone
    unticked_cpu_not_kicked
    spread_memory_ignored
    never_searches_far
    memory_holds_every_task
    no_core_of_another_node
    no_thread_of_another_node
    arrival_unnoticed
    arrival_not_announced
    arrival_never_preempts
    late_task_not_rescued
    task_put_back_unseen
    freed_task_put_back
    offline_dsq_kept
    leaving_cpu_keeps_waiting_tasks
    leaving_cpu_gets_more_tasks
    refused_offline_forgotten
    leaving_cpu_pulls
    offline_not_kicked
    release_kicks_no_idle_cpu
    core_stays_shared
    offer_ignored
    tick_stays_stopped
    sleep_unforgiven
    interrupted_task_stays
    heavy_confined_task_uncounted
    heavy_pinned_task_uncounted
    confined_task_alone_counts
    wakee_behind_the_clock
    near_type_ignored
    spread_memory_begins_anywhere
    resident_unknown
    tick_wakes_no_idle_cpu
    partition_follows_one_task
    unparked_for_an_offline_cpu
    freed_behind_kthread
    pinned_wakee_behind_the_clock
    long_runs_wait_for_a_tick
    pulled_to_a_taken_cpu
    spent_task_queued
}
