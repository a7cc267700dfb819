// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The open counters of one CPU: one group of events, opened, read and classified.
//!
//! # Problem
//! Counts of different instructions cannot be compared. An errno tells a user neither the cause nor
//! what to do.
//!
//! # Approach
//! The kernel schedules a group as a whole, so its counts belong to the same instructions. Cycles
//! lead the group. No privilege level is excluded: a task is charged for all that the CPU did while
//! it ran, including the kernel's work for it. Each errno has a sentence with a remedy.
//!
//! When events outnumber counters, perf multiplexes groups. A reading includes the time for which
//! the group was enabled and the time for which it counted. Differences are scaled by their ratio.
//!
//! # Invariants
//! A group that cannot be opened as a whole leaves nothing open. Descriptors close with their owner
//! and on exec. A counter that runs backwards, after a driver's error or a CPU's sleep, gives no
//! negative time: the difference is 0 and marked.

use super::event_plan::EventPlan;
use super::events::{Events, PerfEvent, ROLES, Role, Unit};
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use perf_event_open_sys as perf;
use perf_event_open_sys::bindings::{
    PERF_FLAG_FD_CLOEXEC, PERF_FORMAT_GROUP, PERF_FORMAT_TOTAL_TIME_ENABLED, PERF_FORMAT_TOTAL_TIME_RUNNING,
    perf_event_attr,
};
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The interface that opens events: the kernel, or a test's stand-in.
pub trait PerfOpener {
    /// Open an event for all tasks that run on `cpu`, in the group of `leader` if there is one.
    ///
    /// # Errors
    /// The kernel's errno.
    fn open(&self, cpu: u32, event: &PerfEvent, leader: Option<BorrowedFd<'_>>) -> io::Result<OwnedFd>;
}

/// This machine's kernel.
#[derive(Debug, Clone, Copy)]
pub struct Perf;

impl PerfOpener for Perf {
    fn open(&self, cpu: u32, event: &PerfEvent, leader: Option<BorrowedFd<'_>>) -> io::Result<OwnedFd> {
        let mut attr = perf_event_attr {
            type_: event.kind,
            size: size_of::<perf_event_attr>() as u32,
            config: event.config[0],
            read_format: u64::from(PERF_FORMAT_GROUP)
                | u64::from(PERF_FORMAT_TOTAL_TIME_ENABLED)
                | u64::from(PERF_FORMAT_TOTAL_TIME_RUNNING),
            ..Default::default()
        };
        attr.__bindgen_anon_3.config1 = event.config[1];
        attr.__bindgen_anon_4.config2 = event.config[2];
        let cpu = i32::try_from(cpu).map_err(|_| io::Error::from(Errno::EINVAL))?;
        let group = leader.map_or(-1, |fd| fd.as_raw_fd());
        // SAFETY: `attr` is a valid structure of the size it states, and outlives the call.
        let fd = unsafe { perf::perf_event_open(&mut attr, -1, cpu, group, PERF_FLAG_FD_CLOEXEC.into()) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just opened and has no other owner.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

/// Open events by role. The first one leads.
type Fds = [Option<OwnedFd>; ROLES];

/// The reason why a group did not open.
#[derive(Debug)]
struct OpenError {
    /// Cause and remedy.
    sentence: String,
    /// True if no other group would open either.
    final_: bool,
}

/// Open the first plan that `wanted` accepts and that the kernel opens. Return the reason why it is
/// not the best plan as well.
///
/// # Errors
/// The sentence of the first refusal, which is that of the best plan.
pub fn open_best(
    kernel: &dyn PerfOpener,
    cpu: u32,
    plans: &[EventPlan],
    wanted: impl Fn(usize, &EventPlan) -> bool,
) -> Result<(Group, Option<String>), String> {
    let mut first: Option<String> = None;
    for (at, plan) in plans.iter().enumerate().filter(|(at, plan)| wanted(*at, plan)) {
        match open_group(kernel, cpu, plan) {
            Ok(fds) => {
                let (events, origin) = (plan.events.clone(), plan.origin.clone());
                return Ok((Group { cpu, events, origin, plan: at, fds }, first));
            }
            Err(refusal) => {
                let sentence = first.get_or_insert(refusal.sentence);
                if refusal.final_ {
                    return Err(sentence.clone());
                }
            }
        }
    }
    Err(first.unwrap_or_else(|| "no other events are known for this CPU; name some with --events".to_owned()))
}

fn open_group(kernel: &dyn PerfOpener, cpu: u32, plan: &EventPlan) -> Result<Fds, OpenError> {
    let mut fds = Fds::default();
    for slot in 0..ROLES {
        let Some(event) = &plan.events[slot] else { continue };
        let leader = fds[0].as_ref().map(AsFd::as_fd);
        let fd = kernel.open(cpu, event, leader).map_err(|error| refusal(&error, event))?;
        fds[slot] = Some(fd);
    }
    Ok(fds)
}

/// Return a sentence for an errno. It names no CPU, so that CPUs with the same trouble can share a
/// line.
fn refusal(error: &io::Error, event: &PerfEvent) -> OpenError {
    let errno = error.raw_os_error().map_or(Errno::UnknownErrno, Errno::from_raw);
    let name = &event.name;
    let sentence = match errno {
        Errno::EACCES | Errno::EPERM => {
            "the kernel forbids counting on whole CPUs; run as root, grant CAP_PERFMON, or set \
             kernel.perf_event_paranoid to 0"
                .to_owned()
        }
        Errno::EMFILE | Errno::ENFILE => {
            "too many files are open for the counters of this CPU; raise the limit (ulimit -n)".to_owned()
        }
        Errno::ENOSYS => "the kernel has no performance events; build it with CONFIG_PERF_EVENTS".to_owned(),
        Errno::EBUSY => {
            format!(
                "no counter of this CPU is free for {name}; stop the profiler that holds them exclusively"
            )
        }
        Errno::ENOENT => format!("the PMU of this CPU has no event {name}; name another with --events"),
        Errno::ENODEV => format!("this CPU is offline or its PMU is missing for {name}; bring it online"),
        Errno::EOPNOTSUPP => {
            format!(
                "the hardware of this CPU cannot count {name}; in a virtual machine have the host pass its PMU through"
            )
        }
        Errno::EINVAL => format!(
            "this CPU does not accept {name} ({:#x}), or not together with the other counters; name another with --events",
            event.config[0]
        ),
        other => {
            format!("{name} cannot be opened on this CPU ({}); name another with --events", other.desc())
        }
    };
    let final_ =
        matches!(errno, Errno::EACCES | Errno::EPERM | Errno::EMFILE | Errno::ENFILE | Errno::ENOSYS);
    OpenError { sentence, final_ }
}

/// Raise the soft limit of open files to what `cpus` CPUs need, at most to the hard limit.
///
/// Large machines need more descriptors than the usual 1024. A failure is ignored here: opening
/// reports it.
pub fn make_room(cpus: usize) {
    /// Descriptors for everything else: BPF maps, programs, links, cgroups.
    const OTHERS: u64 = 512;
    let wanted = (cpus * ROLES) as u64 + OTHERS;
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < wanted
    {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, wanted.min(hard), hard);
    }
}

/// The open counters of one CPU, closed on drop.
#[derive(Debug)]
pub struct Group {
    pub(super) cpu: u32,
    pub(super) events: Events,
    pub(super) origin: String,
    /// Index of the plan among the CPU's plans.
    pub(super) plan: usize,
    fds: Fds,
}

impl Group {
    /// Return the CPU's number.
    #[must_use]
    pub fn cpu(&self) -> u32 {
        self.cpu
    }

    /// Return the descriptors in the order of the kernel side's slots: cycles, instructions,
    /// external, internal. The first two are always open. The kernel's map must stay empty in a
    /// slot that is None.
    #[must_use]
    pub fn fds(&self) -> [Option<BorrowedFd<'_>>; ROLES] {
        self.fds.each_ref().map(|fd| fd.as_ref().map(AsFd::as_fd))
    }

    /// Return the unit of a role's counts; None when the role is not counted.
    #[must_use]
    pub fn unit(&self, role: Role) -> Option<Unit> {
        self.event(role).map(|event| event.unit)
    }

    /// Return the open event of a role.
    #[must_use]
    pub fn event(&self, role: Role) -> Option<&PerfEvent> {
        self.events[role.index()].as_ref()
    }

    /// Read the counts since the group was opened.
    ///
    /// # Errors
    /// The kernel's error. `InvalidData` when it returns fewer values than requested, as when the
    /// group cannot be scheduled.
    pub fn read(&self) -> io::Result<CounterReading> {
        let [Some(leader), ..] = &self.fds else { return Err(Errno::EBADF.into()) };
        let mut bytes = [0; LONGEST];
        let length = nix::unistd::read(leader, &mut bytes)?;
        let open = self.fds.each_ref().map(Option::is_some);
        let short =
            || io::Error::new(io::ErrorKind::InvalidData, "the kernel returned a wrong number of counters");
        bytes.get(..length).and_then(|bytes| CounterReading::parse(bytes, open)).ok_or_else(short)
    }

    /// List the open events.
    pub(super) fn summary(&self) -> Vec<EventSummary> {
        let events = Role::ALL.into_iter().zip(&self.events);
        events.filter_map(|(role, event)| Some(EventSummary { role, event: event.clone()? })).collect()
    }

    /// Classify the counters. `refusal` says why no better ones are open.
    pub(super) fn worth(&self, refusal: Option<String>) -> CounterState {
        CounterState::of(&self.events, refusal)
    }

    /// Return a sentence for a counter that stays at zero.
    pub(super) fn still(&self, role: Role) -> String {
        let name = self.event(role).map_or("?", |event| event.name.as_str());
        format!("{name} stays at zero on this CPU and was closed; name another with --events")
    }

    /// Close a counter permanently.
    pub(super) fn close(&mut self, role: Role) {
        self.events[role.index()] = None;
        self.fds[role.index()] = None;
    }
}

/// Completeness of a CPU's counters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "source", rename_all = "lowercase")]
pub enum CounterState {
    /// Both kinds of stall are counted as time.
    Full,
    /// Cycles, instructions and only a part of the stalls, or misses instead of them.
    Degraded {
        /// The missing counts, with the cause.
        reason: String,
    },
    /// Nothing is counted: tasks get no profile from this CPU.
    Unknown {
        /// The cause, and a remedy.
        reason: String,
    },
}

impl CounterState {
    /// Classify a set of opened events. `refusal` says why no better ones are open.
    fn of(events: &Events, refusal: Option<String>) -> Self {
        let lacking = |role: Role| match &events[role.index()] {
            None => Some(format!("{} stalls are not counted", role.name())),
            Some(event) if !event.unit.is_time() => {
                Some(format!("{} stalls are counted as misses", role.name()))
            }
            Some(_) => None,
        };
        let lacks: Vec<_> = [Role::External, Role::Internal].into_iter().filter_map(lacking).collect();
        if lacks.is_empty() {
            return Self::Full;
        }
        let why = refusal.unwrap_or_else(|| {
            "no better events are known for this core; name some with --events if its manual has them"
                .to_owned()
        });
        Self::Degraded { reason: format!("{}: {why}", lacks.join(" and ")) }
    }

    /// Return the reason why the set is not full; None when it is.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Full => None,
            Self::Degraded { reason } | Self::Unknown { reason } => Some(reason),
        }
    }
}

/// State of one CPU's counters for `scx_bias status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuSummary {
    /// The kernel's CPU number.
    pub cpu: u32,
    /// Completeness of its counters.
    #[serde(flatten)]
    pub source: CounterState,
    /// Name of the PMU that serves the CPU.
    pub pmu: Option<String>,
    /// Origin of the choice of events.
    pub origin: String,
    /// The open events.
    pub events: Vec<EventSummary>,
}

/// One open event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventSummary {
    /// Role of the event.
    pub role: Role,
    /// The event.
    #[serde(flatten)]
    pub event: PerfEvent,
}

/// Counts since the group was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CounterReading {
    /// Counts by role; None where the CPU has no such counter.
    pub counts: [Option<u64>; ROLES],
    /// Time since opening [ns].
    pub enabled: u64,
    /// Time for which the group counted [ns].
    pub running: u64,
}

/// Counts between two readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delta {
    /// Counts by role; None where the CPU has no such counter.
    pub counts: [Option<u64>; ROLES],
    /// Time between the readings [ns].
    pub enabled: u64,
    /// Part of that time for which the group counted [ns].
    pub running: u64,
    /// True if a value ran backwards and was replaced by 0.
    pub backwards: bool,
}

/// Words before the counts: the number of counts, time enabled, time running.
const HEAD: usize = 3;
/// Length of the longest reading [bytes].
const LONGEST: usize = (HEAD + ROLES) * 8;

impl CounterReading {
    /// Parse the bytes that the kernel returns; None when they do not match the open counters.
    fn parse(bytes: &[u8], open: [bool; ROLES]) -> Option<Self> {
        let (words, rest) = bytes.as_chunks::<8>();
        let mut words = words.iter().map(|word| u64::from_ne_bytes(*word));
        let (number, enabled, running) = (words.next()?, words.next()?, words.next()?);
        let expected = open.iter().filter(|open| **open).count();
        if !rest.is_empty() || number != expected as u64 || words.len() != expected {
            return None;
        }
        let counts = open.map(|open| if open { words.next() } else { None });
        Some(Self { counts, enabled, running })
    }

    /// Return the counts since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Delta {
        let mut backwards = false;
        let mut less = |now: u64, then: u64| {
            backwards |= now < then;
            now.saturating_sub(then)
        };
        let mut counts = [None; ROLES];
        for (slot, count) in counts.iter_mut().enumerate() {
            *count = self.counts[slot].zip(earlier.counts[slot]).map(|(now, then)| less(now, then));
        }
        let (enabled, running) = (less(self.enabled, earlier.enabled), less(self.running, earlier.running));
        Delta { counts, enabled, running, backwards }
    }
}

impl Delta {
    /// Return one counter's difference.
    #[must_use]
    pub fn count(&self, role: Role) -> Option<u64> {
        self.counts[role.index()]
    }

    /// Return the sum of both deltas.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let mut counts = [None; ROLES];
        for (slot, count) in counts.iter_mut().enumerate() {
            *count = self.counts[slot].zip(other.counts[slot]).map(|(one, two)| one.saturating_add(two));
        }
        Self {
            counts,
            enabled: self.enabled.saturating_add(other.enabled),
            running: self.running.saturating_add(other.running),
            backwards: self.backwards || other.backwards,
        }
    }

    /// Estimate the counts if the group had counted all the time; None when it never did.
    #[must_use]
    pub fn scaled(&self) -> Option<Self> {
        let (enabled, running) = (u128::from(self.enabled), u128::from(self.running));
        if running == 0 {
            return None;
        }
        // The kernel reads the two times one after the other: running may slightly exceed enabled
        // and must not shrink counts.
        let scale = |count: u64| match enabled > running {
            true => u64::try_from(u128::from(count) * enabled / running).unwrap_or(u64::MAX),
            false => count,
        };
        Some(Self { counts: self.counts.map(|count| count.map(scale)), ..*self })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::fake::FakeOpener;
    use super::*;
    use proptest::prelude::*;

    fn plan(externals: u64) -> EventPlan {
        let event = |config| {
            Some(PerfEvent {
                name: format!("e{config}"),
                kind: 4,
                config: [config, 0, 0],
                unit: Unit::Cycles,
            })
        };
        EventPlan { origin: "test".into(), events: [event(1), event(2), event(externals), event(4)] }
    }

    #[test]
    fn a_group_that_fails_leaves_nothing_open() {
        // Each slot refuses once.
        for bad in 1..=4 {
            let kernel = FakeOpener::new(|event| (event.config[0] == bad).then_some(Errno::EINVAL as i32));
            let why = open_best(&kernel, 7, &[plan(3)], |_, _| true).unwrap_err();
            assert!(why.contains("this CPU does not accept e") && why.contains("--events"), "{why}");
            assert_eq!(kernel.alive(), 0);
        }
    }

    #[test]
    fn the_next_plan_is_tried_and_the_first_refusal_kept() {
        let kernel = FakeOpener::new(|event| (event.config[0] == 30).then_some(Errno::ENOENT as i32));
        let (group, refusal) = open_best(&kernel, 0, &[plan(30), plan(3)], |_, _| true).unwrap();
        assert_eq!((group.plan, kernel.alive()), (1, 4));
        assert!(refusal.unwrap().contains("has no event e30"));
        drop(group);
        assert_eq!(kernel.alive(), 0);
        assert!(open_best(&kernel, 0, &[plan(3)], |_, _| false).unwrap_err().contains("no other events"));
    }

    #[test]
    fn without_permission_no_other_plan_is_tried() {
        let tried = std::cell::Cell::new(0);
        let kernel = FakeOpener::new(|_| {
            tried.set(tried.get() + 1);
            Some(Errno::EACCES as i32)
        });
        let why = open_best(&kernel, 0, &[plan(3), plan(5)], |_, _| true).unwrap_err();
        assert!(why.contains("CAP_PERFMON") && why.contains("perf_event_paranoid"), "{why}");
        assert_eq!(tried.get(), 1);
    }

    #[test]
    fn every_refusal_is_one_sentence_with_a_remedy() {
        let plan = plan(3);
        let event = plan.events[2].as_ref().unwrap();
        for number in 1..134 {
            let said = refusal(&io::Error::from_raw_os_error(number), event).sentence;
            assert!(said.contains("; ") && !said.contains('\n') && said.len() < 200, "{number}: {said}");
        }
    }

    #[test]
    fn the_limit_of_open_files_never_shrinks() {
        let (before, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        make_room(1);
        assert!(getrlimit(Resource::RLIMIT_NOFILE).unwrap().0 >= before);
    }

    #[test]
    fn misses_are_never_full() {
        let event = |unit| Some(PerfEvent { name: "e".into(), kind: 4, config: [0; 3], unit });
        let events =
            |external| [event(Unit::Cycles), event(Unit::Instructions), external, event(Unit::Cycles)];
        let state = |external| CounterState::of(&events(external), Some("why".into()));
        assert_eq!(state(event(Unit::Slots { width: 4 })), CounterState::Full);
        for (external, reason) in [
            (event(Unit::Misses), "external stalls are counted as misses: why"),
            (None, "external stalls are not counted: why"),
        ] {
            assert_eq!(state(external), CounterState::Degraded { reason: reason.into() });
        }
    }

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn counts_go_to_the_open_slots() {
        let reading =
            CounterReading::parse(&bytes(&[3, 100, 50, 7, 8, 9]), [true, true, true, false]).unwrap();
        assert_eq!(reading.counts, [Some(7), Some(8), Some(9), None]);
        assert_eq!((reading.enabled, reading.running), (100, 50));
        let skipping =
            CounterReading::parse(&bytes(&[3, 100, 50, 7, 8, 9]), [true, true, false, true]).unwrap();
        assert_eq!(skipping.counts, [Some(7), Some(8), None, Some(9)]);
        assert_eq!(CounterReading::parse(&bytes(&[3, 100, 50, 7, 8, 9]), [true; 4]), None);
        assert_eq!(CounterReading::parse(&bytes(&[4, 100, 50, 7, 8, 9]), [true; 4]), None);
    }

    #[test]
    fn multiplexed_counts_are_scaled_and_backward_ones_marked() {
        let reading = |count, enabled, running| CounterReading {
            counts: [Some(count), Some(count), None, Some(1)],
            enabled,
            running,
        };
        let delta = reading(300, 2000, 500).since(&reading(100, 1000, 250));
        assert_eq!((delta.counts, delta.backwards), ([Some(200), Some(200), None, Some(0)], false));
        assert_eq!(delta.scaled().unwrap().counts, [Some(800), Some(800), None, Some(0)]);
        let back = reading(100, 2000, 500).since(&reading(300, 1000, 250));
        assert_eq!((back.count(Role::Cycles), back.backwards), (Some(0), true));
        assert_eq!(reading(1, 10, 5).since(&reading(1, 0, 5)).scaled(), None);
    }

    #[test]
    fn differences_add_up() {
        let delta = |count: u64, backwards| Delta {
            counts: [Some(count), None, Some(u64::MAX), Some(count)],
            enabled: count,
            running: count,
            backwards,
        };
        let sum =
            delta(1, false).plus(&Delta { counts: [Some(2), Some(3), Some(1), None], ..delta(2, true) });
        assert_eq!(sum.counts, [Some(3), None, Some(u64::MAX), None]);
        assert_eq!((sum.enabled, sum.running, sum.backwards), (3, 3, true));
    }

    fn any_reading() -> impl Strategy<Value = CounterReading> {
        (any::<[Option<u64>; 4]>(), any::<u64>(), any::<u64>())
            .prop_map(|(counts, enabled, running)| CounterReading { counts, enabled, running })
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..80), open: [bool; 4]) {
            let _ = CounterReading::parse(&bytes, open);
        }

        #[test]
        fn scaling_never_shrinks_or_panics(one in any_reading(), two in any_reading()) {
            let delta = one.since(&two);
            if let Some(scaled) = delta.scaled() {
                for (scaled, raw) in scaled.counts.iter().zip(delta.counts) {
                    prop_assert!(*scaled >= raw);
                }
            }
        }
    }
}
