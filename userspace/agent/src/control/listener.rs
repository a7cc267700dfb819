//! Bounded socket server: clients cannot exhaust memory, descriptors or time.
//!
//! # Problem
//!
//! scx_stats' own server starts a thread for each client, without a limit, and reads lines of any
//! length. A thousand clients, or one that sends no newline, exhaust the system. If the system
//! refuses a thread or a descriptor, that server panics or spins. The umask alone decides which
//! users may ask.
//!
//! # Approach
//!
//! One thread polls the listener and all clients and does a little work for each, round-robin. It
//! handles lines, and [`crate::control::handler`] interprets them.
//!
//! # Invariants
//!
//! * Only root and the user that runs the scheduler are served. The directory has mode 0700 and the
//!   socket 0600. The kernel reports the client's user (SO_PEERCRED).
//! * At most [`MAX_CLIENTS`] clients are connected. One more replaces the client that has been
//!   silent longest.
//! * A request of more than [`MAX_BYTES`] is refused, and its client dropped. So is a client that
//!   does not read its answer for [`PATIENCE`].
//! * A client has one answer outstanding. Its next request waits.
//! * A client that hangs up withdraws its requests and is removed at once, even during a pause. A
//!   client that only shuts down its sending side still gets its answers.
//! * Answers take at most one part in [`SHARE`] of a CPU, after a burst of [`BURST`]. The
//!   round-robin order lets no client starve.
//! * Without clients nothing wakes the thread.
//!
//! # Limits
//!
//! Root can keep root waiting: more than [`MAX_CLIENTS`] clients that ask without pause replace
//! each other.

use std::fs::{DirBuilder, Permissions};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::time::{ClockId, clock_gettime};
use tracing::{debug, warn};

/// Most clients at a time.
const MAX_CLIENTS: usize = 256;
/// Most clients accepted before the connected ones are served again.
const MAX_NEW: usize = 64;
/// Longest request [bytes]. A path may have 4096 bytes, and JSON makes up to six of each.
pub(crate) const MAX_BYTES: usize = 32 << 10;
/// Longest time for which a client may leave its answer unread.
const PATIENCE: Duration = Duration::from_secs(10);
/// Answers take at most 1/`SHARE` of a CPU.
const SHARE: u32 = 4;
/// Most CPU time for answers that is saved up.
const BURST: Duration = Duration::from_millis(500);
/// Pause in accepting clients after the system refused one.
const RECOVERY: Duration = Duration::from_millis(100);

/// Flags that show that the peer has gone.
const HUNG_UP: PollFlags = PollFlags::POLLHUP.union(PollFlags::POLLERR).union(PollFlags::POLLNVAL);

/// Handler of requests. It gets a line without its end and the client's session. It returns the
/// bytes of the answer, or None to end the service.
pub(crate) trait LineHandler {
    /// State that is kept for each client.
    type Session: Default;
    fn answer(&mut self, session: &mut Self::Session, line: &[u8]) -> Option<Arc<[u8]>>;
    /// Return the answer to a request that is too long.
    fn too_long(&self) -> Arc<[u8]>;
}

/// Open a listening socket that only its owner can reach.
pub(crate) fn listen(path: &Path) -> Result<UnixListener> {
    if let Some(directory) = path.parent() {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
        made.with_context(|| format!("cannot make the directory {}", directory.display()))?;
        std::fs::set_permissions(directory, Permissions::from_mode(0o700))
            .with_context(|| format!("cannot make {} private", directory.display()))?;
    }
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot remove {}", path.display()));
        }
        _ => {}
    }
    let listener =
        UnixListener::bind(path).with_context(|| format!("cannot make the socket {}", path.display()))?;
    std::fs::set_permissions(path, Permissions::from_mode(0o600))
        .with_context(|| format!("cannot make {} private", path.display()))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// The service: its clients, and the CPU time left for them.
pub(crate) struct Service<A: LineHandler> {
    listener: UnixListener,
    handler: A,
    clients: Vec<Connection<A::Session>>,
    budget: Budget,
    /// End of the pause in which no client is accepted.
    accept_after: Option<Instant>,
}

/// Result of one wait.
struct Ready {
    stop: bool,
    new: bool,
    /// Flags of each client.
    clients: Vec<PollFlags>,
}

impl<A: LineHandler> Service<A> {
    pub(crate) fn new(listener: UnixListener, handler: A) -> Self {
        let budget = Budget::new(Instant::now());
        Self { listener, handler, clients: Vec::new(), budget, accept_after: None }
    }

    /// Serve until the other end of `stop` is closed or the handler has ended.
    pub(crate) fn run(mut self, stop: &UnixStream) {
        loop {
            let pause = self.budget.pause(Instant::now());
            let ready = match self.wait(stop, pause) {
                Ok(ready) => ready,
                Err(nix::Error::EINTR) => continue,
                Err(error) => return warn!("the socket is closed, for poll failed: {error}"),
            };
            if ready.stop {
                return;
            }
            let mut spent = cpu_time();
            if self.serve(&ready.clients, &mut spent).is_none() {
                return;
            }
            if ready.new {
                self.take_on();
            }
            self.budget.charge(&mut spent);
        }
    }

    /// Wait for something to do. During a `pause` only write answers.
    fn wait(&self, stop: &UnixStream, pause: Option<Duration>) -> nix::Result<Ready> {
        let now = Instant::now();
        let refusing = self
            .accept_after
            .map(|until| until.saturating_duration_since(now))
            .filter(|left| !left.is_zero());
        let mut fds = vec![PollFd::new(stop.as_fd(), PollFlags::POLLIN)];
        let listens = pause.is_none() && refusing.is_none();
        if listens {
            fds.push(PollFd::new(self.listener.as_fd(), PollFlags::POLLIN));
        }
        fds.extend(self.clients.iter().map(|client| {
            // poll() reports a hang-up even if no event is requested.
            PollFd::new(client.stream.as_fd(), client.events(pause.is_none()))
        }));
        let unread =
            self.clients.iter().any(|client| client.left.is_some()).then_some(Duration::from_secs(1));
        let at_once =
            (pause.is_none() && self.clients.iter().any(Connection::is_due)).then_some(Duration::ZERO);
        let patience = [pause, refusing, unread, at_once].into_iter().flatten().min();
        // Round up: otherwise the loop would poll a hundred times in the last half millisecond.
        let timeout = patience.map_or(PollTimeout::NONE, |patience| {
            PollTimeout::try_from(patience.as_micros().div_ceil(1000) as i32).unwrap_or(PollTimeout::MAX)
        });
        poll(&mut fds, timeout)?;
        // Treat flags that nix does not know as an error.
        let mut happened = fds.iter().map(|fd| fd.revents().unwrap_or(PollFlags::POLLERR));
        let stop = happened.next().is_none_or(|flags| !flags.is_empty());
        let new = listens && happened.next().is_some_and(|flags| !flags.is_empty());
        let clients = happened.collect();
        Ok(Ready { stop, new, clients })
    }

    /// Serve each client once, and charge the CPU time since the reading `spent`. Return None when
    /// the handler has ended.
    fn serve(&mut self, ready: &[PollFlags], spent: &mut Duration) -> Option<()> {
        let mut left_out = None;
        for (at, (client, ready)) in self.clients.iter_mut().zip(ready).enumerate() {
            let now = Instant::now();
            if ready.intersects(HUNG_UP) {
                client.broken = true;
            } else if !ready.is_empty() {
                client.used = now;
                client.exchange();
            }
            client.give_up_if_slow(now);
            if client.is_due() {
                if self.budget.pause(now).is_some() {
                    left_out.get_or_insert(at);
                    continue;
                }
                client.serve(&mut self.handler)?;
                self.budget.charge(spent);
            }
        }
        // The first client that was skipped comes first in the next round.
        self.clients.rotate_left(left_out.unwrap_or(0));
        self.clients.retain(|client| !client.has_gone());
        Some(())
    }

    fn take_on(&mut self) {
        for _ in 0..MAX_NEW {
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
                    debug!("a client could not be taken on: {error}");
                    self.dismiss();
                    self.accept_after = Some(Instant::now() + RECOVERY);
                    return;
                }
            }
        }
    }

    /// Drop the client that has been silent longest.
    fn dismiss(&mut self) {
        let oldest = self.clients.iter().enumerate().min_by_key(|(_, client)| client.used);
        if let Some((at, _)) = oldest {
            self.clients.swap_remove(at);
        }
    }
}

/// Return the CPU time of this process, because other threads work on answers, too.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// Return true if the client may ask: its user is root or the user of this process.
fn may_ask(stream: &UnixStream) -> bool {
    let own = nix::unistd::geteuid().as_raw();
    getsockopt(stream, PeerCredentials).is_ok_and(|peer| peer.uid() == 0 || peer.uid() == own)
}

/// Answer that is not yet written in full.
struct Left {
    bytes: Arc<[u8]>,
    written: usize,
    since: Instant,
}

struct Connection<S> {
    stream: UnixStream,
    session: S,
    input: Vec<u8>,
    left: Option<Left>,
    /// The client will send no more. Its requests are still answered.
    ended: bool,
    broken: bool,
    /// Time of the last activity.
    used: Instant,
}

impl<S: Default> Connection<S> {
    fn new(stream: UnixStream) -> Self {
        let session = S::default();
        Self {
            stream,
            session,
            input: Vec::new(),
            left: None,
            ended: false,
            broken: false,
            used: Instant::now(),
        }
    }

    /// Return the events to poll for: writing if there is an answer, else reading if `reading`.
    fn events(&self, reading: bool) -> PollFlags {
        match &self.left {
            Some(_) => PollFlags::POLLOUT,
            None if reading && !self.ended && !self.is_due() => PollFlags::POLLIN,
            None => PollFlags::empty(),
        }
    }

    /// Return true if a request can be answered now.
    fn is_due(&self) -> bool {
        !self.broken
            && self.left.is_none()
            && (self.input.len() > MAX_BYTES
                || self.input.contains(&b'\n')
                || self.ended && !self.input.is_empty())
    }

    fn has_gone(&self) -> bool {
        self.broken || self.ended && self.left.is_none() && self.input.is_empty()
    }

    /// Write the rest of an answer, or read if there is none.
    fn exchange(&mut self) {
        if self.left.is_some() {
            return self.write();
        }
        let mut bytes = [0; 4096];
        match self.stream.read(&mut bytes) {
            Ok(0) => self.ended = true,
            Ok(n) => self.input.extend_from_slice(&bytes[..n]),
            Err(error) => self.note(&error),
        }
    }

    fn write(&mut self) {
        while let Some(left) = &mut self.left {
            match self.stream.write(&left.bytes[left.written..]) {
                Ok(0) => return self.broken = true,
                Ok(n) => left.written += n,
                Err(error) => return self.note(&error),
            }
            if left.written >= left.bytes.len() {
                self.left = None;
            }
        }
    }

    fn note(&mut self, error: &std::io::Error) {
        self.broken |= !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted);
    }

    fn give_up_if_slow(&mut self, now: Instant) {
        self.broken |=
            self.left.as_ref().is_some_and(|left| now.saturating_duration_since(left.since) > PATIENCE);
    }

    /// Answer the next request. Return None when the handler has ended.
    fn serve(&mut self, handler: &mut impl LineHandler<Session = S>) -> Option<()> {
        let bytes = match self.input.iter().position(|byte| *byte == b'\n') {
            Some(end) if end <= MAX_BYTES => {
                let answer = handler.answer(&mut self.session, &self.input[..end])?;
                self.input.drain(..=end);
                answer
            }
            None if self.ended && self.input.len() <= MAX_BYTES => {
                let line = std::mem::take(&mut self.input);
                handler.answer(&mut self.session, &line)?
            }
            _ => {
                self.input.clear();
                self.ended = true;
                handler.too_long()
            }
        };
        if !bytes.is_empty() {
            self.left = Some(Left { bytes, written: 0, since: Instant::now() });
            self.write();
        }
        Some(())
    }
}

/// CPU time left for answers: one part in [`SHARE`] of the time that passes, saved up to [`BURST`].
struct Budget {
    left_ns: i64,
    at: Instant,
}

const BURST_NS: i64 = BURST.as_nanos() as i64;

impl Budget {
    fn new(now: Instant) -> Self {
        Self { left_ns: BURST_NS, at: now }
    }

    /// Charge the CPU time of this process since the reading `spent`, and update the reading.
    fn charge(&mut self, spent: &mut Duration) {
        let now = cpu_time();
        self.spend(now.saturating_sub(*spent));
        *spent = now;
    }

    /// Charge `time`, at most [`BURST`]. A longer time includes other work of this process.
    fn spend(&mut self, time: Duration) {
        self.left_ns -= time.min(BURST).as_nanos() as i64;
    }

    /// Return how long no answer may be given, None if one may be given now.
    fn pause(&mut self, now: Instant) -> Option<Duration> {
        let passed = now.saturating_duration_since(self.at).min(BURST * 2 * SHARE) / SHARE;
        self.at = self.at.max(now);
        self.left_ns = (self.left_ns + passed.as_nanos() as i64).min(BURST_NS);
        let owed = Duration::from_nanos(self.left_ns.min(0).unsigned_abs());
        (self.left_ns <= 0).then(|| owed * SHARE + Duration::from_millis(1))
    }
}

#[cfg(test)]
#[path = "listener_tests.rs"]
mod tests;
