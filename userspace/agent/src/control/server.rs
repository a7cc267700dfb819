// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Server for status requests and commands over a private socket.
//!
//! # Problem
//!
//! Clients connect, stay silent, stop reading, flood and leave at any time. The data that they ask
//! for belongs to the main thread. scx_stats' own server starts a thread for each client, without a
//! limit, and reads lines of any length, so that clients exhaust the system. The umask alone
//! decides which users may ask.
//!
//! # Approach
//!
//! One thread polls the listener and all clients, and does a little work for each in turn: it reads
//! and writes what is possible at once, and answers one request. It passes the request to the main
//! thread, which waits for requests together with its other sources, and encodes the answer. A
//! thread for each client would cost a flood, and thus the machine, three times as much.
//!
//! # Invariants
//!
//! * Only root and the user that runs the scheduler are served. The directory has mode 0700 and the
//!   socket 0600. The kernel reports the client's user (SO_PEERCRED).
//! * At most [`MAX_CLIENTS`] clients are connected. One more replaces the client that has been
//!   silent longest. It waits in the kernel's queue while requests of all clients wait.
//! * A client ends that makes no progress for [`PATIENCE`] in the middle of a request or of an
//!   answer. So does one whose request is longer than [`MAX_BYTES`], after a refusal. A silent
//!   client that is in no other's way may stay for ever.
//! * A client that hangs up withdraws its requests. A client that only shuts down its sending side
//!   still gets its answers.
//! * Every request gets exactly one answer. Clients get their answers in turn.
//! * Clients, those that only connect included, take no more CPU time than their [`Budget`] allows.
//! * The main thread never waits for a client. No scheduling decision waits for this code:
//!   scheduling continues while this process sleeps.
//! * Without new clients and requests nothing wakes the thread.
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
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use crossbeam::channel::{Receiver, Sender, unbounded};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{Shutdown, getsockopt, shutdown, sockopt::PeerCredentials};
use nix::time::{ClockId, clock_gettime};
use tracing::{debug, warn};

use super::client::PATH;
use super::protocol::{Answer, Instance, Request, refusal, reply};
use crate::bpf::Stats;
use crate::budget::Budget;

/// Most clients at a time.
pub(super) const MAX_CLIENTS: usize = 64;
/// Longest request [bytes]. A path may have 4096 bytes, and JSON makes up to six of each.
pub(super) const MAX_BYTES: usize = 32 << 10;
/// Longest wait for more of a request, and for a client that reads more of an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause after the system refused a client.
const RECOVERY: Duration = Duration::from_millis(100);
/// Clients take at most 1/`SHARE` of a CPU.
const SHARE: u32 = 4;
/// Most CPU time for clients that is saved up.
const BURST: Duration = Duration::from_millis(500);
/// Flags of a client that has closed its socket.
const HUNG_UP: PollFlags = PollFlags::POLLHUP.union(PollFlags::POLLERR).union(PollFlags::POLLNVAL);

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

/// The socket and its thread. Dropping it ends the thread.
pub(crate) struct Server {
    requests: Receiver<Request>,
    answers: Sender<(Answer, Duration)>,
    path: PathBuf,
    listener: UnixListener,
}

impl Server {
    /// Serve on the default socket, or on `path`.
    pub(crate) fn launch(path: Option<&Path>) -> Result<Self> {
        Self::patient(path.unwrap_or(Path::new(PATH)), PATIENCE)
    }

    /// Serve on `path`, and wait for a client at most as long as `patience`.
    pub(super) fn patient(path: &Path, patience: Duration) -> Result<Self> {
        let listener = listen(path, 0o700, 0o600)?;
        listener.set_nonblocking(true).context("cannot prepare the socket")?;
        let (ask, requests) = unbounded();
        let (answers, answered) = unbounded();
        let service = Service {
            listener: listener.try_clone().context("cannot prepare the socket")?,
            main_thread: MainThread { ask, answered },
            clients: Vec::new(),
            patience,
            share: Share { budget: Budget::new(SHARE, BURST, Instant::now()), charged: Duration::ZERO },
        };
        std::thread::Builder::new()
            .name("socket".into())
            .spawn(move || service.run())
            .context("cannot start a thread for the socket")?;
        Ok(Self { requests, answers, path: path.to_owned(), listener })
    }

    /// Return the channel on which requests arrive.
    pub(crate) fn requests(&self) -> &Receiver<Request> {
        &self.requests
    }

    /// Answer a request that was received.
    pub(crate) fn answer(&self, request: Request, instance: &mut dyn Instance) {
        let before = cpu_time();
        let answer = request.answer(instance);
        // Sending fails only when the thread has ended, and then no client waits.
        let _ = self.answers.send((answer, cpu_time().saturating_sub(before)));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // This wakes the thread.
        let _ = shutdown(self.listener.as_raw_fd(), Shutdown::Both);
        // Later clients find no server. The file may be gone already.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Return the CPU time of this thread.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// The way to the main thread.
struct MainThread {
    ask: Sender<Request>,
    /// Answers, with the CPU time that each took the main thread.
    answered: Receiver<(Answer, Duration)>,
}

impl MainThread {
    /// Answer a line of a client that received the statistics `last`. Return the answer, and the
    /// CPU time that it took the main thread. Return None if the main thread has gone.
    fn answer(&self, line: &[u8], last: &mut Option<Stats>) -> Option<(Vec<u8>, Duration)> {
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

/// CPU time left for clients.
struct Share {
    budget: Budget,
    /// CPU time of this thread up to which clients were charged.
    charged: Duration,
}

impl Share {
    /// Charge the CPU time of this thread since the last call. Return how long clients have to
    /// wait, None if they need not.
    fn pause(&mut self) -> Option<Duration> {
        let now = cpu_time();
        self.budget.charge(now.saturating_sub(std::mem::replace(&mut self.charged, now)));
        self.budget.pause(Instant::now())
    }
}

/// The thread of the socket.
struct Service {
    listener: UnixListener,
    main_thread: MainThread,
    /// In the order of their turns.
    clients: Vec<Connection>,
    patience: Duration,
    share: Share,
}

impl Service {
    /// Serve until the listener is shut down or the main thread has gone.
    fn run(mut self) {
        loop {
            let pause = self.share.pause();
            let (listener, clients) = match self.wait(pause) {
                Ok(happened) => happened,
                Err(nix::Error::EINTR) => continue,
                Err(error) => return warn!("the socket is closed, for poll failed: {error}"),
            };
            if listener.intersects(HUNG_UP) {
                return;
            }
            for (client, happened) in self.clients.iter_mut().zip(clients) {
                client.attend(happened, self.patience);
            }
            if self.answer().is_none() {
                return;
            }
            // The next poll() shows which of the new clients have hung up.
            if listener.contains(PollFlags::POLLIN) {
                self.accept();
            }
            self.clients.retain(|client| !client.has_gone());
        }
    }

    /// Wait for something to do. Return what happened to the listener, and to each client. During a
    /// `pause` only answers are written.
    fn wait(&self, pause: Option<Duration>) -> nix::Result<(PollFlags, Vec<PollFlags>)> {
        let now = Instant::now();
        let works = pause.is_none();
        let accepts = if works && self.has_room() { PollFlags::POLLIN } else { PollFlags::empty() };
        let mut fds = vec![PollFd::new(self.listener.as_fd(), accepts)];
        // poll() reports a hang-up even if no event is requested.
        fds.extend(
            self.clients.iter().map(|client| PollFd::new(client.stream.as_fd(), client.events(works))),
        );
        let at_once = (works && self.clients.iter().any(|client| client.due)).then_some(Duration::ZERO);
        let deadlines = self.clients.iter().filter(|client| client.is_midway());
        let deadlines = deadlines.map(|client| (client.since + self.patience).saturating_duration_since(now));
        let timeout = deadlines.chain(pause).chain(at_once).min();
        // Round up: otherwise the loop would poll a hundred times in the last half millisecond.
        let timeout = timeout.map_or(PollTimeout::NONE, |timeout| {
            PollTimeout::try_from(timeout.as_micros().div_ceil(1000)).unwrap_or(PollTimeout::MAX)
        });
        poll(&mut fds, timeout)?;
        // Treat flags that nix does not know as an error.
        let mut happened = fds.iter().map(|fd| fd.revents().unwrap_or(PollFlags::POLLERR));
        Ok((happened.next().unwrap_or(PollFlags::POLLERR), happened.collect()))
    }

    /// Return true if one more client has a place: a free one, or that of a silent client.
    fn has_room(&self) -> bool {
        self.clients.len() < MAX_CLIENTS || self.clients.iter().any(|client| !client.due)
    }

    /// Accept clients that wait, at most as many as there are places.
    fn accept(&mut self) {
        for _ in 0..MAX_CLIENTS {
            if !self.has_room() {
                return;
            }
            match self.listener.accept() {
                Ok((stream, _)) if may_ask(&stream) && stream.set_nonblocking(true).is_ok() => {
                    if self.clients.len() >= MAX_CLIENTS {
                        self.dismiss();
                    }
                    self.clients.push(Connection::new(stream));
                }
                Ok(_) => debug!("a client without permission was refused"),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => {
                    debug!("a client could not be accepted: {error}");
                    self.dismiss();
                    return sleep(RECOVERY);
                }
            }
        }
    }

    /// End the client that has been silent longest.
    fn dismiss(&mut self) {
        let silent = self.clients.iter().enumerate().filter(|(_, client)| !client.due);
        if let Some((at, _)) = silent.min_by_key(|(_, client)| client.since) {
            self.clients.remove(at);
        }
    }

    /// Answer one request of each client, as far as the budget allows. Return None if the main
    /// thread has gone.
    fn answer(&mut self) -> Option<()> {
        let mut skipped = None;
        for (at, client) in self.clients.iter_mut().enumerate().filter(|(_, client)| client.due) {
            if self.share.pause().is_some() {
                skipped = Some(at);
                break;
            }
            let spent = client.answer(&self.main_thread)?;
            self.share.budget.charge(spent);
        }
        // The first client that was skipped has the first turn of the next round.
        self.clients.rotate_left(skipped.unwrap_or(0));
        Some(())
    }
}

/// Return true if the client may ask: its user is root or the user of this process.
fn may_ask(stream: &UnixStream) -> bool {
    let own = nix::unistd::geteuid().as_raw();
    getsockopt(stream, PeerCredentials).is_ok_and(|peer| peer.uid() == 0 || peer.uid() == own)
}

/// A client's connection: its socket, what it has sent and has not received yet, and the
/// statistics that it received last.
struct Connection {
    stream: UnixStream,
    input: Vec<u8>,
    output: Vec<u8>,
    /// A request can be answered: it is complete, and the answers before it are sent.
    due: bool,
    /// The client will send no more. Its requests are still answered.
    ended: bool,
    broken: bool,
    /// Time of its last progress.
    since: Instant,
    last: Option<Stats>,
}

impl Connection {
    /// Return a client that has just connected, with what it has sent already.
    fn new(stream: UnixStream) -> Self {
        let mut client = Self {
            stream,
            input: Vec::new(),
            output: Vec::new(),
            due: false,
            ended: false,
            broken: false,
            since: Instant::now(),
            last: None,
        };
        client.exchange();
        client
    }

    /// Return the events to wait for. Without `works` only answers are written.
    fn events(&self, works: bool) -> PollFlags {
        if !self.output.is_empty() {
            PollFlags::POLLOUT
        } else if works && !self.due && !self.ended {
            PollFlags::POLLIN
        } else {
            PollFlags::empty()
        }
    }

    /// Act on what happened to the client.
    fn attend(&mut self, happened: PollFlags, patience: Duration) {
        if happened.intersects(HUNG_UP) || self.is_midway() && self.since.elapsed() >= patience {
            (self.broken, self.due) = (true, false);
        } else if !happened.is_empty() {
            self.exchange();
        }
    }

    /// Return true if the client has begun to send a request, or to receive an answer.
    fn is_midway(&self) -> bool {
        !self.output.is_empty() || !self.input.is_empty() && !self.due
    }

    /// Return true if the client hung up, is too slow, or has received all its answers.
    fn has_gone(&self) -> bool {
        self.broken || self.ended && self.output.is_empty() && !self.due
    }

    /// Read or write what is possible at once. Nothing is read while a request waits.
    fn exchange(&mut self) {
        let result = if !self.output.is_empty() {
            self.write()
        } else if self.line_length().is_none() {
            self.read()
        } else {
            Ok(())
        };
        match result {
            Ok(()) => self.since = Instant::now(),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => {
                debug!("a client is gone: {error}");
                self.broken = true;
            }
        }
        self.due = self.output.is_empty() && self.line_length().is_some();
    }

    fn read(&mut self) -> io::Result<()> {
        let mut bytes = [0; 4096];
        let count = self.stream.read(&mut bytes)?;
        self.ended = count == 0;
        self.input.extend_from_slice(&bytes[..count]);
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        let count = self.stream.write(&self.output)?;
        self.output.drain(..count);
        Ok(())
    }

    /// Return the length of the next line with its end, or of one that is too long or the last.
    fn line_length(&self) -> Option<usize> {
        let end = self.input.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
        let rest = self.input.len();
        end.or((rest > MAX_BYTES || self.ended && rest > 0).then_some(rest))
    }

    /// Answer the next request. Return the CPU time that this took the main thread, None if that
    /// has gone.
    fn answer(&mut self, main_thread: &MainThread) -> Option<Duration> {
        let line: Vec<u8> = self.input.drain(..self.line_length().unwrap_or(0)).collect();
        let mut spent = Duration::ZERO;
        if line.len() > MAX_BYTES {
            self.output = refusal(&format!("a request has {MAX_BYTES} bytes at most; shorten it"));
            self.ended = true;
            self.input.clear();
        } else {
            (self.output, spent) = main_thread.answer(&line, &mut self.last)?;
        }
        self.exchange();
        Some(spent)
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
