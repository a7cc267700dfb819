// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Callbacks of the code that a vCPU executes: accesses and branches, the sources of stalls.
//!
//! No function here may unwind into QEMU. The functions are `extern "C"`, which turns a panic into
//! an abort, and they call nothing that panics.

use std::ffi::{c_uint, c_void};

use ampvm_abi::Stall;
use qemu_plugin_sys as q;

use super::inline::{found_slots, machine, stall};
use crate::cache;
use crate::vcpu::{Local, Machine};

/// Flag of a pending branch that is indirect. User-space addresses leave this bit free.
pub const INDIRECT: u64 = 1 << 63;

/// Look up a user-space access in the caches.
pub unsafe extern "C" fn memory_access(
    index: c_uint,
    info: q::qemu_plugin_meminfo_t,
    vaddr: u64,
    _: *mut c_void,
) {
    let line = vaddr >> cache::LINE_SHIFT;
    let Some(m) = machine() else { return };
    // SAFETY: QEMU runs callbacks on the vCPU's thread, and no other reference exists until the
    // return.
    let Some(v) = (unsafe { m.local(index) }) else { return };
    if v.last_line == line {
        return;
    }
    v.last_line = line;
    let own = m.vcpus.get(index as usize).and_then(|vcpu| m.l1.get(vcpu.core));
    if own.is_some_and(|l1| !l1.access(line, line)) {
        missed_l1(m, v, index, info, vaddr);
    }
}

/// Return the physical address of the access that a callback reports, or the virtual one if there
/// is none.
///
/// # Safety
/// The caller must be a memory callback and pass the access that it reports.
unsafe fn physical(info: q::qemu_plugin_meminfo_t, vaddr: u64) -> u64 {
    // SAFETY: the caller keeps the same contract.
    unsafe {
        match q::qemu_plugin_get_hwaddr(info, vaddr) {
            at if at.is_null() => vaddr,
            at => q::qemu_plugin_hwaddr_phys_addr(at),
        }
    }
}

/// Look up an access in L2 and the last-level cache after it missed L1, and charge its stall.
///
/// A physical address costs a lookup, so only these two caches use it. There it keeps processes at
/// equal virtual addresses apart.
#[inline(never)]
fn missed_l1(m: &Machine, v: &mut Local, index: c_uint, info: q::qemu_plugin_meminfo_t, vaddr: u64) {
    let line = vaddr >> cache::LINE_SHIFT;
    // SAFETY: the memory callback calls this for the access that it reports.
    let physical = unsafe { physical(info, vaddr) };
    let tag = physical >> cache::LINE_SHIFT;
    let Some(vcpu) = m.vcpus.get(index as usize) else { return };
    let (Some(l2), Some(llc)) = (m.l2.get(vcpu.core), m.llc.get(vcpu.llc)) else { return };
    if l2.access(line, tag) {
        return stall(index, v, Stall::L2);
    }
    if llc.access(line, tag) {
        return stall(index, v, Stall::Llc);
    }
    stall(index, v, Stall::Mem);
    if m.map.node_of(physical) == vcpu.node {
        v.requests += 1;
    } else {
        // The upper half counts lines of other nodes.
        v.requests += 1 << 32;
        stall(index, v, Stall::Remote);
    }
}

/// Track the holders of the line of an access, kernel or user, and charge a transfer if one is due.
pub unsafe extern "C" fn line_access(
    index: c_uint,
    info: q::qemu_plugin_meminfo_t,
    vaddr: u64,
    _: *mut c_void,
) {
    let Some(m) = machine() else { return };
    // SAFETY: as in `memory_access`, and this is a memory callback.
    let (v, physical, is_write) =
        unsafe { (m.local(index), physical(info, vaddr), q::qemu_plugin_mem_is_store(info)) };
    if let (Some(v), Some(lines)) = (v, &m.gate.lines)
        && lines.access(index as usize, physical >> cache::LINE_SHIFT, is_write, &mut v.shared)
        && v.expect_transfer()
    {
        stall(index, v, Stall::Transfer);
    }
}

/// Compare the outcome of a branch with its prediction.
pub extern "C" fn branch_resolved(index: c_uint, here: *mut c_void) {
    let Some(m) = machine() else { return };
    // SAFETY: as in `memory_access`.
    let Some(v) = (unsafe { m.local(index) }) else { return };
    let slots = found_slots(index, v);
    // SAFETY: only this thread and the code that it executes access this vCPU's slots.
    let pending = unsafe { std::mem::replace(&mut (*slots).pending, 0) };
    let here = here as u64;
    let miss = if pending & INDIRECT == 0 {
        v.predictor.conditional(pending, here != pending)
    } else {
        v.predictor.indirect(pending, here)
    };
    if miss {
        stall(index, v, Stall::Branch);
    }
}
