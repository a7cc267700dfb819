// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The inline counter of each vCPU, which generated code updates without a call.
//!
//! The counter counts up to [`FULL`]. A quantum starts it at a value from which it is full when the
//! vCPU's local time reaches the limit. The vCPU then comes to the gate. Stalls are added to the
//! counter as the instructions that would take as long.

use std::ffi::c_uint;
use std::ptr::null_mut;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::Relaxed;

use ampvm_abi::Stall;
use qemu_plugin_sys as q;

use crate::vcpu::{Local, Machine};

/// Value of the inline counter at which a vCPU stops.
pub const FULL: u64 = 1 << 16;

/// State that generated code updates without a call; one per vCPU in QEMU's scoreboard.
#[repr(C)]
pub struct Inline {
    pub budget: u64,
    /// Cycles of RDTSC since the start.
    pub waits: u64,
    /// PAUSE instructions since the start.
    pub pauses: u64,
    /// Fall-through address of a branch whose outcome is not known yet, or 0.
    pub pending: u64,
}

/// The model; null until the plugin is installed, and never freed.
pub static MACHINE: AtomicPtr<Machine> = AtomicPtr::new(null_mut());
/// QEMU's scoreboard with one [`Inline`] per vCPU.
pub static SCOREBOARD: AtomicPtr<q::qemu_plugin_scoreboard> = AtomicPtr::new(null_mut());

/// Return the model once it is installed.
#[inline]
pub fn machine() -> Option<&'static Machine> {
    // SAFETY: the pointer is null or leaked from a Box in `install`, and never freed.
    unsafe { MACHINE.load(Relaxed).as_ref() }
}

/// Find the inline slots of a vCPU. QEMU may move them when vCPUs are added.
pub fn inline_slots(index: c_uint) -> *mut Inline {
    // SAFETY: `install` made the scoreboard with elements of this type, and QEMU passed the index.
    unsafe { q::qemu_plugin_scoreboard_find(SCOREBOARD.load(Relaxed), index).cast() }
}

/// Return the inline slots of the vCPU of `v`, where its quantum found them. A search at each
/// branch costs a tenth of the host's time. The model runs only after QEMU has made all vCPUs.
#[inline]
pub fn found_slots(index: c_uint, v: &Local) -> *mut Inline {
    if v.slots.is_null() { inline_slots(index) } else { v.slots.cast() }
}

pub fn entry(offset: usize) -> q::qemu_plugin_u64 {
    q::qemu_plugin_u64 { score: SCOREBOARD.load(Relaxed), offset }
}

/// Move the inline counters into `events`. Charge all events up to the end of the running block,
/// except its last `ahead` instructions.
pub fn settle(index: c_uint, v: &mut Local, ahead: u64) {
    let slots = inline_slots(index);
    // SAFETY: only this thread and the code that it executes access this vCPU's slots.
    let (budget, waits, pauses) = unsafe { ((*slots).budget, (*slots).waits, (*slots).pauses) };
    let paused = &mut v.events.stalls[Stall::Pause as usize];
    v.not_insns += waits - v.events.waits + (pauses - *paused) * v.pause_insns;
    *paused = pauses;
    v.events.insns += budget.saturating_sub(v.not_insns);
    v.events.waits = waits;
    v.not_insns = budget.max(v.not_insns);
    let mut events = v.events;
    events.insns = events.insns.saturating_sub(ahead);
    v.account.settle(&events);
}

/// Make the vCPU stop after this many instructions.
pub fn set_budget(index: c_uint, v: &mut Local, insns: u64) {
    let start = FULL - insns.clamp(1, FULL);
    v.not_insns = start;
    let slots = inline_slots(index);
    v.slots = slots.cast();
    // SAFETY: as in `settle`.
    unsafe { (*slots).budget = start };
}

/// Count a stall and its time.
pub fn stall(index: c_uint, v: &mut Local, source: Stall) {
    v.events.stalls[source as usize] += 1;
    let insns = v.account.insns_for(source);
    v.not_insns += insns;
    // SAFETY: as in `settle`.
    unsafe { (*found_slots(index, v)).budget += insns };
}

/// Set a vCPU's local time to the machine's if virtual time has come into force since the vCPU last
/// checked. Its execution by the host's clock does not count in its local time.
pub fn enter_epoch(m: &Machine, v: &mut Local) {
    if v.epoch != m.gate.epoch() {
        v.epoch = m.gate.epoch();
        v.set_local_ns(m.gate.now());
    }
}

/// Return the time that a vCPU's thread reads while virtual time is in force [ns].
pub fn own_time(m: &Machine, index: c_uint) -> i64 {
    // SAFETY: QEMU calls this on the vCPU's thread from a helper, where no other reference exists.
    let Some(v) = (unsafe { m.local(index) }) else { return m.gate.now() };
    settle(index, v, 0);
    enter_epoch(m, v);
    v.local_ns().max(m.gate.now())
}
