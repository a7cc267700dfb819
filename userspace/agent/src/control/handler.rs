// SPDX-License-Identifier: GPL-2.0-only
// SPDX-FileCopyrightText: 2026 The scx_bias authors
//! Handler of the requests on the socket. It speaks scx_stats' protocol, so that any of its clients
//! can ask.
//!
//! A request is a line of JSON, `{"req": "stats", "args": {"target": "status"}}`. So is the answer,
//! `{"errno": 0, "args": {"resp": ...}}`. The request `stats_meta` returns a description of the
//! statistics. [`super::protocol`] lists the targets.
//!
//! # Invariants
//!
//! Any line but an empty one gets one answer, a line of JSON. The answer is an error if the line is
//! no request. An answer about tasks or the state serves all clients that ask the same within
//! [`FRESH`], unless a command came in between. The main thread thus answers them once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use scx_stats::prelude::*;
use serde_json::json;

use super::encoding::{Encode, refusal};
use super::protocol::{Answer, Request};
use crate::bpf::Stats;
use crate::control::connection::{LineHandler, MAX_BYTES};

/// Time for which an answer is shared with other clients.
const FRESH: Duration = Duration::from_millis(50);
/// Most answers kept. Clients can write one question in many ways.
const MAX_KNOWN: usize = 16;

/// Handler that gets its answers from `ask`. `ask` calls the main thread, and returns None when
/// that has ended.
pub(crate) struct Handler<F> {
    ask: F,
    /// Answer to `stats_meta`.
    meta: Arc<[u8]>,
    known: BTreeMap<Vec<u8>, (Instant, Arc<[u8]>)>,
}

/// State of a client: the statistics that it received last.
#[derive(Default)]
pub(crate) struct Session {
    last: Option<Stats>,
}

/// A valid line.
enum Line {
    Meta,
    Asks(Request),
}

impl<F: FnMut(Request) -> Option<Answer>> Handler<F> {
    pub(crate) fn new(ask: F) -> Self {
        let meta = Stats::meta();
        Self { ask, meta: json!({ meta.name.clone(): meta }).encode(), known: BTreeMap::new() }
    }

    /// Return the line that answers, or None when the main thread has ended.
    fn reply(&mut self, session: &mut Session, request: Request) -> Option<Arc<[u8]>> {
        match (self.ask)(request)? {
            Answer::Stats(now) => self.stats(session, *now),
            answer => Some(answer.encode()),
        }
    }

    /// Return the statistics since the client's last request. The first request of a client asks
    /// once more, to have a difference.
    fn stats(&mut self, session: &mut Session, mut now: Stats) -> Option<Arc<[u8]>> {
        let last = match session.last.take() {
            Some(last) => last,
            None => match (self.ask)(Request::Top)? {
                Answer::Stats(later) => std::mem::replace(&mut now, *later),
                answer => return Some(answer.encode()),
            },
        };
        let delta = now.since(&last);
        session.last = Some(now);
        Some(delta.encode())
    }

    /// Return the answer that the same line got within [`FRESH`].
    fn known(&mut self, line: &[u8], now: Instant) -> Option<Arc<[u8]>> {
        let (at, bytes) = self.known.get(line)?;
        (now.saturating_duration_since(*at) < FRESH).then(|| bytes.clone())
    }

    fn keep(&mut self, line: &[u8], bytes: &Arc<[u8]>, now: Instant) {
        self.known.retain(|_, (at, _)| now.saturating_duration_since(*at) < FRESH);
        if self.known.len() < MAX_KNOWN {
            self.known.insert(line.to_vec(), (now, bytes.clone()));
        }
    }

    /// Return the answer to a line by this clock. None means that the main thread has ended.
    fn answer_by(
        &mut self,
        clock: impl Fn() -> Instant,
        session: &mut Session,
        line: &[u8],
    ) -> Option<Arc<[u8]>> {
        let line = line.trim_ascii();
        if line.is_empty() {
            return Some(Arc::new([]));
        }
        if let Some(known) = self.known(line, clock()) {
            return Some(known);
        }
        let request = match understand(line) {
            Ok(Line::Asks(request)) => request,
            Ok(Line::Meta) => return Some(self.meta.clone()),
            Err(error) => return Some(refusal(&format!("{error:#}"))),
        };
        let shared = request.is_shared();
        if request.is_command() {
            self.known.clear();
        }
        let bytes = self.reply(session, request)?;
        if shared {
            self.keep(line, &bytes, clock());
        }
        Some(bytes)
    }
}

fn understand(line: &[u8]) -> Result<Line> {
    let request: StatsRequest = serde_json::from_slice(line).context("this is no request")?;
    match request.req.as_str() {
        "stats" => {
            let target = request.args.get("target").map_or("top", String::as_str);
            Request::read(target, &request.args).map(Line::Asks)
        }
        "stats_meta" => Ok(Line::Meta),
        _ => bail!("unknown command; there are stats and stats_meta"),
    }
}

impl<F: FnMut(Request) -> Option<Answer>> LineHandler for Handler<F> {
    type Session = Session;

    fn answer(&mut self, session: &mut Session, line: &[u8]) -> Option<Arc<[u8]>> {
        self.answer_by(Instant::now, session, line)
    }

    fn too_long(&self) -> Arc<[u8]> {
        refusal(&format!("a request has {MAX_BYTES} bytes at most; shorten it"))
    }
}

#[cfg(test)]
#[path = "handler_tests.rs"]
mod tests;
