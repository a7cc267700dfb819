// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Guests that scenarios of one kernel and machine share.
//!
//! # Approach
//! `cargo xtask test` serves a socket, whose path it passes to the tests in the environment. A test
//! sends the command that it would run in a VM of its own. The pool runs it in a guest of the same
//! kernel and machine that waits for a command ([`crate::session`]), or boots one.
//!
//! # Invariants
//! - At most one command runs in a guest.
//! - A guest that is not clean after a command, or whose command failed, gets no other one.
//! - Each guest is a child of a thread that lives as long as the pool: the parent-death signal of
//!   QEMU is bound to the thread.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use serde::{Deserialize, Serialize};

use crate::boots;
use crate::packages::Consent;
use crate::prepare::{self, MEMORY_MIB, Vm};
use crate::runner::{BOOT_ATTEMPTS, Outcome};
use crate::session::Session;
use crate::verdict::Verdict;

/// Variable with the path of the socket.
const VARIABLE: &str = "BIAS_VM_POOL";
/// Guests that may wait for a command, if there is memory for them.
const IDLE: usize = 16;

/// What a guest has: kernel, machine, emulation, and memory in MiB.
type Kind = (String, String, bool, u32);

/// A command for a guest.
#[derive(Serialize, Deserialize)]
struct Request {
    test: String,
    kind: Kind,
    timeout: Duration,
    out: PathBuf,
    command: Vec<String>,
}

/// The guests that wait for a command, and what the pool has seen.
#[derive(Default)]
struct Guests {
    idle: Vec<(Kind, Session)>,
    /// Guests that were booted, to name their directories.
    booted: usize,
    /// Tests after which a guest was not clean, and what remained.
    unclean: Vec<(String, String)>,
}

/// A pool that serves tests until it is dropped.
pub struct Pool {
    guests: Arc<Mutex<Guests>>,
    socket: PathBuf,
    _directory: tempfile::TempDir,
}

impl Pool {
    /// Serve as many tests at the same time as there are CPUs.
    ///
    /// # Errors
    /// The socket cannot be made, or directories of earlier guests cannot be removed.
    pub fn serve() -> Result<Self> {
        remove_old(&prepare::runs())?;
        let directory = tempfile::Builder::new()
            .prefix("scx-bias-")
            .tempdir()
            .context("cannot make a temporary directory")?;
        let socket = directory.path().join("pool");
        let listener = UnixListener::bind(&socket).context("cannot listen for tests")?;
        let guests = Arc::new(Mutex::new(Guests::default()));
        for _ in 0..std::thread::available_parallelism().map_or(1, std::num::NonZero::get) {
            let listener = listener.try_clone().context("cannot share a socket")?;
            let guests = Arc::clone(&guests);
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    // A test that ended meanwhile needs no answer.
                    let _ = answer(&guests, stream);
                }
            });
        }
        Ok(Self { guests, socket, _directory: directory })
    }

    /// Return the name and the value of the variable for the tests.
    #[must_use]
    pub fn variable(&self) -> (&'static str, PathBuf) {
        (VARIABLE, self.socket.clone())
    }

    /// End all guests. Return the tests after which one was not clean, and what remained.
    #[must_use]
    pub fn end(self) -> Vec<(String, String)> {
        let mut guests = lock(&self.guests);
        guests.idle.drain(..).for_each(|(_, session)| retire(session));
        std::mem::take(&mut guests.unclean)
    }
}

/// Run a command of `vm` in a guest of the pool. `None` if there is no pool, or the command needs a
/// guest of its own.
///
/// # Errors
/// The pool cannot boot a guest, or has ended.
pub fn run(vm: &Vm, command: &[String]) -> Result<Option<Outcome>> {
    let Some(socket) = std::env::var_os(VARIABLE) else { return Ok(None) };
    let is_plain = vm.kernel_args.is_empty()
        && vm.module_params.is_empty()
        && vm.speed_changes.is_empty()
        && vm.root.is_none();
    if !(vm.shares_guest && vm.keep_output && is_plain) {
        return Ok(None);
    }
    let request = Request {
        test: crate::inputs::test().unwrap_or_default(),
        kind: (vm.kernel.name.clone(), vm.machine.to_string(), vm.emulator.is_some(), vm.memory_mib),
        timeout: vm.timeout,
        out: vm.out.clone(),
        command: command.to_vec(),
    };
    let mut stream = UnixStream::connect(&socket).context("cannot reach the guests of this test run")?;
    stream.write_all(&serde_json::to_vec(&request)?).context("cannot ask for a guest")?;
    stream.shutdown(Shutdown::Write).context("cannot ask for a guest")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).context("cannot read the answer of a guest")?;
    let answer: Result<(Outcome, String), String> =
        serde_json::from_slice(&answer).context("the pool of guests has ended")?;
    let (outcome, left) = answer.map_err(|why| anyhow!(why))?;
    if !left.is_empty() {
        eprintln!("the guest is not clean afterwards, so the next command gets another one: {left}");
    }
    Ok(Some(outcome))
}

fn lock(guests: &Mutex<Guests>) -> MutexGuard<'_, Guests> {
    guests.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answer one request.
fn answer(guests: &Mutex<Guests>, mut stream: UnixStream) -> Result<()> {
    let mut text = Vec::new();
    stream.read_to_end(&mut text)?;
    let answer = handle(guests, &serde_json::from_slice(&text)?).map_err(|error| format!("{error:#}"));
    stream.write_all(&serde_json::to_vec(&answer)?)?;
    Ok(())
}

/// Run a command in a guest, and let the guest wait for the next one if it is clean.
fn handle(guests: &Mutex<Guests>, request: &Request) -> Result<(Outcome, String)> {
    let idle = {
        let mut guests = lock(guests);
        let at = guests.idle.iter().position(|(kind, _)| *kind == request.kind);
        at.map(|at| guests.idle.remove(at).1)
    };
    let mut session = idle.map_or_else(|| boot(guests, &request.kind), Ok)?;
    let (outcome, left) = session.run(&request.command, &request.out, request.timeout)?;
    let is_clean = left.is_empty() && outcome.verdict == Verdict::Ended(0);
    let mut guests = lock(guests);
    if is_clean {
        guests.idle.push((request.kind.clone(), session));
    } else {
        retire(session);
    }
    if !left.is_empty() {
        guests.unclean.push((request.test.clone(), left.clone()));
    }
    while guests.idle.len() > IDLE || (guests.idle.len() > 1 && is_memory_short()) {
        retire(guests.idle.remove(0).1);
    }
    Ok((outcome, left))
}

fn boot(guests: &Mutex<Guests>, (kernel, machine, emulation, memory_mib): &Kind) -> Result<Session> {
    let machine = machine.parse().map_err(|error| anyhow!("{error}"))?;
    let number = {
        let mut guests = lock(guests);
        guests.booted += 1;
        guests.booted
    };
    let out = prepare::runs().join(format!("guest-{number}"));
    let mut vm = prepare::vm(kernel, machine, *emulation, Consent::Given, Some(out))?;
    vm.shares_guest = true;
    vm.memory_mib = *memory_mib;
    let mut attempt = 1;
    loop {
        match Session::boot(&vm)? {
            Ok(session) => return Ok(session),
            Err(why) if attempt == BOOT_ATTEMPTS => return Err(anyhow!(why)),
            Err(why) => eprintln!("xtask: the machine did not come up ({why}); trying again"),
        }
        boots::count(true, 0);
        attempt += 1;
    }
}

/// End a guest, and count it.
fn retire(session: Session) {
    boots::count(false, session.loads());
    drop(session);
}

/// Return true if another guest could exhaust the memory.
fn is_memory_short() -> bool {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.is_some_and(|kib| kib < 2 * 1024 * u64::from(MEMORY_MIB))
}

/// Remove the directories of guests of an earlier run.
fn remove_old(runs: &Path) -> Result<()> {
    let Ok(entries) = fs::read_dir(runs) else { return Ok(()) };
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with("guest-") {
            fs::remove_dir_all(entry.path())
                .with_context(|| format!("cannot remove {}", entry.path().display()))?;
        }
    }
    Ok(())
}
