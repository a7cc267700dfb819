// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Adapters between QEMU and the model: translation, quanta, and the life of vCPUs.
//!
//! While the guest boots, a translation block only adds its length to the inline counter and calls
//! [`end_of_budget`] now and then. When the guest sets `enable`, QEMU drops all translations and
//! makes them again. The new ones have a callback for every user-space access and for the outcome
//! of every user-space branch ([`super::callbacks`]). Then virtual time takes over.
//!
//! The outcome of a branch is known when its successor starts. The branch stores its fall-through
//! address in an inline slot (`pending`). The next user-space block calls [`branch_resolved`] if
//! the slot is not zero. An interrupt in between does no harm, and a context switch costs one wrong
//! prediction.
//!
//! No function here may unwind into QEMU, as in [`super::callbacks`].

use std::ffi::{c_uint, c_void};
use std::mem::offset_of;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

use ampvm_abi::state;
use q::qemu_plugin_cb_flags::QEMU_PLUGIN_CB_NO_REGS as NO_REGS;
use q::qemu_plugin_cond::{QEMU_PLUGIN_COND_GE as GE, QEMU_PLUGIN_COND_NE as NE};
use q::qemu_plugin_mem_rw::QEMU_PLUGIN_MEM_RW as READ_WRITE;
use q::qemu_plugin_op::{QEMU_PLUGIN_INLINE_ADD_U64 as ADD, QEMU_PLUGIN_INLINE_STORE_U64 as STORE};
use qemu_plugin_sys as q;

use super::api::{self, subject};
use super::callbacks::{INDIRECT, branch_resolved, line_access, memory_access};
use super::inline::{FULL, Inline, enter_epoch, entry, inline_slots, machine, set_budget, settle};
use super::thread::{ASLEEP, ROLE, Role, TIMES};
use super::ticks::host_tsc;
use crate::decode::{self, Branch};
use crate::gate::Leave;
use crate::vcpu::{Local, Machine};
use crate::{host, times};

/// Instructions between two checks of the page while virtual time is not in force.
const BOOT_BUDGET: u64 = 20_000;

/// One of [`state`], read at translation.
static STATE: AtomicU32 = AtomicU32::new(state::LIGHT);
/// The plugin's id in QEMU.
pub static PLUGIN_ID: AtomicU64 = AtomicU64::new(0);

extern "C" fn end_of_budget(index: c_uint, _: *mut c_void) {
    let Some(m) = machine() else { return };
    // SAFETY: QEMU runs callbacks on the vCPU's thread, and no other reference exists until the
    // return.
    let Some(v) = (unsafe { m.local(index) }) else { return };
    settle(index, v, 0);
    follow_guest(m, v);
    if m.gate.is_on() {
        pass_gate(m, index, v);
    } else {
        m.adopt_speed(index, v);
        set_budget(index, v, BOOT_BUDGET);
    }
    m.publish(index, v);
}

/// Wait until the vCPU may continue, and give it a budget that ends with the quantum.
fn pass_gate(m: &Machine, index: c_uint, v: &mut Local) {
    let slot = index as usize;
    enter_epoch(m, v);
    loop {
        let deeds = v.take_deeds();
        let (leave, local_ns) = m.gate.pass(slot, v.local_ns(), deeds);
        if local_ns > v.local_ns() {
            v.set_local_ns(local_ns);
        }
        m.adopt_speed(index, v);
        match leave {
            Leave::Charge(owed) => v.pay(owed),
            Leave::Run(ns) => {
                v.foresee();
                return set_budget(index, v, v.account.insns_in(ns));
            }
            Leave::OneBlock => return set_budget(index, v, 1),
        }
    }
}

/// Follow the guest's `enable`: start the model, and switch virtual time on and off.
fn follow_guest(m: &'static Machine, v: &mut Local) {
    let enabled = m.page.header.enable.load(Relaxed) != 0;
    match STATE.load(Relaxed) {
        state::MODELLING if enabled != m.gate.is_on() => switch(m, enabled, v.local_ns()),
        state::LIGHT if enabled => request_model(m),
        _ => {}
    }
}

/// Switch virtual time on or off. `local_ns` is the local time of the calling vCPU.
fn switch(m: &Machine, on: bool, local_ns: i64) {
    let Some(times) = TIMES.get() else { return };
    m.gate.switch(on, |now| {
        let host = times::Instant { real_ns: host::real_ns(), tsc: host_tsc() };
        // A vCPU may be a quantum ahead of the machine's time, and its clock must not go back.
        if on { times.switch_on(now, host) } else { times.switch_off(now.max(local_ns) + m.quantum_ns, host) }
    });
}

/// Make QEMU drop every translation, so that the next ones have the callbacks of the full model.
/// Later calls have no effect.
fn request_model(m: &Machine) {
    if STATE.compare_exchange(state::LIGHT, state::STARTING, Acquire, Relaxed).is_ok() {
        m.page.header.state.store(state::STARTING, Relaxed);
        // SAFETY: the id comes from QEMU.
        unsafe { api::qemu_plugin_reset(PLUGIN_ID.load(Relaxed), model_started, null_mut()) }
    }
}

/// Switch to the full model. QEMU calls this while no vCPU executes.
unsafe extern "C" fn model_started(_: usize, _: usize) {
    STATE.store(state::MODELLING, Release);
    register(PLUGIN_ID.load(Relaxed));
    let Some(m) = machine() else { return };
    switch(m, true, 0);
    // Each vCPU must come to the gate before it executes, because it may not read the host's
    // counter from now on.
    // SAFETY: the call only returns a number. Slots after the last vCPU have no entry in the
    // scoreboard.
    let slots = unsafe { q::qemu_plugin_num_vcpus() };
    for index in 0..slots as u32 {
        // SAFETY: no vCPU executes, and slots of vCPUs that do not exist are never used.
        unsafe { (*inline_slots(index)).budget += FULL };
        // SAFETY: as above.
        if let Some(v) = unsafe { m.local(index) } {
            v.not_insns += FULL;
            v.account.restart_time();
        }
    }
    m.page.header.state.store(state::MODELLING, Release);
}

/// Note the vCPU of a new thread.
extern "C" fn vcpu_created(first: usize, second: usize) {
    ROLE.set(Role::Vcpu(subject(first, second) as c_uint));
}

extern "C" fn publish_now(index: c_uint, remaining: *mut c_void) {
    let Some(m) = machine() else { return };
    // SAFETY: as in `end_of_budget`.
    let Some(v) = (unsafe { m.local(index) }) else { return };
    settle(index, v, remaining as u64);
    follow_guest(m, v);
    m.publish(index, v);
}

/// Halt a vCPU. QEMU holds its lock.
extern "C" fn idle(first: usize, second: usize) {
    let index = subject(first, second) as c_uint;
    let Some(m) = machine() else { return };
    // SAFETY: as in `end_of_budget`.
    let Some(v) = (unsafe { m.local(index) }) else { return };
    settle(index, v, 0);
    ASLEEP.set(true);
    enter_epoch(m, v);
    let deeds = v.take_deeds();
    m.gate.halt(index as usize, v.local_ns(), deeds);
    m.publish(index, v);
}

/// Resume a vCPU. QEMU holds its lock.
extern "C" fn resumed(first: usize, second: usize) {
    let index = subject(first, second) as c_uint;
    let Some(m) = machine() else { return };
    // SAFETY: as in `end_of_budget`.
    let Some(v) = (unsafe { m.local(index) }) else { return };
    settle(index, v, 0);
    ASLEEP.set(false);
    let local_ns = m.gate.resume(index as usize);
    if m.gate.is_on() {
        v.epoch = m.gate.epoch();
        v.set_local_ns(local_ns);
        // The vCPU must come to the gate before its first block.
        set_budget(index, v, 0);
    }
}

extern "C" fn translated(first: usize, second: usize) {
    let tb = subject(first, second) as *mut q::qemu_plugin_tb;
    // SAFETY: QEMU passes a block that is valid during this call, and so are its instructions.
    unsafe {
        let insns = q::qemu_plugin_tb_n_insns(tb);
        let vaddr = q::qemu_plugin_tb_vaddr(tb);
        let modelling = STATE.load(Relaxed) == state::MODELLING;
        let model_user = modelling && vaddr >> 63 == 0;
        let model_lines = modelling && machine().is_some_and(|m| m.gate.lines.is_some());
        let (budget, pending) = (entry(offset_of!(Inline, budget)), entry(offset_of!(Inline, pending)));
        let (waits, pauses) = (entry(offset_of!(Inline, waits)), entry(offset_of!(Inline, pauses)));
        if model_user {
            let here = vaddr as *mut c_void;
            let call = Some(branch_resolved as _);
            q::qemu_plugin_register_vcpu_tb_exec_cond_cb(tb, call, NO_REGS, NE, pending, 0, here);
        }
        let call = Some(end_of_budget as _);
        q::qemu_plugin_register_vcpu_tb_exec_cond_cb(tb, call, NO_REGS, GE, budget, FULL, null_mut());
        q::qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb, ADD, budget, insns as u64);
        for k in 0..insns {
            let insn = q::qemu_plugin_tb_get_insn(tb, k);
            let mut bytes = [0_u8; decode::MAX_INSN_BYTES];
            let len = q::qemu_plugin_insn_data(insn, bytes.as_mut_ptr().cast(), bytes.len());
            let bytes = bytes.get(..len).unwrap_or_default();
            if decode::is_publish(bytes) {
                let remaining = (insns - 1 - k) as *mut c_void;
                q::qemu_plugin_register_vcpu_insn_exec_cb(insn, Some(publish_now), NO_REGS, remaining);
            }
            if decode::is_pause(bytes) {
                q::qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, ADD, pauses, 1);
                let pause_insns = machine().map_or(0, |m| m.pause_insns);
                q::qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, ADD, budget, pause_insns);
            }
            let extra = decode::extra_cycles(bytes);
            if extra > 0 {
                q::qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, ADD, waits, extra);
                q::qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, ADD, budget, extra);
            }
            let mem = |call| q::qemu_plugin_register_vcpu_mem_cb(insn, call, NO_REGS, READ_WRITE, null_mut());
            if model_user {
                mem(Some(memory_access));
                if k + 1 == insns {
                    mark_branch(insn, bytes, pending);
                }
            }
            if model_lines {
                mem(Some(line_access));
            }
        }
    }
}

/// Make a block's last instruction store its fall-through address if its outcome must be predicted.
///
/// # Safety
/// `insn` must belong to the block that is being translated.
unsafe fn mark_branch(insn: *mut q::qemu_plugin_insn, bytes: &[u8], pending: q::qemu_plugin_u64) {
    let flag = match decode::branch(bytes) {
        Branch::Conditional => 0,
        Branch::Indirect => INDIRECT,
        Branch::Other => return,
    };
    // SAFETY: the caller keeps the same contract.
    unsafe {
        let fall_through = q::qemu_plugin_insn_vaddr(insn) + bytes.len() as u64;
        q::qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, STORE, pending, fall_through | flag);
    }
}

/// Register the callbacks that a reset removes.
pub fn register(id: q::qemu_plugin_id_t) {
    // SAFETY: the id is QEMU's. The callbacks live as long as the library, which is never unloaded.
    unsafe {
        api::qemu_plugin_register_vcpu_tb_trans_cb(id, translated, null_mut());
        api::qemu_plugin_register_vcpu_idle_cb(id, idle, null_mut());
        api::qemu_plugin_register_vcpu_resume_cb(id, resumed, null_mut());
    }
}

/// Register the callback that QEMU needs before the machine starts.
pub fn register_first(id: q::qemu_plugin_id_t) {
    // SAFETY: as in `register`.
    unsafe { api::qemu_plugin_register_vcpu_init_cb(id, vcpu_created, null_mut()) };
}
