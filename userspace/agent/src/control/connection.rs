// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! One client of the socket: its requests, line by line, and the answer that it has not read yet.
//!
//! # Invariants
//!
//! * A request of more than [`MAX_BYTES`] is refused, and the connection ends. So does that of a
//!   client that does not read its answer for [`PATIENCE`].
//! * A client has one answer outstanding. Its next request waits.
//! * No call blocks: the socket is non-blocking.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::poll::PollFlags;

/// Longest request [bytes]. A path may have 4096 bytes, and JSON makes up to six of each.
pub(crate) const MAX_BYTES: usize = 32 << 10;
/// Longest time for which a client may leave its answer unread.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Handler of requests. It gets a line without its end and the client's session. It returns the
/// bytes of the answer, or None to end the service.
pub(crate) trait LineHandler {
    /// State that is kept for each client.
    type Session: Default;
    fn answer(&mut self, session: &mut Self::Session, line: &[u8]) -> Option<Arc<[u8]>>;
    /// Return the answer to a request that is too long.
    fn too_long(&self) -> Arc<[u8]>;
}

/// Answer that is not yet written in full.
pub(crate) struct Left {
    bytes: Arc<[u8]>,
    written: usize,
    since: Instant,
}

/// A client: its socket, its session, and what is read and not yet written.
pub(crate) struct Connection<S> {
    pub(crate) stream: UnixStream,
    session: S,
    pub(crate) input: Vec<u8>,
    pub(crate) left: Option<Left>,
    /// The client will send no more. Its requests are still answered.
    ended: bool,
    pub(crate) broken: bool,
    /// Time of the last activity.
    pub(crate) used: Instant,
}

impl<S: Default> Connection<S> {
    pub(crate) fn new(stream: UnixStream) -> Self {
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
    pub(crate) fn events(&self, reading: bool) -> PollFlags {
        match &self.left {
            Some(_) => PollFlags::POLLOUT,
            None if reading && !self.ended && !self.is_due() => PollFlags::POLLIN,
            None => PollFlags::empty(),
        }
    }

    /// Return true if a request can be answered now.
    pub(crate) fn is_due(&self) -> bool {
        !self.broken
            && self.left.is_none()
            && (self.input.len() > MAX_BYTES
                || self.input.contains(&b'\n')
                || self.ended && !self.input.is_empty())
    }

    pub(crate) fn has_gone(&self) -> bool {
        self.broken || self.ended && self.left.is_none() && self.input.is_empty()
    }

    /// Write the rest of an answer, or read if there is none.
    pub(crate) fn exchange(&mut self) {
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

    pub(crate) fn give_up_if_slow(&mut self, now: Instant) {
        self.broken |=
            self.left.as_ref().is_some_and(|left| now.saturating_duration_since(left.since) > PATIENCE);
    }

    /// Answer the next request. Return None when the handler has ended.
    pub(crate) fn serve(&mut self, handler: &mut impl LineHandler<Session = S>) -> Option<()> {
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
