//! What the plugin needs of the host: the real clock, futexes, and a way to wake QEMU's main loop.
//!
//! The plugin stands in for some functions of libc (see `interpose`), so it must not call them by name.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use nix::libc;
use nix::sys::eventfd::{EfdFlags, EventFd};

/// Monotonic real time in ns.
pub fn real_ns() -> i64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` outlives the call. By number, because the function of that name is ours.
    unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, &raw mut t) };
    t.tv_sec * 1_000_000_000 + t.tv_nsec
}

/// Sleep until the word is no longer `seen`. Return false if `patience` ran out first.
pub fn futex_wait(word: &AtomicU32, seen: u32, patience: Duration) -> bool {
    let t = libc::timespec { tv_sec: 0, tv_nsec: patience.as_nanos() as i64 };
    let op = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: word and timeout outlive the call.
    let r = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), op, seen, &raw const t) };
    !(r != 0 && nix::errno::Errno::last() == nix::errno::Errno::ETIMEDOUT)
}

/// Wake the thread that sleeps on the word.
pub fn futex_wake(word: &AtomicU32) {
    let op = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word outlives the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), op, 1) };
}

/// The event file on which the main loop's poll also waits.
pub fn main_event() -> Option<&'static EventFd> {
    static EVENT: OnceLock<Option<EventFd>> = OnceLock::new();
    let make = || EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC).ok();
    EVENT.get_or_init(make).as_ref()
}

/// Make the main loop look at the clock.
pub fn kick_main() {
    if let Some(event) = main_event() {
        let one = 1_u64.to_ne_bytes();
        // SAFETY: eight bytes to an event file. By number, because `write` is ours. A full counter wakes it, too.
        unsafe {
            let fd = std::os::fd::AsRawFd::as_raw_fd(event);
            libc::syscall(libc::SYS_write, fd, one.as_ptr(), one.len());
        }
    }
}
