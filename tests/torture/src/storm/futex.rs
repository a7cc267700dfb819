// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Waiting for and waking of threads by futex, also across processes.

use nix::libc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleep while `word` is `value`, until a wakeup, a signal, or the timeout.
pub(super) fn wait(word: &AtomicU32, value: u32, timeout: Duration) {
    let spec = nix::sys::time::TimeSpec::from(timeout);
    let timeout: *const libc::timespec = spec.as_ref();
    // SAFETY: both pointers are valid for the call, which writes through neither. The futex is not
    // of the private kind, because processes share the word.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, timeout) };
}

/// Wake all waiters on `word`.
pub(super) fn wake(word: &AtomicU32) {
    // SAFETY: the pointer is valid and only names the word.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}
