// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Events of the kernel side about opted-in cgroups (`bpf/optin.bpf.h`).
//!
//! # Problem
//!
//! The main thread waits for several sources, and each of its wakeups preempts a task.
//!
//! # Approach
//!
//! A thread sleeps until the ring buffer holds an event, and then notifies the main thread over a
//! channel. The main thread reads the buffer itself, so that the threads share no data. At most one
//! notification is sent every [`PAUSE`], because events come in bursts.
//!
//! # Invariants
//!
//! Any bytes are one event or none. The thread ends within [`LONGEST`] of the end of its receiver.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bias_policy::ffi;
use crossbeam::channel::{Receiver, bounded};
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapMut, RingBuffer, RingBufferBuilder};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::kernel;
use crate::optin::CgroupEvent;
use crate::optin::reconcile::Id;

/// Shortest time between two notifications.
const PAUSE: Duration = Duration::from_millis(20);
/// Longest sleep of the thread.
const LONGEST: Duration = Duration::from_secs(1);
/// Kernel function that is traced, in addition to the tracepoint of forks, which every kernel has.
const MOVE: &str = "cgroup_attach_task";
/// Unit of a process's start time in user space [ns]: 100 ticks per second on every architecture
/// with sched_ext.
const TICK_NS: u64 = 10_000_000;
/// The initial pid namespace. Its inode is `PROC_PID_INIT_INO` in the kernel.
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// Check that the kernel side can send events here.
///
/// # Errors
/// Fail with the reason why it cannot.
pub(crate) fn require() -> Result<()> {
    if !kernel::has_function(&[MOVE]) {
        bail!("this kernel has no function {MOVE} to trace");
    }
    let namespace =
        std::fs::read_link("/proc/self/ns/pid").context("cannot read in which namespace this process is")?;
    if namespace.to_str() != Some(FIRST_NAMESPACE) {
        bail!("in a container pids differ from the kernel's");
    }
    Ok(())
}

/// Map of the cgroups that the kernel side follows, by id: true for opted-in ones, false for ones
/// just released.
pub(crate) struct CgroupMap {
    map: MapHandle,
    /// Content of the map.
    written: BTreeMap<u64, bool>,
}

impl CgroupMap {
    /// Open the empty `map`.
    pub(crate) fn open(map: &MapMut<'_>) -> Result<Self> {
        Ok(Self { map: MapHandle::try_from(map)?, written: BTreeMap::new() })
    }

    /// Return true if the map holds these cgroups and no others.
    pub(crate) fn holds(&self, cgroups: &BTreeMap<u64, bool>) -> bool {
        self.written == *cgroups
    }

    /// Write these cgroups and no others.
    pub(crate) fn write(&mut self, cgroups: &BTreeMap<u64, bool>) -> libbpf_rs::Result<()> {
        let gone: Vec<u64> = self.written.keys().filter(|id| !cgroups.contains_key(id)).copied().collect();
        for id in gone {
            self.map.delete(&id.to_ne_bytes())?;
            self.written.remove(&id);
        }
        for (id, inside) in cgroups {
            if self.written.get(id) == Some(inside) {
                continue;
            }
            let why = if *inside { ffi::BIAS_FOLLOW_INSIDE } else { ffi::BIAS_FOLLOW_RELEASED };
            self.map.update(&id.to_ne_bytes(), &why.to_ne_bytes(), MapFlags::ANY)?;
            self.written.insert(*id, *inside);
        }
        Ok(())
    }
}

/// Receiver of the kernel side's events.
pub(crate) struct CgroupEvents {
    cgroups: CgroupMap,
    ring: RingBuffer<'static>,
    received: Rc<RefCell<Vec<CgroupEvent>>>,
    notify: Receiver<()>,
    /// The thread ends after this is dropped.
    _needed: Arc<()>,
}

impl CgroupEvents {
    /// Follow the cgroups in the map `cgroups`, and read the ring buffer `events`.
    pub(crate) fn listen(cgroups: &MapMut<'_>, events: &MapMut<'_>) -> Result<Self> {
        let received = Rc::new(RefCell::new(Vec::new()));
        let mut builder = RingBufferBuilder::new();
        let receive = {
            let received = Rc::clone(&received);
            move |bytes: &[u8]| {
                received.borrow_mut().extend(parse(bytes));
                0
            }
        };
        builder.add(events, receive)?;
        let ring = builder.build()?;
        // SAFETY: the ring buffer owns the descriptor and lives until the end of this function.
        let fd = unsafe { BorrowedFd::borrow_raw(ring.epoll_fd()) };
        let needed = Arc::new(());
        let notify = ring_when_readable(fd, Arc::downgrade(&needed))?;
        Ok(Self { cgroups: CgroupMap::open(cgroups)?, ring, received, notify, _needed: needed })
    }

    /// Return the channel that fires when there are events to read.
    pub(crate) const fn notify(&self) -> &Receiver<()> {
        &self.notify
    }

    /// Follow these cgroups and no others.
    pub(crate) fn follow(&mut self, cgroups: &BTreeMap<u64, bool>) -> libbpf_rs::Result<()> {
        self.cgroups.write(cgroups)
    }

    /// Return the events that arrived since the last call.
    pub(crate) fn receive(&self) -> Vec<CgroupEvent> {
        // Events that cannot be read now stay in the buffer until the next call.
        let _ = self.ring.consume();
        self.received.take()
    }
}

/// Return a channel that fires while `fd` is readable, as long as `needed` has an owner.
fn ring_when_readable(fd: BorrowedFd<'_>, needed: Weak<()>) -> Result<Receiver<()>> {
    let fd = fd.try_clone_to_owned().context("cannot wait for events")?;
    let (sender, notify) = bounded(1);
    let longest = PollTimeout::try_from(LONGEST).unwrap_or(PollTimeout::ZERO);
    let run = move || {
        while needed.strong_count() > 0 {
            let mut fds = [PollFd::new(fd.as_fd(), PollFlags::POLLIN)];
            match poll(&mut fds, longest) {
                Ok(0) => continue,
                // A notification that is already pending suffices.
                Ok(_) => drop(sender.try_send(())),
                Err(_) => {}
            }
            std::thread::sleep(PAUSE);
        }
    };
    std::thread::Builder::new().name("events".to_owned()).spawn(run).context("cannot wait for events")?;
    Ok(notify)
}

/// Parse the event in `bytes`.
fn parse(bytes: &[u8]) -> Option<CgroupEvent> {
    if bytes.len() < size_of::<ffi::bias_event>() {
        return None;
    }
    // SAFETY: there are enough bytes for the structure. It consists of integers only, so that any
    // bytes are valid. The read does not require alignment.
    let raw: ffi::bias_event = unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) };
    let process = Id { tid: raw.process, start: raw.start_ns / TICK_NS };
    let maker = Id { tid: raw.maker, start: raw.maker_start_ns / TICK_NS };
    match raw.type_ {
        ffi::BIAS_EVENT_INSIDE => Some(CgroupEvent::Inside),
        ffi::BIAS_EVENT_LEFT => Some(CgroupEvent::Left(process)),
        ffi::BIAS_EVENT_FORKED => Some(CgroupEvent::Forked { process, maker }),
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::{Read, Write};

    #[test]
    fn events_are_parsed_from_their_layout() {
        let mut bytes = Vec::new();
        for ns in [123_456_789_012u64, 99_999_999] {
            bytes.extend(ns.to_ne_bytes());
        }
        for word in [7u32, 8, ffi::BIAS_EVENT_FORKED, 0] {
            bytes.extend(word.to_ne_bytes());
        }
        let process = Id { tid: 7, start: 12_345 };
        assert_eq!(parse(&bytes), Some(CgroupEvent::Forked { process, maker: Id { tid: 8, start: 9 } }));
        bytes[24] = ffi::BIAS_EVENT_LEFT as u8;
        assert_eq!(parse(&bytes), Some(CgroupEvent::Left(process)));
        bytes[24] = 9;
        assert_eq!(parse(&bytes), None);
    }

    #[test]
    fn the_channel_fires_while_events_wait_and_ends_with_its_receiver() {
        let (mut reader, mut writer) = std::io::pipe().unwrap();
        let needed = Arc::new(());
        let notify = ring_when_readable(reader.as_fd(), Arc::downgrade(&needed)).unwrap();
        writer.write_all(b"x").unwrap();
        // It fires again as long as the pipe is not read.
        for _ in 0..3 {
            notify.recv_timeout(Duration::from_secs(60)).unwrap();
        }
        reader.read_exact(&mut [0]).unwrap();
        drop((notify, needed, reader));
        // When the thread has ended too, the pipe has no reader left, which poll(2) reports.
        let mut left = [PollFd::new(writer.as_fd(), PollFlags::empty())];
        assert_eq!(poll(&mut left, PollTimeout::from(60_000u16)), Ok(1));
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_event_or_none(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            prop_assert!(parse(&bytes).is_none() || bytes.len() >= 32);
        }
    }
}
