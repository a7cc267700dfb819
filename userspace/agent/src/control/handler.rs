//! Handler of the requests on the socket. It speaks scx_stats' protocol, so that any of its clients
//! can ask.
//!
//! A request is a line of JSON, `{"req": "stats", "args": {"target": "status"}}`. So is the answer,
//! `{"errno": 0, "args": {"resp": ...}}`. The request `stats_meta` returns a description of the
//! statistics. [`crate::control::server`] lists the targets.
//!
//! # Invariants
//!
//! Any line but an empty one gets one answer, a line of JSON. The answer is an error if the line is
//! no request. An answer about tasks or the state serves all clients that ask the same within
//! [`FRESH`], unless a command came in between. The main thread thus answers them once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use nix::libc::EINVAL;
use scx_stats::prelude::*;
use serde_json::{Value, json};

use crate::bpf::Stats;
use crate::control::listener::{LineHandler, MAX_BYTES};
use crate::control::protocol::{Answer, Question};

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

/// A valid request.
enum Request {
    Meta,
    Asks(Question),
}

impl<F: FnMut(Question) -> Option<Answer>> Handler<F> {
    pub(crate) fn new(ask: F) -> Self {
        let meta = Stats::meta();
        Self { ask, meta: wire(Ok(json!({ meta.name.clone(): meta }))), known: BTreeMap::new() }
    }

    /// Return the answer, or None when the main thread has ended.
    fn reply(&mut self, session: &mut Session, question: Question) -> Option<Result<Value>> {
        if question == Question::Stats {
            return self.stats(session);
        }
        Some(match (self.ask)(question)? {
            Answer::Stats(stats) => stats.to_json(),
            Answer::Status(report) => serde_json::to_value(report).map_err(Into::into),
            Answer::Tasks(tasks) => {
                tasks.map_err(|error| anyhow!(error)).and_then(|tasks| Ok(serde_json::to_value(tasks)?))
            }
            Answer::Cgroups(reply) => serde_json::to_value(reply).map_err(Into::into),
            Answer::Swaps(report) => serde_json::to_value(report).map_err(Into::into),
            Answer::Reload(reply) => serde_json::to_value(reply).map_err(Into::into),
        })
    }

    /// Return the statistics since the client's last question.
    fn stats(&mut self, session: &mut Session) -> Option<Result<Value>> {
        let mut ask = || match (self.ask)(Question::Stats) {
            Some(Answer::Stats(stats)) => Some(stats),
            _ => None,
        };
        let last = match session.last.take() {
            Some(last) => last,
            None => ask()?,
        };
        let now = ask()?;
        let delta = now.since(&last);
        session.last = Some(now);
        Some(delta.to_json())
    }

    /// Return the answer that the same line got within [`FRESH`].
    fn known(&mut self, line: &[u8], now: Instant) -> Option<Arc<[u8]>> {
        let (at, bytes) = self.known.get(line)?;
        (now.saturating_duration_since(*at) < FRESH).then(|| bytes.clone())
    }

    fn keep(&mut self, line: &[u8], bytes: &Arc<[u8]>) {
        let now = Instant::now();
        self.known.retain(|_, (at, _)| now.saturating_duration_since(*at) < FRESH);
        if self.known.len() < MAX_KNOWN {
            self.known.insert(line.to_vec(), (now, bytes.clone()));
        }
    }
}

fn understand(line: &[u8]) -> Result<Request> {
    let request: StatsRequest = serde_json::from_slice(line).context("this is no request")?;
    match request.req.as_str() {
        "stats" => question(&request.args).map(Request::Asks),
        "stats_meta" => Ok(Request::Meta),
        _ => bail!("unknown command; there are stats and stats_meta"),
    }
}

/// Parse the arguments of a `stats` request.
fn question(args: &BTreeMap<String, String>) -> Result<Question> {
    Ok(match args.get("target").map_or("top", String::as_str) {
        "top" => Question::Stats,
        "status" => Question::Status,
        "tasks" => Question::Tasks,
        "cgroups" => {
            let request = args.get("request").context("the question has no request")?;
            Question::Cgroups(serde_json::from_str(request).context("the request is of another version")?)
        }
        "swaps" => {
            let first = args.get("from").map_or(Ok(0), |first| first.parse());
            Question::Swaps(first.context("from is no number")?)
        }
        "reload" => Question::Reload,
        _ => bail!("unknown stat target"),
    })
}

impl<F: FnMut(Question) -> Option<Answer>> LineHandler for Handler<F> {
    type Session = Session;

    fn answer(&mut self, session: &mut Session, line: &[u8]) -> Option<Arc<[u8]>> {
        let line = line.trim_ascii();
        if line.is_empty() {
            return Some(Arc::new([]));
        }
        if let Some(known) = self.known(line, Instant::now()) {
            return Some(known);
        }
        let question = match understand(line) {
            Ok(Request::Asks(question)) => question,
            Ok(Request::Meta) => return Some(self.meta.clone()),
            Err(error) => return Some(wire(Err(error))),
        };
        let shared = matches!(question, Question::Status | Question::Tasks);
        if matches!(question, Question::Cgroups(_) | Question::Reload) {
            self.known.clear();
        }
        let bytes = wire(self.reply(session, question)?);
        if shared {
            self.keep(line, &bytes);
        }
        Some(bytes)
    }

    fn too_long(&self) -> Arc<[u8]> {
        wire(Err(anyhow!("a request has {MAX_BYTES} bytes at most; shorten it")))
    }
}

/// Encode an answer for the socket.
fn wire(reply: Result<Value>) -> Arc<[u8]> {
    let (errno, said) = match reply {
        Ok(value) => (0, value),
        Err(error) => (EINVAL, Value::String(format!("{error:#}"))),
    };
    let mut text = json!({ "errno": errno, "args": { "resp": said } }).to_string();
    text.push('\n');
    text.into_bytes().into()
}

#[cfg(test)]
#[path = "handler_tests.rs"]
mod tests;
