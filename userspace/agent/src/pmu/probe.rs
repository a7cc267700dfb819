// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! A probe that checks that each counter moves. A counter that opens and always reads zero is worse
//! than none.
//!
//! # Problem
//! Emulated PMUs list stall events that never count. Hypervisors hide events without refusing them.
//! A watchdog may hold the counter that a group needs. All of these open without an error, and a
//! task would appear to stall on nothing.
//!
//! # Approach
//! Two pieces of work run on the CPU: one waits for memory, one mispredicts branches. A counter
//! that stays at zero through both, while cycles pass, is absent. [`judge`] decides. The rest runs
//! the work on a thread for each CPU, all at the same time because nothing is timed.
//!
//! # Invariants
//! A verdict needs a measurement: a CPU where the work could not run keeps its counters. Every
//! round either ends a CPU's probe or excludes an event, so the probe ends.
//!
//! # Limits
//! A counter that moves but counts something else passes.

use super::events::Role;
use super::group::{CounterReading, Delta, Group};
use crate::affinity::pin;
use crate::loops::{Branches, Chase, LINE_BYTES, LOADS_PER_STEP, branches};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The calibration's loops as the work, for some milliseconds each.
struct StallLoops {
    far: Chase,
    /// Line where the last CPU stopped; 0 at first.
    at: Mutex<usize>,
}

impl StallLoops {
    /// Build a memory loop over `bytes`, which should exceed the caches: see
    /// [`crate::calibrate::Conditions::external_bytes`]. None when the memory cannot be mapped.
    fn new(bytes: usize) -> Option<Self> {
        Some(Self { far: Chase::new(bytes).ok()?, at: Mutex::new(0) })
    }

    /// Wait for memory: 65 536 dependent loads, or one round if the set is smaller.
    ///
    /// One CPU at a time runs, and continues where the last one stopped. So no CPU finds lines in a
    /// shared cache that another has just read.
    fn external(&self) {
        let steps = (self.far.bytes() / LINE_BYTES) as u64 / LOADS_PER_STEP;
        let mut at = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        *at = self.far.run(*at, steps.clamp(1, 4096));
    }

    /// Mispredict half of 524 288 branches.
    fn internal(&self) {
        branches(Branches::Random, 1, 32_768);
    }
}

/// Counts of a CPU's events over the calibration's loops, which serve as a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probed {
    /// The kernel's CPU number.
    pub cpu: u32,
    /// The event of external stalls that was counted, see [`super::PerfEvent::id`].
    pub event: String,
    /// Counts over the loop that waits for memory.
    pub external: Delta,
    /// Counts over the loop that mispredicts branches.
    pub internal: Delta,
}

/// Loops that are built when first needed, each in some milliseconds. The first try uses a small
/// set. If that moves no external counter, a set beyond the caches follows, so that a large cache
/// is not mistaken for a dead counter.
pub(super) struct Lazy {
    small: OnceLock<Option<StallLoops>>,
    large: OnceLock<Option<StallLoops>>,
    large_bytes: usize,
}

/// Size of the set for the first try [bytes].
const SMALL_BYTES: usize = 1 << 20;
/// Bounds of the set for the second try [bytes].
const LARGE_BYTES: (u64, u64) = (8 << 20, 256 << 20);

impl Lazy {
    /// Return loops for a machine with a last-level cache of `llc_bytes`.
    pub(super) fn new(llc_bytes: u64) -> Self {
        let large_bytes = llc_bytes.saturating_mul(2).clamp(LARGE_BYTES.0, LARGE_BYTES.1) as usize;
        Self { small: OnceLock::new(), large: OnceLock::new(), large_bytes }
    }

    /// Return the counts of a group over the loop that waits for memory and the one that
    /// mispredicts; None when these could not be run or read.
    pub(super) fn measure(&self, group: &Group) -> Option<(Delta, Delta)> {
        let with = |loops: &Option<StallLoops>| measure(group, loops.as_ref()?);
        let first = with(self.small.get_or_init(|| StallLoops::new(SMALL_BYTES)))?;
        match first.0.count(Role::External) {
            Some(0) => with(self.large.get_or_init(|| StallLoops::new(self.large_bytes))),
            _ => Some(first),
        }
    }
}

/// Result of a group's probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ProbeVerdict {
    /// All open counters move.
    Sound,
    /// These counters stay at zero.
    Absent {
        /// External stalls.
        external: bool,
        /// Internal stalls.
        internal: bool,
    },
    /// Cycles or instructions do not count: no task can be profiled.
    Dead(String),
}

/// Judge a group by its counts over the work.
pub(super) fn judge(external: &Delta, internal: &Delta) -> ProbeVerdict {
    let sum = |role: Role| {
        external.count(role).zip(internal.count(role)).map(|(one, other)| one.saturating_add(other))
    };
    let stays = |role: Role| sum(role) == Some(0);
    if external.running == 0 && internal.running == 0 {
        return ProbeVerdict::Dead(
            "multiplexing never gave its counters time; stop other profilers, or free one (sysctl kernel.nmi_watchdog=0)".to_owned(),
        );
    }
    for role in [Role::Cycles, Role::Instructions] {
        if stays(role) {
            return ProbeVerdict::Dead(format!(
                "{} stay at zero while it works; in a virtual machine have the host pass its PMU through, else name events with --events",
                role.name()
            ));
        }
    }
    match (stays(Role::External), stays(Role::Internal)) {
        (false, false) => ProbeVerdict::Sound,
        (external, internal) => ProbeVerdict::Absent { external, internal },
    }
}

/// Return the calibration's counts for a group; None if it counted other events or none.
pub(super) fn seen_of(seen: &[Probed], group: &Group) -> Option<(Delta, Delta)> {
    let event = group.event(Role::External)?.id();
    let seen = seen.iter().find(|seen| seen.cpu == group.cpu && seen.event == event)?;
    Some((seen.external, seen.internal))
}

/// Most repetitions of the work until the counters have run. perf multiplexes in steps of some
/// milliseconds, and a piece of work may be shorter.
const TURNS: usize = 16;

/// Return the counts over both pieces of work on the group's CPU; None when these could not be run
/// or read.
fn measure(group: &Group, loops: &StallLoops) -> Option<(Delta, Delta)> {
    pin(group.cpu).ok()?;
    let over = |work: &dyn Fn()| counted(&|| group.read().ok(), work);
    Some((over(&|| loops.external())?, over(&|| loops.internal())?))
}

/// Repeat the work until the counters that `read` reads have counted some of it, at most [`TURNS`]
/// times.
fn counted(read: &dyn Fn() -> Option<CounterReading>, work: &dyn Fn()) -> Option<Delta> {
    let before = read()?;
    let mut delta = None;
    for _ in 0..TURNS {
        work();
        let since = read()?.since(&before);
        let ran = since.running > 0;
        delta = Some(since);
        if ran {
            break;
        }
    }
    delta
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::super::events::ROLES;
    use super::*;
    use proptest::prelude::*;

    fn delta(counts: [u64; 4]) -> Delta {
        Delta { counts: counts.map(Some), enabled: 10, running: 10, backwards: false }
    }

    #[test]
    fn a_counter_that_never_moves_is_absent() {
        let moved = delta([9, 9, 9, 9]);
        assert_eq!(judge(&moved, &moved), ProbeVerdict::Sound);
        // A counter that moves in one of the two pieces of work moves.
        assert_eq!(judge(&delta([9, 9, 9, 0]), &delta([9, 9, 0, 9])), ProbeVerdict::Sound);
        let only = |external, internal| {
            judge(&delta([9, 9, external, internal]), &delta([9, 9, external, internal]))
        };
        assert_eq!(only(0, 1), ProbeVerdict::Absent { external: true, internal: false });
        assert_eq!(only(1, 0), ProbeVerdict::Absent { external: false, internal: true });
        // A slot without a counter does not count as one that stands still.
        let without = Delta { counts: [Some(9), Some(9), Some(9), None], ..moved };
        assert_eq!(judge(&without, &without), ProbeVerdict::Sound);
    }

    #[test]
    fn without_cycles_or_instructions_nothing_is_known() {
        let says = |one: Delta| match judge(&one, &one) {
            ProbeVerdict::Dead(why) => why,
            other => panic!("{other:?}"),
        };
        assert!(says(delta([0, 9, 9, 9])).contains("cycles stay at zero"));
        assert!(says(delta([9, 0, 9, 9])).contains("instructions stay at zero"));
        assert!(says(Delta { running: 0, ..delta([9; 4]) }).contains("multiplexing never gave"));
    }

    /// Counters that perf multiplexes with a profiler's may miss a short piece of work.
    #[test]
    fn work_is_repeated_until_the_counters_have_run() {
        let after = |turns: usize| {
            let worked = std::cell::Cell::new(0);
            let read = || {
                let ran = worked.get() >= turns;
                let count = if ran { 5 } else { 0 };
                Some(CounterReading {
                    counts: [Some(count); ROLES],
                    enabled: worked.get() as u64,
                    running: u64::from(ran),
                })
            };
            let delta = counted(&read, &|| worked.set(worked.get() + 1)).unwrap();
            (worked.get(), delta.running)
        };
        assert_eq!(after(1), (1, 1));
        assert_eq!(after(5), (5, 1));
        assert_eq!(after(usize::MAX), (TURNS, 0), "it ends, and reports that they never ran");
        assert_eq!(counted(&|| None, &|| {}), None);
    }

    proptest! {
        #[test]
        fn only_open_counters_at_zero_are_condemned(one: [Option<u64>; 4], other: [Option<u64>; 4], running: u64) {
            let delta = |counts| Delta { counts, enabled: running, running, backwards: false };
            let verdict = judge(&delta(one), &delta(other));
            let zero = |slot: usize| one[slot] == Some(0) && other[slot] == Some(0);
            match verdict {
                ProbeVerdict::Sound => prop_assert!(running > 0 && !(0..4).any(zero)),
                ProbeVerdict::Absent { external, internal } => {
                    prop_assert!(external == zero(2) && internal == zero(3) && (external || internal));
                }
                ProbeVerdict::Dead(_) => prop_assert!(running == 0 || zero(0) || zero(1)),
            }
        }
    }
}
