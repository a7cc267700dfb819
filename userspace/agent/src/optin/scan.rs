// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Scan for the threads inside and for other known threads.
//!
//! # Invariants
//!
//! The start time of a thread is read before its cgroup and its maker, and checked again before any
//! change. The data thus belongs to one thread, even if pids are reused. A thread that needs no
//! change costs one system call.

use std::collections::BTreeSet;

use tracing::info;

use super::cgroup::Cgroup;
use super::opted::OptIn;
use super::reconcile::{Id, Maker, Place, SeenThread, Tid, policy};
use super::system::{Attr, Lineage, Stat, System};

/// Most generations that are searched for the previous state of a thread with inherited SCHED_EXT.
const GENERATIONS: usize = 16;

impl<S: System> OptIn<S> {
    /// Return all threads that [`reconcile`](super::reconcile::reconcile) needs.
    pub(super) fn scan(&mut self) -> Vec<SeenThread> {
        let (mut others, _) = list(&self.system, &mut self.released);
        let (inside, gone) = list(&self.system, &mut self.inside);
        for gone in gone {
            info!("the cgroup {gone} was removed; it is opted in again when it is created again");
            self.waiting.add(gone);
            // A failure is harmless, because recovery skips recorded paths that are no cgroup.
            let _ = self.save();
        }
        let own: BTreeSet<Tid> = self.system.own().into_iter().collect();
        others.extend(self.leaving.keys().flat_map(|process| self.system.process(*process)));
        others.extend(self.journal.keys());
        others.extend(&own);
        let inside: BTreeSet<Tid> = inside.difference(&own).copied().collect();
        let others = others.difference(&inside).map(|tid| self.examine(*tid, false, &own));
        let inside = inside.iter().map(|tid| self.unchanged(*tid).or_else(|| self.examine(*tid, true, &own)));
        others.chain(inside).flatten().collect()
    }

    /// Return a thread that is listed inside if it needs no change. This check is cheap. The agent
    /// verifies the thread's identity before any change.
    fn unchanged(&self, tid: Tid) -> Option<SeenThread> {
        let entry = self.journal.get(&tid)?;
        let Attr { policy, nice, .. } = self.system.attr(tid).filter(|attr| attr.policy == policy::EXT)?;
        Some(SeenThread {
            id: Id { tid, start: entry.start },
            policy,
            nice,
            place: Place::Inside,
            maker: None,
        })
    }

    /// Return the data of a thread, `listed` inside or not. Return None if the thread does not
    /// matter.
    fn examine(&self, tid: Tid, listed: bool, own: &BTreeSet<Tid>) -> Option<SeenThread> {
        let Attr { policy, nice, .. } = self.system.attr(tid)?;
        let entry = self.journal.get(&tid);
        if entry.is_none() && policy != policy::EXT && !(listed && policy::is_switched(policy)) {
            return None;
        }
        let Stat { start, dead, kernel, .. } = self.system.stat(tid)?;
        if dead || kernel {
            return None;
        }
        // The start time was read before and is checked again before any change. The place thus
        // belongs to the same thread, even if its pid is reused.
        let place = self.place_of(tid, own);
        let inherited = policy == policy::EXT && entry.is_none_or(|entry| entry.start != start);
        let maker = if inherited { self.maker(tid) } else { None };
        Some(SeenThread { id: Id { tid, start }, policy, nice, place, maker })
    }

    fn place_of(&self, tid: Tid, own: &BTreeSet<Tid>) -> Place {
        let name = self.system.cgroup_of(tid).unwrap_or_default();
        let within = |cgroups: &[Cgroup]| cgroups.iter().any(|cgroup| cgroup.covers(&name));
        match (within(&self.inside), within(&self.released)) {
            (true, _) if !own.contains(&tid) => Place::Inside,
            (true, _) | (_, true) => Place::Released,
            _ if self.is_leaving(tid).unwrap_or(false) => Place::Released,
            _ => Place::Outside,
        }
    }

    fn is_leaving(&self, tid: Tid) -> Option<bool> {
        if self.leaving.is_empty() {
            return None;
        }
        let process = self.system.lineage(tid)?.process;
        let (start, _) = self.leaving.get(&process)?;
        Some(self.system.stat(process)?.start == *start)
    }

    /// Return the maker of a thread with inherited SCHED_EXT: its nearest ancestor with a known
    /// previous state.
    fn maker(&self, mut tid: Tid) -> Option<Maker> {
        let mut maker = None;
        for _ in 0..GENERATIONS {
            let Lineage { process, parent } = self.system.lineage(tid)?;
            tid = if process == tid { parent } else { process };
            let start = self.system.stat(tid)?.start;
            let Attr { policy, nice, .. } = self.system.attr(tid)?;
            maker = Some(Maker { id: Id { tid, start }, policy, nice });
            if policy != policy::EXT || self.journal.get(&tid).is_some_and(|entry| entry.start == start) {
                break;
            }
        }
        maker
    }
}

/// Return the threads of the cgroups, and the paths of cgroups that are gone. Remove these from
/// `cgroups`.
fn list<S: System>(system: &S, cgroups: &mut Vec<Cgroup>) -> (BTreeSet<Tid>, Vec<String>) {
    let mut threads = BTreeSet::new();
    let mut gone = Vec::new();
    cgroups.retain(|cgroup| {
        let listed = system.threads(cgroup);
        if listed.is_none() {
            gone.push(cgroup.path.clone());
        }
        listed.map(|listed| threads.extend(listed)).is_some()
    });
    (threads, gone)
}
