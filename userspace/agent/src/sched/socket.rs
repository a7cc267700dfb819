//! A socket that holds out: whatever clients do, memory, descriptors and time stay bounded.
//!
//! Problem. scx_stats' own server has a thread for each client, without end, and reads lines of any length: a thousand clients, or one that
//! sends no newline, take what there is; where the system gives no more threads or descriptors it panics or spins. And who may ask is left to
//! the umask.
//!
//! Approach. One thread waits for the listener and all clients at once and does a little for each in turn. It knows lines, not what they
//! mean: that is [`super::desk`]'s.
//!
//! Invariants.
//! * Only root and who runs the scheduler are listened to: the folder is 0700, the socket 0600, and the kernel tells who calls.
//! * At most [`MOST_CLIENTS`]; one more takes the place of the one silent for longest. A request of more than [`MOST_BYTES`] is refused and its client
//!   dropped, as is one that does not read its answer for [`PATIENCE`]. A client has one answer outstanding; its next request waits.
//! * Who hangs up withdraws what it has asked, and is gone at once, even while nothing may be answered. Who only ends what it sends still gets its
//!   answers.
//! * Answering takes one part in [`SHARE`] of a CPU at most, after a burst of [`BURST`]. Nobody is forgotten meanwhile: clients take turns.
//! * Without clients nothing wakes up.
//!
//! Limits. Root can keep root waiting: more than [`MOST_CLIENTS`] that ask without pause displace each other.

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

/// Clients at a time.
const MOST_CLIENTS: usize = 256;
/// Clients taken on before those there are served again.
const MOST_NEW: usize = 64;
/// Longest request: a path may have 4096 bytes, and JSON makes six of one.
pub(super) const MOST_BYTES: usize = 32 << 10;
/// How long a client may leave its answer unread.
const PATIENCE: Duration = Duration::from_secs(10);
/// Answering takes one part of so many.
const SHARE: u32 = 4;
/// Answering that is saved up.
const BURST: Duration = Duration::from_millis(500);
/// How long no client is taken on after the system refused one.
const RECOVERY: Duration = Duration::from_millis(100);

/// Nobody is at the other end any more.
const HUNG_UP: PollFlags = PollFlags::POLLHUP.union(PollFlags::POLLERR).union(PollFlags::POLLNVAL);

/// What answers: a line, without its end, from a client with this session, gets these bytes; None ends the service.
pub(super) trait Answerer {
    /// What is kept for each client.
    type Session: Default;
    fn answer(&mut self, session: &mut Self::Session, line: &[u8]) -> Option<Arc<[u8]>>;
    /// What a client hears whose request is too long.
    fn too_long(&self) -> Arc<[u8]>;
}

/// Opens a socket that only its owner can reach.
pub(super) fn listen(path: &Path) -> Result<UnixListener> {
    if let Some(folder) = path.parent() {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.with_context(|| format!("cannot make the folder {}", folder.display()))?;
        std::fs::set_permissions(folder, Permissions::from_mode(0o700))
            .with_context(|| format!("cannot make {} private", folder.display()))?;
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

/// The service: who is connected, and how much time is left for them.
pub(super) struct Service<A: Answerer> {
    listener: UnixListener,
    answerer: A,
    clients: Vec<Client<A::Session>>,
    budget: Budget,
    /// Nobody is taken on before.
    deaf_until: Option<Instant>,
}

/// What happened while waiting.
struct Ready {
    stop: bool,
    new: bool,
    /// Of each client.
    clients: Vec<PollFlags>,
}

impl<A: Answerer> Service<A> {
    pub(super) fn new(listener: UnixListener, answerer: A) -> Self {
        let budget = Budget::new(Instant::now());
        Self { listener, answerer, clients: Vec::new(), budget, deaf_until: None }
    }

    /// Serves until the other end of `stop` is closed, or the answerer has ended.
    pub(super) fn run(mut self, stop: &UnixStream) {
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

    /// Waits for something to do. While there is a `pause` only answers are written.
    fn wait(&self, stop: &UnixStream, pause: Option<Duration>) -> nix::Result<Ready> {
        let now = Instant::now();
        let deaf =
            self.deaf_until.map(|until| until.saturating_duration_since(now)).filter(|left| !left.is_zero());
        let mut fds = vec![PollFd::new(stop.as_fd(), PollFlags::POLLIN)];
        let listens = pause.is_none() && deaf.is_none();
        if listens {
            fds.push(PollFd::new(self.listener.as_fd(), PollFlags::POLLIN));
        }
        fds.extend(self.clients.iter().map(|client| {
            // One that is waited for in no way is watched all the same: that it hangs up is always told.
            PollFd::new(client.stream.as_fd(), client.wish(pause.is_none()))
        }));
        let unread =
            self.clients.iter().any(|client| client.left.is_some()).then_some(Duration::from_secs(1));
        let at_once = (pause.is_none() && self.clients.iter().any(Client::is_due)).then_some(Duration::ZERO);
        let patience = [pause, deaf, unread, at_once].into_iter().flatten().min();
        // Rounded up: what is due in half a millisecond would be asked for a hundred times until then.
        let timeout = patience.map_or(PollTimeout::NONE, |patience| {
            PollTimeout::try_from(patience.as_micros().div_ceil(1000) as i32).unwrap_or(PollTimeout::MAX)
        });
        poll(&mut fds, timeout)?;
        // Flags that nix does not know are as good as an error.
        let mut happened = fds.iter().map(|fd| fd.revents().unwrap_or(PollFlags::POLLERR));
        let stop = happened.next().is_none_or(|flags| !flags.is_empty());
        let new = listens && happened.next().is_some_and(|flags| !flags.is_empty());
        let clients = happened.collect();
        Ok(Ready { stop, new, clients })
    }

    /// A turn for each client, charged from `spent` on. None when the answerer has ended.
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
                client.serve(&mut self.answerer)?;
                self.budget.charge(spent);
            }
        }
        // They come first in the next turn.
        self.clients.rotate_left(left_out.unwrap_or(0));
        self.clients.retain(|client| !client.has_gone());
        Some(())
    }

    fn take_on(&mut self) {
        for _ in 0..MOST_NEW {
            match self.listener.accept() {
                Ok((stream, _)) if may_ask(&stream) && stream.set_nonblocking(true).is_ok() => {
                    if self.clients.len() >= MOST_CLIENTS {
                        self.dismiss();
                    }
                    self.clients.push(Client::new(stream));
                }
                Ok(_) => debug!("a client without the right to ask was sent away"),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => {
                    debug!("a client could not be taken on: {error}");
                    self.dismiss();
                    self.deaf_until = Some(Instant::now() + RECOVERY);
                    return;
                }
            }
        }
    }

    /// Drops the client that has been silent for longest.
    fn dismiss(&mut self) {
        let oldest = self.clients.iter().enumerate().min_by_key(|(_, client)| client.used);
        if let Some((at, _)) = oldest {
            self.clients.swap_remove(at);
        }
    }
}

/// What this process has taken of the CPUs: answering is other threads' work, too.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// May who is at the other end ask? Root and we ourselves.
fn may_ask(stream: &UnixStream) -> bool {
    let own = nix::unistd::geteuid().as_raw();
    getsockopt(stream, PeerCredentials).is_ok_and(|peer| peer.uid() == 0 || peer.uid() == own)
}

/// An answer on its way.
struct Left {
    bytes: Arc<[u8]>,
    written: usize,
    since: Instant,
}

struct Client<S> {
    stream: UnixStream,
    session: S,
    input: Vec<u8>,
    left: Option<Left>,
    /// It will send no more; what it has asked is still answered.
    ended: bool,
    broken: bool,
    /// When it last did something.
    used: Instant,
}

impl<S: Default> Client<S> {
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

    /// What to wait for: to write if there is an answer, else to read if `reading`.
    fn wish(&self, reading: bool) -> PollFlags {
        match &self.left {
            Some(_) => PollFlags::POLLOUT,
            None if reading && !self.ended && !self.is_due() => PollFlags::POLLIN,
            None => PollFlags::empty(),
        }
    }

    /// Has it a request that can be answered now?
    fn is_due(&self) -> bool {
        !self.broken
            && self.left.is_none()
            && (self.input.len() > MOST_BYTES
                || self.input.contains(&b'\n')
                || self.ended && !self.input.is_empty())
    }

    fn has_gone(&self) -> bool {
        self.broken || self.ended && self.left.is_none() && self.input.is_empty()
    }

    /// Writes what is left, or else reads.
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

    /// Answers its next request. None when the answerer has ended.
    fn serve(&mut self, answerer: &mut impl Answerer<Session = S>) -> Option<()> {
        let bytes = match self.input.iter().position(|byte| *byte == b'\n') {
            Some(end) if end <= MOST_BYTES => {
                let answer = answerer.answer(&mut self.session, &self.input[..end])?;
                self.input.drain(..=end);
                answer
            }
            None if self.ended && self.input.len() <= MOST_BYTES => {
                let line = std::mem::take(&mut self.input);
                answerer.answer(&mut self.session, &line)?
            }
            _ => {
                self.input.clear();
                self.ended = true;
                answerer.too_long()
            }
        };
        if !bytes.is_empty() {
            self.left = Some(Left { bytes, written: 0, since: Instant::now() });
            self.write();
        }
        Some(())
    }
}

/// How much of a CPU is left for answers: one part in [`SHARE`] of the time that passes, saved up to [`BURST`].
struct Budget {
    left_ns: i64,
    at: Instant,
}

const BURST_NS: i64 = BURST.as_nanos() as i64;

impl Budget {
    fn new(now: Instant) -> Self {
        Self { left_ns: BURST_NS, at: now }
    }

    /// Charges what this process has taken since it had taken `spent`.
    fn charge(&mut self, spent: &mut Duration) {
        let now = cpu_time();
        self.spend(now.saturating_sub(*spent));
        *spent = now;
    }

    /// An answer took so long. One that took very long, for the process did something else as well, counts as a long one, no more.
    fn spend(&mut self, time: Duration) {
        self.left_ns -= time.min(BURST).as_nanos() as i64;
    }

    /// How long nothing may be answered; None if something may.
    fn pause(&mut self, now: Instant) -> Option<Duration> {
        let passed = now.saturating_duration_since(self.at).min(BURST * 2 * SHARE) / SHARE;
        self.at = self.at.max(now);
        self.left_ns = (self.left_ns + passed.as_nanos() as i64).min(BURST_NS);
        let owed = Duration::from_nanos(self.left_ns.min(0).unsigned_abs());
        (self.left_ns <= 0).then(|| owed * SHARE + Duration::from_millis(1))
    }
}

#[cfg(test)]
#[path = "socket_tests.rs"]
mod tests;
