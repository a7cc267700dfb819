//! Adapters between QEMU and the model.
//!
//! While the guest boots, a translation block only adds its length to an inline counter and calls
//! [`end_of_budget`] now and then. When the guest sets `enable`, QEMU drops all translations and
//! makes them again. The new ones have a callback for every user-space access and for the outcome
//! of every user-space branch. Then virtual time takes over.
//!
//! The inline counter counts up to [`FULL`]. A quantum starts it at a value from which it is full
//! when the vCPU's local time reaches the limit. The vCPU then comes to the gate. Stalls are added
//! to the counter as the instructions that would take as long.
//!
//! The outcome of a branch is known when its successor starts. The branch stores its fall-through
//! address in an inline slot (`pending`). The next user-space block calls [`branch_resolved`] if
//! the slot is not zero. An interrupt in between does no harm, and a context switch costs one wrong
//! prediction.
//!
//! From plugin API 7 on (QEMU 11.1), a registration takes a pointer and passes it to its callback
//! as the last argument. The plugin's id, the first argument before API 7, is gone. See
//! [`Callback`].
//!
//! No function here may unwind into QEMU. The functions are `extern "C"`, which turns a panic into
//! an abort, and they call nothing that panics.

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

/// Value of the inline counter at which a vCPU stops.
const FULL: u64 = 1 << 16;
/// Instructions between two checks of the page while virtual time is not in force.
const BOOT_BUDGET: u64 = 20_000;
/// Flag of a pending branch that is indirect. User-space addresses leave this bit free.
const INDIRECT: u64 = 1 << 63;

/// A registered callback: (plugin, X) up to API 6, and (X, pointer) from API 7 on. If X is a vCPU's
/// index, only its low half is defined.
type Callback = unsafe extern "C" fn(usize, usize);
/// First plugin API that passes a pointer to every callback.
const POINTER_API: c_int = 7;

// These are the prototypes of API 7. Older APIs lack the last argument and do not read its
// register.
unsafe extern "C" {
    fn qemu_plugin_reset(id: q::qemu_plugin_id_t, call: Callback, pointer: *mut c_void);
    fn qemu_plugin_register_vcpu_init_cb(id: q::qemu_plugin_id_t, call: Callback, pointer: *mut c_void);
    fn qemu_plugin_register_vcpu_idle_cb(id: q::qemu_plugin_id_t, call: Callback, pointer: *mut c_void);
    fn qemu_plugin_register_vcpu_resume_cb(id: q::qemu_plugin_id_t, call: Callback, pointer: *mut c_void);
    fn qemu_plugin_register_vcpu_tb_trans_cb(id: q::qemu_plugin_id_t, call: Callback, pointer: *mut c_void);
}

/// Return X of a [`Callback`].
fn subject(first: usize, second: usize) -> usize {
    if qemu_plugin_version.load(Relaxed) < POINTER_API { second } else { first }
}

/// State that generated code updates without a call; one per vCPU in QEMU's scoreboard.
#[repr(C)]
pub struct Inline {
    /// The inline counter, which counts up to [`FULL`].
    budget: u64,
    /// Cycles of PAUSE and RDTSC since the start.
    waits: u64,
    /// Fall-through address of a branch whose outcome is not known yet, or 0.
    pending: u64,
}

/// The model; null until the plugin is installed, and never freed.
pub static MACHINE: AtomicPtr<Machine> = AtomicPtr::new(null_mut());
/// QEMU's scoreboard with one [`Inline`] per vCPU.
pub static SCOREBOARD: AtomicPtr<q::qemu_plugin_scoreboard> = AtomicPtr::new(null_mut());
/// One of [`state`], read at translation.
static STATE: AtomicU32 = AtomicU32::new(state::LIGHT);
/// The plugin's id in QEMU.
pub static PLUGIN_ID: AtomicU64 = AtomicU64::new(0);

/// Return the model once it is installed.
#[inline]
pub fn machine() -> Option<&'static Machine> {
    // SAFETY: the pointer is null or leaked from a Box in `install`, and never freed.
    unsafe { MACHINE.load(Relaxed).as_ref() }
}

/// Return the inline slots of a vCPU. QEMU may move them when vCPUs are added, so no caller keeps
/// the pointer.
#[inline]
fn inline_slots(index: c_uint) -> *mut Inline {
    // SAFETY: `install` made the scoreboard with elements of this type, and QEMU passed the index.
    unsafe { q::qemu_plugin_scoreboard_find(SCOREBOARD.load(Relaxed), index).cast() }
}

fn entry(offset: usize) -> q::qemu_plugin_u64 {
    q::qemu_plugin_u64 { score: SCOREBOARD.load(Relaxed), offset }
}

/// Move the inline counters into `events`. Charge all events up to the end of the running block,
/// except its last `ahead` instructions.
fn settle(index: c_uint, v: &mut Local, ahead: u64) {
    let slots = inline_slots(index);
    // SAFETY: only this thread and the code that it executes access this vCPU's slots.
    let (budget, waits) = unsafe { ((*slots).budget, (*slots).waits) };
    v.not_insns += waits - v.events.waits;
    v.events.insns += budget.saturating_sub(v.not_insns);
    v.events.waits = waits;
    v.not_insns = budget.max(v.not_insns);
    let mut events = v.events;
    events.insns = events.insns.saturating_sub(ahead);
    v.account.settle(&events);
}

/// Make the vCPU stop after this many instructions.
fn set_budget(index: c_uint, v: &mut Local, insns: u64) {
    let start = FULL - insns.clamp(1, FULL);
    v.not_insns = start;
    // SAFETY: as in `settle`.
    unsafe { (*inline_slots(index)).budget = start };
}

/// Add a stall to the inline counter, as the instructions that would take as long.
fn hurry(index: c_uint, v: &mut Local, insns: u64) {
    v.not_insns += insns;
    // SAFETY: as in `settle`.
    unsafe { (*inline_slots(index)).budget += insns };
}

/// Set a vCPU's local time to the machine's if virtual time has come into force since the vCPU last
/// checked. Its execution by the host's clock does not count in its local time.
fn enter_epoch(m: &Machine, v: &mut Local) {
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

/// Wait until the vCPU may go on, and give it a budget that ends with the quantum.
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
    let Some(times) = interpose::TIMES.get() else { return };
    m.gate.switch(on, |now| {
        let host = times::Instant { real_ns: host::real_ns(), tsc: interpose::raw_tsc() };
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
        unsafe { qemu_plugin_reset(PLUGIN_ID.load(Relaxed), model_started, null_mut()) }
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

/// Return the physical address of the access that a callback reports, or the virtual one if there
/// is none.
///
/// # Safety
///
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
        // The upper half counts lines of other nodes.
        v.requests += if remote { 1 << 32 } else { 1 };
        if remote {
            hurry(index, v, v.account.insns_for(spec.remote));
        }
    }
    hurry(index, v, v.account.insns_for(stall));
}

/// Track the holders of the line of an access, kernel or user, and charge a transfer if one is due.
unsafe extern "C" fn line_access(index: c_uint, info: q::qemu_plugin_meminfo_t, vaddr: u64, _: *mut c_void) {
    let Some(m) = machine() else { return };
    // SAFETY: as in `end_of_budget`, and this is a memory callback.
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

/// Halt a vCPU. QEMU holds its lock.
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

/// Resume a vCPU. QEMU holds its lock.
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

/// Make a block's last instruction store its fall-through address if its outcome must be predicted.
///
/// # Safety
///
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
        qemu_plugin_register_vcpu_tb_trans_cb(id, translated, null_mut());
        qemu_plugin_register_vcpu_idle_cb(id, idle, null_mut());
        qemu_plugin_register_vcpu_resume_cb(id, resumed, null_mut());
    }
}

/// Register the callback that QEMU needs before the machine starts.
pub fn register_first(id: q::qemu_plugin_id_t) {
    // SAFETY: as in `register`.
    unsafe { qemu_plugin_register_vcpu_init_cb(id, vcpu_created, null_mut()) };
}
