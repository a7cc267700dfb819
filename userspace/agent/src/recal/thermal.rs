// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Limits of a CPU's clock: their files in sysfs, and the kernel's events about CPUs that get hot
//! or cool down.
//!
//! # Problem
//! A limit of the clock explains that a CPU got slower, so fewer measurements suffice. Intel's
//! hardware feedback interface (HFI) rates each CPU, and its ratings are not in sysfs at all.
//!
//! # Approach
//! [`ClockLimits`] reads a few files every two seconds. This works on every architecture, and on
//! kernels that announce nothing:
//!
//! * `cpufreq/policyN/scaling_max_freq` is the limit that a user, a governor or the firmware sets
//!   [kHz].
//! * `cpuN/thermal_throttle/core_throttle_count` grows each time the hardware throttles the core
//!   (x86; documented in the kernel's `Documentation/admin-guide/thermal` and sysfs ABI).
//!
//! A thread of [`Listener`] sleeps until an event of the generic netlink family `thermal` arrives
//! and passes it on. An event names the CPUs whose capability the HFI changed. Or it says that a
//! trip point was crossed or a cooling device set, without naming a CPU. Either one is only a
//! reason to take readings: HFI capabilities are ranks of the firmware, not costs. Since 6.10 or so
//! the kernel enables the HFI only while a listener exists, so listening makes the events come. The
//! constants are those of the kernel's `include/uapi/linux/thermal.h`.
//!
//! # Invariants
//! A file that vanishes or holds no number is skipped until it can be read. Each call reads at most
//! [`READ`] files, in rotation. Every message either is news or is ignored. The thread ends with
//! the listener, and no other source wakes it.
//!
//! # Limits
//! News that arrive faster than they are read are dropped: the queued ones have the same meaning.
//! Kernels without CONFIG_THERMAL_NETLINK announce nothing.

use crate::cpulist;
use anyhow::{Context, Result, anyhow};
use bias_policy::recal::Trigger;
use crossbeam::channel::{Receiver, bounded};
use neli::attr::Attribute;
use neli::consts::socket::NlFamily;
use neli::err::RouterError;
use neli::genl::Genlmsghdr;
use neli::nl::{NlPayload, Nlmsghdr};
use neli::router::synchronous::NlRouter;
use neli::socket::synchronous::NlSocketHandle;
use neli::utils::Groups;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fs;
use std::io::PipeWriter;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

/// Most files read in one call.
const READ: usize = 32;

/// A change or a limit of a CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockLimit {
    /// The kernel's CPU number.
    pub cpu: u32,
    /// The kind of change; None if the value is unchanged.
    pub trigger: Option<Trigger>,
    /// The present limit as a share of the one at the start. None if the file gives no limit, or if
    /// the limit was and is at least that of the start.
    pub share: Option<f64>,
}

/// The files to read.
#[derive(Debug, Default)]
pub struct ClockLimits {
    files: Vec<File>,
    next: usize,
}

#[derive(Debug)]
struct File {
    path: PathBuf,
    cpus: Vec<u32>,
    what: What,
    first: Option<u64>,
    last: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Limit,
    Throttled,
}

impl ClockLimits {
    /// Find the files of `cpus` below `sysfs`. A machine may have none.
    #[must_use]
    pub fn open(sysfs: &Path, cpus: &[u32]) -> Self {
        let directory = sysfs.join("devices/system/cpu");
        let policies = fs::read_dir(directory.join("cpufreq")).into_iter().flatten().flatten();
        let policies = policies.filter_map(|policy| {
            let list = fs::read_to_string(policy.path().join("related_cpus")).ok()?;
            // Separated by spaces, unlike other lists.
            let of_policy = cpulist::parse(&list.split_whitespace().collect::<Vec<_>>().join(","))?;
            let of_policy = of_policy.into_iter().filter(|cpu| cpus.contains(cpu)).collect();
            Some((policy.path().join("scaling_max_freq"), of_policy, What::Limit))
        });
        let throttled = cpus.iter().map(|cpu| {
            let path = directory.join(format!("cpu{cpu}/thermal_throttle/core_throttle_count"));
            (path, vec![*cpu], What::Throttled)
        });
        let files = policies.chain(throttled).filter_map(|(path, cpus, what)| {
            let value = number(&path)?;
            Some(File { path, cpus, what, first: Some(value), last: Some(value) })
        });
        Self { files: files.collect(), next: 0 }
    }

    /// Return the changes since the files were last read, and the limits in force.
    pub fn read(&mut self) -> Vec<ClockLimit> {
        let mut limits = Vec::new();
        for _ in 0..READ.min(self.files.len()) {
            self.next = (self.next + 1) % self.files.len();
            if let Some(file) = self.files.get_mut(self.next) {
                limits.extend(file.read());
            }
        }
        limits
    }
}

impl File {
    fn read(&mut self) -> Vec<ClockLimit> {
        let value = number(&self.path);
        let changed = value.is_some() && value != self.last;
        let (trigger, share) = match self.what {
            What::Throttled => (Trigger::Thermal, None),
            What::Limit => {
                let share = value.zip(self.first).map(|(now, first)| now as f64 / first.max(1) as f64);
                // Report a limit at each call while it holds, and once when it ends.
                (Trigger::FrequencyPolicy, share.map(|share| share.min(1.0)).filter(|s| changed || *s < 1.0))
            }
        };
        self.last = value.or(self.last);
        if !changed && share.is_none() {
            return Vec::new();
        }
        self.cpus
            .iter()
            .map(|cpu| ClockLimit { cpu: *cpu, trigger: changed.then_some(trigger), share })
            .collect()
    }
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The family and its group of events.
const FAMILY: &str = "thermal";
const GROUP: &str = "event";
/// Events (`enum thermal_genl_event`).
const TRIP_UP: u8 = 5;
const TRIP_DOWN: u8 = 6;
const COOLING: u8 = 12;
const CAPABILITY: u8 = 14;
/// Attributes (`enum thermal_genl_attr`): the list of CPUs, and the number of each CPU.
const CPUS: u16 = 20;
const CPU: u16 = 21;
/// Most queued news.
const WAITING: usize = 8;

type Message = Nlmsghdr<u16, Genlmsghdr<u8, u16>>;

/// Content of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ThermalEvent {
    /// The HFI changed the ratings of these CPUs.
    Cpus(Vec<u32>),
    /// A part got hot or cooled down, so limits may have changed.
    Somewhere,
}

/// Listener for thermal events until it is dropped.
pub struct Listener {
    events: Receiver<ThermalEvent>,
    /// Write end of a pipe. The thread ends when it is closed.
    _needed: PipeWriter,
}

impl Listener {
    /// Start to listen.
    ///
    /// # Errors
    /// The reason when the kernel has no such events, or when no pipe or thread can be created.
    pub fn open() -> Result<Self> {
        let socket = join()?;
        let (end, needed) = std::io::pipe().context("cannot make a pipe")?;
        let (sender, events) = bounded(WAITING);
        let run = move || {
            // SAFETY: the descriptor is the socket's, which lives as long as this closure.
            let fd = unsafe { BorrowedFd::borrow_raw(socket.as_raw_fd()) };
            while wait(fd, end.as_fd()) {
                let Ok((messages, _)) = socket.recv::<u16, Genlmsghdr<u8, u16>>() else { continue };
                for message in messages.filter_map(Result::ok) {
                    // A full queue drops the news: the queued ones have the same meaning.
                    drop(event_in(&message).map(|events| sender.try_send(events)));
                }
            }
        };
        std::thread::Builder::new()
            .name("thermal".to_owned())
            .spawn(run)
            .context("cannot start a thread that listens")?;
        Ok(Self { events, _needed: needed })
    }

    /// Return the receiver of the news.
    #[must_use]
    pub const fn events(&self) -> &Receiver<ThermalEvent> {
        &self.events
    }
}

/// Open a socket that receives the events.
fn join() -> Result<NlSocketHandle> {
    let absent = |error: &dyn std::fmt::Display| anyhow!("this kernel has no thermal events ({error})");
    let (router, _) =
        NlRouter::connect(NlFamily::Generic, None, Groups::empty()).map_err(|error| absent(&error))?;
    let group = router.resolve_nl_mcast_group(FAMILY, GROUP).map_err(|error| match error {
        // The crate would print the whole request.
        RouterError::Nlmsgerr(refused) => absent(&std::io::Error::from_raw_os_error(-refused.error())),
        other => absent(&other),
    })?;
    NlSocketHandle::connect(NlFamily::Generic, None, Groups::new_groups(&[group]))
        .map_err(|error| anyhow!("cannot listen to thermal events: {error}"))
}

/// Wait until `socket` is readable and return true, or until the other end of `end` is closed and
/// return false.
fn wait(socket: BorrowedFd<'_>, end: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::new(socket, PollFlags::POLLIN), PollFd::new(end, PollFlags::POLLIN)];
    while poll(&mut fds, PollTimeout::NONE) == Err(nix::errno::Errno::EINTR) {}
    let [_, end] = fds;
    !end.any().unwrap_or(true)
}

/// Return the news in a message, if there are any.
fn event_in(message: &Message) -> Option<ThermalEvent> {
    let NlPayload::Payload(payload) = message.nl_payload() else { return None };
    match *payload.cmd() {
        TRIP_UP | TRIP_DOWN | COOLING => Some(ThermalEvent::Somewhere),
        CAPABILITY => {
            let attributes = payload.attrs().get_attr_handle();
            let nested = attributes.get_nested_attributes::<u16>(CPUS).ok()?;
            let numbers = nested.iter().filter(|attribute| *attribute.nla_type().nla_type() == CPU);
            let cpus: Vec<u32> = numbers.filter_map(|number| number.get_payload_as().ok()).collect();
            (!cpus.is_empty()).then_some(ThermalEvent::Cpus(cpus))
        }
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use neli::FromBytes;
    use proptest::prelude::*;
    use std::io::Cursor;

    struct FakeLimits(tempfile::TempDir);

    impl FakeLimits {
        fn write(&self, file: &str, text: &str) {
            let path = self.0.path().join("devices/system/cpu").join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn new() -> Self {
            let machine = Self(tempfile::tempdir().unwrap());
            machine.write("cpufreq/policy0/related_cpus", "0 1 7\n");
            machine.write("cpufreq/policy0/scaling_max_freq", "3000000\n");
            machine.write("cpufreq/policy2/related_cpus", "2\n");
            machine.write("cpufreq/policy2/scaling_max_freq", "<unknown>\n");
            machine.write("cpu2/thermal_throttle/core_throttle_count", "17\n");
            machine
        }

        fn limits(&self) -> ClockLimits {
            ClockLimits::open(self.0.path(), &[0, 1, 2])
        }
    }

    #[test]
    fn a_limit_is_reported_while_it_holds_and_when_it_ends() {
        let machine = FakeLimits::new();
        let mut limits = machine.limits();
        assert_eq!(limits.files.len(), 2);
        assert_eq!(limits.read(), []);
        let limit = |cpu, trigger, share| ClockLimit { cpu, trigger, share: Some(share) };
        machine.write("cpufreq/policy0/scaling_max_freq", "1500000\n");
        let policy = Some(Trigger::FrequencyPolicy);
        assert_eq!(limits.read(), [limit(0, policy, 0.5), limit(1, policy, 0.5)]);
        assert_eq!(limits.read(), [limit(0, None, 0.5), limit(1, None, 0.5)]);
        machine.write("cpufreq/policy0/scaling_max_freq", "3300000\n");
        assert_eq!(limits.read(), [limit(0, policy, 1.0), limit(1, policy, 1.0)]);
        machine.write("cpufreq/policy0/scaling_max_freq", "nonsense");
        assert_eq!(limits.read(), []);
    }

    #[test]
    fn throttling_is_reported_once() {
        let machine = FakeLimits::new();
        let mut limits = machine.limits();
        machine.write("cpu2/thermal_throttle/core_throttle_count", "19\n");
        assert_eq!(limits.read(), [ClockLimit { cpu: 2, trigger: Some(Trigger::Thermal), share: None }]);
        assert_eq!(limits.read(), []);
        fs::remove_dir_all(machine.0.path()).unwrap();
        assert_eq!(limits.read(), []);
    }

    #[test]
    fn a_machine_without_the_files_has_no_limits() {
        assert_eq!(ClockLimits::open(Path::new("/nowhere"), &[0]).read(), []);
    }

    #[test]
    fn many_files_are_read_in_rotation() {
        let machine = FakeLimits::new();
        for cpu in 0..40 {
            machine.write(&format!("cpu{cpu}/thermal_throttle/core_throttle_count"), "0");
        }
        let mut limits = ClockLimits::open(machine.0.path(), &(0..40).collect::<Vec<_>>());
        for cpu in 0..40 {
            machine.write(&format!("cpu{cpu}/thermal_throttle/core_throttle_count"), "1");
        }
        assert_eq!(limits.read().len() + limits.read().len(), 40);
    }

    /// An attribute: length, type, payload, padding.
    fn attribute(of: u16, payload: &[u8]) -> Vec<u8> {
        let length = 4 + payload.len();
        let mut bytes = [(length as u16).to_ne_bytes(), of.to_ne_bytes()].concat();
        bytes.extend(payload);
        bytes.resize(length.next_multiple_of(4), 0);
        bytes
    }

    /// A message of the family with id 30, as the kernel writes it.
    fn bytes(event: u8, attributes: &[u8]) -> Vec<u8> {
        let mut bytes = (20 + attributes.len() as u32).to_ne_bytes().to_vec();
        bytes.extend([30u16.to_ne_bytes(), [0; 2]].concat());
        bytes.extend([0; 8]);
        bytes.extend([event, 1, 0, 0]);
        bytes.extend(attributes);
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<ThermalEvent> {
        let message = Message::from_bytes(&mut Cursor::new(bytes)).ok()?;
        event_in(&message)
    }

    #[test]
    fn a_change_of_capability_names_its_cpus() {
        const NESTED: u16 = 1 << 15;
        let cpu = |cpu: u32, performance: u32| {
            [(CPU, cpu), (22, performance), (23, 255)].map(|(of, n)| attribute(of, &n.to_ne_bytes())).concat()
        };
        for flag in [0, NESTED] {
            let list = attribute(CPUS | flag, &[cpu(3, 0), cpu(12, 512)].concat());
            assert_eq!(parse(&bytes(CAPABILITY, &list)), Some(ThermalEvent::Cpus(vec![3, 12])));
        }
        assert_eq!(parse(&bytes(CAPABILITY, &[])), None);
    }

    #[test]
    fn trips_and_cooling_call_for_readings_without_naming_a_cpu() {
        for event in 0..=CAPABILITY {
            let looks = [TRIP_UP, TRIP_DOWN, COOLING].contains(&event);
            assert_eq!(parse(&bytes(event, &[])), looks.then_some(ThermalEvent::Somewhere));
        }
    }

    /// On kernels without the family, `open` returns the reason. On others it returns a listener
    /// whose thread ends with it.
    #[test]
    fn listening_works_or_says_why_not() {
        match Listener::open() {
            Ok(listener) => {
                let events = listener.events().clone();
                drop(listener);
                // The thread has the other end. Events that arrived before can still be read.
                while events.recv().is_ok() {}
            }
            Err(error) => {
                let why = error.to_string();
                assert!(why.contains("thermal events") && why.len() < 120 && !why.contains('{'), "{why}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_event_or_none(event in any::<u8>(), rest in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = parse(&bytes(event, &rest));
            let _ = parse(&rest);
        }
    }
}
