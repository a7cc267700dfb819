//! Device activity, which shows whether the guest may wait for the host.
//!
//! A vCPU kicks a device by a write to an event file. If the main loop polls that file, it does the
//! work itself or wakes a worker through a condition variable. If it does not poll the file,
//! another process serves the device. The answer is an event that the main loop polls for.

use std::ffi::c_int;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI64, AtomicU64};

use crate::host;

/// Time after a device's last activity in which more events may follow [real ns].
const ACTIVE_NS: i64 = 20_000_000;
/// Longest time that a request may take [real ns]. Some requests are never answered.
const REQUEST_NS: i64 = 500_000_000;

/// The activity of all devices.
pub struct Devices {
    /// Files that the main loop polls, one bit each.
    polled: [AtomicU64; 64],
    /// Files that other threads write to notify the main loop. They are not devices.
    callers: [AtomicU64; 64],
    /// When a device was last active [real ns].
    active_ns: AtomicI64,
    /// When the open request began [real ns], or 0 if none is open.
    request_ns: AtomicI64,
}

/// The activity of QEMU's devices.
pub static DEVICES: Devices = Devices {
    polled: [const { AtomicU64::new(0) }; 64],
    callers: [const { AtomicU64::new(0) }; 64],
    active_ns: AtomicI64::new(0),
    request_ns: AtomicI64::new(0),
};

fn file_bit(set: &[AtomicU64], fd: c_int) -> Option<(&AtomicU64, u64)> {
    let fd = usize::try_from(fd).ok()?;
    Some((set.get(fd / 64)?, 1 << (fd % 64)))
}

fn insert(set: &[AtomicU64], fd: c_int) {
    if let Some((word, bit)) = file_bit(set, fd) {
        word.fetch_or(bit, Relaxed);
    }
}

fn contains(set: &[AtomicU64], fd: c_int) -> bool {
    file_bit(set, fd).is_some_and(|(word, bit)| word.load(Relaxed) & bit != 0)
}

impl Devices {
    /// Note that the main loop polls this file.
    pub fn polled(&self, fd: c_int) {
        insert(&self.polled, fd);
    }

    /// Note a thread's write to an event file. Only vCPUs kick devices.
    pub fn written(&self, fd: c_int, by_vcpu: bool) {
        if !by_vcpu {
            insert(&self.callers, fd);
        } else if !contains(&self.callers, fd) {
            self.active_ns.store(host::real_ns(), Relaxed);
            if !contains(&self.polled, fd) {
                self.requested();
            }
        }
    }

    /// Note that another thread or process serves a device.
    pub fn requested(&self) {
        self.request_ns.store(host::real_ns(), Relaxed);
    }

    /// Note that the main loop has events.
    pub fn answered(&self) {
        if self.request_ns.swap(0, Relaxed) != 0 {
            self.active_ns.store(host::real_ns(), Relaxed);
        }
    }

    /// Return true if the guest may wait for a device.
    pub fn are_busy(&self) -> bool {
        let now = host::real_ns();
        now - self.active_ns.load(Relaxed) < ACTIVE_NS || now - self.request_ns.load(Relaxed) < REQUEST_NS
    }
}
