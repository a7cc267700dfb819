// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The host's services for the plugin: the real clock, futexes, and a way to wake QEMU's main loop.
//!
//! The plugin replaces some functions of libc (see `interpose`), so it must not call them by name.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use nix::libc;
use nix::sys::eventfd::{EfdFlags, EventFd};

/// Return the host's monotonic time [ns].
pub fn real_ns() -> i64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` outlives the call. The call goes by number because `interpose` replaces the
    // function.
    unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, &raw mut t) };
    t.tv_sec * 1_000_000_000 + t.tv_nsec
}

/// Sleep until the word is no longer `seen`. Return false if `patience` ran out first.
pub fn futex_wait(word: &AtomicU32, seen: u32, patience: Duration) -> bool {
    let t = libc::timespec { tv_sec: 0, tv_nsec: patience.as_nanos() as i64 };
    let op = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word and the timeout outlive the call.
    let r = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), op, seen, &raw const t) };
    !(r != 0 && nix::errno::Errno::last() == nix::errno::Errno::ETIMEDOUT)
}

/// Wake the thread that sleeps on the word.
pub fn futex_wake(word: &AtomicU32) {
    let op = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word outlives the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), op, 1) };
}

/// Return the event file that the main loop polls in addition to QEMU's files, or None if the
/// process has no file descriptor left.
pub fn main_event() -> Option<&'static EventFd> {
    static EVENT: OnceLock<Option<EventFd>> = OnceLock::new();
    let make = || EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC).ok();
    EVENT.get_or_init(make).as_ref()
}

/// Make the main loop read the clock again.
pub fn kick_main() {
    if let Some(event) = main_event() {
        let one = 1_u64.to_ne_bytes();
        // SAFETY: the call writes eight bytes to an event file. It goes by number because
        // `interpose` replaces `write`. A full counter also wakes the main loop.
        unsafe {
            let fd = std::os::fd::AsRawFd::as_raw_fd(event);
            libc::syscall(libc::SYS_write, fd, one.as_ptr(), one.len());
        }
    }
}
