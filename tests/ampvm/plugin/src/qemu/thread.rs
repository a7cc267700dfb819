//! What each host thread is to the machine, and the clocks and time stamp counter that it reads.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use nix::libc;

use super::inline::{machine, own_time};
use crate::host;
use crate::times::Times;

/// The part that a host thread plays in the machine.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A QEMU thread that does not use the guest's clocks.
    Other,
    /// The main loop.
    Main,
    /// The thread of the vCPU with this index.
    Vcpu(u32),
}

thread_local! {
    /// The calling thread's part.
    pub static ROLE: Cell<Role> = const { Cell::new(Role::Other) };
    /// True from the halt of this thread's vCPU until it resumes.
    pub static ASLEEP: Cell<bool> = const { Cell::new(false) };
    /// True if RDTSC traps on this thread.
    static TRAPS: Cell<bool> = const { Cell::new(false) };
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

/// Make RDTSC trap on the calling thread if virtual time has ever been in force.
pub fn trap_tsc() {
    if !TRAPS.get() && TIMES.get().is_some_and(Times::is_set) {
        TRAPS.set(true);
        // SAFETY: the call changes RDTSC on this thread only, and the handler is installed.
        unsafe { libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV) };
    }
}

/// Install the handler of trapped RDTSC instructions. Return false if the host does not let RDTSC
/// trap.
pub fn prepare_tsc() -> bool {
    // SAFETY: the handler has the required type. RDTSC traps only between the two calls, and only
    // on this thread.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_segv as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
        libc::sigaction(libc::SIGSEGV, &raw const action, std::ptr::null_mut()) == 0
            && libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV) == 0
            && libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_ENABLE) == 0
    }
}

/// Emulate a trapped RDTSC or RDTSCP, which QEMU executes for its guest or the C library for
/// itself. Any other fault becomes a crash.
extern "C" fn on_segv(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid context, and a trapped instruction is readable.
    unsafe {
        let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        let at = registers[libc::REG_RIP as usize] as *const u8;
        let length = match (*at, *at.add(1)) {
            (0x0f, 0x31) => 2,
            (0x0f, 0x01) if *at.add(2) == 0xf9 => 3,
            _ => {
                libc::signal(libc::SIGSEGV, libc::SIG_DFL);
                return;
            }
        };
        // A thread inherits the trap from the thread that started it, but not the flag.
        TRAPS.set(true);
        let in_qemu = TIMES.get().is_some_and(|times| times.is_qemu(at as usize));
        let tsc = match (in_qemu, guest_monotonic(), TIMES.get()) {
            (true, Some(ns), Some(times)) => times.tsc(ns),
            _ => raw_tsc(),
        };
        registers[libc::REG_RAX as usize] = (tsc & 0xffff_ffff) as i64;
        registers[libc::REG_RDX as usize] = (tsc >> 32) as i64;
        if length == 3 {
            registers[libc::REG_RCX as usize] = 0;
        }
        registers[libc::REG_RIP as usize] += length;
    }
}

/// Return the host's counter, also on a thread where RDTSC traps.
pub fn raw_tsc() -> u64 {
    // SAFETY: as in `trap_tsc`.
    unsafe {
        if TRAPS.get() {
            libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_ENABLE);
        }
        let tsc = std::arch::x86_64::_rdtsc();
        if TRAPS.get() {
            libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV);
        }
        tsc
    }
}
