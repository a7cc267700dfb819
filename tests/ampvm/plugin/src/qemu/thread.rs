// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The role of each host thread in the machine, and the clock that it reads.

use std::cell::Cell;
use std::sync::OnceLock;

use super::inline::{machine, own_time};
use crate::host;
use crate::times::Times;

/// The role of a host thread in the machine.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A QEMU thread that does not use the guest's clocks.
    Other,
    Main,
    /// The thread of the vCPU with this index.
    Vcpu(u32),
}

thread_local! {
    /// The calling thread's role.
    pub static ROLE: Cell<Role> = const { Cell::new(Role::Other) };
    /// True from the halt of this thread's vCPU until it resumes.
    pub static ASLEEP: Cell<bool> = const { Cell::new(false) };
}

/// The guest's clocks, once the plugin is installed.
pub static TIMES: OnceLock<Times> = OnceLock::new();

/// Return CLOCK_MONOTONIC as QEMU reads it on this thread [ns], or None if it is the host's.
pub fn guest_monotonic() -> Option<i64> {
    let (times, m) = (TIMES.get()?, machine()?);
    let virtual_ns = match ROLE.get() {
        Role::Other => return None,
        Role::Main => m.gate.now(),
        Role::Vcpu(index) if m.gate.is_on() => own_time(m, index),
        Role::Vcpu(_) => 0,
    };
    Some(if m.gate.is_on() { times.on_ns(virtual_ns) } else { times.off_ns(host::real_ns()) })
}
