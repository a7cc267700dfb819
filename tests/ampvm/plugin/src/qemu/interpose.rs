// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Replacements for the libc functions from which QEMU takes its clocks.
//!
//! This library is preloaded, so QEMU calls the functions below instead of libc's. Threads other
//! than vCPUs and the main loop get the same results as from libc.
//!
//! | function | effect here |
//! |---|---|
//! | `clock_gettime` | CLOCK_MONOTONIC, hence every timer and clock, follows virtual time |
//! | `ppoll` | the main loop's timeout is virtual; with all vCPUs halted, the call advances time |
//! | `write` | a vCPU that wakes the main loop makes its deadline unknown |
//! | `pthread_cond_wait`, `_broadcast` | time waits for a kicked vCPU until its thread has run |
//! | `pthread_cond_signal` | the main loop gives a thread work that the guest may wait for |
//!
//! Idle time costs the host nothing, because an idle machine advances to the next deadline
//! immediately. The exception is a guest that may wait for the host's files: its idle time passes
//! in real time ([`super::devices`]).
//!
//! # Safety
//! The caller of a function below must keep libc's contract for the function of this name.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use nix::libc::{
    self, clockid_t, nfds_t, pollfd, pthread_cond_t, pthread_mutex_t, sigset_t, size_t, ssize_t, timespec,
};

use super::devices;
use super::inline::{machine, own_time};
use super::thread::{ASLEEP, ROLE, Role, guest_monotonic};
use crate::gate::Idle;
use crate::host;

/// Longest sleep of an idle main loop between two reads of the clock [real ns].
const LONGEST_NAP_NS: i64 = 5_000_000;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(id: clockid_t, out: *mut timespec) -> c_int {
    if id == libc::CLOCK_MONOTONIC
        && let Some(ns) = guest_monotonic()
        // SAFETY: the caller keeps libc's contract.
        && let Some(out) = unsafe { out.as_mut() }
    {
        (out.tv_sec, out.tv_nsec) = (ns / 1_000_000_000, ns % 1_000_000_000);
        return 0;
    }
    // SAFETY: the caller keeps libc's contract.
    unsafe { libc::syscall(libc::SYS_clock_gettime, id, out) as c_int }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(fd: c_int, buffer: *const c_void, count: size_t) -> ssize_t {
    // A write to an event file has eight bytes. Other writes of eight bytes do no harm here.
    if count == 8
        && let Some(m) = machine()
    {
        let by_vcpu = matches!(ROLE.get(), Role::Vcpu(_));
        devices::written(fd, by_vcpu);
        if by_vcpu {
            m.gate.notify_main();
        }
    }
    // SAFETY: the caller keeps libc's contract.
    unsafe { libc::syscall(libc::SYS_write, fd, buffer, count) as ssize_t }
}

/// libc's own function, null until its first use.
type Original = AtomicPtr<c_void>;

/// Call libc's own function of this name. One that takes no mutex does not read that argument.
unsafe fn call(
    slot: &Original,
    name: &'static CStr,
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
) -> c_int {
    let mut real = slot.load(Acquire);
    if real.is_null() {
        // The version matters: glibc 2.2.5 has condition variables of another type.
        // SAFETY: both strings end in NUL.
        real = unsafe { libc::dlvsym(libc::RTLD_NEXT, name.as_ptr(), c"GLIBC_2.3.2".as_ptr()) };
        slot.store(real, Release);
    }
    if real.is_null() {
        return libc::ENOSYS;
    }
    // SAFETY: libc's function has this type except for the mutex. The caller keeps its contract.
    unsafe {
        let real: extern "C" fn(*mut pthread_cond_t, *mut pthread_mutex_t) -> c_int =
            std::mem::transmute(real);
        real(cond, mutex)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_wait(cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t) -> c_int {
    static REAL: Original = AtomicPtr::new(std::ptr::null_mut());
    if ASLEEP.get()
        && let (Role::Vcpu(index), Some(m)) = (ROLE.get(), machine())
    {
        if let Some(known) = m.halt_conds.get(index as usize) {
            known.store(cond.cast(), Relaxed);
        }
        m.gate.sleep_again(index as usize);
    }
    // SAFETY: the caller keeps libc's contract.
    unsafe { call(&REAL, c"pthread_cond_wait", cond, mutex) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_signal(cond: *mut pthread_cond_t) -> c_int {
    static REAL: Original = AtomicPtr::new(std::ptr::null_mut());
    if ROLE.get() == Role::Main {
        devices::requested();
    }
    // SAFETY: the caller keeps libc's contract.
    unsafe { call(&REAL, c"pthread_cond_signal", cond, std::ptr::null_mut()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_broadcast(cond: *mut pthread_cond_t) -> c_int {
    static REAL: Original = AtomicPtr::new(std::ptr::null_mut());
    if let Some(m) = machine()
        && let Some(cpu) = m.halt_conds.iter().position(|known| known.load(Relaxed) == cond.cast())
    {
        let at = match ROLE.get() {
            Role::Vcpu(index) if m.gate.is_on() => own_time(m, index),
            _ => m.gate.now(),
        };
        m.gate.wake(cpu, at);
    }
    // SAFETY: the caller keeps libc's contract.
    unsafe { call(&REAL, c"pthread_cond_broadcast", cond, std::ptr::null_mut()) }
}

unsafe fn real_ppoll(fds: &mut [pollfd], timeout: *const timespec, mask: *const sigset_t) -> c_int {
    // The kernel writes the rest of the timeout back, so it gets a copy.
    // SAFETY: the caller keeps libc's contract.
    let mut left = unsafe { timeout.as_ref().copied() };
    let left = left.as_mut().map_or(std::ptr::null_mut(), std::ptr::from_mut);
    // The kernel's signal set has eight bytes.
    // SAFETY: the slice is valid, and the caller vouches for the mask.
    unsafe { libc::syscall(libc::SYS_ppoll, fds.as_mut_ptr(), fds.len(), left, mask, 8_usize) as c_int }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ppoll(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let count = count as usize;
    // SAFETY: the caller passes `count` descriptors. The pointer is not used if there are none.
    let fds = if count == 0 { &mut [][..] } else { unsafe { std::slice::from_raw_parts_mut(fds, count) } };
    // SAFETY: the caller keeps libc's contract.
    let wanted = unsafe { timeout.as_ref() }.map(|t| t.tv_sec.saturating_mul(1_000_000_000) + t.tv_nsec);
    let main = ROLE.get() == Role::Main && wanted != Some(0);
    // SAFETY: the caller keeps libc's contract.
    unsafe { if main { main_poll(fds, wanted, mask) } else { real_ppoll(fds, timeout, mask) } }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __ppoll_chk(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
    _: size_t,
) -> c_int {
    // SAFETY: the caller keeps libc's contract.
    unsafe { ppoll(fds, count, timeout, mask) }
}

/// Poll for the main loop. `wanted` is its timeout in ns of the clock in force.
unsafe fn main_poll(fds: &mut [pollfd], wanted: Option<i64>, mask: *const sigset_t) -> c_int {
    let (Some(m), Some(event)) = (machine(), host::main_event()) else { return 0 };
    let own = pollfd { fd: std::os::fd::AsRawFd::as_raw_fd(event), events: libc::POLLIN, revents: 0 };
    fds.iter().for_each(|fd| devices::polled(fd.fd));
    let mut all: Vec<pollfd> = fds.iter().copied().chain([own]).collect();
    let (on, epoch) = (m.gate.is_on(), m.gate.epoch());
    let clock = || if on { m.gate.now() } else { host::real_ns() };
    let deadline = wanted.map_or(i64::MAX, |ns| clock().saturating_add(ns));
    let (mut idle_since, mut passed) = (host::real_ns(), 0);
    let mut nap = Some(0);
    let ready = loop {
        let calls_seen = m.gate.main_looks();
        let t = nap.map(|ns: i64| timespec { tv_sec: ns / 1_000_000_000, tv_nsec: ns % 1_000_000_000 });
        let t = t.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the caller vouches for the descriptors and the mask.
        let mut ready = unsafe { real_ppoll(&mut all, t, mask) };
        if ready > 0 && all.last().is_some_and(|last| last.revents != 0) {
            let _ = event.read();
            ready -= 1;
        }
        // A switch of the clock makes the deadline meaningless, so QEMU must compute it again.
        let is_switched = m.gate.is_on() != on || m.gate.epoch() != epoch;
        if ready != 0 || is_switched || clock() >= deadline {
            break ready;
        }
        if !on {
            nap = wanted.map(|_| (deadline - clock()).max(0));
            continue;
        }
        nap = match m.gate.main_polls(deadline, calls_seen) {
            Idle::LookAgain => Some(0),
            Idle::Not => {
                (idle_since, passed) = (host::real_ns(), 0);
                None
            }
            Idle::For(left) => {
                let real = host::real_ns() - idle_since;
                let due = if devices::are_busy() { real - passed } else { left };
                m.gate.idle_by(due);
                passed = real;
                Some((left - due).clamp(0, LONGEST_NAP_NS))
            }
        };
        if clock() >= deadline {
            break 0;
        }
    };
    m.gate.main_works();
    if ready > 0 {
        devices::answered();
        for (to, from) in fds.iter_mut().zip(all.iter()) {
            to.revents = from.revents;
        }
    } else {
        fds.iter_mut().for_each(|fd| fd.revents = 0);
    }
    ready
}
