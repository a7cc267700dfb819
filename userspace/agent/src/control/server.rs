// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Server for status requests and commands over a private socket.
//!
//! # Problem
//!
//! Clients connect, stay silent, stop reading, flood and leave at any time. The data that they ask
//! for belongs to the main thread. scx_stats' own server starts a thread for each client, without a
//! limit, and reads lines of any length, so that clients exhaust the system. The umask alone decides
//! which users may ask.
//!
//! # Approach
//!
//! [`MAX_CLIENTS`] threads accept clients, and each serves one client until it leaves. Further
//! clients wait in the kernel's queue, first come, first served. A thread that has a request takes
//! the [`Gate`], passes the request to the main thread, and encodes the answer. The main thread
//! waits for requests together with its other sources, and answers at once.
//!
//! # Invariants
//!
//! * Only root and the user that runs the scheduler are served. The directory has mode 0700 and the
//!   socket 0600. The kernel reports the client's user (SO_PEERCRED).
//! * A client ends that takes longer than [`PATIENCE`] to send a request that it has begun, or to
//!   read an answer. So does one whose request is longer than [`MAX_BYTES`], after a refusal.
//! * If another client waits for a place, a client ends that does nothing for [`GRACE`]. A silent
//!   client that is in no other's way may stay for ever.
//! * A client that hangs up withdraws its requests. A client that only shuts down its sending side
//!   still gets its answers.
//! * Every request gets exactly one answer. Clients get their answers in turn.
//! * Clients, those that only connect included, take no more CPU time than their [`Budget`] allows.
//! * The main thread never waits for a client. No scheduling decision waits for this code:
//!   scheduling continues while this process sleeps.
//! * Without new clients and requests nothing wakes a thread.
//!
//! # Limits
//!
//! Root can keep root waiting: [`MAX_CLIENTS`] clients that ask without a pause keep their places.

use std::fs::{DirBuilder, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use crossbeam::channel::{Receiver, Sender, unbounded};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{Shutdown, getsockopt, shutdown, sockopt::PeerCredentials};
use nix::time::{ClockId, clock_gettime};
use parking_lot::{Mutex, MutexGuard};
use tracing::debug;

use super::client::PATH;
use super::protocol::{Answer, Instance, Request, refusal, reply};
use crate::bpf::Stats;
use crate::budget::Budget;

/// Most clients at a time.
pub(super) const MAX_CLIENTS: usize = 8;
/// Longest request [bytes]. A path may have 4096 bytes, and JSON makes up to six of each.
pub(super) const MAX_BYTES: usize = 32 << 10;
/// Longest time for the rest of a request, and for reading an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time without progress after which a client makes room for a waiting one.
const GRACE: Duration = Duration::from_millis(300);
/// Time for a free thread to accept a new client, before others look again whether it waits.
const BEAT: Duration = Duration::from_millis(10);
/// Pause in accepting clients after the system refused one.
const RECOVERY: Duration = Duration::from_millis(100);
/// Clients take at most 1/`SHARE` of a CPU.
const SHARE: u32 = 2;
/// Most CPU time for clients that is saved up.
const BURST: Duration = Duration::from_millis(500);

/// Open a listening socket with these modes, in place of whatever file is there.
pub(crate) fn listen(path: &Path, directory_mode: u32, socket_mode: u32) -> Result<UnixListener> {
    if let Some(directory) = path.parent() {
        let made = DirBuilder::new().recursive(true).mode(directory_mode).create(directory);
        made.with_context(|| format!("cannot make the directory {}", directory.display()))?;
        std::fs::set_permissions(directory, Permissions::from_mode(directory_mode))
            .with_context(|| format!("cannot set the mode of {}", directory.display()))?;
    }
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot remove {}", path.display()));
        }
        _ => {}
    }
    let listener =
        UnixListener::bind(path).with_context(|| format!("cannot make the socket {}", path.display()))?;
    std::fs::set_permissions(path, Permissions::from_mode(socket_mode))
        .with_context(|| format!("cannot set the mode of {}", path.display()))?;
    Ok(listener)
}

/// The socket and its threads. Dropping it ends them, each after the request that it handles.
pub(crate) struct Server {
    requests: Receiver<Request>,
    answers: Sender<(Answer, Duration)>,
    path: PathBuf,
    places: Arc<Places>,
}

impl Server {
    /// Serve on the default socket, or on `path`.
    pub(crate) fn launch(path: Option<&Path>) -> Result<Self> {
        Self::patient(path.unwrap_or(Path::new(PATH)), PATIENCE)
    }

    /// Serve on `path`, and wait for a client at most as long as `patience`.
    pub(super) fn patient(path: &Path, patience: Duration) -> Result<Self> {
        let listener = listen(path, 0o700, 0o600)?;
        let (ask, requests) = unbounded();
        let (answers, answered) = unbounded();
        let places = Arc::new(Places {
            listener,
            taken: AtomicUsize::new(0),
            patience,
            gate: Mutex::new(Gate { ask, answered }),
            budget: Mutex::new(Budget::new(SHARE, BURST, Instant::now())),
        });
        let server = Self { requests, answers, path: path.to_owned(), places };
        for _ in 0..MAX_CLIENTS {
            let places = Arc::clone(&server.places);
            std::thread::Builder::new()
                .name("socket".into())
                .spawn(move || places.run())
                .context("cannot start a thread for the socket")?;
        }
        Ok(server)
    }

    /// Return the channel on which requests arrive.
    pub(crate) fn requests(&self) -> &Receiver<Request> {
        &self.requests
    }

    /// Answer a request that was received.
    pub(crate) fn answer(&self, request: Request, instance: &mut dyn Instance) {
        let before = cpu_time();
        let answer = request.answer(instance);
        // Sending fails only when the threads have ended, and then no client waits.
        let _ = self.answers.send((answer, cpu_time().saturating_sub(before)));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // This wakes all threads that wait.
        let _ = shutdown(self.places.listener.as_raw_fd(), Shutdown::Both);
        // Later clients find no server. The file may be gone already.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The way to the main thread, for one request at a time.
struct Gate {
    ask: Sender<Request>,
    /// Answers, with the CPU time that each took the main thread.
    answered: Receiver<(Answer, Duration)>,
}

impl Gate {
    /// Answer a line of this client, and return the CPU time that this took the main thread. Return
    /// None if the main thread has gone.
    fn answer(&mut self, line: &[u8], last: &mut Option<Stats>) -> Option<(Vec<u8>, Duration)> {
        let mut spent = Duration::ZERO;
        let ask = |request| {
            self.ask.send(request).ok()?;
            let (answer, time) = self.answered.recv().ok()?;
            spent = time;
            Some(answer)
        };
        reply(line, last, ask).map(|answer| (answer, spent))
    }
}

/// Return the CPU time of this thread.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// What the threads share: a place for a client in each of them.
struct Places {
    listener: UnixListener,
    /// Threads that have a client.
    taken: AtomicUsize,
    patience: Duration,
    gate: Mutex<Gate>,
    /// CPU time left for clients.
    budget: Mutex<Budget>,
}

impl Places {
    /// Serve clients, one after the other, until the server ends.
    fn run(&self) {
        let mut charged = cpu_time();
        loop {
            self.pay(&mut charged);
            match self.listener.accept() {
                Ok((stream, _)) if may_ask(&stream) => self.serve(stream, &mut charged),
                Ok(_) => debug!("a client without permission was refused"),
                // The listener is shut down.
                Err(error) if error.kind() == ErrorKind::InvalidInput => return,
                Err(error) => {
                    debug!("a client could not be accepted: {error}");
                    sleep(RECOVERY);
                }
            }
        }
    }

    /// Charge the CPU time of this thread since it was at `charged`. Wait until the budget allows
    /// more.
    fn pay(&self, charged: &mut Duration) {
        let now = cpu_time();
        self.budget.lock().charge(now.saturating_sub(std::mem::replace(charged, now)));
        loop {
            let pause = self.budget.lock().pause(Instant::now());
            let Some(pause) = pause else { return };
            sleep(pause);
        }
    }

    fn serve(&self, stream: UnixStream, charged: &mut Duration) {
        self.taken.fetch_add(1, Relaxed);
        let mut client =
            Connection { places: self, stream, input: Vec::new(), ended: false, last: None, has_place: true };
        if let Err(error) = client.serve(charged) {
            debug!("a client is gone: {error}");
        }
        if client.has_place {
            self.taken.fetch_sub(1, Relaxed);
        }
    }
}

/// Return true if the client may ask: its user is root or the user of this process.
fn may_ask(stream: &UnixStream) -> bool {
    let own = nix::unistd::geteuid().as_raw();
    getsockopt(stream, PeerCredentials).is_ok_and(|peer| peer.uid() == 0 || peer.uid() == own)
}

/// A client: its socket, what it has sent, and the statistics that it received last.
struct Connection<'a> {
    places: &'a Places,
    stream: UnixStream,
    input: Vec<u8>,
    /// The client will send no more. Its requests are still answered.
    ended: bool,
    last: Option<Stats>,
    /// False once the client has made room for another one.
    has_place: bool,
}

impl Connection<'_> {
    /// Answer the client's requests until it leaves.
    fn serve(&mut self, charged: &mut Duration) -> io::Result<()> {
        self.stream.set_nonblocking(true)?;
        while let Some(line) = self.next_line()? {
            if line.len() > MAX_BYTES {
                return self.send(&refusal(&format!("a request has {MAX_BYTES} bytes at most; shorten it")));
            }
            self.places.pay(charged);
            // A client that has gone need not wait for the gate.
            if self.has_gone() {
                break;
            }
            let mut gate = self.places.gate.lock();
            let answer = gate.answer(&line, &mut self.last);
            // The client that waits longest is next.
            MutexGuard::unlock_fair(gate);
            let Some((answer, spent)) = answer else { break };
            self.places.budget.lock().charge(spent);
            self.send(&answer)?;
        }
        Ok(())
    }

    /// Return the next line without its end, or the beginning of one that is too long. Return None
    /// at the end of the input.
    fn next_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut begun = (!self.input.is_empty()).then(Instant::now);
        loop {
            if let Some(end) = self.input.iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.input.drain(..=end).collect();
                line.pop();
                return Ok(Some(line));
            }
            if self.ended || self.input.len() > MAX_BYTES {
                return Ok(Some(std::mem::take(&mut self.input)).filter(|rest| !rest.is_empty()));
            }
            self.wait(PollFlags::POLLIN, begun.map(|begun| begun + self.places.patience))?;
            let mut bytes = [0; 4096];
            match self.stream.read(&mut bytes) {
                Ok(0) => self.ended = true,
                Ok(count) => {
                    begun.get_or_insert_with(Instant::now);
                    self.input.extend_from_slice(&bytes[..count]);
                }
                Err(error) => pass_over(error)?,
            }
        }
    }

    fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let until = Instant::now() + self.places.patience;
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
                Err(error) => {
                    pass_over(error)?;
                    self.wait(PollFlags::POLLOUT, Some(until))?;
                }
            }
        }
        Ok(())
    }

    /// Wait for one of `events` of the client, or for its end.
    ///
    /// # Errors
    /// The time is over, the server ends, or the client makes room for another one.
    fn wait(&mut self, events: PollFlags, until: Option<Instant>) -> io::Result<()> {
        let since = Instant::now();
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(ErrorKind::TimedOut.into());
            }
            let mut fds = [
                PollFd::new(self.stream.as_fd(), events),
                PollFd::new(self.places.listener.as_fd(), PollFlags::POLLIN),
            ];
            let timeout = left.map_or(PollTimeout::NONE, |left| {
                PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
            });
            match poll(&mut fds, timeout) {
                Err(nix::Error::EINTR) | Ok(0) => continue,
                result => result?,
            };
            // Treat flags that nix does not know as an error.
            let [client, listener] = fds.map(|fd| fd.revents().unwrap_or(PollFlags::POLLERR));
            if !client.is_empty() {
                return Ok(());
            }
            if listener.contains(PollFlags::POLLHUP) || since.elapsed() >= GRACE && self.makes_room() {
                return Err(ErrorKind::ConnectionAborted.into());
            }
            sleep(BEAT);
        }
    }

    /// Give the place up if all are taken. Return true in that case. One waiting client thus ends
    /// one silent client, not all of them.
    fn makes_room(&mut self) -> bool {
        let given = self.places.taken.compare_exchange(MAX_CLIENTS, MAX_CLIENTS - 1, Relaxed, Relaxed);
        self.has_place = given.is_err();
        given.is_ok()
    }

    /// Return true if the client has closed its socket.
    fn has_gone(&self) -> bool {
        let mut fds = [PollFd::new(self.stream.as_fd(), PollFlags::empty())];
        // poll() reports a hang-up even if no event is requested.
        poll(&mut fds, PollTimeout::ZERO).is_ok_and(|count| count > 0)
    }
}

/// Return the error unless the call can be repeated.
fn pass_over(error: io::Error) -> io::Result<()> {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(()),
        _ => Err(error),
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
