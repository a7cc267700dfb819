// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Decide which threads change their policy: a pure function of a scan and the journal.
//!
//! # Problem
//!
//! While the agent scans threads one by one, they come and go, move between cgroups and change
//! their own policy. Pids are reused. The agent must never give a thread the policy of another one,
//! nor touch a thread that is outside its scope.
//!
//! # Approach
//!
//! The agent identifies a thread by its pid and its start time. The journal records its state
//! before the switch. A thread with SCHED_EXT inside an opted-in cgroup but not in the journal
//! inherited that policy. The agent then assumes that the thread had the previous state of its
//! maker, or SCHED_NORMAL if that is unknown.
//!
//! # Invariants
//!
//! Each has a test in `reconcile_tests.rs`.
//!
//! * Only threads inside are switched, and only from SCHED_NORMAL, SCHED_BATCH or SCHED_IDLE.
//!   Real-time threads are left alone.
//! * A thread that is no longer inside and has SCHED_EXT because of the agent gets back exactly its
//!   recorded policy. Its nice value stays, because only other processes change it. SCHED_IDLE is
//!   the exception, see [`IDLE_NICE`].
//! * A thread outside is left alone if it is not recorded, or if the record belongs to an earlier
//!   thread with the same pid.
//! * A thread is recorded before it is switched.
//! * After a plan is carried out there is nothing left to do.
//!
//! # Limits
//!
//! A thread that sets SCHED_EXT for itself inside an opted-in cgroup is assumed to have inherited
//! it.

use std::collections::BTreeMap;

/// Pid of a thread.
pub type Tid = u32;

/// Policies as the kernel numbers them, sched(7).
pub mod policy {
    /// SCHED_NORMAL, which is SCHED_OTHER in user space.
    pub const NORMAL: u32 = 0;
    /// SCHED_BATCH, for batch work.
    pub const BATCH: u32 = 3;
    /// SCHED_IDLE, below all others.
    pub const IDLE: u32 = 5;
    /// SCHED_EXT, scheduled by sched_ext.
    pub const EXT: u32 = 7;

    /// Return true if threads of this policy are switched. The others, except SCHED_EXT, are
    /// real-time policies.
    #[must_use]
    pub const fn is_switched(policy: u32) -> bool {
        matches!(policy, NORMAL | BATCH | IDLE)
    }
}

/// Nice value of a SCHED_IDLE thread while it has SCHED_EXT. sched_ext gives both the smallest
/// weight, 1.
pub const IDLE_NICE: i32 = 19;

/// State of a thread before it was switched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Previous {
    /// SCHED_NORMAL, SCHED_BATCH or SCHED_IDLE.
    pub policy: u32,
    /// Nice value. The agent changes it only for SCHED_IDLE, see [`IDLE_NICE`].
    pub nice: i32,
}

/// Identity of a thread, which distinguishes it from a later one with the same pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    /// Pid.
    pub tid: Tid,
    /// Start time [clock ticks since boot].
    pub start: u64,
}

/// Record of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadRecord {
    /// Start time [clock ticks since boot].
    pub start: u64,
    /// State before the switch.
    pub previous: Previous,
}

/// Records of all threads, by pid.
pub type Journal = BTreeMap<Tid, ThreadRecord>;

/// Place of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In an opted-in cgroup.
    Inside,
    /// In a released cgroup, or known to have left one: SCHED_EXT comes from the agent.
    Released,
    /// Anywhere else.
    Outside,
}

/// A live thread, as the scan found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeenThread {
    /// Identity.
    pub id: Id,
    /// Policy.
    pub policy: u32,
    /// Nice value.
    pub nice: i32,
    /// Place.
    pub place: Place,
    /// Thread that may have made this one: the first thread of its process or, for a first thread,
    /// of the parent process. If nothing is known about the maker, the maker's own maker takes its
    /// place.
    pub maker: Option<Maker>,
}

/// A thread that made another one, as the scan found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Maker {
    /// Identity.
    pub id: Id,
    /// Policy.
    pub policy: u32,
    /// Nice value.
    pub nice: i32,
}

/// Change of a thread's policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Switch to SCHED_EXT from the recorded state.
    Switch(Id, Previous),
    /// Switch from SCHED_EXT to this state.
    Restore(Id, Previous),
}

/// Changes that a scan calls for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyPlan {
    /// Records to be written first.
    pub record: Journal,
    /// Policy changes to be made then.
    pub actions: Vec<Action>,
    /// Records to be dropped: the thread is gone or no longer managed.
    pub forget: Vec<Tid>,
}

/// Derive the changes from the threads that were `seen`. These must be all threads inside, and all
/// others that are recorded or known to have left. A recorded thread that was not seen is gone.
#[must_use]
pub fn reconcile(seen: &[SeenThread], journal: &Journal) -> PolicyPlan {
    let mut plan = PolicyPlan::default();
    // Handle makers before their children, which are assumed to have had the same state.
    let mut order: Vec<&SeenThread> = seen.iter().collect();
    order.sort_by_key(|thread| (thread.id.start, thread.id.tid));
    let mut decided = Journal::new();
    for thread in order {
        let Id { tid, start } = thread.id;
        let known = recorded(thread.id, &decided, journal);
        let inside = thread.place == Place::Inside;
        let previous = match thread.policy {
            policy if inside && policy::is_switched(policy) => Previous { policy, nice: thread.nice },
            policy::EXT if known.is_some() || thread.place != Place::Outside => {
                known.unwrap_or_else(|| inherited(thread, &decided, journal))
            }
            _ => {
                plan.forget.extend(known.map(|_| tid));
                continue;
            }
        };
        decided.insert(tid, ThreadRecord { start, previous });
        match thread.policy {
            policy::EXT if inside => {}
            policy::EXT => plan.actions.push(Action::Restore(thread.id, previous)),
            _ => plan.actions.push(Action::Switch(thread.id, previous)),
        }
        if inside && known != Some(previous) {
            plan.record.insert(tid, ThreadRecord { start, previous });
        }
    }
    let seen: BTreeMap<Tid, u64> = seen.iter().map(|thread| (thread.id.tid, thread.id.start)).collect();
    let gone = journal
        .iter()
        .filter(|(tid, entry)| seen.get(tid) != Some(&entry.start) && !plan.record.contains_key(tid));
    plan.forget.extend(gone.map(|(tid, _)| *tid));
    plan
}

/// Return the recorded state of this thread, not of another one with the same pid.
fn recorded(id: Id, first: &Journal, then: &Journal) -> Option<Previous> {
    let entry = first.get(&id.tid).or_else(|| then.get(&id.tid))?;
    (entry.start == id.start).then_some(entry.previous)
}

/// Return the state that a thread with inherited SCHED_EXT would have without the agent. It is the
/// present state of its maker, or the recorded one while the maker has SCHED_EXT itself. A record
/// may be older than the present state, if the maker changed its policy before it was switched.
fn inherited(thread: &SeenThread, first: &Journal, then: &Journal) -> Previous {
    let now = |maker: Maker| {
        policy::is_switched(maker.policy).then_some(Previous { policy: maker.policy, nice: maker.nice })
    };
    let maker = thread.maker.and_then(|maker| now(maker).or_else(|| recorded(maker.id, first, then)));
    match maker {
        // Only a SCHED_IDLE maker had its nice value changed, and its children inherited the
        // change.
        Some(maker) if maker.policy == policy::IDLE && thread.nice == IDLE_NICE => maker,
        Some(maker) => Previous { policy: maker.policy, nice: thread.nice },
        None => Previous { policy: policy::NORMAL, nice: thread.nice },
    }
}

#[cfg(test)]
#[path = "reconcile_tests.rs"]
mod tests;
