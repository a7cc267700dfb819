// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Mode `measure`: count from mark to mark, and write the graph and the profile.
//!
//! # Approach
//! A mark reads the thread's counters when it begins and when it ends, so that its own work belongs
//! to no section. The counts go to an edge of the process's graph. The thread's end closes its last
//! section, and the end of the process writes the files.
//!
//! # Invariants
//! A child process has a graph of its own and writes files of its own, with its pid in their names.
//! A file is complete or absent.
//!
//! # Limits
//! Sections that are open in other threads at the end of the process are not counted. A process
//! that ends by a signal or by `_exit()` writes files only if it calls `bias_mark_write()`.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, Once, PoisonError};

use nix::libc;
use nix::time::{ClockId, clock_gettime};

use crate::drawing;
use crate::graph::{Counts, Graph, OUTSIDE};
use crate::process::{own_build_id, say};
use crate::profile::{Class, Profile};
use crate::thread_counters::{Reading, ThreadCounters};

type Shared = Mutex<Graph<'static>>;

/// The graph of this process. The parent's may be locked at the fork, so a child gets another one.
static GRAPH: AtomicPtr<Shared> = AtomicPtr::new(std::ptr::null_mut());
/// Number of forks that lead to this process. A thread with another number has the parent's
/// counters.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The section that a thread is in.
struct Open {
    name: &'static str,
    forks: u32,
    counters: Option<ThreadCounters>,
    reading: Option<Reading>,
    time_ns: u64,
}

thread_local! {
    static OPEN: RefCell<Option<Open>> = const { RefCell::new(None) };
}

/// Prepare the process: its graph, and its handlers of fork and exit.
pub fn start() {
    use_new_graph();
    // SAFETY: all functions are valid until the process ends. The thread-local data of this library
    // has destructors, so the loader never unloads it.
    unsafe {
        libc::pthread_atfork(None, None, Some(in_child));
        libc::atexit(at_exit);
    }
}

fn use_new_graph() {
    GRAPH.store(Box::into_raw(Box::default()), Relaxed);
}

extern "C" fn in_child() {
    use_new_graph();
    FORKS.fetch_add(1, Relaxed);
}

extern "C" fn at_exit() {
    write();
}

/// Call `act` with the graph, if there is one.
fn with_graph<R>(act: impl FnOnce(&mut Graph<'static>) -> R) -> Option<R> {
    // SAFETY: the pointer is null or comes from a box that is never freed.
    let graph = unsafe { GRAPH.load(Relaxed).as_ref() }?;
    Some(act(&mut graph.lock().unwrap_or_else(PoisonError::into_inner)))
}

/// Begin the section `name` in the calling thread.
pub fn mark(name: &'static str) {
    // A thread that is ending has no section.
    let _ = OPEN.try_with(|open| {
        let Ok(mut open) = open.try_borrow_mut() else { return };
        match &mut *open {
            Some(open) if open.forks == FORKS.load(Relaxed) => {
                open.close(name);
                open.begin(name);
            }
            // A child process drops the section that it inherited without counting it.
            open => {
                if let Some(inherited) = open.take() {
                    std::mem::forget(inherited);
                }
                open.insert(Open::new(name)).begin(name);
            }
        }
    });
}

impl Open {
    fn new(name: &'static str) -> Self {
        let counters = ThreadCounters::open().map_err(|error| tell_why_blind(&error)).ok();
        Open { name, forks: FORKS.load(Relaxed), counters, reading: None, time_ns: 0 }
    }

    fn begin(&mut self, name: &'static str) {
        self.name = name;
        self.time_ns = thread_time_ns();
        self.reading = self.read();
    }

    fn read(&mut self) -> Option<Reading> {
        self.counters.as_mut().and_then(|counters| counters.read().ok())
    }

    /// Count the section that ends where `next` begins.
    fn close(&mut self, next: &'static str) {
        let now = self.read();
        let mut counts =
            Counts { calls: 1, time_ns: thread_time_ns().saturating_sub(self.time_ns), ..Counts::default() };
        if let (Some(now), Some(before)) = (now, &self.reading) {
            [counts.cycles, counts.instructions, counts.misses] = now.since(before);
        }
        with_graph(|graph| graph.add(self.name, next, &counts));
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if self.forks == FORKS.load(Relaxed) {
            self.close(OUTSIDE);
        }
    }
}

fn tell_why_blind(error: &std::io::Error) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        say(&format!(
            "no counters ({error}): sections have only times and no class; where the CPU has counters, \
             sysctl kernel.perf_event_paranoid=2 permits them"
        ));
    });
}

/// Return the CPU time of the calling thread.
fn thread_time_ns() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(std::time::Duration::from);
    time.map_or(0, |time| time.as_nanos().try_into().unwrap_or(u64::MAX))
}

/// Write the files of all measurements so far. Return false if one cannot be written.
pub fn write() -> bool {
    let Some(graph) = with_graph(|graph| graph.clone()) else { return false };
    if graph.edges().next().is_none() {
        return true;
    }
    if graph.lost > 0 {
        say(&format!("{} calls between too many pairs of sections are not counted", graph.lost));
    }
    let build_id = own_build_id();
    if build_id.is_empty() {
        say("the program has no build ID: its profile will not notice another build; link with --build-id");
    }
    let profile = Profile::new(&graph, &build_id);
    let classes = profile.classes();
    let class = |name: &str| classes.get(name).copied().unwrap_or(Class::Neutral);
    let files =
        [("dot", drawing::dot(&graph)), ("svg", drawing::svg(&graph, class)), ("toml", profile.text())];
    let prefix = prefix();
    let written = files.iter().try_for_each(|(extension, text)| {
        let mut path = prefix.clone().into_os_string();
        path.push(format!(".{extension}"));
        replace(Path::new(&path), text).map_err(|error| (path, error))
    });
    if let Err((path, error)) = &written {
        let path = path.to_string_lossy();
        say(&format!("cannot write {path}: {error}; set BIAS_MARK_OUT to a prefix in a writable directory"));
    }
    written.is_ok()
}

/// Write a file completely, or leave the old one.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let unfinished = path.with_added_extension("part");
    std::fs::write(&unfinished, text)?;
    std::fs::rename(&unfinished, path)
}

/// Return the path of the files without their extensions.
fn prefix() -> PathBuf {
    let mut prefix = std::env::var_os("BIAS_MARK_OUT").unwrap_or_else(|| {
        let program = std::env::current_exe().ok();
        program.as_deref().and_then(Path::file_name).unwrap_or("program".as_ref()).to_owned()
    });
    if FORKS.load(Relaxed) > 0 {
        prefix.push(format!(".{}", std::process::id()));
    }
    prefix.into()
}
