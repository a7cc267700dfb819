// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of the whole module on a simulated machine that changes all the time.

#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::rc::Rc;

use proptest::prelude::*;

use super::journal::Store;
use super::opted::{WATCHED, restore_in};
use super::reconcile::IDLE_NICE;
use super::reconcile::policy::{BATCH, EXT, IDLE, NORMAL};
use super::sim::{CGROUPS, FIFO, OWN, SharedSim, Sim, SimEvent, Thread, task};
use super::*;
use crate::failure::Exit;
use std::time::Instant;

/// An agent on a simulated machine, with its files in a directory.
struct Agent {
    sim: SharedSim,
    directory: tempfile::TempDir,
    optin: Option<OptIn<SharedSim>>,
    now: Instant,
}

impl Agent {
    fn new(threads: Vec<Thread>) -> Self {
        let mut sim = Sim { next: 10, ..Sim::default() };
        sim.put(OWN, task(0, NORMAL, 0));
        for thread in threads {
            sim.spawn(thread);
        }
        let directory = tempfile::tempdir().unwrap();
        Self { sim: Rc::new(RefCell::new(sim)), directory, optin: None, now: Instant::now() }
    }

    fn store(&self) -> Store {
        Store::open(&self.directory.path().join("run"), "boot").unwrap()
    }

    fn start(&mut self, cgroups: &[usize]) {
        let paths: Vec<&str> = cgroups.iter().map(|at| CGROUPS[*at]).collect();
        self.optin = Some(OptIn::start(self.sim.clone(), self.store(), &paths).unwrap());
        self.sim.borrow_mut().down = false;
        self.settle();
    }

    /// Pass the followed cgroups to the kernel side.
    fn follow(&self) {
        let followed = self.optin.as_ref().map_or_else(BTreeMap::new, OptIn::followed);
        let mut sim = self.sim.borrow_mut();
        sim.followed = followed;
        let inside: Vec<usize> = (0..CGROUPS.len()).filter(|at| sim.covered(*at)).collect();
        for thread in sim.threads.values_mut() {
            thread.was_inside |= inside.contains(&thread.cgroup);
        }
    }

    fn hear(&mut self) {
        let notices = std::mem::take(&mut self.sim.borrow_mut().notices);
        for notify in notices {
            self.optin.as_mut().unwrap().note_event(notify, self.now);
        }
    }

    fn pass(&mut self) {
        let _ = self.optin.as_mut().unwrap().opt_in_arrived();
        self.follow();
        self.hear();
        self.optin.as_mut().unwrap().pass(self.now);
        self.follow();
    }

    /// Repeat passes until no event is left. The file must then match the agent's state.
    fn settle(&mut self) {
        loop {
            self.pass();
            // Without a cgroup the agent makes no call that advances the events.
            self.sim.borrow_mut().step();
            let sim = self.sim.borrow();
            if sim.notices.is_empty() && sim.events.is_empty() {
                break;
            }
        }
        self.pass();
        self.pass();
        let optin = self.optin.as_ref().unwrap();
        // Where no cgroup was opted in yet, no file is written.
        let written = optin.store.read().unwrap().unwrap_or_default();
        assert_eq!(written.journal, optin.journal);
        assert_eq!(written.cgroups, optin.cgroups().iter().map(|cgroup| cgroup.path.clone()).collect());
    }

    /// Kill the agent as SIGKILL does.
    fn kill(&mut self) {
        let mut optin = self.optin.take().unwrap();
        optin.over = true;
        let mut sim = self.sim.borrow_mut();
        sim.down = true;
        sim.notices.clear();
        sim.recorded = optin.journal.iter().map(|(tid, entry)| (*tid, entry.start)).collect();
        let inside: Vec<usize> = (0..CGROUPS.len()).filter(|at| sim.covered(*at)).collect();
        let recorded = sim.recorded.clone();
        for (tid, thread) in &mut sim.threads {
            let unknown =
                thread.attr.policy == EXT && !thread.native && !recorded.contains(&(*tid, thread.start));
            thread.escaped |= unknown && !inside.contains(&thread.cgroup);
        }
    }

    fn judge(&self) {
        let wrongs = self.sim.borrow().judge();
        assert!(wrongs.is_empty(), "{wrongs:#?}");
    }

    fn finish(&mut self) {
        self.optin.as_mut().unwrap().remove_all();
        self.follow();
        loop {
            self.hear();
            assert!(self.optin.as_mut().unwrap().finish());
            if self.sim.borrow().notices.is_empty() {
                break;
            }
        }
        self.optin = None;
        self.follow();
        assert!(!Store::exists(&self.directory.path().join("run")).unwrap());
        self.judge();
    }

    fn policies(&self) -> Vec<(u32, i32)> {
        let sim = self.sim.borrow();
        sim.threads
            .iter()
            .filter(|(tid, _)| **tid != OWN)
            .map(|(_, t)| (t.attr.policy, t.attr.nice))
            .collect()
    }
}

fn any_thread() -> impl Strategy<Value = Thread> {
    let policy = prop::sample::select(vec![NORMAL, NORMAL, BATCH, IDLE, FIFO]);
    (0..CGROUPS.len(), policy, -20..19, any::<bool>(), prop::bool::weighted(0.1), prop::bool::weighted(0.1))
        .prop_map(|(cgroup, policy, nice, reset, kernel, native)| {
            let mut thread = task(cgroup, policy, nice);
            thread.attr.reset_on_fork = reset;
            if native && !kernel {
                thread = Thread { native: true, ..task(3, EXT, nice) };
            }
            Thread { kernel, ..thread }
        })
}

fn any_event() -> impl Strategy<Value = SimEvent> {
    let policy = prop::sample::select(vec![NORMAL, BATCH, IDLE, FIFO]);
    prop_oneof![
        4 => (0..20usize, any::<bool>(), prop::option::weighted(0.3, 0..4usize))
            .prop_map(|(by, thread, into)| SimEvent::Fork { by, thread, into }),
        2 => (0..20usize).prop_map(SimEvent::End),
        4 => (0..20usize, 0..4usize).prop_map(|(at, to)| SimEvent::Move(at, to)),
        1 => (0..20usize, policy).prop_map(|(at, policy)| SimEvent::Policy(at, policy)),
        1 => (0..20usize, -20..19).prop_map(|(at, nice)| SimEvent::Nice(at, nice)),
        1 => (0..20usize, prop::option::of(0..20usize)).prop_map(|(at, by)| SimEvent::Reuse(at, by)),
    ]
}

fn any_events() -> impl Strategy<Value = VecDeque<Option<SimEvent>>> {
    prop::collection::vec(prop::option::weighted(0.4, any_event()), 0..60).prop_map(VecDeque::from)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn policies_are_right_once_threads_hold_still(
        threads in prop::collection::vec(any_thread(), 1..8),
        events in prop::collection::vec(any_events(), 1..5),
    ) {
        let mut agent = Agent::new(threads);
        agent.start(&[0]);
        agent.judge();
        for events in events {
            agent.sim.borrow_mut().events = events;
            agent.settle();
            agent.judge();
        }
        agent.finish();
    }

    #[test]
    fn cgroups_come_and_go_while_threads_change(
        threads in prop::collection::vec(any_thread(), 1..8),
        steps in prop::collection::vec((any_events(), 0..3usize, any::<bool>()), 1..6),
        last in any_events(),
    ) {
        let mut agent = Agent::new(threads);
        agent.start(&[0, 2]);
        let mut inside = BTreeSet::from([0, 2]);
        for (events, at, add) in steps {
            agent.sim.borrow_mut().events = events;
            let (optin, path) = (agent.optin.as_mut().unwrap(), Path::new(CGROUPS[at]));
            if add {
                inside.insert(at);
                optin.add(path).unwrap();
            } else {
                prop_assert_eq!(optin.remove(path).is_ok(), inside.remove(&at));
            }
            agent.settle();
            agent.judge();
        }
        // Threads keep changing while the agent ends.
        agent.sim.borrow_mut().events = last;
        agent.finish();
    }

    #[test]
    fn the_successor_of_a_killed_agent_restores_all_policies(
        threads in prop::collection::vec(any_thread(), 1..8),
        before in any_events(), meanwhile in any_events(),
        budget in prop::option::of(0..6usize), opts_in in any::<bool>(),
    ) {
        let mut agent = Agent::new(threads);
        agent.start(&[0, 2]);
        // A budget may make the kernel refuse in the middle of a pass. Then the agent is killed.
        agent.sim.borrow_mut().events = before;
        agent.sim.borrow_mut().budget = budget;
        agent.pass();
        agent.kill();
        agent.sim.borrow_mut().budget = None;
        agent.sim.borrow_mut().events = meanwhile;
        agent.sim.borrow_mut().run();
        agent.start(if opts_in { &[2] } else { &[] });
        agent.judge();
        agent.finish();
    }
}

#[test]
fn policies_are_switched_and_restored() {
    let ready =
        vec![task(0, NORMAL, 5), task(1, BATCH, -3), task(0, IDLE, 2), task(0, FIFO, 0), task(3, NORMAL, 1)];
    let before: Vec<_> = ready.iter().map(|thread| (thread.attr.policy, thread.attr.nice)).collect();
    let mut agent = Agent::new(ready);
    agent.start(&[0]);
    assert_eq!(agent.policies(), [(EXT, 5), (EXT, -3), (EXT, IDLE_NICE), (FIFO, 0), (NORMAL, 1)]);
    let report = agent.optin.as_ref().unwrap().report();
    let expected = CgroupReport { path: "/in".into(), threads: 3, real_time: 1 };
    assert_eq!(report, CgroupsReport { cgroups: vec![expected], ..CgroupsReport::default() });
    agent.finish();
    assert_eq!(agent.policies(), before);
}

#[test]
fn a_child_that_leaves_between_scans_is_found_by_its_event() {
    let mut agent = Agent::new(vec![task(0, BATCH, 0)]);
    agent.start(&[0]);
    // The child is forked, leaves and forks again between two scans.
    let fork = |by| SimEvent::Fork { by, thread: false, into: None };
    agent.sim.borrow_mut().events = [fork(0), SimEvent::Move(1, 3), fork(1)].map(Some).into();
    agent.sim.borrow_mut().run();
    agent.settle();
    assert!(agent.optin.as_ref().unwrap().is_watching());
    assert_eq!(agent.policies(), [(EXT, 0), (BATCH, 0), (BATCH, 0)]);
    agent.now += WATCHED;
    agent.pass();
    assert!(!agent.optin.as_ref().unwrap().is_watching());
    agent.finish();
}

#[test]
fn a_thread_that_asks_for_sched_ext_outside_keeps_it() {
    let native = Thread { native: true, ..task(3, EXT, 0) };
    let mut agent = Agent::new(vec![native.clone(), task(0, NORMAL, 0)]);
    agent.start(&[0]);
    agent.sim.borrow_mut().events = [Some(SimEvent::Fork { by: 0, thread: false, into: None })].into();
    agent.settle();
    agent.finish();
    assert_eq!(agent.policies(), [(EXT, 0), (NORMAL, 0), (EXT, 0)]);
}

#[test]
fn refused_changes_are_reported_and_tried_again() {
    let mut agent = Agent::new(vec![task(0, NORMAL, 0), task(0, BATCH, 0)]);
    agent.sim.borrow_mut().budget = Some(0);
    agent.start(&[0]);
    let report = agent.optin.as_ref().unwrap().report();
    assert!(report.notes[0].contains("cannot be set"), "{report:?}");
    agent.sim.borrow_mut().budget = None;
    agent.pass();
    assert_eq!(agent.policies(), [(EXT, 0), (EXT, 0)]);
    assert!(agent.optin.as_ref().unwrap().report().notes.is_empty());
    // The policies are not restored, and the record stays.
    agent.sim.borrow_mut().budget = Some(0);
    assert!(!agent.optin.as_mut().unwrap().finish());
    agent.optin = None;
    agent.sim.borrow_mut().budget = None;
    agent.start(&[]);
    assert_eq!(agent.policies(), [(NORMAL, 0), (BATCH, 0)]);
    agent.finish();
}

#[test]
fn threads_that_cannot_be_recorded_are_not_switched() {
    let mut agent = Agent::new(vec![task(3, NORMAL, 0)]);
    agent.start(&[0]);
    // Without its file the store cannot append.
    agent.optin.as_mut().unwrap().store.clear().unwrap();
    agent.sim.borrow_mut().events = [Some(SimEvent::Move(0, 0))].into();
    agent.pass();
    agent.pass();
    assert_eq!(agent.policies(), [(NORMAL, 0)]);
    assert!(agent.optin.as_ref().unwrap().report().notes[0].contains("none are switched"));
}

/// The agent may start from a shell that a killed one left with SCHED_EXT.
#[test]
fn the_agents_own_policy_is_restored_and_never_switched() {
    let mut agent = Agent::new(vec![task(0, NORMAL, 0)]);
    agent.sim.borrow_mut().threads.get_mut(&OWN).unwrap().attr.policy = EXT;
    agent.start(&[0]);
    assert_eq!(agent.sim.borrow().threads[&OWN].attr.policy, NORMAL);
    assert_eq!(agent.policies(), [(EXT, 0)]);
    agent.finish();
}

#[test]
fn restore_undoes_a_killed_agent_without_a_new_one() {
    let mut agent = Agent::new(vec![task(0, BATCH, 4), task(0, NORMAL, 0), task(3, NORMAL, 0)]);
    let run = agent.directory.path().join("run");
    let restore = |agent: &Agent| restore_in(agent.sim.clone(), &run, "boot");
    assert_eq!(restore(&agent), Ok(0));
    assert!(!run.exists(), "no directory is created without a record");
    agent.start(&[0]);
    let refused = restore(&agent).unwrap_err();
    assert_eq!(refused.exit, Exit::OtherScheduler, "{refused}");
    agent.kill();
    agent.sim.borrow_mut().budget = Some(1);
    let failed = restore(&agent).unwrap_err();
    assert!(failed.exit == Exit::Runtime && failed.message.contains("cgroup restore"), "{failed}");
    agent.sim.borrow_mut().budget = None;
    assert_eq!(restore(&agent), Ok(1), "one was restored before");
    assert_eq!(agent.policies(), [(BATCH, 4), (NORMAL, 0), (NORMAL, 0)]);
    assert!(!Store::exists(&run).unwrap());
    assert_eq!(restore(&agent), Ok(0));
}

#[test]
fn dropping_it_restores_all_policies() {
    let mut agent = Agent::new(vec![task(0, BATCH, 4)]);
    agent.start(&[0]);
    agent.optin = None;
    assert_eq!(agent.policies(), [(BATCH, 4)]);
}

/// A thousand new threads need two scans and one record.
#[test]
fn a_thousand_threads_are_switched_in_one_pass() {
    let mut agent = Agent::new(vec![task(0, NORMAL, 0); 1000]);
    agent.start(&[0]);
    assert_eq!(agent.optin.as_ref().unwrap().report().cgroups[0].threads, 1000);
    agent.finish();
}

// Cgroups that are removed and made again under the same path, or do not exist yet.
proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn services_restart_while_threads_change(
        threads in prop::collection::vec(any_thread(), 1..8),
        steps in prop::collection::vec((any_events(), 0..3usize, any::<bool>()), 1..6),
    ) {
        let mut agent = Agent::new(threads);
        agent.start(&[0, 2]);
        for (events, at, waits) in steps {
            // Only an empty cgroup can be removed, and only after those below it.
            agent.sim.borrow_mut().empty(at);
            if waits {
                agent.sim.borrow_mut().removed.extend(CGROUPS.iter().enumerate().filter(|(_, path)| path.starts_with(CGROUPS[at])).map(|(at, _)| at));
                agent.settle();
            }
            let mut sim = agent.sim.borrow_mut();
            for (path, made) in CGROUPS.iter().zip(&mut sim.made) {
                *made += u64::from(path.starts_with(CGROUPS[at]));
            }
            sim.removed.clear();
            sim.events = events;
            drop(sim);
            agent.settle();
            agent.settle();
            agent.judge();
        }
        agent.finish();
    }
}

#[test]
fn a_recreated_cgroup_is_followed() {
    let mut agent = Agent::new(vec![task(0, NORMAL, 0)]);
    agent.start(&[0, 2]);
    let (mut removed, mut added) = (BTreeSet::from([2]), Vec::new());
    for _ in 0..2 {
        std::mem::swap(&mut agent.sim.borrow_mut().removed, &mut removed);
        agent.pass();
        let optin = agent.optin.as_mut().unwrap();
        let report = optin.report();
        added.push((report.cgroups.len(), report.waiting.len(), optin.followed().len()));
        agent.sim.borrow_mut().made[2] += 1;
    }
    assert_eq!(added, [(1, 1, 1), (2, 0, 2)]);
    // The cgroup was replaced between two scans. The first pass finds that, the second one switches
    // the new threads.
    agent.sim.borrow_mut().spawn(task(2, BATCH, 0));
    agent.pass();
    agent.pass();
    assert_eq!(agent.policies(), [(EXT, 0), (EXT, 0)]);
    agent.judge();
    agent.finish();
    assert_eq!(agent.policies(), [(NORMAL, 0), (BATCH, 0)]);
}

#[test]
fn a_missing_cgroup_is_waited_for_unless_a_command_names_it() {
    let mut agent = Agent::new(vec![task(0, NORMAL, 0), task(2, NORMAL, 0)]);
    agent.sim.borrow_mut().removed = BTreeSet::from([0, 2]);
    agent.start(&[0]);
    let optin = agent.optin.as_mut().unwrap();
    assert_eq!(optin.report().waiting, ["/in"]);
    assert!(optin.add(Path::new("/also")).unwrap_err().message.contains("cannot be found"));
    optin.opt_in_configured(Path::new("/also")).unwrap();
    optin.opt_in_configured(Path::new("/also")).unwrap();
    assert_eq!(optin.report().waiting, ["/in", "/also"]);
    optin.remove(Path::new("/also")).unwrap();
    assert!(optin.remove(Path::new("/also")).unwrap_err().message.contains("is not opted in"));
    agent.sim.borrow_mut().removed.clear();
    agent.settle();
    assert_eq!(agent.policies(), [(EXT, 0), (NORMAL, 0)]);
    let report = agent.optin.as_ref().unwrap().report();
    assert_eq!((report.cgroups.len(), report.waiting.len()), (1, 0));
    // A second addition has no effect.
    agent.optin.as_mut().unwrap().add(Path::new("/in")).unwrap();
    assert_eq!(agent.optin.as_ref().unwrap().report().cgroups.len(), 1);
    agent.finish();
}
