//! Hints of the kernel side at what happens in opted-in cgroups (`bpf/optin.bpf.h`).
//!
//! Problem. The thread that watches the scheduler waits for several things at once, and each time it wakes it displaces a task.
//!
//! Approach. A thread sleeps until the ring buffer holds something and then rings a bell, which the watching thread waits for beside all else. That
//! reads the buffer, so that nothing has to be shared. The bell is rung at most every [`PAUSE`], for hints come in crowds.
//!
//! Invariants. Any bytes are a hint or none. The thread ends within [`LONGEST`] of the end of what it works for.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bias_policy::ffi;
use crossbeam::channel::{Receiver, bounded};
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Func;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapMut, RingBuffer, RingBufferBuilder};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::optin::Hint;
use crate::optin::plan::Id;

/// Between two rings of the bell.
const PAUSE: Duration = Duration::from_millis(20);
/// How long the thread sleeps at most.
const LONGEST: Duration = Duration::from_secs(1);
/// The kernel's function that is followed besides the tracepoint of forks, which every kernel has.
const MOVE: &str = "cgroup_attach_task";
/// What the kernel counts the start of a process in for user space [ns]: 100 ticks a second on every architecture with sched_ext.
const TICK_NS: u64 = 10_000_000;
/// The kernel's number of the namespace of processes that is everybody's (`PROC_PID_INIT_INO`).
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// Can the kernel side hint at anything here?
///
/// # Errors
/// Why not.
pub(super) fn require() -> Result<()> {
    if !Btf::from_vmlinux().is_ok_and(|btf| btf.type_by_name::<Func<'_>>(MOVE).is_some()) {
        bail!("this kernel has no {MOVE} to be traced");
    }
    let namespace =
        std::fs::read_link("/proc/self/ns/pid").context("cannot tell in which namespace this process is")?;
    if namespace.to_str() != Some(FIRST_NAMESPACE) {
        bail!("in a container processes have other numbers than the kernel's");
    }
    Ok(())
}

/// The kernel side's hints.
pub(super) struct Hints {
    cgroups: MapHandle,
    /// What is in the map.
    followed: BTreeMap<u64, bool>,
    ring: RingBuffer<'static>,
    heard: Rc<RefCell<Vec<Hint>>>,
    bell: Receiver<()>,
    /// The thread ends with it.
    _needed: Arc<()>,
}

impl Hints {
    /// Follows the cgroups in the map `cgroups`, and reads the ring buffer `hints`.
    pub(super) fn listen(cgroups: &MapMut<'_>, hints: &MapMut<'_>) -> Result<Self> {
        let heard = Rc::new(RefCell::new(Vec::new()));
        let mut builder = RingBufferBuilder::new();
        let hear = {
            let heard = Rc::clone(&heard);
            move |bytes: &[u8]| {
                heard.borrow_mut().extend(parse(bytes));
                0
            }
        };
        builder.add(hints, hear)?;
        let ring = builder.build()?;
        // SAFETY: the descriptor is the ring buffer's, which lives until the end of this function.
        let fd = unsafe { BorrowedFd::borrow_raw(ring.epoll_fd()) };
        let needed = Arc::new(());
        let bell = ring_when_readable(fd, Arc::downgrade(&needed))?;
        Ok(Self {
            cgroups: MapHandle::try_from(cgroups)?,
            followed: BTreeMap::new(),
            ring,
            heard,
            bell,
            _needed: needed,
        })
    }

    /// Rings when there is something to hear.
    pub(super) const fn bell(&self) -> &Receiver<()> {
        &self.bell
    }

    /// Follows these cgroups and no others: opted in (true) or just let go.
    pub(super) fn follow(&mut self, cgroups: BTreeMap<u64, bool>) -> Result<()> {
        for id in self.followed.keys().filter(|id| !cgroups.contains_key(id)) {
            self.cgroups.delete(&id.to_ne_bytes())?;
        }
        for (id, inside) in cgroups.iter().filter(|(id, inside)| self.followed.get(id) != Some(inside)) {
            let why = if *inside { ffi::BIAS_FOLLOW_INSIDE } else { ffi::BIAS_FOLLOW_RELEASED };
            self.cgroups.update(&id.to_ne_bytes(), &why.to_ne_bytes(), MapFlags::ANY)?;
        }
        self.followed = cgroups;
        Ok(())
    }

    /// What came since the last time.
    pub(super) fn hear(&self) -> Vec<Hint> {
        // What cannot be read now is there the next time, and is looked for in any case.
        let _ = self.ring.consume();
        self.heard.take()
    }
}

/// A bell that rings while `fd` is readable, as long as it is `needed`.
fn ring_when_readable(fd: BorrowedFd<'_>, needed: Weak<()>) -> Result<Receiver<()>> {
    let fd = fd.try_clone_to_owned().context("cannot wait for hints")?;
    let (rope, bell) = bounded(1);
    let longest = PollTimeout::try_from(LONGEST).unwrap_or(PollTimeout::ZERO);
    let run = move || {
        while needed.strong_count() > 0 {
            let mut fds = [PollFd::new(fd.as_fd(), PollFlags::POLLIN)];
            match poll(&mut fds, longest) {
                Ok(0) => continue,
                // A bell that rings already need not be rung.
                Ok(_) => drop(rope.try_send(())),
                Err(_) => {}
            }
            std::thread::sleep(PAUSE);
        }
    };
    std::thread::Builder::new().name("hints".to_owned()).spawn(run).context("cannot wait for hints")?;
    Ok(bell)
}

/// The hint in `bytes`.
fn parse(bytes: &[u8]) -> Option<Hint> {
    if bytes.len() < size_of::<ffi::bias_hint>() {
        return None;
    }
    // SAFETY: there are enough bytes for the structure, which consists of integers only, so that any are valid; the read does not
    // ask for alignment.
    let raw: ffi::bias_hint = unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) };
    let process = Id { tid: raw.process, start: raw.start_ns / TICK_NS };
    let maker = Id { tid: raw.maker, start: raw.maker_start_ns / TICK_NS };
    match raw.kind {
        ffi::BIAS_HINT_INSIDE => Some(Hint::Inside),
        ffi::BIAS_HINT_LEFT => Some(Hint::Left(process)),
        ffi::BIAS_HINT_BORN => Some(Hint::Born { process, maker }),
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
    fn hints_are_read_as_they_lie() {
        let mut bytes = Vec::new();
        for ns in [123_456_789_012u64, 99_999_999] {
            bytes.extend(ns.to_ne_bytes());
        }
        for word in [7u32, 8, ffi::BIAS_HINT_BORN, 0] {
            bytes.extend(word.to_ne_bytes());
        }
        let process = Id { tid: 7, start: 12_345 };
        assert_eq!(parse(&bytes), Some(Hint::Born { process, maker: Id { tid: 8, start: 9 } }));
        bytes[24] = ffi::BIAS_HINT_LEFT as u8;
        assert_eq!(parse(&bytes), Some(Hint::Left(process)));
        bytes[24] = 9;
        assert_eq!(parse(&bytes), None);
    }

    #[test]
    fn the_bell_rings_when_there_is_something_and_ends_with_its_hearer() {
        let (mut reader, mut writer) = std::io::pipe().unwrap();
        let needed = Arc::new(());
        let bell = ring_when_readable(reader.as_fd(), Arc::downgrade(&needed)).unwrap();
        writer.write_all(b"x").unwrap();
        // It rings again as long as nobody reads.
        for _ in 0..3 {
            bell.recv_timeout(Duration::from_secs(60)).unwrap();
        }
        reader.read_exact(&mut [0]).unwrap();
        drop((bell, needed, reader));
        // Once the thread has ended too, nobody can read.
        while writer.write_all(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_hint_or_none(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            prop_assert!(parse(&bytes).is_none() || bytes.len() >= 32);
        }
    }
}
