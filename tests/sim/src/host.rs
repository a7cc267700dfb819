// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! The kfuncs and helpers that the scheduler calls (`tests/sim/c/host.h`).
//!
//! Each function here is one field of the table. The compiler demands all of them, so no kfunc can
//! be missing or be a stub by accident.

#![allow(clippy::undocumented_unsafe_blocks)] // One reason for all of them, at kernel().

use std::ffi::{CStr, c_char, c_void};

use crate::ffi;
use crate::flags::{self, ENQ_PRIQ};
use crate::kernel::Kernel;
use crate::kernel::cpu::Curr;
use crate::kernel::events::Event;
use crate::mask::Mask;

/// Return the engine.
///
/// # Safety
/// BPF code passes on the address that Kernel::new() gave it. The engine outlives its unit, has one
/// thread, and hands out only shared references: its state is in cells.
unsafe fn kernel<'a>(address: *mut c_void) -> &'a Kernel {
    unsafe { &*address.cast_const().cast() }
}

/// Return the table.
#[must_use]
pub fn table() -> ffi::sim_host {
    ffi::sim_host {
        create_dsq: Some(create_dsq),
        insert: Some(insert),
        insert_vtime: Some(insert_vtime),
        move_to_local: Some(move_to_local),
        nr_queued: Some(nr_queued),
        reenqueue_local: Some(reenqueue_local),
        iter_begin: Some(iter_begin),
        iter_next: Some(iter_next),
        move_task: Some(move_task),
        kick_cpu: Some(kick_cpu),
        pick_idle_cpu: Some(pick_idle_cpu),
        test_and_clear_cpu_idle: Some(test_and_clear_cpu_idle),
        idle_cpumask: Some(idle_cpumask),
        idle_smtmask: Some(idle_smtmask),
        this_cpu: Some(this_cpu),
        rq: Some(rq),
        cpuperf_cap: Some(cpuperf_cap),
        cpuperf_set: Some(cpuperf_set),
        current: Some(current),
        from_pid: Some(from_pid),
        task_put: Some(task_put),
        task_storage: Some(task_storage),
        ktime_ns: Some(ktime_ns),
        jiffies: Some(jiffies),
        timer_init: Some(timer_init),
        timer_set: Some(timer_set),
        timer_start: Some(timer_start),
        map_lookup: Some(map_lookup),
        ringbuf_reserve: Some(ringbuf_reserve),
        ringbuf_submit: Some(ringbuf_submit),
        perf_read: Some(perf_read),
        user_word: Some(user_word),
        seq_write: Some(seq_write),
        mask_create: Some(mask_create),
        mask_release: Some(mask_release),
        point: Some(point),
        store: Some(store),
        print: Some(print),
        fatal: Some(fatal),
    }
}

unsafe extern "C" fn create_dsq(k: *mut c_void, dsq: u64, _node: i32) -> i32 {
    const EEXIST: i32 = 17;
    if unsafe { kernel(k) }.dsqs.create(dsq) { 0 } else { -EEXIST }
}

unsafe extern "C" fn insert(k: *mut c_void, p: *mut ffi::task_struct, dsq: u64, slice: u64, flags: u64) {
    unsafe { kernel(k) }.decide(unsafe { (*p).sim_id as usize }, dsq, slice, None, flags);
}

unsafe extern "C" fn insert_vtime(
    k: *mut c_void,
    p: *mut ffi::task_struct,
    dsq: u64,
    slice: u64,
    vtime: u64,
    flags: u64,
) {
    unsafe { kernel(k) }.decide(unsafe { (*p).sim_id as usize }, dsq, slice, Some(vtime), flags | ENQ_PRIQ);
}

impl Kernel {
    /// Note where a task is to be inserted (scx_dsq_insert_commit(), mark_direct_dispatch()).
    fn decide(&self, task: usize, dsq: u64, slice: u64, vtime: Option<u64>, flags: u64) {
        self.point();
        let deciding = &self.deciding[self.here.get()];
        if deciding.get() != Some(task) {
            self.broken(
                "insertion",
                format!("task {task} is inserted while {:?} is decided about", deciding.get()),
            );
            return;
        }
        let this = &self.tasks[task];
        if this.direct.get().is_some() {
            self.broken("insertion", format!("task {task} is inserted twice"));
            return;
        }
        this.raw.change(|raw| {
            if slice > 0 {
                raw.scx.slice = slice;
            } else {
                raw.scx.slice = raw.scx.slice.max(1);
            }
            if let Some(vtime) = vtime {
                raw.scx.dsq_vtime = vtime;
            }
        });
        this.direct.set(Some((dsq, flags)));
        self.point();
    }
}

unsafe extern "C" fn move_to_local(k: *mut c_void, dsq: u64) -> bool {
    let kernel = unsafe { kernel(k) };
    kernel.point();
    let cpu = kernel.here.get();
    let this = &kernel.cpus[cpu];
    if !this.in_balance.get() {
        kernel.broken("move_to_local", format!("CPU {cpu} takes a task outside of ops.dispatch"));
        return false;
    }
    kernel.counters.visits.set(kernel.counters.visits.get() + 1);
    let moved = kernel.consume(cpu, Some(dsq));
    if moved {
        this.dispatched.set(this.dispatched.get() + 1);
    }
    moved
}

unsafe extern "C" fn nr_queued(k: *mut c_void, dsq: u64) -> i32 {
    const ENOENT: i32 = 2;
    let kernel = unsafe { kernel(k) };
    kernel.point();
    match kernel.local_target(kernel.here.get(), dsq) {
        Some(cpu) => kernel.cpus[cpu].local.borrow().len() as i32,
        None => kernel.dsqs.get(dsq).map_or(-ENOENT, |dsq| dsq.len() as i32),
    }
}

unsafe extern "C" fn reenqueue_local(k: *mut c_void) -> u32 {
    let kernel = unsafe { kernel(k) };
    kernel.reenqueue_local(kernel.here.get())
}

unsafe extern "C" fn iter_begin(k: *mut c_void, dsq: u64) -> u64 {
    let kernel = unsafe { kernel(k) };
    kernel.point();
    kernel.dsqs.get(dsq).map_or(0, |dsq| dsq.newest())
}

unsafe extern "C" fn iter_next(k: *mut c_void, iter: *mut ffi::sim_iter_scx_dsq) -> *mut ffi::task_struct {
    let kernel = unsafe { kernel(k) };
    kernel.point();
    let iter = unsafe { &mut *iter };
    // The kernel's cursor is in the list, so it stays when the task before it leaves.
    let after = iter.begun.then_some((iter.vtime, iter.seq));
    let reverse = iter.flags & flags::DSQ_ITER_REV != 0;
    let next = kernel.dsqs.get(iter.dsq).and_then(|dsq| {
        if reverse { dsq.previous(after, iter.newest) } else { dsq.next(after, iter.newest) }
    });
    let Some((key, task)) = next else { return std::ptr::null_mut() };
    (iter.begun, iter.vtime, iter.seq) = (true, key.0, key.1);
    kernel.raw(task)
}

/// Move a task of the DSQ that `iter` iterates over, to the end of `dsq` or, if `by_vtime`, to its
/// place there.
unsafe extern "C" fn move_task(
    k: *mut c_void,
    iter: *mut ffi::sim_iter_scx_dsq,
    p: *mut ffi::task_struct,
    dsq: u64,
    by_vtime: bool,
) -> bool {
    let kernel = unsafe { kernel(k) };
    kernel.point();
    let (iter, task) = unsafe { (&*iter, (*p).sim_id as usize) };
    kernel.move_between(task, iter.dsq, iter.newest, dsq, by_vtime.then_some(iter.moved_vtime))
}

unsafe extern "C" fn kick_cpu(k: *mut c_void, cpu: i32, flags: u64) {
    let kernel = unsafe { kernel(k) };
    kernel.point();
    match usize::try_from(cpu) {
        Ok(cpu) if cpu < kernel.cpus.len() => kernel.kick(cpu, flags),
        _ => kernel.broken("kick", format!("CPU {cpu} is kicked, which does not exist")),
    }
}

unsafe extern "C" fn pick_idle_cpu(k: *mut c_void, mask: *const ffi::cpumask, flags: u64) -> i32 {
    let kernel = unsafe { kernel(k) };
    kernel.point();
    let cpu = kernel.pick_idle(&Mask(unsafe { (*mask).bits }), flags);
    kernel.point();
    cpu
}

unsafe extern "C" fn test_and_clear_cpu_idle(k: *mut c_void, cpu: i32) -> bool {
    let kernel = unsafe { kernel(k) };
    kernel.point();
    let claimed = usize::try_from(cpu).is_ok_and(|cpu| kernel.claim_idle(cpu));
    kernel.point();
    claimed
}

unsafe extern "C" fn idle_cpumask(k: *mut c_void) -> *const ffi::cpumask {
    unsafe { kernel(k) }.idle_cpus.address()
}

unsafe extern "C" fn idle_smtmask(k: *mut c_void) -> *const ffi::cpumask {
    let kernel = unsafe { kernel(k) };
    if kernel.machine.smt() { kernel.idle_cores.address() } else { kernel.idle_cpus.address() }
}

unsafe extern "C" fn this_cpu(k: *mut c_void) -> i32 {
    unsafe { kernel(k) }.here.get() as i32
}

unsafe extern "C" fn current(k: *mut c_void) -> *mut ffi::task_struct {
    let kernel = unsafe { kernel(k) };
    kernel.current_raw(kernel.here.get()).address()
}

unsafe extern "C" fn from_pid(k: *mut c_void, pid: i32) -> *mut ffi::task_struct {
    let kernel = unsafe { kernel(k) };
    let alive = |life| !matches!(life, crate::kernel::task::Life::New | crate::kernel::task::Life::Dead);
    let task = usize::try_from(pid).ok().and_then(|pid| pid.checked_sub(crate::case::FIRST_PID));
    let task = task.filter(|task| kernel.tasks.get(*task).is_some_and(|task| alive(task.life.get())));
    task.map_or(std::ptr::null_mut(), |task| kernel.raw(task))
}

unsafe extern "C" fn task_put(_k: *mut c_void, _p: *mut ffi::task_struct) {}

unsafe extern "C" fn task_storage(
    k: *mut c_void,
    map: *const c_void,
    p: *mut ffi::task_struct,
    size: usize,
    flags: u64,
) -> *mut c_void {
    let kernel = unsafe { kernel(k) };
    if flags != flags::STORAGE_CREATE || !kernel.memory.is_storage(map) {
        kernel.broken("storage", "the simulator knows one map of task storage and the flag CREATE");
        return std::ptr::null_mut();
    }
    if kernel.case.memory_fails && kernel.random(3) == 0 {
        return std::ptr::null_mut();
    }
    let storage = kernel.memory.storage(size);
    unsafe { (*p).sim_storage = storage };
    storage
}

unsafe extern "C" fn ktime_ns(k: *mut c_void) -> u64 {
    unsafe { kernel(k) }.now()
}

unsafe extern "C" fn jiffies(k: *mut c_void) -> u64 {
    unsafe { kernel(k) }.jiffies()
}

unsafe extern "C" fn rq(k: *mut c_void, cpu: i32) -> *const ffi::rq {
    let kernel = unsafe { kernel(k) };
    let Some(this) = usize::try_from(cpu).ok().and_then(|cpu| kernel.cpus.get(cpu)) else {
        return std::ptr::null();
    };
    let nr_running = u32::from(kernel.higher(cpu as usize).is_some());
    this.rq.set(ffi::rq { nr_running, scx: ffi::scx_rq { nr_running: 0 } });
    this.rq.as_ptr()
}

unsafe extern "C" fn cpuperf_cap(k: *mut c_void, cpu: i32) -> u32 {
    let kernel = unsafe { kernel(k) };
    usize::try_from(cpu).map_or(ffi::SCX_CPUPERF_ONE, |cpu| kernel.capacity(cpu))
}

unsafe extern "C" fn cpuperf_set(k: *mut c_void, cpu: i32, target: u32) {
    let kernel = unsafe { kernel(k) };
    kernel.point();
    kernel.request_clock(cpu, target);
}

unsafe extern "C" fn timer_init(k: *mut c_void, timer: *mut ffi::bpf_timer, map: *mut c_void) -> i32 {
    const EBUSY: i32 = 16;
    if unsafe { kernel(k) }.bpf_timers.init(timer, map) { 0 } else { -EBUSY }
}

unsafe extern "C" fn timer_set(
    k: *mut c_void,
    timer: *mut ffi::bpf_timer,
    callback: ffi::bpf_timer_callback,
) -> i32 {
    const EINVAL: i32 = 22;
    if unsafe { kernel(k) }.bpf_timers.set(timer, callback) { 0 } else { -EINVAL }
}

unsafe extern "C" fn timer_start(k: *mut c_void, timer: *mut ffi::bpf_timer, after_ns: u64) -> i32 {
    const EINVAL: i32 = 22;
    let kernel = unsafe { kernel(k) };
    kernel.point();
    let Some(start) = kernel.bpf_timers.start(timer) else { return -EINVAL };
    kernel.push(kernel.now() + after_ns, Event::BpfTimer(kernel.here.get(), start));
    0
}

unsafe extern "C" fn map_lookup(
    k: *mut c_void,
    map: *const c_void,
    kind: u32,
    entries: u32,
    key_size: usize,
    value_size: usize,
    key: *const c_void,
    cpu: i32,
) -> *mut c_void {
    let kernel = unsafe { kernel(k) };
    let per_cpu = kind == ffi::BPF_MAP_TYPE_PERCPU_ARRAY;
    if key_size == 4 && (per_cpu || kind == ffi::BPF_MAP_TYPE_ARRAY) {
        let cpu = usize::try_from(cpu).unwrap_or(kernel.here.get());
        let key = unsafe { *key.cast::<u32>() } as usize;
        return kernel.memory.lookup(map, entries as usize, value_size, per_cpu, key, cpu);
    }
    if kind != ffi::BPF_MAP_TYPE_HASH {
        kernel.broken("map", format!("the simulator does not know maps of type {kind}"));
    }
    // The map of hints has keys of this size. No case fills that of opted-in cgroups.
    if key_size == 4 && kernel.case.hints {
        static ADDRESS: u64 = 4096;
        return std::ptr::from_ref(&ADDRESS).cast_mut().cast();
    }
    std::ptr::null_mut()
}

unsafe extern "C" fn ringbuf_reserve(_k: *mut c_void, _map: *const c_void, _size: usize) -> *mut c_void {
    std::ptr::null_mut()
}

unsafe extern "C" fn ringbuf_submit(_k: *mut c_void, _record: *mut c_void) {}

unsafe extern "C" fn perf_read(k: *mut c_void, index: u64, value: *mut ffi::bpf_perf_event_value) -> i32 {
    unsafe { kernel(k).read_counter(index, &mut *value) }
}

/// The memory of marked programs: the hint that the current task has stored. Of a task that stores
/// none: any hint, any other word, or none.
unsafe extern "C" fn user_word(k: *mut c_void, word: *mut u32) -> i64 {
    const EFAULT: i64 = 14;
    let (pid, task) = unsafe { ((*current(k)).pid as u32, (*current(k)).sim_id as usize) };
    let kernel = unsafe { kernel(k) };
    if let Some(hint) = kernel.tasks.get(task).and_then(|task| task.hint.get()) {
        unsafe { *word = pid << 2 | hint };
        return 0;
    }
    let random = kernel.random(1 << 32) as u32;
    let content = match kernel.random(8) {
        0 => return -EFAULT,
        1 => random,
        _ => pid << 2 | random & 3,
    };
    unsafe { *word = content };
    0
}

unsafe extern "C" fn seq_write(_k: *mut c_void, _data: *const c_void, _size: u32) {}

unsafe extern "C" fn mask_create(k: *mut c_void) -> *mut ffi::bpf_cpumask {
    unsafe { kernel(k) }.memory.mask_create()
}

unsafe extern "C" fn mask_release(k: *mut c_void, mask: *mut ffi::bpf_cpumask) {
    let kernel = unsafe { kernel(k) };
    if !kernel.memory.mask_release(mask) {
        kernel.broken("mask", "a mask is released that does not exist");
    }
}

unsafe extern "C" fn point(k: *mut c_void) {
    let kernel = unsafe { kernel(k) };
    if kernel.case.interleave.is_some_and(|interleave| interleave.memory) {
        kernel.point();
    }
}

unsafe extern "C" fn store(k: *mut c_void, address: *mut c_void) {
    unsafe { kernel(k) }.check_writer(address as usize);
}

unsafe extern "C" fn print(k: *mut c_void, line: *const c_char) {
    let line = unsafe { CStr::from_ptr(line) }.to_string_lossy();
    let kernel = unsafe { kernel(k) };
    kernel.trace.line(kernel.now(), || line.trim_end().to_owned());
}

/// BPF code cannot continue from here, and a panic cannot pass through it.
unsafe extern "C" fn fatal(k: *mut c_void, what: *const c_char, file: *const c_char, line: u32) {
    let (what, file) =
        unsafe { (CStr::from_ptr(what).to_string_lossy(), CStr::from_ptr(file).to_string_lossy()) };
    let kernel = unsafe { kernel(k) };
    eprintln!("bias_sim: {what} at {file}:{line}, in the case\n{}", kernel.case.text());
    if kernel.cpus.iter().any(|cpu| cpu.curr.get() != Curr::Idle) {
        eprintln!("bias_sim: at {} ns", kernel.now());
    }
    std::process::abort();
}
