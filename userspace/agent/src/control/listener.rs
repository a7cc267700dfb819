// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
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
//! One thread polls the listener and all clients and does a little work for each, round-robin. A
//! [`Connection`] splits its input into lines, which [`crate::control::handler`] interprets.
//!
//! # Invariants
//!
//! * Only root and the user that runs the scheduler are served. The directory has mode 0700 and the
//!   socket 0600. The kernel reports the client's user (SO_PEERCRED).
//! * At most [`MAX_CLIENTS`] clients are connected. One more replaces the client that has been
//!   silent longest.
//! * A client that hangs up withdraws its requests and is removed at once, even during a pause. A
//!   client that only shuts down its sending side still gets its answers.
//! * Answers take no more CPU time than their [`Budget`] allows. The round-robin order lets no
//!   client starve.
//! * Without clients nothing wakes the thread.
//!
//! # Limits
//!
//! Root can keep root waiting: more than [`MAX_CLIENTS`] clients that ask without pause replace
//! each other.

use std::fs::{DirBuilder, Permissions};
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::time::{ClockId, clock_gettime};
use tracing::{debug, warn};

use super::connection::{Connection, LineHandler};
use crate::budget::Budget;

/// Most clients at a time.
const MAX_CLIENTS: usize = 256;
/// Most clients accepted before the connected ones are served again.
const MAX_NEW: usize = 64;
/// Pause in accepting clients after the system refused one.
const RECOVERY: Duration = Duration::from_millis(100);

/// Answers take at most 1/`SHARE` of a CPU.
const SHARE: u32 = 4;
/// Most CPU time for answers that is saved up.
const BURST: Duration = Duration::from_millis(500);

/// Flags that show that the peer has gone.
const HUNG_UP: PollFlags = PollFlags::POLLHUP.union(PollFlags::POLLERR).union(PollFlags::POLLNVAL);

/// Users that can connect to a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The owner only.
    Owner,
    /// All.
    All,
}

/// Return the CPU time of this process, because other threads work on answers, too.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// Charge the CPU time of this process since the reading `spent`, and update the reading.
fn charge(budget: &mut Budget, spent: &mut Duration) {
    let now = cpu_time();
    budget.charge(now.saturating_sub(*spent));
    *spent = now;
}

/// Open a listening socket.
pub(crate) fn listen(path: &Path, reach: Reach) -> Result<UnixListener> {
    let (directory_mode, socket_mode) = match reach {
        Reach::Owner => (0o700, 0o600),
        Reach::All => (0o755, 0o666),
    };
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
        let budget = Budget::new(SHARE, BURST, Instant::now());
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
            charge(&mut self.budget, &mut spent);
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
                charge(&mut self.budget, spent);
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

/// Return true if the client may ask: its user is root or the user of this process.
fn may_ask(stream: &UnixStream) -> bool {
    let own = nix::unistd::geteuid().as_raw();
    getsockopt(stream, PeerCredentials).is_ok_and(|peer| peer.uid() == 0 || peer.uid() == own)
}

#[cfg(test)]
#[path = "listener_tests.rs"]
mod tests;
