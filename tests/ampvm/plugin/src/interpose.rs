//! Replacements for the libc functions from which QEMU takes its clocks, and for the time stamp
//! counter.
//!
//! # Problem
//!
//! QEMU derives the guest's clocks from the host's.
//!
//! # Approach
//!
//! This library is preloaded, so QEMU calls the functions below instead of libc's. Threads other
//! than vCPUs and the main loop get the same results as from libc.
//!
//! | function | effect here |
//! |---|---|
//! | `clock_gettime` | CLOCK_MONOTONIC, hence every timer and clock, follows virtual time |
//! | `ppoll` | the main loop's timeout is virtual; with all vCPUs halted, the call advances time |
//! | `write` | a vCPU that wakes the main loop makes its deadline unknown |
//! | `pthread_cond_wait`, `_broadcast` | time waits for a kicked vCPU until its thread has run |
//! | `pthread_cond_signal` | the main loop gives a thread work that the guest may wait for |
//! | RDTSC | traps (`PR_SET_TSC`) and returns a counter derived from virtual time |
//!
//! Idle time costs the host nothing, because an idle machine advances to the next deadline at once.
//! The exception is a guest that may wait for the host's files: its idle time passes as in reality
//! ([`Devices`]).

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI64, AtomicPtr, AtomicU64};

use nix::libc::{
    self, clockid_t, nfds_t, pollfd, pthread_cond_t, pthread_mutex_t, sigset_t, size_t, ssize_t, timespec,
};

use crate::ffi::{machine, own_time};
use crate::gate::Idle;
use crate::host;
use crate::times::Times;

/// Time after a device's last activity in which more events may follow [real ns].
const ACTIVE_NS: i64 = 20_000_000;
/// Longest time that a request may take [real ns]. Some requests are never answered.
const REQUEST_NS: i64 = 500_000_000;
/// Longest sleep of an idle main loop between two reads of the clock [real ns].
const LONGEST_NAP_NS: i64 = 5_000_000;

/// Device activity, which shows whether the guest may wait for the host.
///
/// A vCPU kicks a device by a write to an event file. If the main loop polls that file, it does the
/// work itself or wakes a worker through a condition variable. If it does not poll the file,
/// another process serves the device. The answer is an event that the main loop polls for.
struct Devices {
    /// Files that the main loop polls, one bit each.
    polled: [AtomicU64; 64],
    /// Files that other threads write to notify the main loop. They are not devices.
    callers: [AtomicU64; 64],
    /// When a device was last active [real ns].
    active_ns: AtomicI64,
    /// When the open request began [real ns], or 0 if none is open.
    request_ns: AtomicI64,
}

static DEVICES: Devices = Devices {
    polled: [const { AtomicU64::new(0) }; 64],
    callers: [const { AtomicU64::new(0) }; 64],
    active_ns: AtomicI64::new(0),
    request_ns: AtomicI64::new(0),
};

fn file_bit(set: &[AtomicU64], fd: c_int) -> Option<(&AtomicU64, u64)> {
    let fd = usize::try_from(fd).ok()?;
    Some((set.get(fd / 64)?, 1 << (fd % 64)))
}

fn insert(set: &[AtomicU64], fd: c_int) {
    if let Some((word, bit)) = file_bit(set, fd) {
        word.fetch_or(bit, Relaxed);
    }
}

fn contains(set: &[AtomicU64], fd: c_int) -> bool {
    file_bit(set, fd).is_some_and(|(word, bit)| word.load(Relaxed) & bit != 0)
}

impl Devices {
    /// Note a thread's write to an event file. Only vCPUs kick devices.
    fn written(&self, fd: c_int, by_vcpu: bool) {
        if !by_vcpu {
            insert(&self.callers, fd);
        } else if !contains(&self.callers, fd) {
            self.active_ns.store(host::real_ns(), Relaxed);
            if !contains(&self.polled, fd) {
                self.requested();
            }
        }
    }

    fn requested(&self) {
        self.request_ns.store(host::real_ns(), Relaxed);
    }

    /// Note that the main loop has events.
    fn answered(&self) {
        if self.request_ns.swap(0, Relaxed) != 0 {
            self.active_ns.store(host::real_ns(), Relaxed);
        }
    }

    fn are_busy(&self) -> bool {
        let now = host::real_ns();
        now - self.active_ns.load(Relaxed) < ACTIVE_NS || now - self.request_ns.load(Relaxed) < REQUEST_NS
    }
}

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
    static ROLE: Cell<Role> = const { Cell::new(Role::Other) };
    /// True from the halt of this thread's vCPU until it resumes.
    static ASLEEP: Cell<bool> = const { Cell::new(false) };
    /// True if RDTSC traps on this thread.
    static TRAPS: Cell<bool> = const { Cell::new(false) };
}

/// Set the role of the calling thread.
pub fn set_role(role: Role) {
    ROLE.set(role);
}

/// Set whether the calling thread's vCPU is halted.
pub fn set_asleep(asleep: bool) {
    ASLEEP.set(asleep);
}

/// The guest's clocks, once the plugin is installed.
pub static TIMES: OnceLock<Times> = OnceLock::new();

/// Return CLOCK_MONOTONIC as QEMU reads it on this thread [ns], or None if it is the host's.
fn guest_monotonic() -> Option<i64> {
    let (times, m) = (TIMES.get()?, machine()?);
    let virtual_ns = match ROLE.get() {
        Role::Other => return None,
        Role::Main => m.gate.now(),
        Role::Vcpu(index) if m.gate.is_on() => own_time(m, index),
        Role::Vcpu(_) => 0,
    };
    Some(if m.gate.is_on() { times.on_ns(virtual_ns) } else { times.off_ns(host::real_ns()) })
}

/// # Safety
///
/// The caller must keep libc's contract for this function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(id: clockid_t, out: *mut timespec) -> c_int {
    if id == libc::CLOCK_MONOTONIC
        && let Some(ns) = guest_monotonic()
        // SAFETY: the caller keeps libc's contract.
        && let Some(out) = unsafe { out.as_mut() }
    {
        (out.tv_sec, out.tv_nsec) = (ns / 1_000_000_000, ns % 1_000_000_000);
        return 0;
    }
    // SAFETY: the caller keeps libc's contract.
    unsafe { libc::syscall(libc::SYS_clock_gettime, id, out) as c_int }
}

/// # Safety
///
/// The caller must keep libc's contract for this function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(fd: c_int, buffer: *const c_void, count: size_t) -> ssize_t {
    // A write to an event file has eight bytes. Other writes of eight bytes do no harm here.
    if count == 8
        && let Some(m) = machine()
    {
        let by_vcpu = matches!(ROLE.get(), Role::Vcpu(_));
        DEVICES.written(fd, by_vcpu);
        if by_vcpu {
            m.gate.notify_main();
        }
    }
    // SAFETY: the caller keeps libc's contract.
    unsafe { libc::syscall(libc::SYS_write, fd, buffer, count) as ssize_t }
}

/// Return libc's own function of this name, or null if there is none.
fn original(slot: &AtomicPtr<c_void>, name: &'static std::ffi::CStr) -> *mut c_void {
    let known = slot.load(Acquire);
    if !known.is_null() {
        return known;
    }
    // The version matters: glibc 2.2.5 has condition variables of another type.
    // SAFETY: both strings end in NUL.
    let found = unsafe { libc::dlvsym(libc::RTLD_NEXT, name.as_ptr(), c"GLIBC_2.3.2".as_ptr()) };
    slot.store(found, Release);
    found
}

/// # Safety
///
/// The caller must keep libc's contract for this function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_wait(cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t) -> c_int {
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    if ASLEEP.get()
        && let (Role::Vcpu(index), Some(m)) = (ROLE.get(), machine())
    {
        if let Some(known) = m.halt_conds.get(index as usize) {
            known.store(cond.cast(), Relaxed);
        }
        m.gate.sleep_again(index as usize);
    }
    let real = original(&REAL, c"pthread_cond_wait");
    if real.is_null() {
        return libc::ENOSYS;
    }
    // SAFETY: libc's function has this type, and the caller keeps its contract.
    unsafe {
        let real: extern "C" fn(*mut pthread_cond_t, *mut pthread_mutex_t) -> c_int =
            std::mem::transmute(real);
        real(cond, mutex)
    }
}

/// # Safety
///
/// The caller must keep libc's contract for this function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_signal(cond: *mut pthread_cond_t) -> c_int {
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    if ROLE.get() == Role::Main {
        DEVICES.requested();
    }
    let real = original(&REAL, c"pthread_cond_signal");
    if real.is_null() {
        return libc::ENOSYS;
    }
    // SAFETY: as in `pthread_cond_wait`.
    unsafe {
        let real: extern "C" fn(*mut pthread_cond_t) -> c_int = std::mem::transmute(real);
        real(cond)
    }
}

/// # Safety
///
/// The caller must keep libc's contract for this function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_broadcast(cond: *mut pthread_cond_t) -> c_int {
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    if let Some(m) = machine()
        && let Some(cpu) = m.halt_conds.iter().position(|known| known.load(Relaxed) == cond.cast())
    {
        let at = match ROLE.get() {
            Role::Vcpu(index) if m.gate.is_on() => own_time(m, index),
            _ => m.gate.now(),
        };
        m.gate.wake(cpu, at);
    }
    let real = original(&REAL, c"pthread_cond_broadcast");
    if real.is_null() {
        return libc::ENOSYS;
    }
    // SAFETY: as in `pthread_cond_wait`.
    unsafe {
        let real: extern "C" fn(*mut pthread_cond_t) -> c_int = std::mem::transmute(real);
        real(cond)
    }
}

unsafe fn real_ppoll(fds: &mut [pollfd], timeout: *const timespec, mask: *const sigset_t) -> c_int {
    // The kernel writes the rest of the timeout back, so it gets a copy.
    // SAFETY: the caller keeps libc's contract.
    let mut left = unsafe { timeout.as_ref().copied() };
    let left = left.as_mut().map_or(std::ptr::null_mut(), std::ptr::from_mut);
    // The kernel's signal set has eight bytes.
    // SAFETY: the slice is valid, and the caller vouches for the mask.
    unsafe { libc::syscall(libc::SYS_ppoll, fds.as_mut_ptr(), fds.len(), left, mask, 8_usize) as c_int }
}

/// # Safety
///
/// The caller must keep libc's contract for this function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ppoll(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let count = count as usize;
    // SAFETY: the caller passes `count` descriptors. The pointer is not used if there are none.
    let fds = if count == 0 { &mut [][..] } else { unsafe { std::slice::from_raw_parts_mut(fds, count) } };
    // SAFETY: the caller keeps libc's contract.
    let wanted = unsafe { timeout.as_ref() }.map(|t| t.tv_sec.saturating_mul(1_000_000_000) + t.tv_nsec);
    let main = ROLE.get() == Role::Main && wanted != Some(0);
    // SAFETY: the caller keeps libc's contract.
    unsafe { if main { main_poll(fds, wanted, mask) } else { real_ppoll(fds, timeout, mask) } }
}

/// # Safety
///
/// The caller must keep libc's contract for this function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __ppoll_chk(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
    _: size_t,
) -> c_int {
    // SAFETY: the caller keeps libc's contract.
    unsafe { ppoll(fds, count, timeout, mask) }
}

/// Poll for the main loop. `wanted` is its timeout in ns of the clock in force.
unsafe fn main_poll(fds: &mut [pollfd], wanted: Option<i64>, mask: *const sigset_t) -> c_int {
    let (Some(m), Some(event)) = (machine(), host::main_event()) else { return 0 };
    trap_tsc();
    let own = pollfd { fd: std::os::fd::AsRawFd::as_raw_fd(event), events: libc::POLLIN, revents: 0 };
    fds.iter().for_each(|fd| insert(&DEVICES.polled, fd.fd));
    let mut all: Vec<pollfd> = fds.iter().copied().chain([own]).collect();
    let (on, epoch) = (m.gate.is_on(), m.gate.epoch());
    let clock = || if on { m.gate.now() } else { host::real_ns() };
    let deadline = wanted.map_or(i64::MAX, |ns| clock().saturating_add(ns));
    let (mut idle_since, mut passed) = (host::real_ns(), 0);
    let mut nap = Some(0);
    let ready = loop {
        let calls_seen = m.gate.main_looks();
        let t = nap.map(|ns: i64| timespec { tv_sec: ns / 1_000_000_000, tv_nsec: ns % 1_000_000_000 });
        let t = t.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the caller vouches for the descriptors and the mask.
        let mut ready = unsafe { real_ppoll(&mut all, t, mask) };
        if ready > 0 && all.last().is_some_and(|last| last.revents != 0) {
            let _ = event.read();
            ready -= 1;
        }
        // A switch of the clock makes the deadline meaningless, so QEMU must compute it again.
        let is_switched = m.gate.is_on() != on || m.gate.epoch() != epoch;
        if ready != 0 || is_switched || clock() >= deadline {
            break ready;
        }
        if !on {
            nap = wanted.map(|_| (deadline - clock()).max(0));
            continue;
        }
        nap = match m.gate.main_polls(deadline, calls_seen) {
            Idle::LookAgain => Some(0),
            Idle::Not => {
                (idle_since, passed) = (host::real_ns(), 0);
                None
            }
            Idle::For(left) => {
                let real = host::real_ns() - idle_since;
                let due = if DEVICES.are_busy() { real - passed } else { left };
                m.gate.idle_by(due);
                passed = real;
                Some((left - due).clamp(0, LONGEST_NAP_NS))
            }
        };
        if clock() >= deadline {
            break 0;
        }
    };
    m.gate.main_works();
    if ready > 0 {
        DEVICES.answered();
        for (to, from) in fds.iter_mut().zip(all.iter()) {
            to.revents = from.revents;
        }
    } else {
        fds.iter_mut().for_each(|fd| fd.revents = 0);
    }
    ready
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
