// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The guest's time stamp counter, in place of QEMU's function `cpu_get_ticks`.
//!
//! # Problem
//! QEMU derives the counter from the host's, under a spin lock. While the host preempts the thread
//! that holds the lock, every other vCPU that reads its counter spins. With more vCPUs than host
//! CPUs that takes most of the host's time.
//!
//! # Approach
//! QEMU calls the function directly, so no preloaded function replaces it. The installation writes
//! a jump to [`guest_ticks`] over its first instructions, before any vCPU runs.
//!
//! # Limits
//! The host must let a process change its own code. QEMU's code generator needs the same.

use std::ffi::c_void;
use std::sync::atomic::{Ordering, fence};

use nix::libc;

use super::thread::{TIMES, guest_monotonic};

/// `mov $0, %rax; jmp *%rax`. The target replaces the zero.
const JUMP: [u8; 12] = [0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0];
const TARGET: std::ops::Range<usize> = 2..10;
/// Size of a page of the host.
const PAGE: usize = 4096;

/// Return the host's time stamp counter.
pub fn host_tsc() -> u64 {
    // SAFETY: every x86-64 CPU has the instruction, and it reads nothing else.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Return the time stamp counter as the calling thread's vCPU reads it.
extern "C" fn guest_ticks() -> u64 {
    let Some(times) = TIMES.get().filter(|times| times.is_set()) else { return host_tsc() };
    guest_monotonic().map_or_else(host_tsc, |ns| times.tsc(ns))
}

/// Make QEMU take the guest's counter from [`guest_ticks`].
pub fn replace() -> Result<(), String> {
    // SAFETY: the name ends in NUL.
    let function = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"cpu_get_ticks".as_ptr()) }.cast::<u8>();
    if function.is_null() {
        return Err("this QEMU has no function cpu_get_ticks; use QEMU 10.0 to 11.1".into());
    }
    let mut jump = JUMP;
    if let Some(target) = jump.get_mut(TARGET) {
        target.copy_from_slice(&(guest_ticks as *const () as u64).to_le_bytes());
    }
    let offset = function as usize % PAGE;
    let protect = |access| {
        // SAFETY: the range is QEMU's code, which stays readable and executable.
        unsafe { libc::mprotect(function.sub(offset).cast::<c_void>(), offset + JUMP.len(), access) == 0 }
    };
    if !protect(libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC) {
        return Err(
            "this host does not let QEMU change its own code, which virtual time needs; use another \
                    host, or allow writable code in its sandbox"
                .into(),
        );
    }
    // SAFETY: the function is longer than the jump, its pages are writable now, and no vCPU exists
    // that could execute it.
    unsafe { std::ptr::copy_nonoverlapping(jump.as_ptr(), function, jump.len()) };
    fence(Ordering::SeqCst);
    protect(libc::PROT_READ | libc::PROT_EXEC);
    Ok(())
}
