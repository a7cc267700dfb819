// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Mode `hint`: announce the class of each section to scx_bias.
//!
//! # Approach
//! The profile gives each section a class. A thread stores it, with its pid, in a table of this
//! process, which the kernel side reads (`bpf/hint.bpf.h`). If the class differs from that of the
//! last mark, and the CPU is of the other one, the thread calls `sched_yield()`, and the kernel
//! side migrates it there. The agent learns the address of the table over a socket, which stays
//! open.
//!
//! # Invariants
//! A mark makes no system call, except where the class changes and the CPU is wrong. Without the
//! agent, or after its end, no mark yields. A child process has a connection of its own.
//!
//! # Limits
//! A process reads the classes of CPUs once, when it starts. A process that outlives the agent
//! does not connect to the next one. The first mark waits at most a second for the agent's answer.

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{CStr, c_char};
use std::io::{Error, Read as _, Result, Write as _};
use std::os::fd::IntoRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use nix::libc;

use crate::process::{own_build_id, say};
use crate::profile::{Class, MAX_BYTES, Profile};
use crate::wire::{self, ANSWER_BYTES, MAX_CPUS, Request, SLOTS, Status};

/// Longest wait for the agent's answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// The hints of this process's threads, which the kernel side reads.
static TABLE: [AtomicU32; SLOTS] = [const { AtomicU32::new(0) }; SLOTS];
/// CPUs that are slow. Without an agent no CPU is, so that no mark yields.
static SLOW: [AtomicBool; MAX_CPUS] = [const { AtomicBool::new(false) }; MAX_CPUS];
/// True if the agent reads the table.
static CONNECTED: AtomicBool = AtomicBool::new(false);
/// Socket to the agent, -1 without one.
static SOCKET: AtomicI32 = AtomicI32::new(-1);
/// Number of forks that lead to this process, and to the one that last tried to connect.
static FORKS: AtomicU32 = AtomicU32::new(0);
static TRIED: AtomicU32 = AtomicU32::new(0);
/// Class of each section.
static CLASSES: OnceLock<HashMap<String, Class>> = OnceLock::new();

/// A place in the code: `struct bias_section` of `bias_mark.h`.
#[repr(C)]
pub struct Section {
    name: *const c_char,
    /// The mode's state of the section, 0 before its first mark.
    set: AtomicU32,
}

// SAFETY: the name is never written, and the other field is atomic.
unsafe impl Sync for Section {}

impl Section {
    /// Return a section of this name.
    pub const fn new(name: &'static CStr) -> Self {
        Section { name: name.as_ptr(), set: AtomicU32::new(0) }
    }

    /// Return the name.
    pub(crate) fn name(&self) -> &'static str {
        if self.name.is_null() {
            return "(null)";
        }
        // SAFETY: the name is a string that lives until the process ends, as the header demands.
        unsafe { CStr::from_ptr(self.name) }.to_str().unwrap_or("(not UTF-8)")
    }
}

/// State of a thread.
#[derive(Clone, Copy)]
struct Thread {
    forks: u32,
    tid: u32,
    /// The last word that it stored.
    word: u32,
}

thread_local! {
    static THREAD: Cell<Thread> = const { Cell::new(Thread { forks: u32::MAX, tid: 0, word: 0 }) };
}

/// Read the profile and connect to the agent. Return false if marks can announce nothing.
pub fn start() -> bool {
    match classes() {
        Ok(classes) => drop(CLASSES.set(classes)),
        Err(reason) => {
            say(&format!("no hints: {reason}"));
            return false;
        }
    }
    if let Err(reason) = connect() {
        say(&format!("no hints: {reason}"));
        return false;
    }
    // SAFETY: the function is valid until the process ends, because the library stays loaded.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    true
}

/// Return the class of each section, or the reason why there is none.
fn classes() -> std::result::Result<HashMap<String, Class>, String> {
    let Some(path) = std::env::var_os("BIAS_MARK_PROFILE") else {
        return Err("BIAS_MARK_PROFILE must name a profile that BIAS_MARK=measure has written".into());
    };
    let told = |what: String| format!("the profile {}: {what}", Path::new(&path).display());
    let mut text = String::new();
    std::fs::File::open(&path)
        .and_then(|file| file.take(MAX_BYTES).read_to_string(&mut text))
        .map_err(|error| told(error.to_string()))?;
    let profile = Profile::parse(&text, &own_build_id()).map_err(|refusal| told(refusal.to_string()))?;
    if profile.threshold.is_none() {
        return Err(told("its sections are alike; set a threshold in it to divide them".into()));
    }
    Ok(profile.classes())
}

/// Send the agent the address of the table.
fn connect() -> std::result::Result<(), String> {
    let path = std::env::var_os("BIAS_MARK_SOCKET").unwrap_or_else(|| wire::PATH.into());
    let answer = ask(Path::new(&path)).map_err(|error| {
        format!("scx_bias does not answer at {}: {error}; is it running?", Path::new(&path).display())
    })?;
    let (status, slow) = wire::decode_answer(&answer);
    match status {
        Status::Accepted => {}
        Status::Full => return Err("too many processes with marks are running".into()),
        Status::Namespace => return Err("the process is not in the pid namespace of scx_bias".into()),
        Status::Unknown => return Err("scx_bias and libbias_mark have different versions".into()),
    }
    for (slow, cpu) in slow.zip(&SLOW) {
        cpu.store(slow, Relaxed);
    }
    CONNECTED.store(true, Relaxed);
    Ok(())
}

/// Return the agent's answer, and keep the connection.
fn ask(path: &Path) -> Result<[u8; ANSWER_BYTES]> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let request = Request { pid: std::process::id(), table: TABLE.as_ptr() as u64 };
    stream.write_all(&request.encode())?;
    let mut answer = [0; ANSWER_BYTES];
    stream.read_exact(&mut answer)?;
    SOCKET.store(stream.into_raw_fd(), Relaxed);
    Ok(answer)
}

/// Forget the parent's connection. Take no lock, because another thread may have held it at the
/// fork.
extern "C" fn in_child() {
    disconnect();
    FORKS.fetch_add(1, Relaxed);
}

/// Close the connection. Marks no longer yield.
fn disconnect() {
    CONNECTED.store(false, Relaxed);
    SLOW.iter().for_each(|cpu| cpu.store(false, Relaxed));
    let socket = SOCKET.swap(-1, Relaxed);
    if socket >= 0 {
        // SAFETY: the swap made this call the only owner of the descriptor.
        unsafe { libc::close(socket) };
    }
}

/// Begin `section` in the calling thread.
#[inline]
pub fn mark(section: &Section) {
    let class = match section.set.load(Relaxed) {
        0 => class_of(section),
        set => set - 1,
    };
    let forks = FORKS.load(Relaxed);
    let _ = THREAD.try_with(|thread| {
        let mut me = thread.get();
        if me.forks != forks {
            me = enter(forks);
        }
        let word = me.tid << 2 | class;
        if me.word != word {
            TABLE[me.tid as usize % SLOTS].store(word, Relaxed);
            thread.set(Thread { word, ..me });
            if class != Class::Neutral as u32 && is_on_slow() != (class == Class::Slow as u32) {
                migrate();
            }
        }
    });
}

/// Find the class of a section at its first mark.
#[cold]
fn class_of(section: &Section) -> u32 {
    let class = CLASSES.get().and_then(|classes| classes.get(section.name()));
    let class = class.copied().unwrap_or(Class::Neutral) as u32;
    section.set.store(class + 1, Relaxed);
    class
}

/// Return the state of a thread at its first mark. In a child process, connect first.
#[cold]
fn enter(forks: u32) -> Thread {
    if TRIED.swap(forks, Relaxed) != forks {
        // The parent has printed the reason of a failure.
        let _ = connect();
    }
    Thread { forks, tid: nix::unistd::gettid().as_raw().unsigned_abs(), word: 0 }
}

fn is_on_slow() -> bool {
    // SAFETY: the call takes nothing and only reads the CPU's number.
    let cpu = unsafe { libc::sched_getcpu() };
    usize::try_from(cpu).ok().and_then(|cpu| SLOW.get(cpu)).is_some_and(|cpu| cpu.load(Relaxed))
}

/// Let the scheduler migrate the thread, if there still is one.
#[cold]
fn migrate() {
    if !CONNECTED.load(Relaxed) {
        return;
    }
    if has_hung_up() {
        disconnect();
        say("scx_bias has ended: no more hints");
        return;
    }
    // SAFETY: the call takes nothing.
    unsafe { libc::sched_yield() };
}

/// Return true if the agent has closed the connection.
fn has_hung_up() -> bool {
    let mut byte = 0u8;
    let flags = libc::MSG_DONTWAIT | libc::MSG_PEEK;
    // SAFETY: the buffer has the given length.
    let got = unsafe { libc::recv(SOCKET.load(Relaxed), (&raw mut byte).cast(), 1, flags) };
    got == 0 || (got < 0 && Error::last_os_error().kind() != std::io::ErrorKind::WouldBlock)
}
