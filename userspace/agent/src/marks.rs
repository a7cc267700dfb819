// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Connections of marked programs, which announce sections of their code (`bpf/hint.bpf.h`).
//!
//! # Problem
//! Any user may run a marked program. The kernel side needs the address of its table of hints, from
//! its start to its end.
//!
//! # Approach
//! A thread accepts connections on a socket that every user can reach, and reads one request of a
//! fixed size from each. The main thread writes the map and answers. The connection stays open.
//! The process's hints end with it.
//!
//! # Invariants
//! * The kernel names the process of a connection (SO_PEERCRED), so no process can give an address
//!   for another one.
//! * At most [`MAX_PROCESSES`] are connected, and [`MAX_PER_USER`] of one user. Further ones get an
//!   answer that says so, and run without hints.
//! * A loop of connections costs the main thread little: [`PACE`] passes between two.
//! * No call waits for a client. Without clients nothing wakes the thread.
//!
//! # Limits
//! An address is not checked. The kernel side reads it with the rights of the process itself.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use bias_mark::wire::{self, REQUEST_BYTES, Request, Status};
use crossbeam::channel::{Receiver, Sender, unbounded};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use tracing::{debug, warn};

use crate::control::listen;

/// Most processes with hints: the entries of the map (`BIAS_HINT_TABLES`).
const MAX_PROCESSES: usize = bias_policy::ffi::BIAS_HINT_TABLES as usize;
/// Most of them that one user may have.
const MAX_PER_USER: usize = MAX_PROCESSES / 4;
/// Pause after each connection. A program connects once.
const PACE: Duration = Duration::from_millis(1);
/// Pause after the system refused a connection.
const RECOVERY: Duration = Duration::from_millis(100);

/// Event of a marked program, for the main thread.
#[derive(Debug)]
pub(crate) enum MarkEvent {
    /// A process has a table at this address. Answer on the connection.
    Began { pid: u32, table: u64, connection: UnixStream },
    /// The process no longer has one.
    Ended { pid: u32 },
}

impl PartialEq for MarkEvent {
    fn eq(&self, other: &Self) -> bool {
        let pid = |event: &Self| match event {
            MarkEvent::Began { pid, table, .. } => (*pid, Some(*table)),
            MarkEvent::Ended { pid } => (*pid, None),
        };
        pid(self) == pid(other)
    }
}

impl Eq for MarkEvent {}

/// The socket and its thread. Dropping it ends the thread.
pub(crate) struct MarkServer {
    events: Receiver<MarkEvent>,
    path: PathBuf,
    /// Closing it ends the thread.
    _stop: UnixStream,
}

impl MarkServer {
    /// Serve on the default socket, or on `path`.
    pub(crate) fn launch(path: Option<&Path>) -> Result<Self> {
        let path = path.unwrap_or(Path::new(wire::PATH)).to_owned();
        let listener = listen(&path, 0o755, 0o666)?;
        listener.set_nonblocking(true)?;
        let (_stop, stopped) = UnixStream::pair().context("cannot make a pair of sockets")?;
        let (sender, events) = unbounded();
        std::thread::Builder::new()
            .name("marks".into())
            .spawn(move || Connections { listener, stopped, clients: Vec::new(), sender }.run())
            .context("cannot start a thread for marked programs")?;
        Ok(Self { events, path, _stop })
    }

    /// Return the channel on which events arrive.
    pub(crate) fn events(&self) -> &Receiver<MarkEvent> {
        &self.events
    }
}

impl Drop for MarkServer {
    fn drop(&mut self) {
        // Later programs find no socket. The file may be gone already.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Answer a request. The buffer of a new connection holds the answer, so this does not wait.
pub(crate) fn answer(mut connection: &UnixStream, status: Status, slow: impl IntoIterator<Item = u32>) {
    if let Err(error) = connection.write_all(&wire::answer(status, slow)) {
        debug!("a marked program has left: {error}");
    }
}

/// A connected process.
struct Marked {
    stream: UnixStream,
    pid: u32,
    user: u32,
    registered: bool,
}

struct Connections {
    listener: UnixListener,
    stopped: UnixStream,
    clients: Vec<Marked>,
    sender: Sender<MarkEvent>,
}

impl Connections {
    /// Serve until the other end of `stopped` is closed.
    fn run(mut self) {
        loop {
            let ready = match self.wait() {
                Ok(ready) => ready,
                Err(nix::Error::EINTR) => continue,
                Err(error) => return warn!("marks no longer have any effect: poll failed: {error}"),
            };
            let [stop, new, clients @ ..] = ready.as_slice() else { return };
            if *stop {
                return;
            }
            let mut ready = clients.iter().copied();
            let sender = &self.sender;
            self.clients.retain_mut(|client| {
                let stays = !ready.next().unwrap_or(false) || client.serve(sender);
                if !stays && client.registered {
                    // Sending fails only when the main thread has ended.
                    let _ = sender.send(MarkEvent::Ended { pid: client.pid });
                }
                stays
            });
            if *new {
                self.take_on();
            }
        }
    }

    /// Wait for an event. Return true for each source that has one: `stopped`, the listener, each
    /// client.
    fn wait(&self) -> nix::Result<Vec<bool>> {
        let streams = self.clients.iter().map(|client| client.stream.as_fd());
        let all = [self.stopped.as_fd(), self.listener.as_fd()].into_iter().chain(streams);
        let mut fds: Vec<PollFd<'_>> = all.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        poll(&mut fds, PollTimeout::NONE)?;
        Ok(fds.iter().map(|fd| fd.revents().is_none_or(|flags| !flags.is_empty())).collect())
    }

    fn take_on(&mut self) {
        match self.listener.accept() {
            Ok((stream, _)) => {
                if let Some(client) = self.admit(stream) {
                    self.clients.push(client);
                }
                std::thread::sleep(PACE);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => {
                debug!("cannot accept a marked program: {error}");
                std::thread::sleep(RECOVERY);
            }
        }
    }

    /// Return the client of a new connection. None if there are too many.
    fn admit(&self, stream: UnixStream) -> Option<Marked> {
        let peer = getsockopt(&stream, PeerCredentials).ok()?;
        stream.set_nonblocking(true).ok()?;
        let of_user = self.clients.iter().filter(|client| client.user == peer.uid()).count();
        if self.clients.len() >= MAX_PROCESSES || of_user >= MAX_PER_USER {
            answer(&stream, Status::Full, []);
            return None;
        }
        // The pid is 0 for a process that this namespace does not see.
        let pid = u32::try_from(peer.pid()).unwrap_or(0);
        Some(Marked { stream, pid, user: peer.uid(), registered: false })
    }
}

impl Marked {
    /// Read the request, or the end of the connection. Return false if the connection is over.
    fn serve(&mut self, sender: &Sender<MarkEvent>) -> bool {
        let mut bytes = [0; REQUEST_BYTES + 1];
        match self.stream.read(&mut bytes) {
            Ok(REQUEST_BYTES) if !self.registered => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return true;
            }
            _ => return false,
        }
        let request = bytes.first_chunk().and_then(Request::decode);
        let refusal = match request {
            None => Some(Status::Unknown),
            Some(request) if self.pid == 0 || request.pid != self.pid => Some(Status::Namespace),
            Some(_) => None,
        };
        if let Some(status) = refusal {
            answer(&self.stream, status, []);
            return false;
        }
        let (Some(request), Ok(connection)) = (request, self.stream.try_clone()) else { return false };
        self.registered = true;
        sender.send(MarkEvent::Began { pid: self.pid, table: request.table, connection }).is_ok()
    }
}

#[cfg(test)]
#[path = "marks_tests.rs"]
mod tests;
