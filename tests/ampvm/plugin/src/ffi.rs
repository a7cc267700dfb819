//! The adapters between QEMU and the model.
//!
//! While the guest boots, a translation block only adds its length to an inline counter and calls [`end_of_budget`] now
//! and then. When the guest sets `enable`, all translations are dropped and made again, with a callback for every
//! user-space access and for every user-space branch's outcome, and virtual time takes over.
//!
//! The inline counter counts up to [`FULL`]. A quantum starts it so far below that the vCPU comes to the gate when its
//! local time reaches the limit; stalls are added to it as the instructions they would have been.
//!
//! A branch's outcome is known when its successor starts: the branch stores its fall-through address in an
//! inline slot (`pending`), and the next user-space block, if the slot is not zero, calls
//! [`branch_resolved`]. An interrupt in between does no harm, a context switch costs one wrong verdict.
//!
//! From plugin API 7 on (QEMU 11.1), a registration takes a pointer and passes it to its callback,
//! as the last argument; the plugin's number, the first one before, is gone. See [`Callback`].
//!
//! Nothing here may unwind into QEMU: the functions are `extern "C"`, which turns a panic into an abort, and
//! contain nothing that panics.

use std::ffi::{c_int, c_uint, c_void};
use std::mem::offset_of;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

use ampvm_abi::state;
use q::qemu_plugin_cb_flags::QEMU_PLUGIN_CB_NO_REGS as NO_REGS;
use q::qemu_plugin_cond::{QEMU_PLUGIN_COND_GE as GE, QEMU_PLUGIN_COND_NE as NE};
use q::qemu_plugin_mem_rw::QEMU_PLUGIN_MEM_RW as READ_WRITE;
use q::qemu_plugin_op::{QEMU_PLUGIN_INLINE_ADD_U64 as ADD, QEMU_PLUGIN_INLINE_STORE_U64 as STORE};
use qemu_plugin_sys as q;

use crate::args::Penalty;
use crate::decode::{self, Branch};
use crate::gate::Leave;
use crate::install::qemu_plugin_version;
use crate::interpose::{self, Role};
use crate::vcpu::{Local, Machine};
use crate::{cache, host, times};

/// Where the inline counter makes a vCPU stop.
const FULL: u64 = 1 << 16;
/// Instructions between two looks at the page while no virtual time is in force.
const BOOT_BUDGET: u64 = 20_000;
/// Marks a pending branch as indirect; user-space addresses leave the bit free.
const INDIRECT: u64 = 1 << 63;

/// A callback of a registration: (plugin, X) up to API 6, and (X, pointer) from API 7 on.
/// Of a vCPU's number, only the low half is defined.
type Callback = unsafe extern "C" fn(usize, usize);
/// First plugin API that passes a pointer to every callback.
const POINTER_API: c_int = 7;

// As in API 7. Older ones do not have the last argument, and do not read its register.
unsafe extern "C" {
    fn qemu_plugin_reset(id: q::qemu_plugin_id_t, call: Callback, pointer: *mut c_void);
    fn qemu_plugin_register_vcpu_init_cb(id: q::qemu_plugin_id_t, call: Callback, pointer: *mut c_void);
    fn qemu_plugin_register_vcpu_idle_cb(id: q::qemu_plugin_id_t, call: Callback, pointer: *mut c_void);
    fn qemu_plugin_register_vcpu_resume_cb(id: q::qemu_plugin_id_t, call: Callback, pointer: *mut c_void);
    fn qemu_plugin_register_vcpu_tb_trans_cb(id: q::qemu_plugin_id_t, call: Callback, pointer: *mut c_void);
}

/// X of a [`Callback`].
fn subject(first: usize, second: usize) -> usize {
    if qemu_plugin_version.load(Relaxed) < POINTER_API { second } else { first }
}

/// What generated code updates without a call; one per vCPU in QEMU's scoreboard.
#[repr(C)]
pub struct Inline {
    /// Counts up to [`FULL`].
    budget: u64,
    /// Cycles of PAUSE and RDTSC since the start.
    waits: u64,
    /// Fall-through address of a branch whose outcome is not known yet, or 0.
    pending: u64,
}

/// The model; null until installed, never freed.
pub static MACHINE: AtomicPtr<Machine> = AtomicPtr::new(null_mut());
/// Holds one [`Inline`] per vCPU.
pub static SCOREBOARD: AtomicPtr<q::qemu_plugin_scoreboard> = AtomicPtr::new(null_mut());
/// One of [`state`]; read when translating.
static STATE: AtomicU32 = AtomicU32::new(state::LIGHT);
/// What QEMU calls us.
pub static PLUGIN_ID: AtomicU64 = AtomicU64::new(0);

/// The model, once it is installed.
#[inline]
pub fn machine() -> Option<&'static Machine> {
    // SAFETY: null, or leaked from a Box in `install` and never freed.
    unsafe { MACHINE.load(Relaxed).as_ref() }
}

/// The inline slots of a vCPU. QEMU may move them when vCPUs are added, so they are looked up each time.
#[inline]
fn inline_slots(index: c_uint) -> *mut Inline {
    // SAFETY: the scoreboard was made in `install` with elements of this type; QEMU passed us the index.
    unsafe { q::qemu_plugin_scoreboard_find(SCOREBOARD.load(Relaxed), index).cast() }
}

fn entry(offset: usize) -> q::qemu_plugin_u64 {
    q::qemu_plugin_u64 { score: SCOREBOARD.load(Relaxed), offset }
}

/// Moves the inline counters into `events`, and prices everything up to the end of the running block but its last
/// `ahead` instructions.
fn settle(index: c_uint, v: &mut Local, ahead: u64) {
    let slots = inline_slots(index);
    // SAFETY: only this thread and the code it executes touch this vCPU's slots.
    let (budget, waits) = unsafe { ((*slots).budget, (*slots).waits) };
    v.not_insns += waits - v.events.waits;
    v.events.insns += budget.saturating_sub(v.not_insns);
    v.events.waits = waits;
    v.not_insns = budget.max(v.not_insns);
    let mut events = v.events;
    events.insns = events.insns.saturating_sub(ahead);
    v.account.settle(&events);
}

/// Makes the vCPU stop after so many instructions.
fn set_budget(index: c_uint, v: &mut Local, insns: u64) {
    let start = FULL - insns.clamp(1, FULL);
    v.not_insns = start;
    // SAFETY: as in `settle`.
    unsafe { (*inline_slots(index)).budget = start };
}

/// Adds a stall to the inline counter, as the instructions that it would have been.
fn hurry(index: c_uint, v: &mut Local, insns: u64) {
    v.not_insns += insns;
    // SAFETY: as in `settle`.
    unsafe { (*inline_slots(index)).budget += insns };
}

/// Puts a vCPU at the machine's time if virtual time has come into force since it looked last. What it executed by the
/// host's clock meanwhile is no part of its place in time.
fn enter_epoch(m: &Machine, v: &mut Local) {
    if v.epoch != m.gate.epoch() {
        v.epoch = m.gate.epoch();
        v.set_local_ns(m.gate.now());
    }
}

/// The time that a vCPU's thread sees while virtual time is in force, in ns.
pub fn own_time(m: &Machine, index: c_uint) -> i64 {
    // SAFETY: called on the vCPU's thread from within a helper of QEMU's, where no other reference lives.
    let Some(v) = (unsafe { m.local(index) }) else { return m.gate.now() };
    settle(index, v, 0);
    enter_epoch(m, v);
    v.local_ns().max(m.gate.now())
}

extern "C" fn end_of_budget(index: c_uint, _: *mut c_void) {
    let Some(m) = machine() else { return };
    // SAFETY: QEMU runs callbacks on the vCPU's thread, and this is the only reference until we return.
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

/// Waits until the vCPU may go on, and gives it a budget that ends with the quantum.
fn pass_gate(m: &Machine, index: c_uint, v: &mut Local) {
    interpose::trap_tsc();
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

/// Does what the guest asks for: starts the model, and switches virtual time on and off.
fn follow_guest(m: &'static Machine, v: &mut Local) {
    let enabled = m.page.header.enable.load(Relaxed) != 0;
    match STATE.load(Relaxed) {
        state::MODELLING if enabled != m.gate.is_on() => switch(m, enabled, v.local_ns()),
        state::LIGHT if enabled => request_model(m),
        _ => {}
    }
}

/// Switches virtual time. `local_ns` is the time of the vCPU that does it.
fn switch(m: &Machine, on: bool, local_ns: i64) {
    let Some(times) = interpose::TIMES.get() else { return };
    m.gate.switch(on, |now| {
        let host = times::Instant { real_ns: host::real_ns(), tsc: interpose::raw_tsc() };
        // A vCPU may be a quantum ahead of the machine's time, and must not see it go back.
        if on { times.switch_on(now, host) } else { times.switch_off(now.max(local_ns) + m.quantum_ns, host) }
    });
}

/// Once: drop every translation and come back with the callbacks of the full model.
fn request_model(m: &Machine) {
    if STATE.compare_exchange(state::LIGHT, state::STARTING, Acquire, Relaxed).is_ok() {
        m.page.header.state.store(state::STARTING, Relaxed);
        // SAFETY: the id is the one QEMU gave us.
        unsafe { qemu_plugin_reset(PLUGIN_ID.load(Relaxed), model_started, null_mut()) }
    }
}

/// QEMU calls this while no vCPU executes.
unsafe extern "C" fn model_started(_: usize, _: usize) {
    STATE.store(state::MODELLING, Release);
    register(PLUGIN_ID.load(Relaxed));
    let Some(m) = machine() else { return };
    switch(m, true, 0);
    // Each vCPU comes to the gate before it executes anything: from here on it must not read the host's counter.
    // SAFETY: a plain question. Slots after the last vCPU have no place in the scoreboard.
    let slots = unsafe { q::qemu_plugin_num_vcpus() };
    for index in 0..slots as u32 {
        // SAFETY: no vCPU executes; slots of vCPUs that do not exist are never used.
        unsafe { (*inline_slots(index)).budget += FULL };
        // SAFETY: as above.
        if let Some(v) = unsafe { m.local(index) } {
            v.not_insns += FULL;
            v.account.restart_time();
        }
    }
    m.page.header.state.store(state::MODELLING, Release);
}

/// A vCPU's thread begins.
extern "C" fn vcpu_created(first: usize, second: usize) {
    interpose::set_role(Role::Vcpu(subject(first, second) as c_uint));
}

extern "C" fn publish_now(index: c_uint, remaining: *mut c_void) {
    let Some(m) = machine() else { return };
    // SAFETY: as in `end_of_budget`.
    let Some(v) = (unsafe { m.local(index) }) else { return };
    settle(index, v, remaining as u64);
    follow_guest(m, v);
    m.publish(index, v);
}

unsafe extern "C" fn memory_access(
    index: c_uint,
    info: q::qemu_plugin_meminfo_t,
    vaddr: u64,
    _: *mut c_void,
) {
    let line = vaddr >> cache::LINE_SHIFT;
    let Some(m) = machine() else { return };
    // SAFETY: as in `end_of_budget`.
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

/// The physical address of the access that a callback reports; the virtual one where there is none.
///
/// # Safety
/// To be called in a memory callback, for the access it reports.
unsafe fn physical(info: q::qemu_plugin_meminfo_t, vaddr: u64) -> u64 {
    // SAFETY: passed on from the caller.
    unsafe {
        match q::qemu_plugin_get_hwaddr(info, vaddr) {
            at if at.is_null() => vaddr,
            at => q::qemu_plugin_hwaddr_phys_addr(at),
        }
    }
}

/// Physical addresses cost a lookup, so they are used from the second level on. Two processes at equal
/// virtual addresses then keep apart where it matters.
#[inline(never)]
fn missed_l1(m: &Machine, v: &mut Local, index: c_uint, info: q::qemu_plugin_meminfo_t, vaddr: u64) {
    let line = vaddr >> cache::LINE_SHIFT;
    // SAFETY: called by the memory callback.
    let physical = unsafe { physical(info, vaddr) };
    let tag = physical >> cache::LINE_SHIFT;
    let Some(vcpu) = m.vcpus.get(index as usize) else { return };
    let (Some(l2), Some(llc)) = (m.l2.get(vcpu.core), m.llc.get(vcpu.llc)) else { return };
    let spec = *v.account.spec();
    if l2.access(line, tag) {
        v.events.l2_hits += 1;
        return hurry(index, v, v.account.insns_for(spec.l2));
    }
    let mut stall = spec.llc;
    if llc.access(line, tag) {
        v.events.llc_hits += 1;
    } else {
        stall = spec.mem;
        v.events.llc_misses += 1;
        let remote = m.map.node_of(physical) != vcpu.node;
        v.events.remote_misses += u64::from(remote);
        // The upper half counts the other nodes' lines.
        v.requests += if remote { 1 << 32 } else { 1 };
        if remote {
            hurry(index, v, v.account.insns_for(spec.remote));
        }
    }
    hurry(index, v, v.account.insns_for(stall));
}

/// Every access, kernel and user: who holds the line?
unsafe extern "C" fn line_access(index: c_uint, info: q::qemu_plugin_meminfo_t, vaddr: u64, _: *mut c_void) {
    let Some(m) = machine() else { return };
    // SAFETY: as in `end_of_budget`; in a memory callback.
    let (v, physical, is_write) =
        unsafe { (m.local(index), physical(info, vaddr), q::qemu_plugin_mem_is_store(info)) };
    if let (Some(v), Some(lines)) = (v, &m.gate.lines)
        && lines.access(index as usize, physical >> cache::LINE_SHIFT, is_write, &mut v.shared)
        && v.expect_transfer()
    {
        hurry(index, v, v.account.insns_for(v.account.spec().transfer));
    }
}

extern "C" fn branch_resolved(index: c_uint, here: *mut c_void) {
    let Some(m) = machine() else { return };
    // SAFETY: as in `end_of_budget`.
    let Some(v) = (unsafe { m.local(index) }) else { return };
    let slots = inline_slots(index);
    // SAFETY: as in `settle`.
    let pending = unsafe { std::mem::replace(&mut (*slots).pending, 0) };
    let here = here as u64;
    let miss = if pending & INDIRECT == 0 {
        v.predictor.conditional(pending, here != pending)
    } else {
        v.predictor.indirect(pending, here)
    };
    if miss {
        v.events.branch_misses += 1;
        let stall: Penalty = v.account.spec().branch;
        hurry(index, v, v.account.insns_for(stall));
    }
}

/// A vCPU halts. QEMU's lock is held.
extern "C" fn idle(first: usize, second: usize) {
    let index = subject(first, second) as c_uint;
    let Some(m) = machine() else { return };
    // SAFETY: as in `end_of_budget`.
    let Some(v) = (unsafe { m.local(index) }) else { return };
    settle(index, v, 0);
    interpose::set_asleep(true);
    enter_epoch(m, v);
    let deeds = v.take_deeds();
    m.gate.halt(index as usize, v.local_ns(), deeds);
    m.publish(index, v);
}

/// A vCPU runs again. QEMU's lock is held.
extern "C" fn resumed(first: usize, second: usize) {
    let index = subject(first, second) as c_uint;
    let Some(m) = machine() else { return };
    // SAFETY: as in `end_of_budget`.
    let Some(v) = (unsafe { m.local(index) }) else { return };
    settle(index, v, 0);
    interpose::set_asleep(false);
    let local_ns = m.gate.resume(index as usize);
    if m.gate.is_on() {
        v.epoch = m.gate.epoch();
        v.set_local_ns(local_ns);
        // It comes to the gate before its first block.
        set_budget(index, v, 0);
    }
}

extern "C" fn translated(first: usize, second: usize) {
    let tb = subject(first, second) as *mut q::qemu_plugin_tb;
    // SAFETY: QEMU passes a block that is valid during this call; so are its instructions.
    unsafe {
        let insns = q::qemu_plugin_tb_n_insns(tb);
        let vaddr = q::qemu_plugin_tb_vaddr(tb);
        let modelling = STATE.load(Relaxed) == state::MODELLING;
        let model_user = modelling && vaddr >> 63 == 0;
        let model_lines = modelling && machine().is_some_and(|m| m.gate.lines.is_some());
        let (budget, pending) = (entry(offset_of!(Inline, budget)), entry(offset_of!(Inline, pending)));
        let waits = entry(offset_of!(Inline, waits));
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

/// Makes a block's last instruction note itself if its outcome must be predicted.
///
/// # Safety
/// `insn` belongs to the block being translated.
unsafe fn mark_branch(insn: *mut q::qemu_plugin_insn, bytes: &[u8], pending: q::qemu_plugin_u64) {
    let flag = match decode::branch(bytes) {
        Branch::Conditional => 0,
        Branch::Indirect => INDIRECT,
        Branch::Other => return,
    };
    // SAFETY: passed on from the caller.
    unsafe {
        let fall_through = q::qemu_plugin_insn_vaddr(insn) + bytes.len() as u64;
        q::qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, STORE, pending, fall_through | flag);
    }
}

/// Registers the callbacks that a reset removes.
pub fn register(id: q::qemu_plugin_id_t) {
    // SAFETY: the id is QEMU's; the callbacks live as long as the library, which is never unloaded.
    unsafe {
        qemu_plugin_register_vcpu_tb_trans_cb(id, translated, null_mut());
        qemu_plugin_register_vcpu_idle_cb(id, idle, null_mut());
        qemu_plugin_register_vcpu_resume_cb(id, resumed, null_mut());
    }
}

/// Registers what is called before the machine starts.
pub fn register_first(id: q::qemu_plugin_id_t) {
    // SAFETY: as in `register`.
    unsafe { qemu_plugin_register_vcpu_init_cb(id, vcpu_created, null_mut()) };
}
