//! The host threads that QEMU runs on: their priorities and their clock.
//!
//! Pacing needs sleeps that end on time also while something else runs on the host, and a scheduler under
//! test needs timer interrupts that arrive. Real-time priority gives both; without the right to it, pacing
//! is as good as the host is idle, and the overrun account tells.

use std::ffi::c_int;

use nix::libc;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};

use crate::args::Priority;

/// Niceness of vCPU threads where real-time priority is not wanted or not allowed.
const HIGH_NICE: c_int = -20;
/// Their slice: the shortest the kernel grants.
const SLICE_NS: u64 = 100_000;
/// Real-time priorities: the main loop delivers timer interrupts, so it goes before the vCPUs.
pub const VCPU_RT_PRIORITY: c_int = 1;
/// See [`VCPU_RT_PRIORITY`].
pub const MAIN_LOOP_RT_PRIORITY: c_int = 2;

/// Monotonic real time in ns.
pub fn now_ns() -> i64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |t| t.tv_sec() * 1_000_000_000 + t.tv_nsec())
}

/// Sleeps until `due` (as [`now_ns`]); a signal may end it early.
pub fn sleep_until(due: i64) {
    let at = TimeSpec::new(due / 1_000_000_000, due % 1_000_000_000);
    let _ = clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &at);
}

/// Makes the calling thread, a vCPU's, wake on time.
pub fn prepare_thread(priority: Priority) {
    let _ = nix::sys::prctl::set_timerslack(1);
    match priority {
        // Usually done already, by `model_started`.
        Priority::Realtime if realtime(0, VCPU_RT_PRIORITY) => {}
        Priority::Normal => {}
        _ => short_slices(),
    }
}

/// A large share and short slices: a waking thread preempts ordinary work at once, yet starves nobody.
pub fn short_slices() {
    // SAFETY: all zero bytes are a valid sched_attr.
    let mut attr: libc::sched_attr = unsafe { std::mem::zeroed() };
    attr.size = size_of::<libc::sched_attr>() as u32;
    attr.sched_policy = libc::SCHED_OTHER as u32;
    attr.sched_flags = libc::SCHED_FLAG_RESET_ON_FORK as u64;
    attr.sched_nice = HIGH_NICE;
    attr.sched_runtime = SLICE_NS;
    // SAFETY: `attr` outlives the call; process 0 is the calling thread. Kernels before 6.12 ignore the slice.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) };
}

/// Gives a thread (0: the calling one), but not threads it makes, a real-time priority. False: not allowed.
pub fn realtime(thread: libc::pid_t, priority: c_int) -> bool {
    // SAFETY: all zero bytes are a valid sched_param.
    let mut param: libc::sched_param = unsafe { std::mem::zeroed() };
    param.sched_priority = priority;
    // SAFETY: `param` outlives the call.
    unsafe { libc::sched_setscheduler(thread, libc::SCHED_RR | libc::SCHED_RESET_ON_FORK, &param) == 0 }
}
