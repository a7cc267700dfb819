//! The adapters between QEMU and the model.
//!
//! While the guest boots, a translation block only adds its length to an inline counter and, once a
//! quantum, calls [`end_of_quantum`]. When the guest sets `enable`, all translations are dropped and made
//! again, with a callback for every user-space access and for every user-space branch's outcome.
//!
//! A branch's outcome is known when its successor starts: the branch stores its fall-through address in an
//! inline slot (`pending`), and the next user-space block, if the slot is not zero, calls
//! [`branch_resolved`]. An interrupt in between does no harm, a context switch costs one wrong verdict.
//!
//! Nothing here may unwind into QEMU: the functions are `extern "C"`, which turns a panic into an abort, and
//! contain nothing that panics.

use std::cell::Cell;
use std::ffi::{c_uint, c_void};
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

use crate::account::PAUSE_CYCLES;
use crate::args::Priority;
use crate::decode::{self, Branch};
use crate::pacing::Pace;
use crate::vcpu::{Local, Machine};
use crate::{cache, host};

/// Instructions between two looks at the clock.
pub const QUANTUM: u64 = 1000;
/// Marks a pending branch as indirect; user-space addresses leave the bit free.
const INDIRECT: u64 = 1 << 63;

/// What generated code updates without a call; one per vCPU in QEMU's scoreboard.
#[repr(C)]
pub struct Inline {
    /// Instructions (and `hurry`) since the last quantum.
    budget: u64,
    /// PAUSE instructions executed since the start.
    pauses: u64,
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

thread_local! {
    /// Blocks translated by this thread since its last quantum.
    static TRANSLATED: Cell<u32> = const { Cell::new(0) };
}

#[inline]
fn machine() -> Option<&'static Machine> {
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

/// What was executed since the last quantum, up to the end of the block that is running: instructions, and
/// PAUSEs since the start.
fn executed(index: c_uint, v: &Local) -> (u64, u64) {
    let slots = inline_slots(index);
    // SAFETY: only this thread and the code it executes touch this vCPU's slots.
    let (budget, pauses) = unsafe { ((*slots).budget, (*slots).pauses) };
    let hurry = v.hurry + (pauses - v.events.pauses) * PAUSE_CYCLES;
    (budget.saturating_sub(hurry), pauses)
}

/// Prices everything executed so far, except the last `ahead` instructions of the block that is running.
fn settle(index: c_uint, v: &mut Local, ahead: u64) {
    let (insns, pauses) = executed(index, v);
    let mut events = v.events;
    events.insns = (events.insns + insns).saturating_sub(ahead);
    events.pauses = pauses;
    v.account.settle(&events);
}

/// Moves the inline counters into `events`.
fn start_quantum(index: c_uint, v: &mut Local) {
    let (insns, pauses) = executed(index, v);
    v.events.insns += insns;
    v.events.pauses = pauses;
    v.hurry = 0;
    // SAFETY: as in `executed`.
    unsafe { (*inline_slots(index)).budget = 0 };
}

extern "C" fn end_of_quantum(index: c_uint, _: *mut c_void) {
    let Some(m) = machine() else { return };
    // SAFETY: QEMU runs callbacks on the vCPU's thread, and this is the only reference until we return.
    let Some(v) = (unsafe { m.local(index) }) else { return };
    start_quantum(index, v);
    settle(index, v, 0);
    m.adopt_speed(index, v);
    let enabled = m.page.header.enable.load(Relaxed) != 0;
    if STATE.load(Relaxed) != state::MODELLING {
        v.account.restart_time();
        if enabled {
            request_model(m);
        }
    } else if enabled {
        pace(m, v);
    } else {
        rest(m, v);
    }
    m.publish(index, v);
}

fn paced(m: &Machine) -> bool {
    STATE.load(Relaxed) == state::MODELLING && m.page.header.enable.load(Relaxed) != 0
}

/// Once: drop every translation and come back with the callbacks of the full model.
fn request_model(m: &Machine) {
    if STATE.compare_exchange(state::LIGHT, state::STARTING, Acquire, Relaxed).is_ok() {
        m.page.header.state.store(state::STARTING, Relaxed);
        // SAFETY: the id is the one QEMU gave us.
        unsafe { q::qemu_plugin_reset(PLUGIN_ID.load(Relaxed), Some(model_started)) }
    }
}

unsafe extern "C" fn model_started(id: q::qemu_plugin_id_t) {
    STATE.store(state::MODELLING, Release);
    if let Some(m) = machine() {
        promote(m);
        m.page.header.state.store(state::MODELLING, Release);
    }
    register(id);
}

/// Makes all vCPU threads real-time ones, if that is wanted. All at once: an ordinary vCPU thread that holds a lock of QEMU's could otherwise
/// be starved by one that has become real-time and waits for the lock.
fn promote(m: &Machine) {
    if m.priority == Priority::Realtime {
        for thread in m.threads.iter().map(|t| t.load(Relaxed)).filter(|t| *t != 0) {
            host::realtime(thread, host::VCPU_RT_PRIORITY);
        }
    }
}

/// Pacing is suspended: a vCPU thread that sleeps no more must not be a real-time one, or two that are busy on a host with two CPUs keep all others
/// waiting for a tenth of a second each time.
fn rest(m: &Machine, v: &mut Local) {
    v.pacer.suspend();
    if !v.resting && m.priority == Priority::Realtime {
        host::short_slices();
    }
    (v.resting, v.thread_ready) = (true, false);
}

fn pace(m: &Machine, v: &mut Local) {
    if !v.thread_ready {
        (v.resting, v.thread_ready, v.demoted) = (false, true, false);
        host::prepare_thread(m.priority);
        promote(m);
    }
    if !v.demoted && v.pacer.is_hopeless(v.account.model_ns()) {
        v.demoted = true;
        host::short_slices();
    }
    let now = host::now_ns();
    if let Pace::SleepUntil(due) = v.pacer.look(v.account.model_ns(), now, TRANSLATED.take()) {
        host::sleep_until(due);
        v.slept_ns += (host::now_ns() - now).max(0) as u64;
    }
}

/// Notes which host thread runs a vCPU.
pub extern "C" fn vcpu_created(_: q::qemu_plugin_id_t, index: c_uint) {
    if let Some(thread) = machine().and_then(|m| m.threads.get(index as usize)) {
        thread.store(nix::unistd::gettid().as_raw(), Relaxed);
    }
}

extern "C" fn publish_now(index: c_uint, remaining: *mut c_void) {
    let Some(m) = machine() else { return };
    // SAFETY: as in `end_of_quantum`.
    let Some(v) = (unsafe { m.local(index) }) else { return };
    settle(index, v, remaining as u64);
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
    // SAFETY: as in `end_of_quantum`.
    let Some(v) = (unsafe { m.local(index) }) else { return };
    if v.last_line == line {
        return;
    }
    v.last_line = line;
    if !v.l1.access(line, line) {
        missed_l1(m, v, index, info, vaddr);
    }
}

/// Physical addresses cost a lookup, so they are used from the second level on. Two processes at equal
/// virtual addresses then keep apart where it matters.
#[inline(never)]
fn missed_l1(m: &Machine, v: &mut Local, index: c_uint, info: q::qemu_plugin_meminfo_t, vaddr: u64) {
    let line = vaddr >> cache::LINE_SHIFT;
    // SAFETY: in a memory callback, for the access it reports.
    let physical = unsafe {
        match q::qemu_plugin_get_hwaddr(info, vaddr) {
            at if at.is_null() => vaddr,
            at => q::qemu_plugin_hwaddr_phys_addr(at),
        }
    };
    let tag = physical >> cache::LINE_SHIFT;
    if v.l2.access(line, tag) {
        v.events.l2_hits += 1;
        return;
    }
    let hurry = if m.llc.access(line, tag) {
        v.events.llc_hits += 1;
        m.llc_hurry
    } else {
        v.events.llc_misses += 1;
        m.mem_hurry
    };
    v.hurry += hurry;
    // SAFETY: as in `executed`.
    unsafe { (*inline_slots(index)).budget += hurry };
}

extern "C" fn branch_resolved(index: c_uint, here: *mut c_void) {
    let Some(m) = machine() else { return };
    // SAFETY: as in `end_of_quantum`.
    let Some(v) = (unsafe { m.local(index) }) else { return };
    let slots = inline_slots(index);
    // SAFETY: as in `executed`.
    let pending = unsafe { std::mem::replace(&mut (*slots).pending, 0) };
    let here = here as u64;
    let miss = if pending & INDIRECT == 0 {
        v.predictor.conditional(pending, here != pending)
    } else {
        v.predictor.indirect(pending, here)
    };
    v.events.branch_misses += u64::from(miss);
}

extern "C" fn idle(_: q::qemu_plugin_id_t, index: c_uint) {
    let Some(m) = machine() else { return };
    // SAFETY: as in `end_of_quantum`.
    let Some(v) = (unsafe { m.local(index) }) else { return };
    settle(index, v, 0);
    if paced(m) {
        v.pacer.idle(v.account.model_ns(), host::now_ns(), TRANSLATED.take());
    }
    m.publish(index, v);
}

extern "C" fn resumed(_: q::qemu_plugin_id_t, index: c_uint) {
    let Some(m) = machine() else { return };
    // SAFETY: as in `end_of_quantum`.
    let Some(v) = (unsafe { m.local(index) }) else { return };
    if paced(m) {
        settle(index, v, 0);
        v.pacer.resumed(v.account.model_ns(), host::now_ns());
    }
}

extern "C" fn translated(_: q::qemu_plugin_id_t, tb: *mut q::qemu_plugin_tb) {
    TRANSLATED.set(TRANSLATED.get().saturating_add(1));
    // SAFETY: QEMU passes a block that is valid during this call; so are its instructions.
    unsafe {
        let insns = q::qemu_plugin_tb_n_insns(tb);
        let vaddr = q::qemu_plugin_tb_vaddr(tb);
        let model_user = vaddr >> 63 == 0 && STATE.load(Relaxed) == state::MODELLING;
        let (budget, pending) = (entry(offset_of!(Inline, budget)), entry(offset_of!(Inline, pending)));
        let pauses = entry(offset_of!(Inline, pauses));
        if model_user {
            let here = vaddr as *mut c_void;
            q::qemu_plugin_register_vcpu_tb_exec_cond_cb(
                tb,
                Some(branch_resolved),
                NO_REGS,
                NE,
                pending,
                0,
                here,
            );
        }
        q::qemu_plugin_register_vcpu_tb_exec_cond_cb(
            tb,
            Some(end_of_quantum),
            NO_REGS,
            GE,
            budget,
            QUANTUM,
            null_mut(),
        );
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
                q::qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, ADD, budget, PAUSE_CYCLES);
            }
            if model_user {
                q::qemu_plugin_register_vcpu_mem_cb(
                    insn,
                    Some(memory_access),
                    NO_REGS,
                    READ_WRITE,
                    null_mut(),
                );
                if k + 1 == insns {
                    mark_branch(insn, bytes, pending);
                }
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
        q::qemu_plugin_register_vcpu_tb_trans_cb(id, Some(translated));
        q::qemu_plugin_register_vcpu_idle_cb(id, Some(idle));
        q::qemu_plugin_register_vcpu_resume_cb(id, Some(resumed));
    }
}
