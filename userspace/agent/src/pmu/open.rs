// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Opening of a CPU's events as one group, with a sentence for each failure.
//!
//! The kernel schedules a group as a whole, so its counts belong to the same instructions. Cycles
//! lead the group. No privilege level is excluded: a task is charged for all that the CPU did while
//! it ran, including the kernel's work for it.
//!
//! # Invariants
//! A group that cannot be opened as a whole leaves nothing open. Descriptors close with their owner
//! and on exec.

use super::event_plan::EventPlan;
use super::roles::{PerfEvent, ROLES};
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use perf_event_open_sys as perf;
use perf_event_open_sys::bindings::{
    PERF_FLAG_FD_CLOEXEC, PERF_FORMAT_GROUP, PERF_FORMAT_TOTAL_TIME_ENABLED, PERF_FORMAT_TOTAL_TIME_RUNNING,
    perf_event_attr,
};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// An event to open on a CPU.
#[derive(Debug, Clone, Copy)]
pub struct OpenRequest<'a> {
    /// The CPU, for all tasks that run on it.
    pub cpu: u32,
    /// The event.
    pub event: &'a PerfEvent,
}

/// The interface that opens events: the kernel, or a test's stand-in.
pub trait PerfOpener {
    /// Open an event, in the group of `leader` if there is one.
    ///
    /// # Errors
    /// The kernel's errno.
    fn open(&self, request: &OpenRequest<'_>, leader: Option<BorrowedFd<'_>>) -> io::Result<OwnedFd>;
}

/// This machine's kernel.
#[derive(Debug, Clone, Copy)]
pub struct Perf;

impl PerfOpener for Perf {
    fn open(&self, request: &OpenRequest<'_>, leader: Option<BorrowedFd<'_>>) -> io::Result<OwnedFd> {
        let event = request.event;
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
        let cpu = i32::try_from(request.cpu).map_err(|_| io::Error::from(Errno::EINVAL))?;
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
pub type Fds = [Option<OwnedFd>; ROLES];

/// The reason why a group did not open.
#[derive(Debug)]
struct OpenError {
    /// Cause and remedy.
    sentence: String,
    /// True if no other group would open either.
    final_: bool,
}

/// A group that opened.
#[derive(Debug)]
pub struct Opened {
    /// Index of its plan.
    pub plan: usize,
    /// Its events.
    pub fds: Fds,
    /// The reason why it is not the first plan.
    pub refusal: Option<String>,
}

/// Open the first plan that `wanted` accepts and that the kernel opens.
///
/// # Errors
/// The sentence of the first refusal, which is that of the best plan.
pub fn open_best(
    kernel: &dyn PerfOpener,
    cpu: u32,
    plans: &[EventPlan],
    wanted: impl Fn(usize, &EventPlan) -> bool,
) -> Result<Opened, String> {
    let mut first: Option<String> = None;
    for (plan, candidate) in plans.iter().enumerate().filter(|(at, plan)| wanted(*at, plan)) {
        match open_group(kernel, cpu, candidate) {
            Ok(fds) => return Ok(Opened { plan, fds, refusal: first }),
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
        let fd =
            kernel.open(&OpenRequest { cpu, event }, leader).map_err(|error| refusal(&error, cpu, event))?;
        fds[slot] = Some(fd);
    }
    Ok(fds)
}

/// Return a sentence for an errno.
fn refusal(error: &io::Error, cpu: u32, event: &PerfEvent) -> OpenError {
    let errno = error.raw_os_error().map_or(Errno::UnknownErrno, Errno::from_raw);
    let name = &event.name;
    let sentence = match errno {
        Errno::EACCES | Errno::EPERM => {
            "the kernel forbids counting on whole CPUs; run as root, grant CAP_PERFMON, or set \
             kernel.perf_event_paranoid to 0"
                .to_owned()
        }
        Errno::EMFILE | Errno::ENFILE => {
            format!("too many files are open for the counters of CPU {cpu}; raise the limit (ulimit -n)")
        }
        Errno::ENOSYS => "the kernel has no performance events; build it with CONFIG_PERF_EVENTS".to_owned(),
        Errno::EBUSY => {
            format!(
                "the counters of CPU {cpu} are taken for {name}; stop the profiler that holds them exclusively"
            )
        }
        Errno::ENOENT => format!("the PMU of CPU {cpu} has no event {name}; name another with --events"),
        Errno::ENODEV => format!("CPU {cpu} is offline or its PMU is not there for {name}; bring it online"),
        Errno::EOPNOTSUPP => {
            format!(
                "the hardware of CPU {cpu} cannot count {name}; in a virtual machine have the host pass its PMU through"
            )
        }
        Errno::EINVAL => format!(
            "CPU {cpu} does not accept {name} ({:#x}), or not together with the other counters; name another with --events",
            event.config[0]
        ),
        other => {
            format!("{name} cannot be opened on CPU {cpu} ({}); name another with --events", other.desc())
        }
    };
    let final_ =
        matches!(errno, Errno::EACCES | Errno::EPERM | Errno::EMFILE | Errno::ENFILE | Errno::ENOSYS);
    OpenError { sentence, final_ }
}

/// Raise the soft limit of open files to what `cpus` CPUs need, at most to the hard limit.
///
/// Large machines need more descriptors than the usual 1024. A failure is no error here: opening
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::fake::FakeOpener;
    use super::super::roles::Unit;
    use super::*;

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
            let kernel =
                FakeOpener::new(|request| (request.event.config[0] == bad).then_some(Errno::EINVAL as i32));
            let why = open_best(&kernel, 7, &[plan(3)], |_, _| true).unwrap_err();
            assert!(why.contains("CPU 7 does not accept e") && why.contains("--events"), "{why}");
            assert_eq!(kernel.alive(), 0);
        }
    }

    #[test]
    fn the_next_plan_is_tried_and_the_first_refusal_kept() {
        let kernel =
            FakeOpener::new(|request| (request.event.config[0] == 30).then_some(Errno::ENOENT as i32));
        let opened = open_best(&kernel, 0, &[plan(30), plan(3)], |_, _| true).unwrap();
        assert_eq!((opened.plan, kernel.alive()), (1, 4));
        assert!(opened.refusal.as_ref().unwrap().contains("has no event e30"));
        drop(opened);
        assert_eq!(kernel.alive(), 0);
        assert!(open_best(&kernel, 0, &[plan(3)], |_, _| false).unwrap_err().contains("no other events"));
    }

    #[test]
    fn without_the_right_nothing_more_is_tried() {
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
            let said = refusal(&io::Error::from_raw_os_error(number), 3, event).sentence;
            assert!(said.contains("; ") && !said.contains('\n') && said.len() < 200, "{number}: {said}");
        }
    }

    #[test]
    fn room_is_never_taken_away() {
        let (before, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        make_room(1);
        assert!(getrlimit(Resource::RLIMIT_NOFILE).unwrap().0 >= before);
    }
}
