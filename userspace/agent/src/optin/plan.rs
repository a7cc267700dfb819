//! Which threads change their policy: a function from what is seen and what is remembered to what is to be done.
//!
//! Problem. Threads come and go, are moved in and out and change their policy themselves, while the agent looks at one after the other;
//! numbers of threads are used again. Whatever it sees, it must never give a thread what belongs to another, nor touch one that is
//! none of its business.
//!
//! Approach. A thread is known by its number and by when it started. What it had before it was switched is recorded first, in the
//! journal. A thread that is found with our policy inside an opted-in cgroup, but not in the journal, inherited it: it is taken to have had before
//! what its maker had, and SCHED_NORMAL if that is not known.
//!
//! Invariants (each a test in `plan_tests.rs`).
//! * Only what is inside is ever switched, and only from SCHED_NORMAL, SCHED_BATCH or SCHED_IDLE: real-time threads are left alone.
//! * Whoever is not inside any more, and has our policy because of us, is given back exactly the policy that is recorded of it. Nice
//!   values stay as they are, for nobody but others changes them; but for SCHED_IDLE, see [`IDLE_NICE`].
//! * A thread outside that is not known, or is not the one that was known, is left alone.
//! * What is switched is recorded before.
//! * Once everything is carried out there is nothing left to do.
//!
//! Limits. Who sets SCHED_EXT for itself inside an opted-in cgroup is taken to have inherited it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Number of a thread.
pub type Tid = u32;

/// Policies as the kernel numbers them (`sched(7)`).
pub mod policy {
    /// SCHED_OTHER to user space.
    pub const NORMAL: u32 = 0;
    /// For batch work.
    pub const BATCH: u32 = 3;
    /// Below everything.
    pub const IDLE: u32 = 5;
    /// Scheduled by sched_ext.
    pub const EXT: u32 = 7;

    /// Is this one that is switched? All others are real-time.
    #[must_use]
    pub const fn is_switched(policy: u32) -> bool {
        matches!(policy, NORMAL | BATCH | IDLE)
    }
}

/// Nice value of a SCHED_IDLE thread while it is SCHED_EXT: sched_ext gives both the least weight there is, 1.
pub const IDLE_NICE: i32 = 19;

/// What a thread had before it was switched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Previous {
    /// NORMAL, BATCH or IDLE.
    pub policy: u32,
    /// Nice value. It is only ever changed for IDLE, see [`IDLE_NICE`].
    pub nice: i32,
}

/// A thread, told from a later one of the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    /// Its number.
    pub tid: Tid,
    /// When it started [clock ticks since boot].
    pub start: u64,
}

/// What is recorded of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// When it started [clock ticks since boot].
    pub start: u64,
    /// What it had before.
    pub previous: Previous,
}

/// What is recorded of all threads.
pub type Journal = BTreeMap<Tid, Entry>;

/// Where a thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In an opted-in cgroup.
    Inside,
    /// In a cgroup that was opted in, or known to have left one: our policy is our doing.
    Released,
    /// Anywhere else.
    Outside,
}

/// A living thread, as it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Which.
    pub id: Id,
    /// Its policy.
    pub policy: u32,
    /// Its nice value.
    pub nice: i32,
    /// Where it is.
    pub place: Place,
    /// Who may have made it: the first thread of its process or, for that, of the parent process; or, if nothing is known of that, who
    /// made that.
    pub maker: Option<Maker>,
}

/// A thread that made another, as it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Maker {
    /// Which.
    pub id: Id,
    /// Its policy.
    pub policy: u32,
    /// Its nice value.
    pub nice: i32,
}

/// What changes a thread's policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// To SCHED_EXT, from what is recorded.
    Switch(Id, Previous),
    /// From SCHED_EXT to this.
    Restore(Id, Previous),
}

/// What is to be done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// To be recorded before anything else.
    pub record: Journal,
    /// To be carried out then.
    pub actions: Vec<Action>,
    /// Not to be remembered any more: gone, or not ours.
    pub forget: Vec<Tid>,
}

/// What is to be done about the threads that were `seen`: all inside, and of the others those recorded or known to have left.
/// Whoever is recorded and not seen is gone.
#[must_use]
pub fn reconcile(seen: &[Seen], journal: &Journal) -> Plan {
    let mut plan = Plan::default();
    // Makers first: what they are taken to have had is what their children are taken to have had.
    let mut order: Vec<&Seen> = seen.iter().collect();
    order.sort_by_key(|thread| (thread.id.start, thread.id.tid));
    let mut told = Journal::new();
    for thread in order {
        let Id { tid, start } = thread.id;
        let known = recorded(thread.id, &told, journal);
        let inside = thread.place == Place::Inside;
        let previous = match thread.policy {
            policy if inside && policy::is_switched(policy) => Previous { policy, nice: thread.nice },
            policy::EXT if known.is_some() || thread.place != Place::Outside => {
                known.unwrap_or_else(|| inherited(thread, &told, journal))
            }
            _ => {
                plan.forget.extend(known.map(|_| tid));
                continue;
            }
        };
        told.insert(tid, Entry { start, previous });
        match thread.policy {
            policy::EXT if inside => {}
            policy::EXT => plan.actions.push(Action::Restore(thread.id, previous)),
            _ => plan.actions.push(Action::Switch(thread.id, previous)),
        }
        if inside && known != Some(previous) {
            plan.record.insert(tid, Entry { start, previous });
        }
    }
    let seen: BTreeMap<Tid, u64> = seen.iter().map(|thread| (thread.id.tid, thread.id.start)).collect();
    let gone = journal
        .iter()
        .filter(|(tid, entry)| seen.get(tid) != Some(&entry.start) && !plan.record.contains_key(tid));
    plan.forget.extend(gone.map(|(tid, _)| *tid));
    plan
}

/// What is recorded of this thread, not of another that had its number.
fn recorded(id: Id, first: &Journal, then: &Journal) -> Option<Previous> {
    let entry = first.get(&id.tid).or_else(|| then.get(&id.tid))?;
    (entry.start == id.start).then_some(entry.previous)
}

/// What a thread that inherited our policy would have without us: what is recorded of its maker, or what that has again.
fn inherited(thread: &Seen, first: &Journal, then: &Journal) -> Previous {
    let now = |maker: Maker| {
        policy::is_switched(maker.policy).then_some(Previous { policy: maker.policy, nice: maker.nice })
    };
    let maker = thread.maker.and_then(|maker| recorded(maker.id, first, then).or_else(|| now(maker)));
    match maker {
        // Only an idle maker's nice value was changed, and inherited so.
        Some(maker) if maker.policy == policy::IDLE && thread.nice == IDLE_NICE => maker,
        Some(maker) => Previous { policy: maker.policy, nice: thread.nice },
        None => Previous { policy: policy::NORMAL, nice: thread.nice },
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
