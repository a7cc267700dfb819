// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Tests of cgroups that are removed and made again under the same path, and of cgroups that do not
//! exist yet.

use super::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn services_start_anew_while_threads_do(
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
fn a_cgroup_that_is_made_anew_is_followed() {
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
fn a_cgroup_that_does_not_exist_yet_is_waited_for_unless_a_command_names_it() {
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
