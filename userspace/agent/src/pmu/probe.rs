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
//! the work on a thread for each CPU, all at once because nothing is timed.
//!
//! # Invariants
//! A verdict needs a measurement: a CPU where the work could not run keeps its counters. Every
//! round either ends a CPU's probe or excludes an event, so the probe ends.
//!
//! # Limits
//! A counter that moves but counts something else passes.

use super::group::Group;
use super::open::{Opened, Perf, PerfOpener, open_best};
use super::opened::{Counters, OpenCpu};
use super::read::{CounterReading, Delta};
use super::roles::{CounterState, Role};
use crate::failure::Failure;
use crate::loops::chase::{Chase, LINE_BYTES, LOADS_PER_STEP};
use crate::loops::kernels::{Branches, branches};
use crate::loops::thread;
use std::sync::{Mutex, OnceLock, PoisonError};

/// The calibration's loops as the work, for some milliseconds each.
struct StallLoops {
    far: Chase,
    /// Line where the last CPU stopped; 0 at first.
    at: Mutex<usize>,
}

impl StallLoops {
    /// Build a memory loop over `bytes`, which should exceed the caches: see
    /// [`crate::calibrate::Conditions::external_bytes`].
    ///
    /// # Errors
    /// Runtime failure when the memory cannot be mapped.
    pub fn new(bytes: usize) -> Result<Self, Failure> {
        Ok(Self { far: Chase::new(bytes)?, at: Mutex::new(0) })
    }

    /// Wait for memory: 65 536 dependent loads, or one round if the set is smaller.
    ///
    /// One CPU at a time runs, and continues where the last one stopped. So none finds in a shared
    /// cache what another has just read.
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

/// Counts of a CPU's events over the calibration's loops, which are such work too.
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
/// is not taken for a dead counter.
struct Lazy {
    small: OnceLock<Option<StallLoops>>,
    large: OnceLock<Option<StallLoops>>,
    large_bytes: usize,
}

/// Size of the set for the first try [bytes].
const SMALL_BYTES: usize = 1 << 20;
/// Bounds of the set for the second try [bytes].
const LARGE_BYTES: (u64, u64) = (8 << 20, 256 << 20);

impl Lazy {
    fn new(llc_bytes: u64) -> Self {
        let large_bytes = llc_bytes.saturating_mul(2).clamp(LARGE_BYTES.0, LARGE_BYTES.1) as usize;
        Self { small: OnceLock::new(), large: OnceLock::new(), large_bytes }
    }

    fn measure(&self, group: &Group) -> Option<(Delta, Delta)> {
        let with = |loops: &Option<StallLoops>| measure(group, loops.as_ref()?);
        let first = with(self.small.get_or_init(|| StallLoops::new(SMALL_BYTES).ok()))?;
        match first.0.count(Role::External) {
            Some(0) => with(self.large.get_or_init(|| StallLoops::new(self.large_bytes).ok())),
            _ => Some(first),
        }
    }
}

/// Result of a group's probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeVerdict {
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
#[must_use]
pub fn judge(external: &Delta, internal: &Delta) -> ProbeVerdict {
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

impl Counters {
    /// Close the counters that do not move on every CPU, and open the next plans instead.
    ///
    /// Use the calibration's counts where it counted the same events, and run loops of some
    /// milliseconds elsewhere. `llc_bytes` is the size of the last-level cache.
    pub fn probe_at_start(&mut self, seen: &[Probed], llc_bytes: u64) {
        let lazy = Lazy::new(llc_bytes);
        self.probe_by(&Perf, &|group| seen_of(seen, group).or_else(|| lazy.measure(group)));
    }

    /// Like [`Self::probe_at_start`], for these CPUs only and without a calibration's counts.
    pub(super) fn probe_cpus(&mut self, cpus: &[u32], llc_bytes: u64) {
        let lazy = Lazy::new(llc_bytes);
        self.probe_by(&Perf, &|group| {
            if cpus.contains(&group.cpu) { lazy.measure(group) } else { None }
        });
    }

    /// Like [`Self::probe_at_start`], with another kernel and measurement. None from `measure`
    /// leaves a CPU unchanged.
    pub(super) fn probe_by(
        &mut self,
        kernel: &dyn PerfOpener,
        measure: &(dyn Fn(&Group) -> Option<(Delta, Delta)> + Sync),
    ) {
        let mut pending: Vec<&mut OpenCpu> =
            self.cpus.iter_mut().filter(|counters| counters.group.is_some()).collect();
        while !pending.is_empty() {
            let measured: Vec<Option<(Delta, Delta)>> = std::thread::scope(|scope| {
                let groups = pending.iter().map(|counters| counters.group.as_ref());
                let threads: Vec<_> =
                    groups.map(|group| scope.spawn(move || group.and_then(measure))).collect();
                threads.into_iter().map(|thread| thread.join().ok().flatten()).collect()
            });
            let verdicts = measured.iter().map(|both| both.as_ref().map(|(one, other)| judge(one, other)));
            let judged = pending.into_iter().zip(verdicts);
            pending = judged
                .filter_map(|(counters, verdict)| {
                    let again = verdict.is_some_and(|verdict| counters.sentence(kernel, verdict));
                    again.then_some(counters)
                })
                .collect();
        }
    }
}

impl OpenCpu {
    /// Carry out a verdict. Return true if other counters were opened, which must be probed as
    /// well.
    fn sentence(&mut self, kernel: &dyn PerfOpener, verdict: ProbeVerdict) -> bool {
        match verdict {
            ProbeVerdict::Sound => false,
            ProbeVerdict::Dead(why) => {
                self.group = None;
                self.source = CounterState::Unknown { reason: format!("CPU {}: {why}", self.cpu) };
                false
            }
            ProbeVerdict::Absent { external: false, .. } => {
                if let Some(group) = &mut self.group {
                    let why = group.still(Role::Internal);
                    group.close(Role::Internal);
                    self.source = group.worth(Some(why));
                }
                false
            }
            ProbeVerdict::Absent { external: true, .. } => self.reopen(kernel),
        }
    }

    /// Open the next plan with another memory event.
    fn reopen(&mut self, kernel: &dyn PerfOpener) -> bool {
        let Some(group) = self.group.take() else { return false };
        let slot = Role::External.index();
        let why = group.still(Role::External);
        self.absent.extend(group.events[slot].clone());
        let at = group.plan;
        // Close first: the next group needs its counters.
        drop(group);
        let absent = &self.absent;
        let next = open_best(kernel, self.cpu, &self.plans, |plan, candidate| {
            plan > at && candidate.events[slot].as_ref().is_some_and(|event| !absent.contains(event))
        });
        match next {
            Ok(opened) => {
                self.install(Opened { refusal: Some(why), ..opened });
                true
            }
            Err(more) => {
                self.source = CounterState::Unknown { reason: format!("{why}; {more}") };
                false
            }
        }
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
    thread::pin(group.cpu).ok()?;
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
#[path = "probe_tests.rs"]
mod tests;
