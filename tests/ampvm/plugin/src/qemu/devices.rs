// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
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

/// A set of files, one bit each.
type Files = [AtomicU64; 64];

/// Files that the main loop polls.
static POLLED: Files = [const { AtomicU64::new(0) }; 64];
/// Files that other threads write to notify the main loop. They are not devices.
static CALLERS: Files = [const { AtomicU64::new(0) }; 64];
/// When a device was last active [real ns].
static LAST_ACTIVE_NS: AtomicI64 = AtomicI64::new(0);
/// When the open request began [real ns], or 0 if none is open.
static REQUESTED_NS: AtomicI64 = AtomicI64::new(0);

fn file_bit(set: &Files, fd: c_int) -> Option<(&AtomicU64, u64)> {
    let fd = usize::try_from(fd).ok()?;
    Some((set.get(fd / 64)?, 1 << (fd % 64)))
}

fn insert(set: &Files, fd: c_int) {
    if let Some((word, bit)) = file_bit(set, fd) {
        word.fetch_or(bit, Relaxed);
    }
}

fn contains(set: &Files, fd: c_int) -> bool {
    file_bit(set, fd).is_some_and(|(word, bit)| word.load(Relaxed) & bit != 0)
}

/// Note that the main loop polls this file.
pub fn polled(fd: c_int) {
    insert(&POLLED, fd);
}

/// Note a thread's write to an event file. Only vCPUs kick devices.
pub fn written(fd: c_int, by_vcpu: bool) {
    if !by_vcpu {
        insert(&CALLERS, fd);
    } else if !contains(&CALLERS, fd) {
        LAST_ACTIVE_NS.store(host::real_ns(), Relaxed);
        if !contains(&POLLED, fd) {
            requested();
        }
    }
}

/// Note that another thread or process serves a device.
pub fn requested() {
    REQUESTED_NS.store(host::real_ns(), Relaxed);
}

/// Note that the main loop has events.
pub fn answered() {
    if REQUESTED_NS.swap(0, Relaxed) != 0 {
        LAST_ACTIVE_NS.store(host::real_ns(), Relaxed);
    }
}

/// Return true if the guest may wait for a device.
pub fn are_busy() -> bool {
    let now = host::real_ns();
    now - LAST_ACTIVE_NS.load(Relaxed) < ACTIVE_NS || now - REQUESTED_NS.load(Relaxed) < REQUEST_NS
}
