// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of the invariants of [`super`] on generated threads.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::policy::{BATCH, EXT, IDLE, NORMAL};
use super::*;

const FIFO: u32 = 1;
const RR: u32 = 2;
const DEADLINE: u32 = 6;

fn any_policy() -> impl Strategy<Value = u32> {
    prop::sample::select(vec![NORMAL, FIFO, RR, BATCH, IDLE, DEADLINE, EXT, EXT, EXT])
}

fn any_previous() -> impl Strategy<Value = Previous> {
    (prop::sample::select(vec![NORMAL, BATCH, IDLE]), -20..20)
        .prop_map(|(policy, nice)| Previous { policy, nice })
}

fn any_place() -> impl Strategy<Value = Place> {
    prop::sample::select(vec![Place::Inside, Place::Released, Place::Outside])
}

/// Generate threads with pids below 8 and start times below 4. Pids then meet those of the journal
/// and are reused.
fn any_seen() -> impl Strategy<Value = Vec<SeenThread>> {
    let maker = (0u32..8, 0u64..4, any_policy(), -20..20).prop_map(|(tid, start, policy, nice)| Maker {
        id: Id { tid, start },
        policy,
        nice,
    });
    let thread = (0u64..4, any_policy(), -20..20, any_place(), prop::option::of(maker));
    prop::collection::btree_map(0u32..8, thread, 0..8).prop_map(|threads| {
        let seen = |(tid, (start, policy, nice, place, maker))| SeenThread {
            id: Id { tid, start },
            policy,
            nice,
            place,
            maker,
        };
        threads.into_iter().map(seen).collect()
    })
}

fn any_journal() -> impl Strategy<Value = Journal> {
    let entry = (0u64..4, any_previous()).prop_map(|(start, previous)| ThreadRecord { start, previous });
    prop::collection::btree_map(0u32..8, entry, 0..8)
}

/// Apply a plan to the threads and the journal as the agent does.
fn carry_out(plan: &PolicyPlan, seen: &mut [SeenThread], journal: &mut Journal) {
    journal.extend(plan.record.clone());
    for tid in &plan.forget {
        journal.remove(tid);
    }
    for action in &plan.actions {
        let (Action::Switch(id, previous) | Action::Restore(id, previous)) = *action;
        for thread in seen.iter_mut().filter(|thread| thread.id == id) {
            match action {
                Action::Switch(..) => {
                    assert_eq!(journal.get(&id.tid), Some(&ThreadRecord { start: id.start, previous }));
                    thread.policy = EXT;
                    if previous.policy == IDLE {
                        thread.nice = IDLE_NICE;
                    }
                }
                Action::Restore(..) => {
                    journal.remove(&id.tid);
                    thread.policy = previous.policy;
                    thread.nice = previous.nice;
                }
            }
        }
    }
}

fn of(seen: &[SeenThread], id: Id) -> Option<&SeenThread> {
    seen.iter().find(|thread| thread.id == id)
}

proptest! {
    #[test]
    fn only_threads_inside_are_switched_and_no_real_time_ones(seen in any_seen(), journal in any_journal()) {
        for action in reconcile(&seen, &journal).actions {
            if let Action::Switch(id, previous) = action {
                let thread = of(&seen, id).unwrap();
                prop_assert_eq!(thread.place, Place::Inside);
                prop_assert!(policy::is_switched(thread.policy));
                prop_assert_eq!(previous, Previous { policy: thread.policy, nice: thread.nice });
            }
        }
    }

    #[test]
    fn leaving_threads_get_their_recorded_policy_back(seen in any_seen(), journal in any_journal()) {
        let plan = reconcile(&seen, &journal);
        for thread in seen.iter().filter(|thread| thread.place != Place::Inside && thread.policy == EXT) {
            let entry = journal.get(&thread.id.tid).filter(|entry| entry.start == thread.id.start);
            let restored = plan.actions.iter().find_map(|action| match action {
                Action::Restore(id, previous) if *id == thread.id => Some(*previous),
                _ => None,
            });
            match (entry, thread.place) {
                (Some(entry), _) => prop_assert_eq!(restored, Some(entry.previous)),
                (None, Place::Outside) => prop_assert_eq!(restored, None),
                (None, _) => prop_assert!(restored.is_some()),
            }
        }
    }

    #[test]
    fn threads_inside_or_without_sched_ext_are_not_restored(seen in any_seen(), journal in any_journal()) {
        for action in reconcile(&seen, &journal).actions {
            if let Action::Restore(id, previous) = action {
                let thread = of(&seen, id).unwrap();
                prop_assert!(thread.policy == EXT && thread.place != Place::Inside);
                prop_assert!(policy::is_switched(previous.policy));
            }
        }
    }

    #[test]
    fn a_reused_pid_gets_nothing_of_its_previous_thread(
        seen in any_seen(), journal in any_journal(), other in any_previous(),
    ) {
        // Records of threads with other start times, under the pids in use, must not change the
        // plan.
        let reused = |journal: &Journal| -> Journal {
            let mut journal = journal.clone();
            journal.retain(|tid, entry| seen.iter().all(|t| t.id.tid != *tid || t.id.start == entry.start));
            journal
        };
        let mut planted = reused(&journal);
        for thread in &seen {
            planted.entry(thread.id.tid).or_insert(ThreadRecord { start: thread.id.start + 100, previous: other });
        }
        let (plain, plan) = (reconcile(&seen, &reused(&journal)), reconcile(&seen, &planted));
        prop_assert_eq!(plain.actions, plan.actions);
        prop_assert_eq!(plain.record, plan.record);
    }

    #[test]
    fn a_carried_out_plan_leaves_nothing_to_do(mut seen in any_seen(), mut journal in any_journal()) {
        let before = seen.clone();
        let plan = reconcile(&seen, &journal);
        carry_out(&plan, &mut seen, &mut journal);
        prop_assert_eq!(reconcile(&seen, &journal), PolicyPlan::default());
        for (old, new) in before.iter().zip(&seen) {
            match new.place {
                Place::Inside => prop_assert_eq!(new.policy == EXT, old.policy == EXT || policy::is_switched(old.policy)),
                Place::Released => prop_assert_ne!(new.policy, EXT),
                Place::Outside => prop_assert!(new.policy == old.policy || old.policy == EXT),
            }
            // Real-time threads and threads outside the agent's scope stay as they were.
            prop_assert!(new == old || old.policy == EXT || (old.place == Place::Inside && policy::is_switched(old.policy)));
        }
        // Only threads with SCHED_EXT inside stay recorded.
        let inside: Vec<Tid> = seen.iter().filter(|t| t.place == Place::Inside && t.policy == EXT).map(|t| t.id.tid).collect();
        prop_assert_eq!(journal.into_keys().collect::<Vec<_>>(), inside);
    }

    #[test]
    fn a_round_trip_changes_nothing(mut seen in any_seen()) {
        // No thread has SCHED_EXT at first. All threads move in, then out.
        for thread in &mut seen {
            if thread.policy == EXT {
                thread.policy = NORMAL;
            }
            thread.place = Place::Inside;
        }
        let before = seen.clone();
        let mut journal = Journal::new();
        for place in [Place::Inside, Place::Outside] {
            seen.iter_mut().for_each(|thread| thread.place = place);
            let plan = reconcile(&seen, &journal);
            carry_out(&plan, &mut seen, &mut journal);
        }
        for (old, new) in before.iter().zip(&seen) {
            prop_assert_eq!((old.policy, old.nice), (new.policy, new.nice));
        }
        prop_assert!(journal.is_empty());
    }
}

fn thread(tid: Tid, start: u64, policy: u32, place: Place) -> SeenThread {
    SeenThread { id: Id { tid, start }, policy, nice: 0, place, maker: None }
}

#[test]
fn children_are_assumed_to_have_had_their_makers_policy() {
    let maker = |tid, start, policy, nice| Some(Maker { id: Id { tid, start }, policy, nice });
    let parent = SeenThread { nice: 3, ..thread(1, 10, BATCH, Place::Inside) };
    let child = SeenThread { nice: 5, maker: maker(1, 10, EXT, 3), ..thread(2, 11, EXT, Place::Inside) };
    let grandchild = SeenThread { maker: maker(2, 11, EXT, 5), ..thread(3, 12, EXT, Place::Inside) };
    // This is not the maker but another thread with its pid.
    let stranger = SeenThread { maker: maker(1, 9, EXT, 0), ..thread(4, 13, EXT, Place::Inside) };
    let plan = reconcile(&[grandchild, stranger, child, parent], &Journal::new());
    let previous = |tid: Tid| plan.record.get(&tid).map(|entry| (entry.previous.policy, entry.previous.nice));
    assert_eq!(
        [1, 2, 3, 4].map(previous),
        [Some((BATCH, 3)), Some((BATCH, 5)), Some((BATCH, 0)), Some((NORMAL, 0))]
    );
    // The maker was restored before.
    let late =
        SeenThread { nice: IDLE_NICE, maker: maker(1, 10, IDLE, 7), ..thread(5, 14, EXT, Place::Released) };
    let restored = Action::Restore(late.id, Previous { policy: IDLE, nice: 7 });
    assert_eq!(reconcile(&[late], &Journal::new()).actions, [restored]);
    // The maker was recorded, but changed its policy before it was switched.
    let own = SeenThread { maker: maker(1, 10, NORMAL, 0), ..thread(5, 14, EXT, Place::Released) };
    let normal = Action::Restore(own.id, Previous { policy: NORMAL, nice: 0 });
    assert_eq!(reconcile(&[own], &plan.record).actions, [normal]);
}

#[test]
fn a_policy_that_was_changed_meanwhile_is_the_one_restored() {
    let mut journal = Journal::new();
    let mut seen = [thread(1, 10, NORMAL, Place::Inside)];
    let plan = reconcile(&seen, &journal);
    carry_out(&plan, &mut seen, &mut journal);
    // A user sets SCHED_BATCH. The thread is switched again, and has SCHED_BATCH when it leaves.
    seen[0].policy = BATCH;
    let plan = reconcile(&seen, &journal);
    carry_out(&plan, &mut seen, &mut journal);
    assert_eq!(seen[0].policy, EXT);
    seen[0].place = Place::Outside;
    let plan = reconcile(&seen, &journal);
    carry_out(&plan, &mut seen, &mut journal);
    assert_eq!((seen[0].policy, journal.len()), (BATCH, 0));
    // A user sets a real-time policy. The thread keeps it.
    (seen[0].place, seen[0].policy) = (Place::Inside, FIFO);
    assert_eq!(reconcile(&seen, &journal), PolicyPlan::default());
}
